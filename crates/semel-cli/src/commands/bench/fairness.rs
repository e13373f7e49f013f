//! `semel bench fairness`: what the runs of quiet namespaces feel of a loud one. Both are measured
//! in one go, first without it and then beside it, so the ratio says what it costs them.

use std::time::{Duration, Instant};

use semel::{Context, Error, Semel};
use serde::Serialize;
use serde_json::json;
use tokio::task::JoinSet;

use super::{percentile, progress};
use crate::exit::Failed;
use crate::print::Printer;

const QUIET: usize = 8;
const SECONDS: u64 = 6;
/// One run of a quiet namespace in so long; the loud one has a hundred in that time.
const EVERY: Duration = Duration::from_millis(100);
const LOUDER: u32 = 100;

#[derive(Clone, Debug, Serialize)]
struct Felt {
    name: &'static str,
    store: String,
    namespaces: usize,
    runs: usize,
    loud_runs: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    /// Of the 99th percentile, over that without the loud one.
    ratio: f64,
}

/// On a store of its own, or on the one that is named.
pub(crate) async fn fairness(printer: &Printer, named: Option<&str>) -> Result<(), Failed> {
    let progress = progress(printer, 2);
    let folder = tempfile::tempdir().map_err(anyhow::Error::from)?;
    let own = format!("sqlite:{}/bench.db", folder.path().display());
    let url = named.unwrap_or(&own);
    let semel = Semel::open(url).await?;
    let store = url.split(':').next().unwrap_or_default().to_owned();
    let alone = measure(&semel, "alone", false, None).await?;
    let alone = Felt { store: store.clone(), ..alone };
    progress.inc(1);
    let beside = measure(&semel, "beside a loud one", true, Some(alone.p99_ms)).await?;
    let beside = Felt { store, ..beside };
    progress.finish_and_clear();
    report(printer, &[alone, beside])
}

fn report(printer: &Printer, results: &[Felt]) -> Result<(), Failed> {
    if printer.wants_json() {
        return printer.json(&json!({ "results": results }));
    }
    let row = |felt: &Felt| {
        vec![
            felt.name.to_owned(),
            felt.runs.to_string(),
            felt.loud_runs.to_string(),
            format!("{:.2}", felt.p50_ms),
            format!("{:.2}", felt.p99_ms),
            format!("{:.1}", felt.max_ms),
            format!("{:.2}", felt.ratio),
        ]
    };
    let rows: Vec<_> = results.iter().map(row).collect();
    printer.table(&["", "RUNS", "LOUD RUNS", "P50 MS", "P99 MS", "MAX MS", "P99 RATIO"], &rows);
    let note = "runs of three steps in eight quiet namespaces, from start to result; the loud \
                namespace has a hundred times the load of each";
    printer.talk(note);
    Ok(())
}

async fn three_steps(ctx: Context, (): ()) -> Result<u32, Error> {
    let mut sum = 0;
    for number in 0..3_u32 {
        sum += ctx.step("step", move || async move { Ok(number) }).await?;
    }
    Ok(sum)
}

async fn measure(
    semel: &Semel,
    name: &'static str,
    is_loud: bool,
    before: Option<f64>,
) -> anyhow::Result<Felt> {
    let mut quiet = JoinSet::new();
    for number in 0..QUIET {
        let semel = semel.namespace(&format!("quiet-{number}"))?;
        // Not all at the same moment: that would be another load than the one that is meant.
        let offset = EVERY / u32::try_from(QUIET)? * u32::try_from(number)?;
        quiet.spawn(start_evenly(semel, name, EVERY, offset));
    }
    let mut loud = JoinSet::new();
    if is_loud {
        let semel = semel.namespace("loud")?;
        loud.spawn(start_evenly(semel, name, EVERY / LOUDER, Duration::ZERO));
    }
    let mut latencies = Vec::new();
    while let Some(done) = quiet.join_next().await {
        latencies.extend(done??);
    }
    let mut loud_runs = 0;
    while let Some(done) = loud.join_next().await {
        loud_runs += done??.len();
    }
    latencies.sort_unstable();
    let p99_ms = percentile(&latencies, 0.99);
    Ok(Felt {
        name,
        store: String::new(),
        namespaces: QUIET,
        runs: latencies.len(),
        loud_runs,
        p50_ms: percentile(&latencies, 0.50),
        p99_ms,
        max_ms: percentile(&latencies, 1.0),
        ratio: before.map_or(1.0, |before| p99_ms / before.max(0.001)),
    })
}

/// Starts a run each so often, whether or not those before have ended. Returns how long each took,
/// in microseconds, from when it was meant to start.
async fn start_evenly(
    semel: Semel,
    prefix: &'static str,
    every: Duration,
    offset: Duration,
) -> anyhow::Result<Vec<u64>> {
    semel.worker().workflow("bench", three_steps).start()?;
    tokio::time::sleep(offset).await;
    let until = Instant::now() + Duration::from_secs(SECONDS);
    let mut ticks = tokio::time::interval(every);
    let mut runs = JoinSet::new();
    let mut number = 0_u64;
    while Instant::now() < until {
        let meant = ticks.tick().await.into_std();
        number += 1;
        let (semel, key) = (semel.clone(), format!("{prefix} {number}"));
        runs.spawn(async move {
            let run = semel.start("bench").key(key).input(&()).run().await?;
            let _: u32 = run.result().await?;
            anyhow::Ok(u64::try_from(meant.elapsed().as_micros()).unwrap_or(u64::MAX))
        });
    }
    let mut latencies = Vec::new();
    while let Some(ended) = runs.join_next().await {
        latencies.push(ended??);
    }
    Ok(latencies)
}
