//! A server on a store of its own.

use std::sync::Arc;

use reqwest::{Client, Method, Response};
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::record::Effect;
use semel_server::{App, Server, Settings};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::sync::oneshot;

pub(crate) struct Place {
    pub(crate) url: String,
    pub(crate) app: Arc<App>,
    pub(crate) client: Client,
    _folder: Option<TempDir>,
    _stop: oneshot::Sender<()>,
}

impl Place {
    pub(crate) async fn new() -> Place {
        let folder = tempfile::tempdir().expect("a folder");
        let store = format!("sqlite:{}", folder.path().join("semel.db").display());
        let place = Place::on(&store, |settings| settings).await;
        Place { _folder: Some(folder), ..place }
    }

    pub(crate) async fn on(store: &str, change: impl FnOnce(Settings) -> Settings) -> Place {
        let listen = "127.0.0.1:0".parse().expect("an address");
        let settings = change(Settings::new(store, listen));
        Place::serve(App::open(settings).await.expect("an app")).await
    }

    pub(crate) async fn serve(app: Arc<App>) -> Place {
        let server = Server::on(app.clone()).await.expect("a socket");
        let url = format!("http://{}", server.address().expect("an address"));
        let (stop, stopped) = oneshot::channel::<()>();
        tokio::spawn(server.run(async {
            let _ = stopped.await;
        }));
        Place { url, app, client: Client::new(), _folder: None, _stop: stop }
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, String) {
        // The servers of this process share one recorder: one at a time.
        static SCRAPE: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());
        let _alone = SCRAPE.lock().await;
        read(self.client.get(format!("{}{path}", self.url)).send().await.expect("an answer")).await
    }

    pub(crate) async fn ask(
        &self,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> (u16, Value) {
        let mut request = self.client.request(Method::POST, format!("{}{path}", self.url));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let (status, text) = read(request.json(body).send().await.expect("an answer")).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::Null))
    }

    /// Begins an effect over HTTP.
    pub(crate) async fn begin(&self, action: &str, key: &str, headers: &[(&str, &str)]) -> Value {
        let body = json!({
            "action": action, "key": key, "input": { "card": "canary-input" },
            "contract": "at_most_once",
        });
        let (status, answer) = self.ask("/v1/effects/begin", &body, headers).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    pub(crate) async fn settle(&self, action: &str, key: &str, fence: &Value, result: Value) {
        let body = json!({ "action": action, "key": key, "fence": fence, "result": result });
        let (status, answer) = self.ask("/v1/effects/settle", &body, &[]).await;
        assert_eq!(status, 200, "{answer}");
    }

    pub(crate) async fn effect(&self, action: &str, key: &str) -> Effect {
        let address = Address {
            namespace: Namespace::default(),
            action: Action::new(action).expect("a name"),
            key: Key::from_text(key).expect("a key"),
        };
        self.app.engine().effect(&address).await.expect("the effect")
    }
}

async fn read(response: Response) -> (u16, String) {
    (response.status().as_u16(), response.text().await.expect("a body"))
}
