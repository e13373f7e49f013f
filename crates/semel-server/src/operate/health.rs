//! Probes. `/healthz` fails when nothing would ever get better by itself: a loop of the engine
//! hangs or is dead, or the store writes no more. `/readyz` fails when requests should go
//! elsewhere.

use std::time::Duration;

use axum::http::StatusCode;
use semel_engine::Pulse;
use semel_store::sqlite::Sqlite;
use semel_store::{Opened, postgres, sqlite};
use serde_json::{Value, json};

use crate::app::App;
use crate::problem::Problem;
use crate::route::{Call, Reply};

/// How long the store has to answer a read. A probe itself is usually given a second or more.
const ANSWER: Duration = Duration::from_millis(800);

/// One thing that was looked at.
struct Check {
    name: &'static str,
    /// Why it is not well.
    trouble: Option<String>,
}

/// Whether the engine works.
pub(crate) async fn alive(call: Call) -> Result<Reply, Problem> {
    Ok(reply(&call.app, engine_checks(&call.app)))
}

/// Whether requests should come here.
pub(crate) async fn ready(call: Call) -> Result<Reply, Problem> {
    let app = &call.app;
    let mut checks = engine_checks(app);
    checks.push(Check { name: "store", trouble: store_trouble(app).await });
    checks.push(Check { name: "format", trouble: format_trouble(&app.opened) });
    let draining = app.is_draining().then(|| "the server is shutting down".to_owned());
    checks.push(Check { name: "draining", trouble: draining });
    Ok(reply(app, checks))
}

impl App {
    /// Whether the engine works, for whoever supervises the process.
    pub fn is_well(&self) -> bool {
        engine_checks(self).iter().all(|check| check.trouble.is_none())
    }
}

fn engine_checks(app: &App) -> Vec<Check> {
    let pulses = app.engine.pulses();
    let mut checks: Vec<Check> = pulses
        .iter()
        .map(|pulse| Check { name: pulse.of.as_str(), trouble: pulse_trouble(pulse) })
        .collect();
    // The reason may name a file; it is logged where it is met.
    let damage = app.opened.damage().map(|error| format!("nothing is written: {}", error.code()));
    checks.push(Check { name: "writer", trouble: damage });
    checks
}

fn pulse_trouble(pulse: &Pulse) -> Option<String> {
    if pulse.is_turning() {
        return None;
    }
    Some(match pulse.silent_ms {
        Some(ms) => format!("it has not turned for {} s", ms / 1_000),
        None => "it was not started".to_owned(),
    })
}

async fn store_trouble(app: &App) -> Option<String> {
    let Ok(upkeep) = app.opened.upkeep() else { return None };
    match tokio::time::timeout(ANSWER, upkeep.identity()).await {
        Ok(Ok(_)) => None,
        Ok(Err(error)) => Some(error.code().to_string()),
        Err(_) => Some("it did not answer in time".to_owned()),
    }
}

/// Another process may have brought the store to a newer format since.
fn format_trouble(opened: &Opened) -> Option<String> {
    let upkeep = opened.upkeep().ok()?;
    let known = match opened {
        Opened::Sqlite(_) => sqlite::FORMAT,
        Opened::Postgres(_) => postgres::FORMAT,
        _ => return None,
    };
    let found = upkeep.format();
    (found != known).then(|| format!("the store has format {found}, this server knows {known}"))
}

fn reply(app: &App, checks: Vec<Check>) -> Reply {
    let is_well = checks.iter().all(|check| check.trouble.is_none());
    for check in &checks {
        if let Some(trouble) = &check.trouble {
            tracing::warn!(check = check.name, trouble, "a probe failed");
        }
    }
    let status = if is_well { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let checks: serde_json::Map<String, Value> = checks
        .into_iter()
        .map(|check| (check.name.to_owned(), json!(check.trouble.as_deref().unwrap_or("ok"))))
        .collect();
    let body = json!({
        "status": if is_well { "ok" } else { "failing" },
        "version": env!("CARGO_PKG_VERSION"),
        "store": store(&app.opened),
        "checks": checks,
    });
    Reply::json(status, &body)
}

/// What kind of store it is, in a word.
pub(super) fn kind(opened: &Opened) -> &'static str {
    match opened {
        Opened::Memory(_) => "memory",
        Opened::Sqlite(_) => "sqlite",
        Opened::Postgres(_) => "postgres",
        // Somebody else keeps it.
        _ => "remote",
    }
}

fn store(opened: &Opened) -> Value {
    let format = opened.upkeep().map(|upkeep| upkeep.format()).ok();
    match opened {
        Opened::Sqlite(_) => {
            json!({ "kind": "sqlite", "format": format, "sqlite": Sqlite::library_version() })
        }
        Opened::Postgres(_) => json!({ "kind": "postgres", "format": format }),
        other => json!({ "kind": kind(other) }),
    }
}
