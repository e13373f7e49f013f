//! A scripted model: a real HTTP server that always gives the same answer and keeps count of what
//! it was asked, since each call of a real one is paid for.
//!
//! `POST /classify` answers at once, with `?late_ms=500` that much later, and with `?cut=true` not
//! at all: the call is counted, then the connection is cut.

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::future::IntoFuture;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::crm::{LIFE_MAX, lines};

const CALLS: &str = "calls.jsonl";
/// The longest wait before a late answer.
const LATE_MS_MAX: u64 = 60_000;

/// One call that was paid for: one line of `calls.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Call {
    pub subject: String,
}

/// Serves until the process is killed. The address is in `dir/model.addr` once requests are taken.
pub(crate) async fn serve(dir: PathBuf) -> anyhow::Result<()> {
    fs::create_dir_all(&dir).with_context(|| format!("cannot create {}", dir.display()))?;
    let (file, _) = lines::open(&dir.join(CALLS), lines::parse::<Call>)?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    lines::publish(&dir.join("model.addr"), &format!("http://{}", listener.local_addr()?))?;
    let router =
        Router::new().route("/classify", post(classify)).with_state(Arc::new(Mutex::new(file)));
    match timeout(LIFE_MAX, axum::serve(listener, router).into_future()).await {
        Ok(ended) => ended.context("the model's server ended"),
        Err(_life_over) => Ok(()),
    }
}

/// All calls, straight from the file.
pub(crate) fn calls(dir: &Path) -> anyhow::Result<Vec<Call>> {
    lines::read(&dir.join(CALLS))
}

#[derive(Deserialize)]
struct Script {
    #[serde(default)]
    late_ms: u64,
    #[serde(default)]
    cut: bool,
}

async fn classify(
    State(file): State<Arc<Mutex<File>>>,
    Query(Script { late_ms, cut }): Query<Script>,
    Json(call): Json<Call>,
) -> Result<Json<Value>, StatusCode> {
    let counted = tokio::task::spawn_blocking(move || {
        let mut file = file.lock().expect("no holder of the file panics");
        lines::append(&mut file, &call)?;
        // On the disk before it is answered: what was answered was paid for.
        Ok::<_, anyhow::Error>(file.sync_data()?)
    });
    let counted = counted.await.map_err(anyhow::Error::from).flatten();
    counted.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    if cut {
        // Unwinding ends the connection's task, and so its socket, before a byte is written.
        std::panic::resume_unwind(Box::new("the connection is cut as scripted"));
    }
    tokio::time::sleep(Duration::from_millis(late_ms.min(LATE_MS_MAX))).await;
    Ok(Json(json!({ "category": "hardware", "urgent": true })))
}
