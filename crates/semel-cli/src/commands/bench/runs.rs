//! `semel bench runs`: steps a second of runs with ten steps each.
//!
//! A step is one durable row. A run has five more: its row, written twice, and the entries for its
//! start, its take and its end. The ratio is all rows a second over those of a bare insert loop
//! with the same bytes and rows a transaction.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use semel::{Context, Error, Semel};

use super::{Measured, percentile, progress, raw, report};
use crate::exit::Failed;
use crate::print::Printer;

const AT_ONCE: [usize; 3] = [1, 32, 256];
const SECONDS: u64 = 4;

/// When steps began after the one before, in microseconds, over all runs.
type Latencies = Arc<Mutex<Vec<u64>>>;

pub(crate) async fn runs(printer: &Printer, steps: u32, finished: u32) -> Result<(), Failed> {
    let progress = progress(printer, AT_ONCE.len() as u64);
    let mut results = Vec::new();
    for at_once in AT_ONCE {
        results.push(measure(at_once, steps, finished).await?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let note = "a step is one row, a run five more; ratio = rows/s over raw rows/s, same bytes";
    report(printer, "STEPS/S", &results, note)
}

async fn measure(at_once: usize, steps: u32, finished: u32) -> anyhow::Result<Measured> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bench.db");
    let semel = Semel::open(&format!("sqlite:{}", file.display())).await?;
    fill(&semel, finished).await?;
    let before = commits(&file)?;
    let started = Instant::now();
    let time = Duration::from_secs(SECONDS);
    let (runs, mut latencies) = work_for(&semel, time, at_once, "bench", steps).await?;
    let elapsed = started.elapsed();
    drop(semel);
    let rows = f64::from(steps) + 5.0;
    let rows_per_commit = runs as f64 * rows / (commits(&file)? - before).max(1.0);
    let bytes = entry_bytes(&file)?;
    let raw_per_s = raw::inserts(&file, rows_per_commit, bytes)?;
    let runs_per_s = runs as f64 / elapsed.as_secs_f64();
    latencies.sort_unstable();
    Ok(Measured {
        name: "steps",
        store: "sqlite",
        concurrency: at_once,
        per_s: runs_per_s * f64::from(steps),
        p50_ms: percentile(&latencies, 0.50),
        p99_ms: percentile(&latencies, 0.99),
        max_ms: percentile(&latencies, 1.0),
        rows_per_commit,
        raw_per_s,
        ratio: runs_per_s * rows / raw_per_s,
    })
}

/// Steps whose work costs nothing, so that only the engine is measured.
async fn do_steps(
    ctx: Context,
    subject: String,
    steps: u32,
    kept: Latencies,
) -> Result<u32, Error> {
    let mut began = Instant::now();
    let mut latencies = Vec::with_capacity(steps as usize);
    for number in 0..steps {
        let subject = subject.clone();
        let value: serde_json::Value = ctx
            .step("step", move || {
                let subject = subject.clone();
                async move { Ok(serde_json::json!({ "number": number, "subject": subject })) }
            })
            .await?;
        assert_eq!(value["number"], number);
        let now = Instant::now();
        latencies.push(u64::try_from((now - began).as_micros()).unwrap_or(u64::MAX));
        began = now;
    }
    // The first one is the start of the run, not a step.
    let latencies = latencies.get(1..).unwrap_or_default();
    kept.lock().unwrap_or_else(PoisonError::into_inner).extend(latencies);
    Ok(steps)
}

/// Puts finished runs into the store, each with the entries of its start, its take and its end.
async fn fill(semel: &Semel, finished: u32) -> anyhow::Result<()> {
    semel.worker().workflow("filled", |_: Context, (): ()| async { Ok(()) }).start()?;
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..256 {
        let semel = semel.clone();
        tasks.spawn(async move {
            for number in (caller..finished).step_by(256) {
                let run = semel.start("filled").key(format!("{number}")).input(&()).run().await?;
                let () = run.result().await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        done??;
    }
    Ok(())
}

/// Works on runs for a while. Returns how many ended, and how long each step took.
pub(super) async fn work_for(
    semel: &Semel,
    time: Duration,
    at_once: usize,
    prefix: &str,
    steps: u32,
) -> anyhow::Result<(u64, Vec<u64>)> {
    let latencies: Latencies = Latencies::default();
    let kept = latencies.clone();
    let code = move |ctx, input| do_steps(ctx, input, steps, kept.clone());
    semel.worker().workflow("bench", code).start()?;
    let runs = run_for(semel, time, at_once, prefix).await?;
    let latencies = std::mem::take(&mut *latencies.lock().unwrap_or_else(PoisonError::into_inner));
    Ok((runs, latencies))
}

async fn run_for(
    semel: &Semel,
    time: Duration,
    at_once: usize,
    prefix: &str,
) -> anyhow::Result<u64> {
    let until = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..at_once {
        let (semel, prefix) = (semel.clone(), prefix.to_owned());
        tasks.spawn(async move {
            let mut runs = 0_u64;
            while Instant::now() < until {
                let start = semel.start("bench").key(format!("{prefix}-{caller}-{runs:08}"));
                let run = start.input("The printer is on fire").run().await?;
                let _: u32 = run.result().await?;
                runs += 1;
            }
            anyhow::Ok(runs)
        });
    }
    let mut runs = 0;
    while let Some(done) = tasks.join_next().await {
        runs += done??;
    }
    Ok(runs)
}

pub(super) fn commits(file: &Path) -> anyhow::Result<f64> {
    let connection = Connection::open(file)?;
    let commits: i64 = connection.query_row("SELECT commits FROM meta", [], |row| row.get(0))?;
    Ok(commits as f64)
}

/// How long the entries of steps are.
pub(super) fn entry_bytes(file: &Path) -> anyhow::Result<usize> {
    let connection = Connection::open(file)?;
    let bytes = "SELECT CAST(avg(length(entry)) AS INTEGER) FROM \
         (SELECT entry FROM journal ORDER BY rowid DESC LIMIT 10000)";
    let bytes: i64 = connection.query_row(bytes, [], |row| row.get(0))?;
    Ok(usize::try_from(bytes)?)
}
