//! The back office that the examples talk to: a real server in the process of the test, which keeps
//! a book, honours keys except for refunds, and can kill whoever asks.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use axum::{Json, Router};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Kills a worker at its first request for `what`, before or after it is done.
#[derive(Clone, Debug)]
pub(crate) struct Kill {
    pub(crate) what: String,
    pub(crate) is_after: bool,
    pub(crate) worker: u32,
}

#[derive(Default)]
struct Book {
    /// What was done, in order: the kind and the whole wish.
    done: Vec<(String, Value)>,
    answers: HashMap<String, Value>,
    kill: Option<Kill>,
}

#[derive(Clone, Default)]
pub(crate) struct Shop {
    book: Arc<Mutex<Book>>,
}

impl Shop {
    /// Begins to serve on a port of its own, and returns the address.
    pub(crate) async fn start(&self) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let routes = Router::new().route("/{kind}", post(serve)).with_state(self.clone());
        tokio::spawn(async move { axum::serve(listener, routes).await });
        format!("http://{address}")
    }

    pub(crate) fn plan(&self, kill: Kill) {
        self.book().kill = Some(kill);
    }

    /// The kinds of what was done, in order.
    pub(crate) fn kinds(&self) -> Vec<String> {
        self.book().done.iter().map(|(kind, _)| kind.clone()).collect()
    }

    /// What was done of one kind: each with its `id`.
    pub(crate) fn all(&self, kind: &str) -> Vec<Value> {
        let book = self.book();
        let of_kind = book.done.iter().filter(|(found, _)| found == kind);
        of_kind.map(|(_, made)| made.clone()).collect()
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("the book")
    }

    fn strike(&self, what: &str, is_after: bool) {
        let mut book = self.book();
        let Some(kill) = &book.kill else { return };
        if kill.what == what && kill.is_after == is_after {
            let worker = i32::try_from(kill.worker).ok().and_then(Pid::from_raw);
            kill_process(worker.expect("a process"), Signal::KILL).expect("it lives");
            book.kill = None;
        }
    }

    fn apply(&self, kind: &str, key: Option<&str>, wish: &Value) -> (StatusCode, Value) {
        let mut book = self.book();
        // Refunds know no keys: each request pays once more.
        let key = key.filter(|_| kind != "refunds").map(ToOwned::to_owned);
        if let Some(first) = key.as_ref().and_then(|key| book.answers.get(key)) {
            return (StatusCode::CREATED, first.clone());
        }
        if kind == "parcels" && wish["to"] == "Atlantis" {
            return (StatusCode::OK, json!({ "refused": "no carrier goes there" }));
        }
        let mut made = wish.clone();
        made["id"] = json!(format!("{kind}-{}", book.done.len() + 1));
        book.done.push((kind.to_owned(), made.clone()));
        if let Some(key) = key {
            book.answers.insert(key, made.clone());
        }
        (StatusCode::CREATED, made)
    }
}

async fn serve(
    State(shop): State<Shop>,
    Path(kind): Path<String>,
    headers: HeaderMap,
    Json(wish): Json<Value>,
) -> (StatusCode, Json<Value>) {
    shop.strike(&kind, false);
    let key = headers.get("idempotency-key").and_then(|key| key.to_str().ok());
    let (status, answer) = shop.apply(&kind, key, &wish);
    shop.strike(&kind, true);
    (status, Json(answer))
}
