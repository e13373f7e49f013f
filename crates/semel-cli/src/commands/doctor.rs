//! `semel doctor`: is everything in order, and what to do where it is not.

use std::path::Path;

use semel_core::effect::State;
use semel_core::limits;
use semel_core::run;
use semel_core::time::format_duration_ms;
use semel_engine::Engine;
use semel_store::postgres::Postgres;
use semel_store::sqlite::Sqlite;
use semel_store::{Access, Opened, Query, RunQuery, Upkeep};
use serde::Serialize;
use serde_json::json;

use super::open::Place;
use crate::exit::Failed;
use crate::print::{Printer, Tone};

#[derive(Serialize)]
struct Finding {
    what: &'static str,
    ok: bool,
    says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// Below this the disk is as good as full.
const FREE_BYTES_MIN: u64 = 256 * 1024 * 1024;
/// A log this long is not being checkpointed.
const LOG_BYTES_MAX: u64 = 512 * 1024 * 1024;

pub(crate) async fn run(place: &Place, printer: &Printer) -> Result<(), Failed> {
    let mut findings = Vec::new();
    if let Some(path) = place.file() {
        findings.extend([library(), disk(&path), log(&path), turn(&path)]);
    }
    match place.look().await {
        Ok(store) => {
            let says = format!("{} (format {})", store.place(), store.format());
            findings.push(good("store", says));
            findings.push(clock(store.as_ref()));
            findings.push(quarantine(store.as_ref()).await?);
            let engine = Engine::new(store, "semel")?;
            findings.push(doubts(&engine, place).await?);
            findings.push(unattended(&engine).await?);
            findings.push(runs(&engine, place).await?);
            if let Opened::Postgres(store) = place.open(Access::ReadOnly).await? {
                findings.push(outbox(&store).await?);
            }
        }
        Err(failed) => {
            let fix = failed.hint.unwrap_or_else(|| "point --store at your store".to_owned());
            findings.push(bad("store", failed.message, &fix));
        }
    }
    let ok = findings.iter().all(|finding| finding.ok);
    if printer.wants_json() {
        printer.json(&json!({ "ok": ok, "findings": findings }))?;
    } else {
        for finding in &findings {
            let mark = match finding.ok {
                true => printer.paint(Tone::Good, "ok  "),
                false => printer.paint(Tone::Bad, "look"),
            };
            printer.line(&format!("{mark} {:11} {}", finding.what, finding.says));
            if let Some(fix) = &finding.fix {
                printer.line(&format!("     fix: {fix}"));
            }
        }
    }
    if ok { Ok(()) } else { Err(Failed::new("not everything is in order")) }
}

fn good(what: &'static str, says: impl Into<String>) -> Finding {
    Finding { what, ok: true, says: says.into(), fix: None }
}

fn bad(what: &'static str, says: impl Into<String>, fix: &str) -> Finding {
    Finding { what, ok: false, says: says.into(), fix: Some(fix.to_owned()) }
}

fn library() -> Finding {
    good("sqlite", format!("{} (bundled)", Sqlite::library_version()))
}

fn disk(path: &Path) -> Finding {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    match rustix::fs::statvfs(folder.unwrap_or(Path::new("."))) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            let says = format!("{} MiB free", free / 1024 / 1024);
            if free < FREE_BYTES_MIN {
                return bad("disk", says, "free some space: a full disk stops every effect");
            }
            good("disk", says)
        }
        Err(error) => bad("disk", error.to_string(), "create the folder of the store"),
    }
}

fn log(path: &Path) -> Finding {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    let bytes = std::fs::metadata(name).map_or(0, |metadata| metadata.len());
    let says = format!("{} MiB waiting to be checkpointed", bytes / 1024 / 1024);
    if bytes > LOG_BYTES_MAX {
        return bad("log", says, "end readers that have been open for long, such as a SQL shell");
    }
    good("log", says)
}

/// Looked at from outside: behind a turn that does not end nobody can open the store to write.
fn turn(path: &Path) -> Finding {
    let holder = match Sqlite::holder(path) {
        Ok(Some(holder)) => holder,
        Ok(None) => return good("turn", "no process is writing"),
        Err(error) => return bad("turn", error.to_string(), "check who owns the folder `…-semel`"),
    };
    let since = holder.since.map_or(0, |since| since.0);
    let is_long = now_ms().saturating_sub(since) > limits::TURN_MS_MAX.cast_signed();
    match is_long || holder.is_stopped {
        true => bad("turn", holder.to_string(), &holder.advice()),
        false => good("turn", holder.to_string()),
    }
}

fn now_ms() -> i64 {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

fn clock(store: &dyn Upkeep) -> Finding {
    if store.ground().now.wall_is_behind {
        let fix = "set the clock: until then no native_key is resent and nothing expires";
        return bad("clock", "the wall clock is behind the latest commit", fix);
    }
    good("clock", "not behind the latest commit")
}

async fn quarantine(store: &dyn Upkeep) -> Result<Finding, Failed> {
    let returns = store.returns().await?;
    Ok(match returns.first().filter(|newest| newest.closed.is_none()) {
        Some(newest) => {
            let says = format!("open: the store went back in time: {}", newest.evidence);
            bad("quarantine", says, "semel quarantine show")
        }
        None => good("quarantine", "closed"),
    })
}

async fn doubts(engine: &Engine, place: &Place) -> Result<Finding, Failed> {
    let query = Query { state: Some(State::InDoubt), ..Query::all(place.namespace()?, 100) };
    let page = engine.list(&query).await?;
    let now = engine.store().ground().now;
    let ages = page.effects.iter().map(|effect| now.wall.0.abs_diff(effect.created.0));
    Ok(match ages.max() {
        None if !page.unreadable.is_empty() => {
            let says = format!("{} unsettled effects cannot be read", page.unreadable.len());
            bad("doubts", says, "semel verify")
        }
        None => good("doubts", "none"),
        Some(oldest_ms) => {
            let more = if page.next.is_some() { " or more" } else { "" };
            let oldest = format_duration_ms(oldest_ms / 1_000 * 1_000);
            let says = format!("{}{more} in doubt, the oldest since {oldest}", page.effects.len());
            bad("doubts", says, "semel effects ls --state in_doubt")
        }
    })
}

async fn unattended(engine: &Engine) -> Result<Finding, Failed> {
    let found = engine.unattended(100).await?.len();
    if found > 0 {
        let says = format!("{found} due effects that nobody attends to");
        return Ok(bad("unattended", says, "start the worker that brings the code for them"));
    }
    Ok(good("unattended", "none"))
}

/// How many intents are looked at: enough to see, and never a whole backlog.
const INTENTS_MAX: usize = 1_000;

async fn outbox(store: &Postgres) -> Result<Finding, Failed> {
    let found = store.outbox(None, INTENTS_MAX).await?;
    let refused = found.iter().filter(|row| row.refused.is_some()).count();
    let more = if found.len() == INTENTS_MAX { " or more" } else { "" };
    let says = match found.len() - refused {
        0 if refused == 0 => "empty".to_owned(),
        waiting => format!("{waiting}{more} waiting, {refused} refused"),
    };
    Ok(match refused {
        0 => good("outbox", says),
        _ => bad("outbox", says, "semel outbox ls: settle the cause, then drop what was refused"),
    })
}

/// How many runs are counted in each state: enough to see, and never the whole history.
const RUNS_COUNTED_MAX: usize = 100;

async fn runs(engine: &Engine, place: &Place) -> Result<Finding, Failed> {
    let namespace = place.namespace()?.as_str().to_owned();
    let (mut counts, mut paused) = (Vec::new(), false);
    for state in run::State::ALL.into_iter().filter(|state| !state.is_final()) {
        let query = RunQuery {
            namespace: Some(namespace.clone()),
            state: Some(state),
            ..RunQuery::everywhere(RUNS_COUNTED_MAX)
        };
        let page = engine.runs(&query).await?;
        if page.runs.is_empty() {
            continue;
        }
        let more = if page.next.is_some() { " or more" } else { "" };
        counts.push(format!("{}{more} {state}", page.runs.len()));
        paused |= state == run::State::Paused;
    }
    Ok(match (counts.is_empty(), paused) {
        (true, _) => good("runs", "none unfinished"),
        (false, false) => good("runs", counts.join(", ")),
        (false, true) => bad("runs", counts.join(", "), "semel runs ls --state paused"),
    })
}
