//! `semel bench runs`: steps a second of runs with ten steps each.
//!
//! A step is one durable row. A run has fifteen: its row written twice, and thirteen entries. The
//! ratio is all rows a second over those of a bare insert loop with the same bytes and rows a
//! transaction.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use semel::{Context, Error, Semel};

use super::{Measured, percentile, progress, raw, report};
use crate::exit::Failed;
use crate::print::Printer;

const AT_ONCE: [usize; 3] = [1, 32, 256];
const STEPS: u32 = 10;
const ROWS: f64 = 15.0;
const SECONDS: u64 = 4;

/// When steps began after the one before, in microseconds, over all runs.
type Latencies = Arc<Mutex<Vec<u64>>>;

pub(crate) async fn runs(printer: &Printer) -> Result<(), Failed> {
    let progress = progress(printer, AT_ONCE.len() as u64);
    let mut results = Vec::new();
    for at_once in AT_ONCE {
        results.push(measure(at_once).await?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    let note = "a step is one row, a run of ten steps fifteen; ratio = rows/s over raw rows/s";
    report(printer, "STEPS/S", &results, note)
}

async fn measure(at_once: usize) -> anyhow::Result<Measured> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("bench.db");
    let semel = Semel::open(&format!("sqlite:{}", file.display())).await?;
    let latencies: Latencies = Latencies::default();
    let kept = latencies.clone();
    semel
        .worker()
        .workflow("bench", move |ctx, input| ten_steps(ctx, input, kept.clone()))
        .start()?;
    let started = Instant::now();
    let runs = run_for(&semel, Duration::from_secs(SECONDS), at_once).await?;
    let elapsed = started.elapsed();
    drop(semel);
    let (commits, bytes) = shape(&file)?;
    let rows_per_commit = runs as f64 * ROWS / commits;
    let raw_per_s = raw::inserts(&file, rows_per_commit, bytes)?;
    let runs_per_s = runs as f64 / elapsed.as_secs_f64();
    let mut latencies =
        std::mem::take(&mut *latencies.lock().unwrap_or_else(PoisonError::into_inner));
    latencies.sort_unstable();
    Ok(Measured {
        name: "steps",
        store: "sqlite",
        concurrency: at_once,
        per_s: runs_per_s * f64::from(STEPS),
        p50_ms: percentile(&latencies, 0.50),
        p99_ms: percentile(&latencies, 0.99),
        max_ms: percentile(&latencies, 1.0),
        rows_per_commit,
        raw_per_s,
        ratio: runs_per_s * ROWS / raw_per_s,
    })
}

/// Ten steps whose work costs nothing, so that only the engine is measured.
async fn ten_steps(ctx: Context, subject: String, kept: Latencies) -> Result<u32, Error> {
    let mut began = Instant::now();
    let mut latencies = [0; STEPS as usize];
    for (number, latency) in (0..STEPS).zip(&mut latencies) {
        let subject = subject.clone();
        let value: serde_json::Value = ctx
            .step("step", move || {
                let subject = subject.clone();
                async move { Ok(serde_json::json!({ "number": number, "subject": subject })) }
            })
            .await?;
        assert_eq!(value["number"], number);
        let now = Instant::now();
        *latency = u64::try_from((now - began).as_micros()).unwrap_or(u64::MAX);
        began = now;
    }
    // The first one is the start of the run, not a step.
    kept.lock().unwrap_or_else(PoisonError::into_inner).extend(&latencies[1..]);
    Ok(STEPS)
}

async fn run_for(semel: &Semel, time: Duration, at_once: usize) -> anyhow::Result<u64> {
    let until = Instant::now() + time;
    let mut tasks = tokio::task::JoinSet::new();
    for caller in 0..at_once {
        let semel = semel.clone();
        tasks.spawn(async move {
            let mut runs = 0_u64;
            while Instant::now() < until {
                let start = semel.start("bench").key(format!("{caller}-{runs:08}"));
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

/// How many commits were made, and how long the entries are.
fn shape(file: &Path) -> anyhow::Result<(f64, usize)> {
    let connection = Connection::open(file)?;
    let commits: i64 = connection.query_row("SELECT commits FROM meta", [], |row| row.get(0))?;
    let bytes = "SELECT CAST(avg(length(entry)) AS INTEGER) FROM journal";
    let bytes: i64 = connection.query_row(bytes, [], |row| row.get(0))?;
    Ok((commits.max(1) as f64, usize::try_from(bytes)?))
}
