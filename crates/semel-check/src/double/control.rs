//! The double's own paths, below a prefix that no service has: what arrived, and what shall go
//! wrong next.

use std::time::Duration;

use axum::http::request::Parts;
use axum::http::{HeaderMap, Method};
use axum::response::Response;
use serde_json::{Value, json};

use super::fault::Fault;
use super::serve::{Shared, respond};
use super::world::Answer;

pub(super) const PREFIX: &str = "/__double__/";
/// The longest wait for news.
const WAIT_MS_MAX: u64 = 60_000;

pub(super) async fn handle(shared: &Shared, parts: &Parts, rest: &str, body: &[u8]) -> Response {
    if !is_trusted(&parts.headers) {
        return respond(Answer::problem(403, "the controls are for programs on this machine"));
    }
    let answer = match (&parts.method, rest) {
        (&Method::GET, "book") => book(shared, parts).await,
        (&Method::GET, "counts") => Answer::new(200, json!(shared.look(|world| world.counts()))),
        (&Method::GET, "faults") => Answer::new(200, json!(shared.look(|w| w.armed().to_vec()))),
        (&Method::POST, "faults") => arm(shared, body),
        (&Method::POST, "reset") => {
            reset(shared);
            Answer::new(200, json!({}))
        }
        (&Method::POST, "release") => {
            release(shared);
            Answer::new(200, json!({}))
        }
        _ => Answer::problem(404, "there are book, counts, faults, reset and release"),
    };
    respond(answer)
}

/// Pages in a browser must not arm faults: one of them kills. They always name their origin when
/// they send, and a host of their own when they read.
fn is_trusted(headers: &HeaderMap) -> bool {
    let host = headers.get("host").and_then(|host| host.to_str().ok()).unwrap_or_default();
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    let is_local = matches!(name, "localhost" | "[::1]") || name.starts_with("127.");
    is_local && !headers.contains_key("origin")
}

pub(super) fn reset(shared: &Shared) {
    shared.change(super::world::World::reset);
    // Whoever hangs belongs to the time before.
    release(shared);
}

pub(super) fn release(shared: &Shared) {
    shared.releases.send_modify(|count| *count += 1);
}

fn arm(shared: &Shared, body: &[u8]) -> Answer {
    let faults = match read(body) {
        Ok(faults) => faults,
        Err(error) => return Answer::problem(400, &error),
    };
    match shared.change(|world| world.arm(faults)) {
        Ok(()) => Answer::new(200, json!(shared.look(|world| world.armed().to_vec()))),
        Err(fact) => Answer::problem(400, &fact),
    }
}

/// Reads one fault or a list of them; a slip is named, not swallowed.
fn read(body: &[u8]) -> Result<Vec<Fault>, String> {
    let value: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let many = match value {
        Value::Array(items) => items,
        one => vec![one],
    };
    let read = |item| serde_json::from_value(item).map_err(|error| error.to_string());
    many.into_iter().map(read).collect()
}

/// `?after=3&wait_ms=500`: waits for an entry behind the third, but no longer than that.
async fn book(shared: &Shared, parts: &Parts) -> Answer {
    let query = parts.uri.query().unwrap_or_default();
    let number = |wanted: &str| {
        let mut pairs = url::form_urlencoded::parse(query.as_bytes());
        pairs.find(|(name, _)| name == wanted).and_then(|(_, value)| value.parse::<u64>().ok())
    };
    let after = number("after").unwrap_or_default();
    let wait = Duration::from_millis(number("wait_ms").unwrap_or_default().min(WAIT_MS_MAX));
    let mut changes = shared.changes.subscribe();
    let is_there = |_: &u64| shared.look(|world| world.entries.len() as u64 > after);
    // Nothing in time is an answer, too: the empty list.
    let _ = tokio::time::timeout(wait, changes.wait_for(is_there)).await;
    let entries = shared.look(|world| world.entries.clone());
    let entries: Vec<_> = entries.into_iter().filter(|entry| entry.n > after).collect();
    let objects = shared.look(|world| {
        let shown = |object: &super::world::Object| {
            json!({ "id": object.id, "route": object.route, "shown": object.shown })
        };
        world.objects.iter().map(shown).collect::<Vec<_>>()
    });
    Answer::new(200, json!({ "entries": entries, "objects": objects }))
}
