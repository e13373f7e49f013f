//! What a double poses as: a mode for all paths, and routes that answer as one service would.

use std::collections::BTreeMap;
use std::fmt;

use semel_core::time::parse_duration_ms;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::template;

/// A script is written by hand; more routes than this are a mistake.
const ROUTES_MAX: usize = 200;
/// The longest latency, memory of keys or scripted wait.
pub(super) const SPAN_MS_MAX: u64 = 30 * 60 * 1000;
/// Every write of a careless destination may make several objects, but not a flood of them.
const COPIES_MAX: u32 = 10;

/// How a destination treats a request that it has seen before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// The same key and body get the first answer again; another body under the key gets 422.
    Keys,
    /// Always creates, and can be searched.
    Lookup,
    /// The path names the object: `If-None-Match: *` creates it once, `If-Match` changes a version.
    Conditional,
    /// Neither keys nor search: each write is applied.
    #[default]
    Plain,
    /// Not a write: a call of a model, which is counted.
    Model,
}

impl Mode {
    pub const ALL: [Mode; 5] =
        [Mode::Keys, Mode::Lookup, Mode::Conditional, Mode::Plain, Mode::Model];

    pub fn name(self) -> &'static str {
        match self {
            Mode::Keys => "keys",
            Mode::Lookup => "lookup",
            Mode::Conditional => "conditional",
            Mode::Plain => "plain",
            Mode::Model => "model",
        }
    }
}

/// The whole script. Members that it does not know are refused: a slip would pass for a wish.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// For requests that no route names.
    #[serde(default)]
    pub mode: Mode,
    #[serde(default)]
    pub routes: Vec<Route>,
}

/// One path of the service that the double poses as.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Route {
    pub method: String,
    /// With `{placeholders}`, each for one part of the path.
    pub path: String,
    /// Without it, the script's.
    pub mode: Option<Mode>,
    /// The body that is answered, with places such as `"{id}"`.
    pub answer: Option<Value>,
    /// Without it 201 for what is new and 200 for the rest.
    pub status: Option<u16>,
    /// The id of a new object, such as `"TCK-{n}"`.
    pub id: Option<String>,
    /// How long an answer takes, after its request was applied.
    pub latency: Option<Span>,
    #[serde(default = "key_header")]
    pub key_header: String,
    /// What a repeat meets while the first request is still under way.
    #[serde(default)]
    pub at_once: AtOnce,
    /// What another body under a known key means.
    #[serde(default)]
    pub other_body: OtherBody,
    /// Whether an error is kept under its key, and repeated.
    #[serde(default)]
    pub stores_errors: bool,
    /// After so long a key is forgotten.
    pub remembers: Option<Span>,
    /// How many objects one write makes; a careless destination makes two.
    pub copies: Option<u32>,
    /// What a model says: always this, or each in its turn.
    pub text: Option<Texts>,
    /// Of a GET: the path whose objects are searched; without it, its own.
    pub of: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AtOnce {
    /// The first answer.
    #[default]
    Replay,
    /// 409, until the first has its answer.
    Conflict,
    /// Applied again: the key is known only when the first was answered.
    Race,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherBody {
    /// 422.
    #[default]
    Refuse,
    /// The first answer, as if the body were the same.
    Replay,
    /// Applied, as if the key were another.
    Create,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(untagged)]
pub enum Texts {
    Fixed(String),
    Varying(Vec<String>),
}

/// A duration as it is written everywhere: `"20ms"`, `"2s"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Span {
    pub ms: u64,
}

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Span, String> {
        let ms = parse_duration_ms(&text).map_err(|error| error.to_string())?;
        if ms > SPAN_MS_MAX {
            return Err(format!("`{text}` is over half an hour"));
        }
        Ok(Span { ms })
    }
}

/// The script makes no sense; the text says where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptInvalid(pub String);

impl fmt::Display for ScriptInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ScriptInvalid {}

impl From<Mode> for Script {
    fn from(mode: Mode) -> Script {
        Script { mode, routes: Vec::new() }
    }
}

impl Script {
    /// Reads a script and checks it whole.
    pub fn from_json(text: &str) -> Result<Script, ScriptInvalid> {
        let script: Script =
            serde_json::from_str(text).map_err(|error| ScriptInvalid(error.to_string()))?;
        script.check()?;
        Ok(script)
    }

    pub(super) fn check(&self) -> Result<(), ScriptInvalid> {
        if self.routes.len() > ROUTES_MAX {
            return Err(ScriptInvalid(format!("over {ROUTES_MAX} routes")));
        }
        for route in &self.routes {
            let invalid = |fact| ScriptInvalid(format!("route `{}`: {fact}", route.name()));
            route.check().map_err(invalid)?;
        }
        Ok(())
    }

    /// The first route that names this request, and what its placeholders stand for.
    pub(super) fn find(&self, method: &str, path: &str) -> Option<(&Route, Captured)> {
        self.routes
            .iter()
            .filter(|route| route.method == method)
            .find_map(|route| Some((route, capture(&route.path, path)?)))
    }

    /// The mode of the objects below a path, whatever the method.
    pub(super) fn mode_of(&self, path: &str) -> Mode {
        let route = self.routes.iter().find(|route| capture(&route.path, path).is_some());
        route.and_then(|route| route.mode).unwrap_or(self.mode)
    }
}

impl Route {
    /// What a request gets that no route names.
    pub(super) fn plain(method: &str, path: &str) -> Route {
        Route {
            method: method.to_owned(),
            path: path.to_owned(),
            mode: None,
            answer: None,
            status: None,
            id: None,
            latency: None,
            key_header: key_header(),
            at_once: AtOnce::default(),
            other_body: OtherBody::default(),
            stores_errors: false,
            remembers: None,
            copies: None,
            text: None,
            of: None,
        }
    }

    /// `POST /tickets`: how faults, counts and the book call it.
    pub fn name(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    fn check(&self) -> Result<(), String> {
        const METHODS: [&str; 5] = ["GET", "POST", "PUT", "PATCH", "DELETE"];
        if !METHODS.contains(&self.method.as_str()) {
            return Err(format!("the method is one of {}", METHODS.join(", ")));
        }
        if !self.path.starts_with('/') || self.path.contains(['?', '#']) {
            return Err("a path begins with `/` and has no query".into());
        }
        if self.status.is_some_and(|status| !(200..=599).contains(&status)) {
            return Err("a status is 200 to 599".into());
        }
        if self.copies.is_some_and(|copies| copies == 0 || copies > COPIES_MAX) {
            return Err(format!("copies are 1 to {COPIES_MAX}"));
        }
        if matches!(&self.text, Some(Texts::Varying(texts)) if texts.is_empty()) {
            return Err("a model needs something to say".into());
        }
        let id = self.id.as_ref().map(|id| Value::String(id.clone()));
        for template in [&self.answer, &id].into_iter().flatten() {
            template::check(template)?;
        }
        Ok(())
    }
}

/// What the placeholders of a path stand for.
pub(super) type Captured = BTreeMap<String, String>;

/// Holds a path against a pattern, part by part.
pub(super) fn capture(pattern: &str, path: &str) -> Option<Captured> {
    let (mut wanted, mut given) = (pattern.split('/'), path.split('/'));
    let mut captured = Captured::new();
    loop {
        match (wanted.next(), given.next()) {
            (None, None) => return Some(captured),
            (Some(want), Some(part)) => {
                let name = want.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
                match name {
                    Some(name) if !part.is_empty() => {
                        captured.insert(name.to_owned(), part.to_owned());
                    }
                    None if want == part => {}
                    Some(_) | None => return None,
                }
            }
            (Some(_), None) | (None, Some(_)) => return None,
        }
    }
}

fn key_header() -> String {
    "Idempotency-Key".to_owned()
}
