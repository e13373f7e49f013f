//! A server on a store of its own, and a client that asks it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use semel_core::access::Role;
use semel_core::key::Namespace;
use semel_server::{App, Limits, OpenError, Server, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A running server.
pub(crate) struct Door {
    pub(crate) url: String,
    pub(crate) app: Arc<App>,
    pub(crate) client: reqwest::Client,
    pub(crate) token: Option<String>,
    running: Option<Running>,
}

/// What ends a server, and says how it ended.
struct Running {
    stop: oneshot::Sender<()>,
    ended: JoinHandle<Result<(), OpenError>>,
}

/// An answer, read whole.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or(Value::Null)
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    /// The body without what differs between any two answers.
    pub(crate) fn comparable(&self) -> (u16, Value, Vec<String>) {
        let mut body = self.json();
        if let Some(body) = body.as_object_mut() {
            body.remove("request_id");
        }
        let varying = ["date", "x-request-id"];
        let names = self.headers.keys().map(|name| name.as_str().to_owned());
        let mut names: Vec<_> = names.filter(|name| !varying.contains(&name.as_str())).collect();
        names.sort();
        (self.status, body, names)
    }

    #[track_caller]
    pub(crate) fn is(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{}", self.text);
        self
    }

    #[track_caller]
    pub(crate) fn refused(self, status: u16, code: &str) -> Answer {
        assert_eq!((self.status, self.code().as_str()), (status, code), "{}", self.text);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        self
    }
}

impl Door {
    pub(crate) async fn on(store: &str, limits: Limits) -> Door {
        let listen: SocketAddr = "127.0.0.1:0".parse().unwrap();
        Door::of(Settings { limits, ..Settings::new(store, listen) }).await
    }

    pub(crate) async fn of(settings: Settings) -> Door {
        if settings.store.starts_with("postgres") {
            semel_store::Opened::migrate(&settings.store).await.unwrap();
        }
        let scheme = if settings.tls.is_some() { "https" } else { "http" };
        let server = Server::bind(settings).await.unwrap();
        let url = format!("{scheme}://{}", server.address().unwrap());
        let app = server.app().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let ended = tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        let (client, running) = (reqwest::Client::new(), Some(Running { stop, ended }));
        Door { url, app, client, token: None, running }
    }

    /// Ends it as a person does; it may have something to finish first.
    pub(crate) fn stop(&mut self) -> JoinHandle<Result<(), OpenError>> {
        let Running { stop, ended } = self.running.take().unwrap();
        stop.send(()).unwrap();
        ended
    }

    /// The same server, asked with another token.
    pub(crate) fn with(&self, token: &str) -> Door {
        Door {
            url: self.url.clone(),
            app: self.app.clone(),
            client: self.client.clone(),
            token: Some(token.to_owned()),
            running: None,
        }
    }

    /// A new token of a namespace.
    pub(crate) async fn token(&self, namespace: &str, role: Role) -> String {
        let namespace = Namespace::new(namespace).unwrap();
        let made = self.app.engine().create_token(&namespace, (role.as_str(), role), None, "test");
        made.await.unwrap().0
    }

    /// Asks as a role of a namespace.
    pub(crate) async fn to(&self, namespace: &str, role: Role) -> Door {
        self.with(&self.token(namespace, role).await)
    }

    pub(crate) fn request(&self, method: &str, path: &str) -> reqwest::RequestBuilder {
        let method = reqwest::Method::from_bytes(method.as_bytes()).unwrap();
        let request = self.client.request(method, format!("{}{path}", self.url));
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        send(self.request("GET", path)).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        send(self.request("POST", path).json(body)).await
    }

    /// Posts with an `Idempotency-Key`.
    pub(crate) async fn keyed(&self, path: &str, key: &str, body: &Value) -> Answer {
        send(self.request("POST", path).header("idempotency-key", key).json(body)).await
    }

    pub(crate) async fn begin(&self, body: Value) -> Answer {
        self.post("/v1/effects/begin", &body).await
    }

    pub(crate) async fn settle(&self, key: &str, fence: &Value, result: Value) -> Answer {
        let body = json!({ "action": "mail", "key": key, "fence": fence, "result": result });
        self.post("/v1/effects/settle", &body).await
    }

    /// Begins and settles one effect of the action `mail`.
    pub(crate) async fn done(&self, key: &str, input: Value, receipt: Value) -> String {
        let begun =
            self.begin(json!({ "action": "mail", "key": key, "input": input })).await.is(200);
        let begun = begun.json();
        assert_eq!(begun["outcome"], "attempt", "{begun}");
        self.settle(key, &begun["fence"], json!({ "receipt": receipt })).await.is(200);
        begun["id"].as_str().unwrap().to_owned()
    }

    /// Starts a run; the path to it.
    pub(crate) async fn start(&self, workflow: &str, key: &str, input: Value) -> String {
        let path = format!("/v1/workflows/{workflow}/runs");
        let started = self.keyed(&path, key, &json!({ "input": input })).await.is(201).json();
        format!("/v1/runs/{}", started["id"].as_str().unwrap())
    }

    /// Waits for a run to come to a state.
    pub(crate) async fn reaches(&self, run: &str, state: &str) {
        for _ in 0..500 {
            if self.get(run).await.is(200).json()["state"] == state {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("it does not come to be {state}");
    }

    /// How a run ended.
    pub(crate) async fn result(&self, run: &str) -> Value {
        self.get(&format!("{run}/result?wait=20s")).await.is(200).json()
    }

    /// How many entries of a kind the journal of a run has.
    pub(crate) async fn entries(&self, run: &str, kind: &str) -> usize {
        let journal = self.get(&format!("{run}/journal")).await.is(200).json();
        journal["items"].as_array().unwrap().iter().filter(|entry| entry["kind"] == kind).count()
    }

    /// How often something was decided.
    pub(crate) async fn decided(&self, verb: &str) -> usize {
        let audit = self.get("/v1/audit").await.is(200).json();
        audit["items"].as_array().unwrap().iter().filter(|entry| entry["verb"] == verb).count()
    }

    /// How many effects there are.
    pub(crate) async fn count(&self) -> usize {
        let page = self.get("/v1/effects?limit=1000").await.is(200).json();
        page["items"].as_array().unwrap().len()
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            let _ = running.stop.send(());
        }
    }
}

pub(crate) async fn send(request: reqwest::RequestBuilder) -> Answer {
    let answer = request.send().await.expect("an answer");
    let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
    Answer { status, headers, text: answer.text().await.expect("a whole answer") }
}

/// A store in a folder.
pub(crate) fn file(folder: &TempDir) -> String {
    format!("sqlite:{}", folder.path().join("semel.db").display())
}

/// Plays a story on each kind of store.
pub(crate) async fn on_both(story: impl AsyncFn(Door)) {
    on_both_with(Limits::default(), story).await;
}

pub(crate) async fn on_both_with(limits: Limits, story: impl AsyncFn(Door)) {
    let folder = tempfile::tempdir().unwrap();
    story(Door::on(&file(&folder), limits).await).await;
    let database = semel_lab::database();
    story(Door::on(&database.url(), limits).await).await;
}

/// Plays a story on a file only: what it tells has nothing to do with the store.
pub(crate) async fn on_file(limits: Limits, story: impl AsyncFn(Door)) {
    let folder = tempfile::tempdir().unwrap();
    story(Door::on(&file(&folder), limits).await).await;
}
