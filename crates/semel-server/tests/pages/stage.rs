//! A real server on a socket, on a store whose clock the tests move, and people who look at it.

use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Arc, Mutex, OnceLock};

use reqwest::{Client, Method, RequestBuilder, StatusCode, redirect};
use semel_core::access::Role;
use semel_core::approval_link::Wish;
use semel_core::effect::approve::Ask;
use semel_core::key::{Address, Namespace};
use semel_core::record::Effect;
use semel_core::redact::Redactor;
use semel_core::wire::{EffectView, effect_view};
use semel_core::wire_ask::BeginAsk;
use semel_engine::Engine;
use semel_server::{App, Server, Settings};
use semel_store::{Access, Clock, ManualClock, Opened, Veil};
use serde_json::{Value, json};
use tempfile::TempDir;

pub(crate) struct Stage {
    pub(crate) url: String,
    pub(crate) engine: Engine,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) client: Client,
    pub(crate) folder: TempDir,
}

/// An answer, read to its end.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: StatusCode,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) text: String,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("plain"))
    }

    /// The hidden value of the form that leads to `action`.
    pub(crate) fn form_value(&self, action: &str) -> String {
        let form = self.text.split(&format!("action=\"{action}")).nth(1);
        let form = form.unwrap_or_else(|| panic!("no form to {action}: {}", self.text));
        let value = form.split("name=\"form_value\" value=\"").nth(1).expect("a hidden value");
        value.split('"').next().expect("its end").to_owned()
    }

    pub(crate) fn expect(self, status: u16) -> Seen {
        assert_eq!(self.status.as_u16(), status, "{}", self.text);
        self
    }

    pub(crate) fn says(self, words: &[&str]) -> Seen {
        for word in words {
            assert!(self.text.contains(word), "no {word:?} in {}", self.text);
        }
        self
    }
}

impl Stage {
    pub(crate) async fn new() -> Stage {
        Stage::on(Veil::default()).await
    }

    /// One that knows a secret.
    pub(crate) async fn with_secret(name: &str, value: &str) -> Stage {
        let redactor = Redactor::new([(name.to_owned(), value.to_owned())]).expect("a secret");
        Stage::on(Veil::new(None, redactor)).await
    }

    async fn on(veil: Veil) -> Stage {
        keep_logs();
        let folder = tempfile::tempdir().expect("a folder");
        let store = format!("sqlite:{}", folder.path().join("semel.db").display());
        let clock = ManualClock::new(1_700_000_000_000);
        let time = Clock::Manual(clock.clone());
        let opened = Opened::open_veiled(&store, Access::ReadWrite, time, veil).await;
        let opened = opened.expect("a store");
        let engine = Engine::on(&opened, "test").expect("an engine");
        let listen = "127.0.0.1:0".parse().expect("an address");
        let settings = Settings::new(store, listen);
        let app = App::on(engine.clone(), opened, settings).expect("an app");
        let server = Server::on(app).await.expect("a socket");
        let address = server.address().expect("an address");
        tokio::spawn(server.run(std::future::pending()));
        let client = Client::builder().redirect(redirect::Policy::none()).build().expect("one");
        Stage { url: format!("http://{address}"), engine, clock, client, folder }
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub(crate) async fn get(&self, path: &str) -> Seen {
        seen(self.request(Method::GET, path)).await
    }

    /// Sends a form as a page of this server does.
    pub(crate) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> Seen {
        seen(self.form(path, fields).header("origin", &self.url)).await
    }

    pub(crate) fn form(&self, path: &str, fields: &[(&str, &str)]) -> RequestBuilder {
        let escaped = |text: &str| -> String {
            let escape = |byte: u8| match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => char::from(byte).to_string(),
                byte => format!("%{byte:02x}"),
            };
            text.bytes().map(escape).collect()
        };
        let pairs: Vec<_> =
            fields.iter().map(|(name, value)| format!("{name}={}", escaped(value))).collect();
        let kind = "application/x-www-form-urlencoded";
        self.request(Method::POST, path).header("content-type", kind).body(pairs.join("&"))
    }

    /// An effect that waits for a person.
    pub(crate) async fn held(&self, key: &str, ask: Ask) -> Address {
        self.held_with(key, json!({ "to": "bob@example.com", "amount": 12 }), ask).await
    }

    pub(crate) async fn held_with(&self, key: &str, input: Value, ask: Ask) -> Address {
        let contract = json!({ "native_key": { "retention": "24h" } });
        let begin =
            json!({ "action": "payment", "key": key, "input": input, "contract": contract });
        let begin: BeginAsk = serde_json::from_value(begin).expect("a request");
        let mut begin = begin.begin(&Namespace::default(), "w").expect("a wish");
        begin.approval = Some(ask);
        let address = begin.address.clone();
        let refused = self.engine.begin(begin, 0).await.expect_err("held");
        assert_eq!(refused.code().as_str(), "held");
        address
    }

    /// The way to a question, for somebody.
    pub(crate) async fn link(&self, address: &Address, approver: &str) -> String {
        let wish = Wish { approver, maker: "ops", expires_ms: 3_600_000 };
        let made = self.engine.create_approval_link(address, wish).await.expect("a link");
        format!("/approve/{}", made.0)
    }

    pub(crate) async fn effect(&self, address: &Address) -> Effect {
        self.engine.effect(address).await.expect("an effect")
    }

    pub(crate) async fn view(&self, address: &Address) -> EffectView {
        effect_view(&self.effect(address).await, &self.engine.store().ground().now)
    }

    pub(crate) async fn token(&self, label: &str, role: Role) -> String {
        self.token_in(&Namespace::default(), label, role).await
    }

    pub(crate) async fn token_in(&self, namespace: &Namespace, label: &str, role: Role) -> String {
        let made = self.engine.create_token(namespace, (label, role), None, "test").await;
        made.expect("a token").0
    }

    /// Signs in; the cookie.
    pub(crate) async fn sign_in(&self, token: &str) -> String {
        let value = self.get("/console/login").await.form_value("/console/login");
        let fields = [("form_value", value.as_str()), ("token", token)];
        let seen = self.post("/console/login", &fields).await.expect(303);
        seen.header("set-cookie").split(';').next().expect("a cookie").to_owned()
    }

    pub(crate) async fn get_as(&self, cookie: &str, path: &str) -> Seen {
        seen(self.request(Method::GET, path).header("cookie", cookie)).await
    }

    pub(crate) async fn post_as(&self, cookie: &str, path: &str, fields: &[(&str, &str)]) -> Seen {
        seen(self.form(path, fields).header("origin", &self.url).header("cookie", cookie)).await
    }
}

pub(crate) async fn seen(request: RequestBuilder) -> Seen {
    let answer = request.send().await.expect("an answer");
    let (status, headers) = (answer.status(), answer.headers().clone());
    Seen { status, headers, text: answer.text().await.expect("a text") }
}

#[derive(Clone, Default)]
struct Kept(Arc<Mutex<Vec<u8>>>);

impl Write for Kept {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().expect("a lock").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

static LOGS: OnceLock<Kept> = OnceLock::new();

/// From now on everything that is logged is kept, however unimportant.
fn keep_logs() {
    LOGS.get_or_init(|| {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = tracing_subscriber::fmt()
            .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
            .with_writer(move || writer.clone());
        lines.init();
        kept
    });
}

/// All that was logged so far.
pub(crate) fn logs() -> String {
    let kept = LOGS.get().expect("kept").0.lock().expect("a lock").clone();
    String::from_utf8_lossy(&kept).into_owned()
}

/// What stands in a page as markup: tags and attributes that we never write are somebody else's.
pub(crate) fn check_markup(text: &str, what: &str) {
    let tags = "!DOCTYPE html head meta title link body header main nav a b h1 h2 p dl dt dd pre \
                code details summary form input fieldset legend label textarea button span div \
                table tr th td ul li blockquote";
    let names = "lang charset name content rel href class role method action autocomplete type \
                 value required rows maxlength placeholder autofocus html";
    let allowed: BTreeMap<&str, ()> = tags.split_whitespace().map(|tag| (tag, ())).collect();
    for piece in text.split('<').skip(1) {
        let inside = piece.split_once('>').unwrap_or_else(|| panic!("{what}: open tag {piece}")).0;
        let name = inside.trim_start_matches('/').split_whitespace().next().unwrap_or_default();
        assert!(allowed.contains_key(name), "{what}: tag <{inside}>");
        for (place, part) in inside.split('"').enumerate() {
            if place % 2 == 1 {
                continue; // the value of an attribute
            }
            for word in part.split_whitespace().filter(|word| word.trim_start_matches('/') != name)
            {
                let attribute = word.trim_matches(|c| matches!(c, '=' | '/'));
                let known =
                    attribute.is_empty() || names.split_whitespace().any(|name| name == attribute);
                assert!(known, "{what}: attribute {word} in <{inside}>");
            }
        }
        for target in ["href=\"", "action=\""] {
            if let Some(value) = inside.split(target).nth(1) {
                assert!(value.starts_with('/'), "{what}: leads away: <{inside}>");
            }
        }
    }
}
