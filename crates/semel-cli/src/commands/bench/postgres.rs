//! `semel bench … --store postgres://…`: the same measures on a server, with one, two and four
//! worker processes, in a schema of its own that is dropped afterwards.
//!
//! The raw limit is the same server in the same run: as many connections as there are processes,
//! each inserting rows of the same bytes, as many in a transaction as the store had. The last line
//! is the same work with one transaction for each write, at 256.

use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use semel::Semel;
use semel_engine::Engine;
use semel_store::postgres::Postgres;
use semel_store::{Access, Clock};
use serde::{Deserialize, Serialize};

use super::{Measured, ledger, percentile, progress, report, runs};
use crate::exit::Failed;
use crate::print::Printer;

const AT_ONCE: [usize; 3] = [1, 32, 256];
const PROCESSES: [usize; 3] = [1, 2, 4];
const SECONDS: u64 = 3;
const RAW: Duration = Duration::from_millis(1_000);
/// Connections for one transaction a row: what a server of the usual size allows.
const CONNECTIONS: usize = 64;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Kind {
    Ledger,
    Runs,
}

/// What one process did.
#[derive(Debug, Serialize, Deserialize)]
struct Work {
    /// Effects or steps.
    count: u64,
    rows: f64,
    commits: u64,
    latencies_us: Vec<u64>,
}

/// One process of a benchmark.
#[derive(Debug, clap::Args)]
pub(crate) struct WorkerOptions {
    kind: Kind,
    at_once: usize,
    prefix: String,
    #[arg(long, default_value_t = 10)]
    steps: u32,
}

pub(crate) async fn measure_all(
    printer: &Printer,
    url: &str,
    kind: Kind,
    steps: u32,
) -> Result<(), Failed> {
    let progress = progress(printer, (AT_ONCE.len() * PROCESSES.len()) as u64 + 1);
    let mut results = Vec::new();
    for processes in PROCESSES {
        for at_once in AT_ONCE {
            if at_once >= processes {
                let schema = Schema::create(url).await?;
                results.push(measure(&schema, kind, processes, at_once, steps, None).await?);
                schema.remove().await?;
            }
            progress.inc(1);
        }
    }
    let schema = Schema::create(url).await?;
    let alone = measure(&schema, kind, 1, 256, steps, Some(CONNECTIONS)).await?;
    schema.remove().await?;
    progress.finish_and_clear();
    let grouped = results.iter().filter(|one| one.concurrency == 256).map(|one| one.per_s);
    let gain = grouped.fold(0.0, f64::max) / alone.per_s;
    results.push(alone);
    let note = format!(
        "ratio = rows/s over raw rows/s of the same server, same bytes and rows a transaction; \
         grouped, the best at 256 is {gain:.1} times one transaction for each write"
    );
    let unit = match kind {
        Kind::Ledger => "EFFECTS/S",
        Kind::Runs => "STEPS/S",
    };
    report(printer, unit, &results, &note)
}

async fn measure(
    schema: &Schema,
    kind: Kind,
    processes: usize,
    at_once: usize,
    steps: u32,
    ungrouped: Option<usize>,
) -> anyhow::Result<Measured> {
    let url = match ungrouped {
        None => schema.url.clone(),
        Some(connections) => format!("{}&group=1&connections={connections}", schema.url),
    };
    let mut children = Vec::new();
    for number in 0..processes {
        let mut command = crate::program::again()?;
        let kind = if kind == Kind::Ledger { "ledger" } else { "runs" };
        command.args(["--store", &url, "bench-postgres", kind]);
        command.args([&(at_once / processes).to_string(), &format!("p{number}")]);
        command.args(["--steps", &steps.to_string()]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        children.push(command.spawn()?);
    }
    let mut works: Vec<Work> = Vec::new();
    for child in children {
        let output = child.wait_with_output().await?;
        works.push(serde_json::from_slice(&output.stdout).context("a bench worker's words")?);
    }
    let mut latencies: Vec<u64> =
        works.iter().flat_map(|work| work.latencies_us.iter().copied()).collect();
    latencies.sort_unstable();
    let per_s = works.iter().map(|work| work.count).sum::<u64>() as f64 / SECONDS as f64;
    let rows = works.iter().map(|work| work.rows).sum::<f64>();
    let rows_per_commit = rows / works.iter().map(|work| work.commits).sum::<u64>().max(1) as f64;
    let raw_per_s = schema
        .raw(ungrouped.unwrap_or(processes), rows_per_commit, schema.bytes(kind).await?)
        .await?;
    Ok(Measured {
        name: name(kind, processes, ungrouped.is_some()),
        store: "postgres",
        concurrency: at_once,
        per_s,
        p50_ms: percentile(&latencies, 0.50),
        p99_ms: percentile(&latencies, 0.99),
        max_ms: percentile(&latencies, 1.0),
        rows_per_commit,
        raw_per_s,
        ratio: rows / SECONDS as f64 / raw_per_s,
    })
}

fn name(kind: Kind, processes: usize, is_ungrouped: bool) -> &'static str {
    match (kind, processes) {
        (Kind::Ledger, _) if is_ungrouped => "effects, ungrouped",
        (Kind::Runs, _) if is_ungrouped => "steps, ungrouped",
        (Kind::Ledger, 1) => "effects, 1 process",
        (Kind::Ledger, 2) => "effects, 2 processes",
        (Kind::Ledger, _) => "effects, 4 processes",
        (Kind::Runs, 1) => "steps, 1 process",
        (Kind::Runs, 2) => "steps, 2 processes",
        (Kind::Runs, _) => "steps, 4 processes",
    }
}

/// One process of several: prints what it did.
pub(crate) async fn worker(
    url: &str,
    options: WorkerOptions,
    printer: &Printer,
) -> Result<(), Failed> {
    let WorkerOptions { kind, at_once, prefix, steps } = options;
    let store = Arc::new(Postgres::open(url, Access::ReadWrite, Clock::Real).await?);
    let engine = Engine::new(store.clone(), prefix.clone())?;
    engine.start();
    let semel = Semel::on(engine);
    let time = Duration::from_secs(SECONDS);
    let before = store.commits();
    let (count, rows, latencies_us) = match kind {
        Kind::Ledger => {
            let (effects, latencies_us) = ledger::call_for(&semel, time, at_once, &prefix).await?;
            (effects, effects as f64 * 2.0, latencies_us)
        }
        Kind::Runs => {
            let (runs, latencies_us) =
                runs::work_for(&semel, time, at_once, &prefix, steps).await?;
            (runs * u64::from(steps), runs as f64 * (f64::from(steps) + 5.0), latencies_us)
        }
    };
    let work = Work { count, rows, commits: store.commits() - before, latencies_us };
    printer.line(&serde_json::to_string(&work).map_err(anyhow::Error::from)?);
    Ok(())
}

/// A schema that is dropped after use.
pub(super) struct Schema {
    pub(super) url: String,
    store: Postgres,
    name: String,
}

impl Schema {
    pub(super) async fn create(url: &str) -> Result<Schema, Failed> {
        let (base, query) = url.split_once('?').unwrap_or((url, ""));
        let name = format!("semel_bench_{}", std::process::id());
        let kept = query.split('&').filter(|pair| !pair.is_empty() && !pair.starts_with("schema="));
        let kept: Vec<&str> = kept.collect();
        let url =
            format!("{base}?{}", [&kept[..], &[&format!("schema={name}")]].concat().join("&"));
        Postgres::migrate(&url).await?;
        let many = format!("{url}&connections={}", CONNECTIONS + 6);
        let store = Postgres::open(&many, Access::ReadWrite, Clock::Real).await?;
        Ok(Schema { url, store, name })
    }

    pub(super) async fn remove(self) -> Result<(), Failed> {
        let client = self.store.connection().await?;
        let text = format!("DROP SCHEMA {} CASCADE", self.name);
        Ok(client.batch_execute(&text).await.map_err(anyhow::Error::from)?)
    }

    /// How long the rows are that were written.
    pub(super) async fn bytes(&self, kind: Kind) -> anyhow::Result<usize> {
        let text = match kind {
            Kind::Ledger => {
                format!("SELECT avg(length(record))::bigint FROM {}.effects", self.name)
            }
            Kind::Runs => format!("SELECT avg(length(entry))::bigint FROM {}.journal", self.name),
        };
        let client = self.store.connection().await?;
        let bytes: Option<i64> = client.query_one(&text, &[]).await?.get(0);
        Ok(usize::try_from(bytes.unwrap_or(200))?)
    }

    /// Rows a second of bare inserts.
    pub(super) async fn raw(
        &self,
        connections: usize,
        per_commit: f64,
        bytes: usize,
    ) -> anyhow::Result<f64> {
        let table = format!("{}.raw", self.name);
        let client = self.store.connection().await?;
        let text = format!(
            "CREATE TABLE {table} (run bigint, seq bigint, body text, PRIMARY KEY (run, seq))"
        );
        client.batch_execute(&text).await?;
        drop(client);
        let per_commit = (per_commit.round() as i64).max(1);
        let mut clients = Vec::new();
        for _ in 0..connections {
            clients.push(self.store.connection().await?);
        }
        let started = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for (run, client) in clients.into_iter().enumerate() {
            let text = format!(
                "INSERT INTO {table} SELECT $1, seq, body FROM \
                 unnest($2::bigint[], $3::text[]) AS w(seq, body)"
            );
            tasks.spawn(async move {
                let insert = client.prepare(&text).await?;
                let body = "x".repeat(bytes);
                let mut rows = 0;
                while started.elapsed() < RAW {
                    let seqs: Vec<i64> = (rows..rows + per_commit).collect();
                    let bodies = vec![body.as_str(); seqs.len()];
                    client.execute(&insert, &[&(run as i64), &seqs, &bodies]).await?;
                    rows += per_commit;
                }
                anyhow::Ok(rows)
            });
        }
        let mut rows = 0;
        while let Some(done) = tasks.join_next().await {
            rows += done??;
        }
        Ok(rows as f64 / started.elapsed().as_secs_f64())
    }
}
