//! What a server does a second over the loopback, how soon it is there, how much memory it takes,
//! and what it says when it is asked for more than it can.

use std::future::Future;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

use super::ledger::{Work, measure};
use super::{Measured, progress, raw, runs};
use crate::exit::Failed;
use crate::print::Printer;

const CONNECTIONS: usize = 64;
const SECONDS: u64 = 4;
/// Requests at once that the overloaded server takes, and how many come.
const ROOM: usize = 16;
const CROWD: usize = 128;

/// What is not a rate.
#[derive(Debug, Serialize)]
struct Beside {
    started_ms: f64,
    /// After a thousand runs were started.
    rss_mb: f64,
    /// After all of the load.
    rss_loaded_mb: f64,
    overload: Overload,
}

#[derive(Debug, Default, Serialize)]
struct Overload {
    asked: u64,
    refused: u64,
    with_retry_after: u64,
    health_max_ms: f64,
}

pub(crate) async fn http(printer: &Printer) -> Result<(), Failed> {
    let progress = progress(printer, 3);
    let folder = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let file = folder.path().join("bench.db");
    let asked = Instant::now();
    let server = Server::start(&file, &[]).await?;
    let started_ms = asked.elapsed().as_secs_f64() * 1_000.0;
    let (pairs, pairs_took) = ask_for(&server.url, begin_and_settle).await?;
    // Before anything else is written: the commits of the file are those of the pairs.
    let pairs = measure("begin+settle", CONNECTIONS, &[pairs], pairs_took, &file)?;
    progress.inc(1);
    let commits = runs::commits(&file)?;
    let (starts, starts_took) = ask_for(&server.url, start).await?;
    progress.inc(1);
    let rss_loaded_mb = server.rss_mb()?;
    server.stop().await?;
    let start_commits = runs::commits(&file)? - commits;
    let rss_mb = rss_after_runs(folder.path()).await?;
    let overload = overload(folder.path()).await?;
    progress.finish_and_clear();
    let results = [pairs, measure_starts(&starts, starts_took, start_commits, &file)?];
    report(printer, &results, &Beside { started_ms, rss_mb, rss_loaded_mb, overload })
}

fn report(printer: &Printer, results: &[Measured], beside: &Beside) -> Result<(), Failed> {
    if printer.wants_json() {
        return printer.json(&json!({ "results": results, "server": beside }));
    }
    let note = "64 keep-alive connections; ratio = ledger rows/s over raw rows/s, same bytes";
    super::report(printer, "A SECOND", results, note)?;
    let Overload { asked, refused, with_retry_after, health_max_ms } = beside.overload;
    printer.line(&format!(
        "there after {:.0} ms; {:.0} MB after 1,000 runs, {:.0} MB after the load; of {asked} \
         requests over the limit {refused} were told to come later, {with_retry_after} of them \
         when; health within {health_max_ms:.0} ms",
        beside.started_ms, beside.rss_mb, beside.rss_loaded_mb
    ));
    Ok(())
}

/// A server of our own, in a process of its own.
struct Server {
    child: Child,
    url: String,
}

impl Server {
    async fn start(file: &Path, settings: &[&str]) -> anyhow::Result<Server> {
        let mut command = crate::program::again()?;
        let store = format!("sqlite:{}", file.display());
        command.args(["--json", "--store", &store, "serve", "--listen", "127.0.0.1:0"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        // The folder has no file of settings, and the caller's are not meant for this.
        command.current_dir(file.parent().context("the file is in a folder")?);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn()?;
        let mut lines = BufReader::new(child.stdout.take().context("its words")?).lines();
        let mut said = String::new();
        while let Some(line) = lines.next_line().await? {
            said.push_str(&line);
            if let Ok(told) = serde_json::from_str::<Value>(&said) {
                let url = told["url"].as_str().context("an address")?.to_owned();
                return Ok(Server { child, url });
            }
        }
        bail!("the server did not start")
    }

    fn rss_mb(&self) -> anyhow::Result<f64> {
        let id = self.child.id().context("it runs")?;
        let status = std::fs::read_to_string(format!("/proc/{id}/status"))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).context("VmRSS")?;
        let kb = line.split_whitespace().nth(1).context("a number")?;
        Ok(kb.parse::<f64>()? / 1_024.0)
    }

    /// As its supervisor would.
    async fn stop(mut self) -> anyhow::Result<()> {
        let id = i32::try_from(self.child.id().context("it runs")?)?;
        let id = rustix::process::Pid::from_raw(id).context("a process")?;
        rustix::process::kill_process(id, rustix::process::Signal::TERM)?;
        ensure!(self.child.wait().await?.success(), "the server did not end well");
        Ok(())
    }
}

fn client() -> anyhow::Result<reqwest::Client> {
    // One connection that is kept, as a client library does.
    Ok(reqwest::Client::builder().pool_max_idle_per_host(1).build()?)
}

/// Lets all connections ask for some seconds. Returns what they did, and how long it took.
async fn ask_for<F, A>(url: &str, ask: F) -> anyhow::Result<(Work, Duration)>
where
    F: Fn(reqwest::Client, String, u64) -> A + Copy + Send + 'static,
    A: Future<Output = anyhow::Result<()>> + Send + 'static,
{
    let next = Arc::new(AtomicU64::new(0));
    let began = Instant::now();
    let until = began + Duration::from_secs(SECONDS);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CONNECTIONS {
        let (client, url, next) = (client()?, url.to_owned(), next.clone());
        tasks.spawn(async move {
            let mut latencies_us = Vec::new();
            while Instant::now() < until {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let asked = Instant::now();
                ask(client.clone(), url.clone(), number).await?;
                latencies_us.push(u64::try_from(asked.elapsed().as_micros())?);
            }
            anyhow::Ok(latencies_us)
        });
    }
    let mut latencies_us = Vec::new();
    while let Some(done) = tasks.join_next().await {
        latencies_us.extend(done??);
    }
    let effects = latencies_us.len() as u64;
    Ok((Work { effects, latencies_us }, began.elapsed()))
}

async fn begin_and_settle(client: reqwest::Client, url: String, number: u64) -> anyhow::Result<()> {
    let key = format!("bench-{number:010}");
    let body = json!({ "action": "bench", "key": key, "input": { "number": number } });
    let begun = client.post(format!("{url}/v1/effects/begin")).json(&body).send().await?;
    let begun: Value = begun.error_for_status()?.json().await?;
    let body = json!({ "action": "bench", "key": key, "fence": begun["fence"],
                       "result": { "receipt": { "id": key } } });
    let settled = client.post(format!("{url}/v1/effects/settle")).json(&body).send().await?;
    settled.error_for_status()?.bytes().await?;
    Ok(())
}

async fn start(client: reqwest::Client, url: String, number: u64) -> anyhow::Result<()> {
    let request = client.post(format!("{url}/v1/workflows/bench/runs"));
    let request = request.header("idempotency-key", format!("bench-{number:010}"));
    let started = request.json(&json!({ "input": { "number": number } })).send().await?;
    started.error_for_status()?.bytes().await?;
    Ok(())
}

/// A start is two rows: the run and its first entry.
fn measure_starts(
    work: &Work,
    took: Duration,
    commits: f64,
    file: &Path,
) -> anyhow::Result<Measured> {
    let rows = work.effects as f64 * 2.0;
    let rows_per_commit = rows / commits.max(1.0);
    let bytes = runs::entry_bytes(file)?;
    // Beside another file: the raw rows of the pairs lie beside this one.
    let raw_per_s = raw::inserts(&file.with_file_name("starts.db"), rows_per_commit, bytes)?;
    let mut sorted = work.latencies_us.clone();
    sorted.sort_unstable();
    let per_s = work.effects as f64 / took.as_secs_f64();
    Ok(Measured {
        name: "run starts",
        store: "sqlite",
        concurrency: CONNECTIONS,
        per_s,
        p50_ms: super::percentile(&sorted, 0.5),
        p99_ms: super::percentile(&sorted, 0.99),
        max_ms: super::percentile(&sorted, 1.0),
        rows_per_commit,
        raw_per_s,
        ratio: per_s * 2.0 / raw_per_s,
    })
}

/// The memory of a server that has started a thousand runs.
async fn rss_after_runs(folder: &Path) -> anyhow::Result<f64> {
    let server = Server::start(&folder.join("memory.db"), &[]).await?;
    let client = client()?;
    for number in 0..1_000 {
        start(client.clone(), server.url.clone(), number).await?;
    }
    let rss_mb = server.rss_mb()?;
    server.stop().await?;
    Ok(rss_mb)
}

/// Many more requests than there is room for, all of them on one key that somebody holds.
async fn overload(folder: &Path) -> anyhow::Result<Overload> {
    let room = format!("limits.requests_in_flight={ROOM}");
    let server = Server::start(&folder.join("overload.db"), &[&room, "limits.hold=1s"]).await?;
    let body = json!({ "action": "bench", "key": "held", "input": 1 });
    let begin = format!("{}/v1/effects/begin", server.url);
    client()?.post(&begin).json(&body).send().await?.error_for_status()?;
    let until = Instant::now() + Duration::from_secs(2);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..CROWD {
        let (client, begin, body) = (client()?, begin.clone(), body.clone());
        tasks.spawn(async move {
            let mut seen = Overload::default();
            while Instant::now() < until {
                let answer = client.post(&begin).json(&body).send().await?;
                let told = matches!(answer.status().as_u16(), 429 | 503);
                seen.asked += 1;
                seen.refused += u64::from(told);
                seen.with_retry_after +=
                    u64::from(told && answer.headers().contains_key("retry-after"));
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            anyhow::Ok(seen)
        });
    }
    let (health, url) = (client()?, format!("{}/healthz", server.url));
    let mut whole = Overload::default();
    while Instant::now() < until {
        let asked = Instant::now();
        health.get(&url).send().await?.error_for_status()?;
        whole.health_max_ms = whole.health_max_ms.max(asked.elapsed().as_secs_f64() * 1_000.0);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    while let Some(seen) = tasks.join_next().await {
        let seen = seen??;
        whole.asked += seen.asked;
        whole.refused += seen.refused;
        whole.with_retry_after += seen.with_retry_after;
    }
    server.stop().await?;
    Ok(whole)
}
