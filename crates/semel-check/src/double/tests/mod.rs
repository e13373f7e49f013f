//! The double is the judge of workflows, so each of its modes and faults is held here, over real
//! sockets.

mod faults;
mod modes;
mod scripts;

use std::time::Duration;

use reqwest::{Client, RequestBuilder, Response};
use serde_json::{Value, json};

use super::*;

/// Longer than any wait a healthy test needs.
const PATIENCE: Duration = Duration::from_secs(20);

struct Stage {
    double: Double,
    client: Client,
}

impl Stage {
    fn new(script: impl Into<Script>) -> Stage {
        Stage { double: Double::start(script).expect("a free port"), client: client() }
    }

    fn scripted(script: &Value) -> Stage {
        Stage::new(Script::from_json(&script.to_string()).expect("a sound script"))
    }

    fn send(&self, method: &str, path: &str, body: &Value) -> RequestBuilder {
        let method = method.parse().expect("a method");
        self.client.request(method, format!("{}{path}", self.double.url())).json(body)
    }

    fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.send("POST", path, body)
    }

    /// A ticket under a key.
    fn keyed(&self, key: &str) -> RequestBuilder {
        self.post("/tickets", &json!({ "subject": "Help" })).header("Idempotency-Key", key)
    }

    async fn get(&self, path: &str) -> (u16, Value) {
        let request = self.client.get(format!("{}{path}", self.double.url()));
        read(request.send().await.expect("an answer")).await
    }

    /// The book as `route applied object fault`.
    fn story(&self) -> Vec<String> {
        let tell = |entry: &Entry| {
            let applied = json!(entry.applied);
            let object = entry.object.as_deref().unwrap_or("-");
            let fault = entry.fault.as_deref().unwrap_or("-");
            format!("{} {} {object} {fault}", entry.route, applied.as_str().expect("a word"))
        };
        self.double.book().iter().map(tell).collect()
    }
}

/// Each request on a connection of its own: a pooled one that was cut would be tried again, and
/// the client's retry would pass for the test's.
fn client() -> Client {
    Client::builder().pool_max_idle_per_host(0).timeout(PATIENCE).build().expect("a client")
}

async fn answer(request: RequestBuilder) -> (u16, Value) {
    read(request.send().await.expect("an answer")).await
}

async fn read(response: Response) -> (u16, Value) {
    (response.status().as_u16(), response.json().await.expect("JSON"))
}
