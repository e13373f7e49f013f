//! Benchmarks: what Semel does a second, beside what the bare disk allows in the same run.

mod fairness;
mod http;
mod ledger;
mod place;
pub(crate) mod postgres;
mod raw;
mod runs;

pub(crate) use fairness::fairness;
pub(crate) use http::http;
pub(crate) use ledger::{ledger, worker};
pub use place::Place;
pub(crate) use runs::runs;

use indicatif::{ProgressBar, ProgressDrawTarget};
use serde::Serialize;
use serde_json::json;

use crate::exit::Failed;
use crate::print::Printer;

#[derive(Clone, Debug, Serialize)]
struct Measured {
    name: &'static str,
    store: &'static str,
    concurrency: usize,
    per_s: f64,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
    rows_per_commit: f64,
    raw_per_s: f64,
    ratio: f64,
}

fn progress(printer: &Printer, length: u64) -> ProgressBar {
    let progress = ProgressBar::new(length);
    if !printer.is_terminal() || printer.wants_json() {
        progress.set_draw_target(ProgressDrawTarget::hidden());
    }
    progress
}

fn report(printer: &Printer, unit: &str, results: &[Measured], note: &str) -> Result<(), Failed> {
    if printer.wants_json() {
        return printer.json(&json!({ "results": results }));
    }
    let rows: Vec<_> = results.iter().map(row).collect();
    let headings =
        ["", "AT ONCE", unit, "P50 MS", "P99 MS", "MAX MS", "ROWS/COMMIT", "RAW ROWS/S", "RATIO"];
    printer.table(&headings, &rows);
    printer.talk(note);
    Ok(())
}

fn row(measured: &Measured) -> Vec<String> {
    vec![
        measured.name.to_owned(),
        measured.concurrency.to_string(),
        format!("{:.0}", measured.per_s),
        format!("{:.2}", measured.p50_ms),
        format!("{:.2}", measured.p99_ms),
        format!("{:.1}", measured.max_ms),
        format!("{:.1}", measured.rows_per_commit),
        format!("{:.0}", measured.raw_per_s),
        format!("{:.2}", measured.ratio),
    ]
}

fn percentile(sorted_us: &[u64], part: f64) -> f64 {
    let last = sorted_us.len().saturating_sub(1);
    let index = (last as f64 * part).round() as usize;
    sorted_us.get(index).copied().unwrap_or_default() as f64 / 1_000.0
}
