//! Every setting there is: its name, what it takes, what it is without a word from anybody. File,
//! environment, flags, schema and the page for users are all read off this one table.

use semel_core::time::parse_duration_ms;
use serde_json::{Map, Value, json};

/// One setting.
pub(crate) struct Key {
    /// As in the file, with the tables before it: `log.format`.
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// Written as in an environment variable. `None`: it is not set.
    pub(crate) default: Option<&'static str>,
    pub(crate) shown: Shown,
    /// Another variable that many programs read.
    pub(crate) alias: Option<&'static str>,
    pub(crate) about: &'static str,
}

/// What a setting takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Path,
    Url,
    OneOf(&'static [&'static str]),
    Flag,
    Count {
        least: u64,
        most: u64,
    },
    Duration,
    /// A list of texts; with commas in the environment.
    Names,
    /// Texts by name; `a=1,b=2` in the environment.
    Pairs,
    /// Where secrets are found, by name. Only in a file.
    References,
    /// Tables that somebody else reads. Only in a file.
    Tables,
}

/// Who may see a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shown {
    Plain,
    /// All but the password of an address.
    WithoutPassword,
    /// Names, but no values.
    Names,
}

const fn key(
    name: &'static str,
    kind: Kind,
    default: Option<&'static str>,
    about: &'static str,
) -> Key {
    Key { name, kind, default, shown: Shown::Plain, alias: None, about }
}

const fn count(most: u64) -> Kind {
    Kind::Count { least: 1, most }
}

/// In the order in which they are shown.
#[rustfmt::skip]
pub(crate) const KEYS: &[Key] = &[
    Key { shown: Shown::WithoutPassword, ..key("store", Kind::Text, Some("sqlite:semel.db"),
        "The store: `sqlite:path/to/file.db` or `postgres://…`") },
    key("namespace", Kind::Text, Some("default"), "The namespace to work in"),
    key("listen", Kind::Text, Some("127.0.0.1:7390"),
        "Where the server listens; anything but loopback needs tokens"),
    key("public_url", Kind::Url, None,
        "How the server is reached from outside; links to approvals begin with it"),
    key("hosts", Kind::Names, None,
        "Names that requests may give as `Host`, beside loopback and that of `public_url`"),
    key("tls.cert", Kind::Path, None, "The certificate chain of the server, PEM"),
    key("tls.key", Kind::Path, None, "Its private key, PEM"),
    key("log.format", Kind::OneOf(&["text", "json"]), Some("text"),
        "How lines on stderr are written"),
    Key { alias: Some("RUST_LOG"), ..key("log.filter", Kind::Text, Some("warn"),
        "Which lines are written: `info`, `warn,semel_engine=debug`, …") },
    key("limits.body_bytes", count(64 << 20), Some("1048576"),
        "Bytes of a request's body"),
    key("limits.requests_in_flight", count(100_000), Some("4096"),
        "Requests that are served at once; more are told to come later (503)"),
    key("limits.requests_per_namespace", count(100_000), Some("2048"),
        "Requests of one namespace that are served at once; more are told to come later (429)"),
    key("limits.new_keys_per_second", count(1_000_000), None,
        "New keys of one namespace each second; keys that are there are never held back (429)"),
    key("limits.hold", Kind::Duration, Some("25s"),
        "How long a duplicate waits for the first one's receipt"),
    Key { alias: Some("OTEL_EXPORTER_OTLP_ENDPOINT"), ..key("otlp.endpoint", Kind::Url, None,
        "The collector that gets traces by OTLP over HTTP; `/v1/traces` is added") },
    Key { alias: Some("OTEL_EXPORTER_OTLP_HEADERS"), shown: Shown::Names,
        ..key("otlp.headers", Kind::Pairs, None, "Headers for the collector, such as its token") },
    Key { alias: Some("SEMEL_KEY_FILE"), ..key("encryption.key_file", Kind::Path, None,
        "The file with the keys that payloads are encrypted with at rest") },
    key("metrics.token_required", Kind::Flag, Some("true"),
        "Whether `/metrics` asks for a token wherever other requests do"),
    key("secrets", Kind::References, None,
        "Where secrets are found, by name: `env:NAME` or `file:PATH`"),
    key("triggers", Kind::Tables, None, "Webhooks in: one table for each trigger"),
];

/// The setting of this name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

impl Key {
    /// The variable of the environment, where there is one.
    pub(crate) fn variable(&self) -> Option<String> {
        let is_table = matches!(self.kind, Kind::References | Kind::Tables);
        (!is_table).then(|| format!("SEMEL_{}", self.name.to_uppercase().replace('.', "_")))
    }

    /// The value behind a text: of the environment, of a flag, or the default.
    pub(crate) fn read(&self, text: &str) -> Result<Value, String> {
        let value = match self.kind {
            Kind::Flag => match text {
                "true" | "1" => Value::Bool(true),
                "false" | "0" => Value::Bool(false),
                _ => return Err(self.wanted()),
            },
            Kind::Count { .. } => {
                let digits = text.replace('_', "");
                json!(digits.parse::<u64>().map_err(|_| self.wanted())?)
            }
            Kind::Names => text.split(',').map(|name| json!(name.trim())).collect(),
            Kind::Pairs => Value::Object(self.read_pairs(text)?),
            Kind::References | Kind::Tables => {
                return Err("is a table, which only a file can hold".into());
            }
            Kind::Text | Kind::Path | Kind::Url | Kind::OneOf(_) | Kind::Duration => json!(text),
        };
        self.check(&value)?;
        Ok(value)
    }

    fn read_pairs(&self, text: &str) -> Result<Map<String, Value>, String> {
        let pair = |pair: &str| {
            let (name, value) = pair.split_once('=').ok_or_else(|| self.wanted())?;
            Ok((name.trim().to_owned(), json!(value.trim())))
        };
        text.split(',').filter(|pair| !pair.trim().is_empty()).map(pair).collect()
    }

    /// Whether this is a value for it, and if not, what would be. Never quotes the value: it may be
    /// a secret in the wrong place.
    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
        let fits = match self.kind {
            Kind::Text | Kind::Path => is_text(value),
            Kind::Url => value.as_str().is_some_and(is_url),
            Kind::OneOf(words) => value.as_str().is_some_and(|word| words.contains(&word)),
            Kind::Flag => value.is_boolean(),
            Kind::Count { least, most } => {
                value.as_u64().is_some_and(|count| (least..=most).contains(&count))
            }
            Kind::Duration => value.as_str().is_some_and(|text| parse_duration_ms(text).is_ok()),
            Kind::Names => value.as_array().is_some_and(|names| names.iter().all(is_text)),
            Kind::Pairs => value.as_object().is_some_and(|pairs| pairs.values().all(is_text)),
            Kind::References => value
                .as_object()
                .is_some_and(|all| all.values().all(|it| it.as_str().is_some_and(is_reference))),
            Kind::Tables => {
                value.as_object().is_some_and(|tables| tables.values().all(Value::is_object))
            }
        };
        if fits { Ok(()) } else { Err(self.wanted()) }
    }

    fn wanted(&self) -> String {
        let what = match self.kind {
            Kind::Text | Kind::Path => "a text".into(),
            Kind::Url => "an address that begins with http:// or https://".into(),
            Kind::OneOf(words) => words.join(" or "),
            Kind::Flag => "true or false".into(),
            Kind::Count { least, most } => format!("a whole number from {least} to {most}"),
            Kind::Duration => "a duration such as 500ms, 25s or 15m".into(),
            Kind::Names => "a list of texts".into(),
            Kind::Pairs => "a table of texts".into(),
            Kind::References => {
                "a table of references, `env:NAME` or `file:PATH`, never the secret itself".into()
            }
            Kind::Tables => "a table for each of them".into(),
        };
        format!("must be {what}")
    }

    /// The value as it may be shown to anybody.
    pub(crate) fn masked(&self, value: &Value) -> Value {
        match (self.shown, value) {
            (Shown::WithoutPassword, Value::String(address)) => json!(without_password(address)),
            (Shown::Names, Value::Object(pairs)) => {
                pairs.keys().map(|name| (name.clone(), json!(MASK))).collect()
            }
            // Whoever reads the tables knows which of their members are secret; we do not.
            (Shown::Plain, Value::Object(tables)) if self.kind == Kind::Tables => {
                tables.keys().map(|name| (name.clone(), json!("…"))).collect()
            }
            (Shown::Plain | Shown::WithoutPassword | Shown::Names, value) => value.clone(),
        }
    }
}

const MASK: &str = "***";

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.is_empty() && !rest.contains(char::is_whitespace))
}

fn is_reference(text: &str) -> bool {
    let name = text.strip_prefix("env:").or_else(|| text.strip_prefix("file:"));
    name.is_some_and(|name| !name.is_empty())
}

/// `postgres://ada:word@host/db?password=word` without the words.
fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (rest, query) = match rest.split_once('?') {
        Some((rest, query)) => (rest, Some(query)),
        None => (rest, None),
    };
    // Up to the last `@`: a password may have one of its own.
    let rest = match rest.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((name, _)) => format!("{name}:{MASK}@{host}"),
            None => rest.to_owned(),
        },
        None => rest.to_owned(),
    };
    let shown = |pair: &str| match pair.split_once('=') {
        Some((name, _)) if name.to_lowercase().contains("password") => format!("{name}={MASK}"),
        Some(_) | None => pair.to_owned(),
    };
    let query = query.map(|query| query.split('&').map(shown).collect::<Vec<_>>().join("&"));
    match query {
        Some(query) => format!("{scheme}://{rest}?{query}"),
        None => format!("{scheme}://{rest}"),
    }
}

/// The known name that is most like this one, if any is.
pub(crate) fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let reach = (name.len() / 3).max(2);
    known
        .map(|other| (distance(name, other), other))
        .filter(|(distance, _)| *distance <= reach)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, other)| other)
}

/// How many letters must be changed, added or left out to get from one to the other.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut before = row[0];
        row[0] = line + 1;
        for (column, another) in other.iter().enumerate() {
            let changed = before + usize::from(letter != *another);
            before = row[column + 1];
            row[column + 1] = changed.min(before + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_value_for_its_key() {
        for key in KEYS {
            if let Some(default) = key.default {
                assert!(key.read(default).is_ok(), "{}", key.name);
            }
        }
    }

    #[test]
    fn texts_become_values_or_say_what_would_be_one() {
        let check = |name: &str, text: &str, want: Result<Value, &str>| {
            let read = find(name).expect("a key").read(text);
            assert_eq!(read, want.map_err(str::to_owned), "{name}={text}");
        };
        check("metrics.token_required", "0", Ok(json!(false)));
        check("metrics.token_required", "no", Err("must be true or false"));
        check("limits.body_bytes", "1_000", Ok(json!(1000)));
        check("limits.body_bytes", "0", Err("must be a whole number from 1 to 67108864"));
        check("limits.body_bytes", "-1", Err("must be a whole number from 1 to 67108864"));
        check("limits.hold", "25s", Ok(json!("25s")));
        check("limits.hold", "25", Err("must be a duration such as 500ms, 25s or 15m"));
        check("hosts", "a.example, b.example", Ok(json!(["a.example", "b.example"])));
        check("otlp.headers", "a=1,b=c=d", Ok(json!({ "a": "1", "b": "c=d" })));
        check("otlp.headers", "a", Err("must be a table of texts"));
        check("log.format", "xml", Err("must be text or json"));
        let no_url = "must be an address that begins with http:// or https://";
        check("otlp.endpoint", "collector:4318", Err(no_url));
        check("secrets", "a=b", Err("is a table, which only a file can hold"));
    }

    #[test]
    fn sec_32_a_secret_itself_is_refused_where_a_reference_belongs() {
        let key = find("secrets").expect("a key");
        assert!(key.check(&json!({ "crm": "env:CRM", "stripe": "file:/run/stripe" })).is_ok());
        let refused = key.check(&json!({ "crm": "sk_live_51canary" })).expect_err("no reference");
        assert!(refused.contains("never the secret itself") && !refused.contains("canary"));
    }

    #[test]
    fn sec_32_passwords_and_tokens_are_masked() {
        let check = |address: &str, want: &str| assert_eq!(without_password(address), want);
        check("sqlite:semel.db", "sqlite:semel.db");
        check("postgres://host/db", "postgres://host/db");
        check("postgres://ada@host/db", "postgres://ada@host/db");
        check("postgres://ada:wo@rd@host/db", "postgres://ada:***@host/db");
        check("postgres://h/db?a=b&password=word", "postgres://h/db?a=b&password=***");
        check("postgres://h/db?sslpassword=w", "postgres://h/db?sslpassword=***");
        let headers = find("otlp.headers").expect("a key").masked(&json!({ "auth": "canary" }));
        assert_eq!(headers, json!({ "auth": "***" }));
        let triggers = find("triggers").expect("a key").masked(&json!({ "a": { "b": "canary" } }));
        assert_eq!(triggers, json!({ "a": "…" }));
    }

    #[test]
    fn the_nearest_name_is_one_that_could_have_been_meant() {
        let known = || KEYS.iter().map(|key| key.name);
        assert_eq!(nearest("limits.body_byte", known()), Some("limits.body_bytes"));
        assert_eq!(nearest("log.formt", known()), Some("log.format"));
        assert_eq!(nearest("stroe", known()), Some("store"));
        assert_eq!(nearest("colour", known()), None);
    }
}
