//! `semel backup`: a store in one file, taken while others write, and the way back.

use std::path::Path;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use semel_core::wire::rfc3339;
use semel_store::backup::{self, Manifest, Progress};
use semel_store::{Access, Clock, Opened};
use serde_json::{Value, json};

use super::open::Place;
use super::verify;
use crate::args::{Backup, BackupCommand};
use crate::exit::Failed;
use crate::print::{Printer, plain};

pub(crate) async fn run(place: &Place, options: &Backup, printer: &Printer) -> Result<(), Failed> {
    match (&options.command, &options.file) {
        (Some(BackupCommand::Restore { file }), _) => restore(place, file, printer).await,
        (Some(BackupCommand::Verify { file }), _) => {
            let manifest = backup::verify(file).await?;
            show(file, &manifest, "is a whole backup", printer)
        }
        (None, Some(file)) => take(place, file, printer).await,
        (None, None) => Err(Failed::usage("name the file to write")),
    }
}

async fn take(place: &Place, file: &Path, printer: &Printer) -> Result<(), Failed> {
    let opened = place.open(Access::ReadOnly).await?;
    let (bar, progress) = watched(printer);
    let manifest = opened.backup(file, progress).await;
    bar.finish_and_clear();
    show(file, &manifest?, "was written", printer)
}

async fn restore(place: &Place, file: &Path, printer: &Printer) -> Result<(), Failed> {
    let (bar, progress) = watched(printer);
    let (url, veil) = (&place.store, place.veil.clone());
    let restored = Opened::restore(file, url, Clock::Real, veil, progress).await;
    bar.finish_and_clear();
    let (opened, manifest) = restored?;
    let store = opened.upkeep()?;
    let problems = verify::problems(store.as_ref(), None).await.map_err(Failed::new)?;
    if let Some(first) = problems.first() {
        let count = problems.len();
        return Err(Failed::new(format!("what was restored breaks {count} invariants: {first}"))
            .hint("`semel verify` lists all of them; take another backup"));
    }
    show(file, &manifest, &format!("was restored to {}", plain(&store.place())), printer)?;
    printer.talk("every invariant holds; the quarantine is open: `semel quarantine show`");
    Ok(())
}

/// A bar on a terminal. Nobody knows how much there is of a database before it was read.
fn watched(printer: &Printer) -> (ProgressBar, Progress) {
    let bar = ProgressBar::no_length();
    if !printer.is_terminal() || printer.wants_json() {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {percent}% {elapsed}") {
        bar.set_style(style);
    }
    let shown = bar.clone();
    let progress = Arc::new(move |done, all| {
        if all > 0 {
            shown.set_length(all);
        }
        shown.set_position(done);
    });
    (bar, progress)
}

fn show(file: &Path, manifest: &Manifest, what: &str, printer: &Printer) -> Result<(), Failed> {
    let bytes: u64 = manifest.parts.iter().map(|part| part.bytes).sum();
    if printer.wants_json() {
        let rows = manifest.rows.iter().map(|(table, count)| (table.clone(), json!(count)));
        let parts = manifest
            .parts
            .iter()
            .map(|part| json!({ "name": part.name, "bytes": part.bytes, "sha256": part.sha256 }));
        return printer.json(&json!({
            "file": file.display().to_string(),
            "kind": manifest.kind.to_string().to_lowercase(),
            "store": manifest.store,
            "format": manifest.format,
            "epoch": manifest.epoch,
            "created_at": rfc3339(manifest.created),
            "rows": Value::Object(rows.collect()),
            "parts": parts.collect::<Vec<_>>(),
        }));
    }
    printer.line(&format!("{} {what}", plain(&file.display().to_string())));
    let counts = manifest.rows.iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> = counts.map(|(table, count)| format!("{count} {table}")).collect();
    printer.line(&format!("  taken   {}", rfc3339(manifest.created)));
    printer.line(&format!("  of      {} store {}", manifest.kind, manifest.store));
    printer.line(&format!("  format  {}, epoch {}", manifest.format, manifest.epoch));
    printer.line(&format!("  rows    {}", counts.join(", ")));
    printer.line(&format!("  bytes   {bytes}"));
    Ok(())
}
