//! A server with a trigger, and a sender.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use semel_core::hook::Content;
use semel_lab::Database;
use semel_server::{App, Server, Settings};
use serde_json::{Value, json};
use sha2::Sha256;
use tempfile::TempDir;
use tokio::sync::oneshot;

pub(crate) const SECRET: &str = "c2VtZWwtc2VjcmV0LW9mLXRlc3Rz";

/// One server on one store.
pub(crate) struct Stage {
    pub(crate) store: String,
    pub(crate) app: Arc<App>,
    base: String,
    client: reqwest::Client,
    dir: TempDir,
    _stop: oneshot::Sender<()>,
    _database: Option<Database>,
}

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Answered {
    pub(crate) status: u16,
    pub(crate) body: Value,
    pub(crate) replayed: bool,
}

impl Answered {
    /// The run that was named.
    #[track_caller]
    pub(crate) fn run(&self, status: u16) -> String {
        assert_eq!(self.status, status, "{self:?}");
        self.body["id"].as_str().expect("an id").to_owned()
    }

    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) {
        assert_eq!((self.status, &self.body["code"]), (status, &json!(code)), "{self:?}");
    }
}

/// Plays a story on both stores.
pub(crate) async fn on_both<F: Future<Output = ()>>(story: impl Fn(Stage) -> F) {
    story(Stage::on_sqlite(BTreeMap::new()).await).await;
    let database = semel_lab::database();
    let (url, dir) = (database.url(), tempfile::tempdir().expect("a folder"));
    semel_store::Opened::migrate(&url).await.expect("a schema");
    story(Stage::open(url, dir, Some(database), BTreeMap::new()).await).await;
}

impl Stage {
    pub(crate) async fn on_sqlite(triggers: BTreeMap<String, Content>) -> Stage {
        let dir = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", dir.path().join("semel.db").display());
        Stage::open(url, dir, None, triggers).await
    }

    async fn open(
        store: String,
        dir: TempDir,
        database: Option<Database>,
        triggers: BTreeMap<String, Content>,
    ) -> Stage {
        let listen = "127.0.0.1:0".parse().expect("an address");
        let settings = Settings { triggers, ..Settings::new(&store, listen) };
        let server = Server::bind(settings).await.expect("a server");
        let base = format!("http://{}", server.address().expect("an address"));
        let app = server.app().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.run(async move {
            let _ = stopped.await;
        }));
        let client = reqwest::Client::new();
        let stage = Stage { store, app, base, client, dir, _stop: stop, _database: database };
        stage.write("secret", SECRET);
        stage
    }

    /// Writes a secret.
    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.dir.path().join(name), text).expect("a file");
    }

    /// Where a secret is, as a trigger names it.
    pub(crate) fn file(&self, name: &str) -> String {
        format!("file:{}", self.dir.path().join(name).display())
    }

    /// Puts a trigger of the workflow `w` with the secret of these tests.
    pub(crate) async fn put(&self, name: &str, more: Value) -> Answered {
        let mut content = json!({ "workflow": "w", "secret": self.file("secret") });
        let members = content.as_object_mut().expect("an object");
        members.extend(more.as_object().expect("an object").clone());
        let path = format!("/v1/triggers/{name}");
        let request = self.client.put(format!("{}{path}", self.base));
        answered(request.json(&content)).await
    }

    pub(crate) async fn put_new(&self, name: &str, more: Value) {
        let put = self.put(name, more).await;
        assert_eq!(put.status, 201, "{put:?}");
    }

    pub(crate) async fn get(&self, path: &str) -> Answered {
        answered(self.client.get(format!("{}{path}", self.base))).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answered {
        answered(self.client.delete(format!("{}{path}", self.base))).await
    }

    pub(crate) async fn post(
        &self,
        path: &str,
        headers: &[(&str, String)],
        body: impl Into<reqwest::Body>,
    ) -> Answered {
        let mut request = self.client.post(format!("{}{path}", self.base)).body(body);
        for (name, value) in headers {
            request = request.header(*name, value);
        }
        answered(request).await
    }

    /// Delivers by the scheme `standard`, signed now.
    pub(crate) async fn deliver(&self, trigger: &str, id: &str, body: &str) -> Answered {
        let headers = standard(id, now(), body);
        self.post(&format!("/hooks/{trigger}"), &headers, body.to_owned()).await
    }

    /// Verdicts of a trigger, the oldest first.
    pub(crate) async fn verdicts(&self, trigger: &str) -> Vec<(String, Value)> {
        let kept = self.get(&format!("/v1/triggers/{trigger}/deliveries")).await;
        let items = kept.body["items"].as_array().expect("items").clone();
        let verdict = |item: Value| {
            let verdict = item["verdict"].as_str().expect("a verdict").to_owned();
            (verdict, item)
        };
        items.into_iter().rev().map(verdict).collect()
    }

    /// How many runs there are.
    pub(crate) async fn runs(&self) -> usize {
        let listed = self.get("/v1/runs?limit=1000").await;
        listed.body["items"].as_array().expect("items").len()
    }
}

async fn answered(request: reqwest::RequestBuilder) -> Answered {
    let response = request.send().await.expect("an answer");
    let status = response.status().as_u16();
    let replayed = response.headers().contains_key("idempotent-replayed");
    let text = response.text().await.expect("a body");
    let body =
        if text.is_empty() { Value::Null } else { serde_json::from_str(&text).expect(&text) };
    Answered { status, body, replayed }
}

/// Seconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(since.as_secs()).expect("seconds")
}

pub(crate) fn hmac(secret: &[u8], content: &[u8]) -> Vec<u8> {
    let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("any length");
    mac.update(content);
    mac.finalize().into_bytes().to_vec()
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The headers of Standard Webhooks, under the secret of these tests.
pub(crate) fn standard(id: &str, at: i64, body: &str) -> [(&'static str, String); 3] {
    standard_by(SECRET, id, at, body)
}

pub(crate) fn standard_by(
    secret: &str,
    id: &str,
    at: i64,
    body: &str,
) -> [(&'static str, String); 3] {
    let key = STANDARD.decode(secret).expect("base64");
    let signature = hmac(&key, format!("{id}.{at}.{body}").as_bytes());
    [
        ("webhook-id", id.to_owned()),
        ("webhook-timestamp", at.to_string()),
        ("webhook-signature", format!("v1,{}", STANDARD.encode(signature))),
    ]
}

/// The header of Stripe.
pub(crate) fn stripe(at: i64, body: &str) -> [(&'static str, String); 1] {
    let signature = hmac(SECRET.as_bytes(), format!("{at}.{body}").as_bytes());
    [("stripe-signature", format!("t={at},v1={}", hex(&signature)))]
}
