//! `semel effects suspects`: the same wish under a new key each time, found in the ledger.

use semel::{Action, Namespace};
use semel_core::journal::{Entry, Event, Value};
use semel_core::limits;
use semel_core::suspects::{Level, Radar, Report, RunSeen, Suspect};
use semel_core::time::{Wall, parse_duration_ms};
use semel_engine::Engine;
use semel_store::Query;

use super::open::Place;
use crate::args;
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

pub(crate) async fn run(
    place: &Place,
    options: &args::Suspects,
    printer: &Printer,
) -> Result<(), Failed> {
    let back_ms = parse_duration_ms(&options.since)
        .map_err(|invalid| Failed::usage(format!("--since `{}`: {invalid}", options.since)))?;
    let engine = place.engine_to_look().await?;
    let namespace = place.namespace()?;
    let now = engine.store().ground().now.wall;
    let since = Wall(now.0.saturating_sub_unsigned(back_ms));
    let action = options.action.as_deref().map(Action::new).transpose();
    let query = Query {
        action: action.map_err(|error| Failed::from(semel::Error::from(error)))?,
        ..Query::all(namespace.clone(), limits::PAGE_ROWS_MAX)
    };
    let (mut radar, is_cut) = read(&engine, query, since).await?;
    for run in radar.runs_to_ask() {
        if let Some(seen) = started(&engine, &namespace, &run).await? {
            radar.learn(&run, seen);
        }
    }
    let report = radar.report(is_cut);
    if printer.wants_json() {
        printer.json(&report)?;
    } else {
        show(&report, &options.since, printer);
    }
    let likely = report.suspects.iter().filter(|one| one.level == Level::Likely).count();
    match likely {
        0 => Ok(()),
        1 => Err(Failed::new("1 likely suspect")),
        likely => Err(Failed::new(format!("{likely} likely suspects"))),
    }
}

/// All rows since then, a page at a time, newest first. Says whether a limit was reached before.
async fn read(engine: &Engine, mut query: Query, since: Wall) -> Result<(Radar, bool), Failed> {
    let mut radar = Radar::new();
    loop {
        let page = engine.list(&query).await?;
        // Rows are in the order of their commits, and clocks may differ by a little: only a whole
        // page of older ones is the end.
        let is_older = page.effects.iter().all(|effect| effect.created < since);
        let is_over = is_older && page.unreadable.is_empty();
        for effect in page.effects.iter().filter(|effect| effect.created >= since) {
            if !radar.see(effect) {
                return Ok((radar, true));
            }
        }
        query.after = page.next;
        if is_over || page.next.is_none() {
            return Ok((radar, false));
        }
    }
}

/// What a run was started with; nothing of one that is forgotten.
async fn started(
    engine: &Engine,
    namespace: &Namespace,
    id: &str,
) -> Result<Option<RunSeen>, Failed> {
    let Some(run) = engine.store().run(namespace.as_str(), id).await? else { return Ok(None) };
    let first = engine.store().journal(run.number, 0, 1).await?;
    let entry = first.first().and_then(|inked| serde_json::from_str::<Entry>(&inked.text).ok());
    let input = match entry.map(|entry| entry.event) {
        // A large input is not looked into: whoever makes keys of it would be hard to find.
        Some(Event::Started { input: Value::Json(input), .. }) => Some(input.text().to_owned()),
        _ => None,
    };
    Ok(Some(RunSeen { key: run.key, input }))
}

fn show(report: &Report, since: &str, printer: &Printer) {
    report.suspects.iter().for_each(|one| show_one(one, printer));
    if report.suspects.is_empty() {
        printer.line(&format!("no suspects among {} effects of the last {since}", report.rows));
    }
    if report.without_input > 0 {
        let count = report.without_input;
        printer.talk(&format!("{count} effects have no input to compare; only their keys count"));
    }
    if report.is_cut {
        let rows = report.rows;
        printer.talk(&format!(
            "a limit was reached after {rows} effects: older ones were not compared; \
             a shorter --since or an --action goes through all"
        ));
    }
}

fn show_one(one: &Suspect, printer: &Printer) {
    let (level, tone) = match one.level {
        Level::Likely => ("likely", Tone::Bad),
        Level::Perhaps => ("perhaps", Tone::Doubt),
    };
    let level = printer.paint(tone, level);
    let action = printer.paint(Tone::Strong, &plain(&one.action));
    printer.line(&format!("{level} {action} {}: {}", one.sign, plain(&one.reason)));
    let more = if one.keys > one.examples.len() { ", …" } else { "" };
    printer.line(&format!("  keys    {}{more}", plain(&one.examples.join(", "))));
    printer.line(&format!("  seen    {} to {}", one.first_at, one.last_at));
    printer.line(&format!("  better  {}", one.better));
}
