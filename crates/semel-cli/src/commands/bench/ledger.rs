//! `semel bench ledger`: effects a second, beside what the bare disk allows in the same run.
//!
//! An effect is two durable commits: the row is inserted before the send and updated after it. The
//! raw limit is a bare loop on the same disk with the same bytes and as many rows in a transaction
//! as the ledger had. The ratio is the ledger's rows a second over the raw loop's.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context;
use rusqlite::Connection;
use semel::{NativeKey, Semel};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{Measured, percentile, progress, raw, report};
use crate::commands::open::Place;
use crate::exit::Failed;
use crate::print::Printer;

/// What one process did.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Work {
    pub(super) effects: u64,
    pub(super) latencies_us: Vec<u64>,
}

const CALLERS: [usize; 3] = [1, 32, 256];
const SECONDS: u64 = 4;
const PROCESSES: usize = 4;
const CALLERS_EACH: usize = 16;

pub(crate) async fn ledger(printer: &Printer) -> Result<(), Failed> {
    let progress = progress(printer, CALLERS.len() as u64 + 1);
    let mut results = Vec::new();
    for callers in CALLERS {
        results.push(one_process(callers).await?);
        progress.inc(1);
    }
    results.push(several_processes().await?);
    progress.finish_and_clear();
    let note = "an effect is two rows; ratio = ledger rows/s over raw rows/s, same bytes and rows";
    report(printer, "EFFECTS/S", &results, note)
}

async fn one_process(callers: usize) -> anyhow::Result<Measured> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bench.db");
    let semel = Semel::open(&format!("sqlite:{}", file.display())).await?;
    let started = Instant::now();
    let time = Duration::from_secs(SECONDS);
    let (effects, latencies_us) = call_for(&semel, time, callers, "bench").await?;
    let work = Work { effects, latencies_us };
    let elapsed = started.elapsed();
    drop(semel);
    measure("effects", callers, &[work], elapsed, &file)
}

/// Several processes on one file: each must get its share.
async fn several_processes() -> anyhow::Result<Measured> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bench.db");
    let url = format!("sqlite:{}", file.display());
    // Created before the race, so that nobody measures the migration.
    drop(Semel::open(&url).await?);
    let started = Instant::now();
    let mut children = Vec::new();
    for number in 0..PROCESSES {
        let mut command = crate::program::again()?;
        command.args(["--store", &url, "bench-worker", &SECONDS.to_string()]);
        command.args([&CALLERS_EACH.to_string(), &format!("p{number}")]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        children.push(command.spawn()?);
    }
    let mut works = Vec::new();
    for child in children {
        let output = child.wait_with_output().await?;
        works.push(serde_json::from_slice(&output.stdout).context("a bench worker's words")?);
    }
    let callers = PROCESSES * CALLERS_EACH;
    measure("effects, 4 processes", callers, &works, started.elapsed(), &file)
}

/// One process of several: prints what it did.
pub(crate) async fn worker(
    place: &Place,
    seconds: u64,
    callers: usize,
    prefix: &str,
    printer: &Printer,
) -> Result<(), Failed> {
    let semel = place.semel().await?;
    let time = Duration::from_secs(seconds);
    let (effects, latencies_us) = call_for(&semel, time, callers, prefix).await?;
    let work = Work { effects, latencies_us };
    let text = serde_json::to_string(&work).map_err(anyhow::Error::from)?;
    printer.line(&text);
    Ok(())
}

/// Calls effects whose send costs nothing, so that only the ledger is measured. Returns how many,
/// and how long each took.
pub(super) async fn call_for(
    semel: &Semel,
    time: Duration,
    callers: usize,
    prefix: &str,
) -> anyhow::Result<(u64, Vec<u64>)> {
    let next = Arc::new(AtomicU64::new(0));
    let until = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..callers {
        let (semel, next, prefix) = (semel.clone(), next.clone(), prefix.to_owned());
        tasks.spawn(async move {
            let mut latencies_us = Vec::new();
            while Instant::now() < until {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let started = Instant::now();
                call(&semel, &format!("{prefix}-{number:010}")).await?;
                latencies_us.push(u64::try_from(started.elapsed().as_micros())?);
            }
            anyhow::Ok(latencies_us)
        });
    }
    let mut latencies_us = Vec::new();
    while let Some(of_one) = tasks.join_next().await {
        latencies_us.extend(of_one??);
    }
    Ok((latencies_us.len() as u64, latencies_us))
}

async fn call(semel: &Semel, key: &str) -> Result<serde_json::Value, semel::Error> {
    semel
        .effect("bench")
        .key([key])
        .input(&json!({ "request": key, "subject": "The printer is on fire" }))
        .contract(NativeKey::hours(24))
        .call(|intent| async move {
            Ok(json!({ "id": "T-1", "key": intent.downstream_key(), "status": "created" }))
        })
        .await
}

pub(super) fn measure(
    name: &'static str,
    concurrency: usize,
    works: &[Work],
    elapsed: Duration,
    file: &Path,
) -> anyhow::Result<Measured> {
    let mut latencies: Vec<u64> =
        works.iter().flat_map(|work| work.latencies_us.iter().copied()).collect();
    latencies.sort_unstable();
    let effects: u64 = works.iter().map(|work| work.effects).sum();
    let (commits, bytes) = ledger_shape(file)?;
    let rows = effects as f64 * 2.0;
    let rows_per_commit = rows / commits;
    let raw_per_s = raw::inserts_and_updates(file, rows_per_commit, bytes)?;
    let per_s = effects as f64 / elapsed.as_secs_f64();
    Ok(Measured {
        name,
        store: "sqlite",
        concurrency,
        per_s,
        p50_ms: percentile(&latencies, 0.50),
        p99_ms: percentile(&latencies, 0.99),
        max_ms: percentile(&latencies, 1.0),
        rows_per_commit,
        raw_per_s,
        ratio: per_s * 2.0 / raw_per_s,
    })
}

/// How many commits the ledger made, and how long its rows are.
fn ledger_shape(file: &Path) -> anyhow::Result<(f64, usize)> {
    let connection = Connection::open(file)?;
    let commits: i64 = connection.query_row("SELECT commits FROM meta", [], |row| row.get(0))?;
    let bytes = "SELECT CAST(avg(length(record)) AS INTEGER) FROM effects";
    let bytes: i64 = connection.query_row(bytes, [], |row| row.get(0))?;
    Ok((commits.max(1) as f64, usize::try_from(bytes)?))
}
