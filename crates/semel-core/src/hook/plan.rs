//! What follows from a trigger's content: how its deliveries are judged, and which run each of them
//! is. Whatever cannot work is refused when the trigger is put, not when a delivery comes.

use std::collections::BTreeMap;

use sha2::{Digest, Sha256};

use super::event::{Event, Unusable};
use super::scheme::{Algorithm, Encoding, Hmac, Scheme};
use super::template::{Signed, Template, header_name};
use super::trigger::{Content, Name, Parts, Refusal};
use crate::json::Json;
use crate::key::{Action, Key, KeyInvalid, Namespace};
use crate::limits;
use crate::seal::Seal;
use crate::time::{Wall, format_duration_ms, parse_duration_ms};

/// Where a secret is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    Environment(String),
    File(String),
}

/// A trigger's content, checked and read.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    pub workflow: Action,
    pub release: Option<String>,
    pub scheme: Scheme,
    /// Where the secrets are, and until when each of them counts.
    pub secrets: Vec<(Source, Option<Wall>)>,
    pub window_ms: u64,
    key: Option<Vec<Template>>,
    input: Option<BTreeMap<String, Member>>,
}

#[derive(Clone, Debug)]
enum Member {
    Made(Template),
    Constant(Json),
}

/// Checks what an author says of a trigger of this name.
pub fn check(name: &str, content: &Content) -> Result<Plan, Refusal> {
    check_name(name)?;
    let invalid = |why: String| Refusal::Invalid(why);
    let workflow = Action::new(&content.workflow)
        .map_err(|error| invalid(format!("the workflow's name {}", error.why)))?;
    if let Some(namespace) = &content.namespace {
        Namespace::new(namespace).map_err(|error| invalid(error.to_string()))?;
    }
    let scheme = scheme(content)?;
    let plan = Plan {
        name: name.to_owned(),
        workflow,
        release: content.release.clone(),
        secrets: secrets(content)?,
        window_ms: window(content)?,
        key: content.key.as_ref().map(key_parts).transpose()?,
        input: content.input.as_ref().map(mapping).transpose()?,
        scheme,
    };
    if plan.key.is_none() && !plan.scheme.has_an_identity() {
        let text = "deliveries of this scheme do not name themselves: say what the `key` is, such \
                    as \"{header:x-request-id}\"";
        return Err(invalid(text.into()));
    }
    Ok(plan)
}

impl Plan {
    /// The key of the run that a delivery is.
    pub fn key(&self, event: &Event<'_>) -> Result<Key, Unusable> {
        let invalid = |error: KeyInvalid| Unusable::Key(error.to_string());
        if let Some(parts) = &self.key {
            let made = parts.iter().map(|part| part.text(event.request(), event.body()));
            return Key::from_parts(made.collect::<Result<Vec<_>, _>>()?).map_err(invalid);
        }
        // Two senders may call two deliveries the same, so the trigger is part of the key.
        let identity = event.identity()?;
        let parts = std::iter::once(self.name.as_str()).chain(identity.iter().map(String::as_str));
        let parts: Vec<&str> = parts.collect();
        Key::from_parts(&parts).or_else(|_| {
            // Ids of senders have no limit that we know: a digest names the same delivery.
            Key::from_parts([self.name.as_str(), &digest(&identity)]).map_err(invalid)
        })
    }

    /// What the run gets.
    pub fn input(&self, event: &Event<'_>) -> Result<Json, Unusable> {
        let Some(mapping) = &self.input else { return event.whole() };
        let mut members = BTreeMap::new();
        for (name, member) in mapping {
            let value = match member {
                Member::Made(template) => template.value(event.request(), event.body())?,
                Member::Constant(value) => value.clone(),
            };
            members.insert(name, value);
        }
        Json::of(&members).map_err(|error| Unusable::Invalid(error.to_string()))
    }
}

fn digest(identity: &[String]) -> String {
    let mut hash = Sha256::new();
    for part in identity {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    format!("sha256:{}", Seal(hash.finalize().into()))
}

/// A name is part of an address, so it has nothing that would have to be escaped there.
fn check_name(name: &str) -> Result<(), Refusal> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    if name.is_empty() || name.len() > limits::NAME_BYTES_MAX || !name.chars().all(is_plain) {
        let text = "a trigger's name has 1 to 100 ASCII letters, digits, `.`, `_` and `-`";
        return Err(Refusal::Invalid(text.into()));
    }
    Ok(())
}

fn scheme(content: &Content) -> Result<Scheme, Refusal> {
    let refuse = |why: &str| Err(Refusal::Invalid(why.to_owned()));
    if content.auth.is_some() && content.scheme != Name::CloudEvents {
        return refuse("`auth` belongs to the scheme cloudevents");
    }
    let signed_by = match content.scheme {
        Name::CloudEvents => content.auth.unwrap_or(Name::Bearer),
        other => other,
    };
    let of_hmac = [
        &content.algorithm,
        &content.encoding,
        &content.prefix,
        &content.timestamp_header,
        &content.signed,
    ];
    if signed_by != Name::Hmac && of_hmac.iter().any(|setting| setting.is_some()) {
        return refuse(
            "`algorithm`, `encoding`, `prefix`, `timestamp_header` and `signed` belong to hmac; \
             the other schemes have their own",
        );
    }
    if !matches!(signed_by, Name::Hmac | Name::Bearer) && content.header.is_some() {
        return refuse("`header` belongs to hmac and bearer; the other schemes have their own");
    }
    let scheme = match signed_by {
        Name::Standard => Scheme::Standard,
        Name::Stripe => Scheme::Stripe,
        Name::GitHub => Scheme::GitHub,
        Name::Slack => Scheme::Slack,
        Name::Hmac => Scheme::Hmac(described(content)?),
        Name::Bearer => {
            let header = content.header.as_deref().unwrap_or("authorization");
            Scheme::Bearer { header: header_name(header)? }
        }
        Name::CloudEvents => return refuse("`auth` is bearer or hmac"),
    };
    match (content.scheme, &scheme) {
        (Name::CloudEvents, Scheme::Hmac(_) | Scheme::Bearer { .. }) => {
            Ok(Scheme::CloudEvents(Box::new(scheme)))
        }
        (Name::CloudEvents, _) => refuse("`auth` is bearer or hmac"),
        _ => Ok(scheme),
    }
}

fn described(content: &Content) -> Result<Hmac, Refusal> {
    let refuse = |why: &str| Err(Refusal::Invalid(why.to_owned()));
    let Some(header) = &content.header else {
        return refuse("hmac needs the `header` that has the signature");
    };
    let algorithm = match content.algorithm.as_deref() {
        None | Some("sha256") => Algorithm::Sha256,
        Some("sha512") => Algorithm::Sha512,
        Some(_) => return refuse("`algorithm` is sha256 or sha512"),
    };
    let encoding = match content.encoding.as_deref() {
        None | Some("hex") => Encoding::Hex,
        Some("base64") => Encoding::Base64,
        Some(_) => return refuse("`encoding` is hex or base64"),
    };
    let timestamp_header = content.timestamp_header.as_deref().map(header_name).transpose()?;
    let usual = if timestamp_header.is_some() { "{timestamp}.{body}" } else { "{body}" };
    let signed = content.signed.as_deref().unwrap_or(usual);
    Ok(Hmac {
        header: header_name(header)?,
        algorithm,
        encoding,
        prefix: content.prefix.clone().unwrap_or_default(),
        signed: Signed::parse(signed, timestamp_header.is_some())?,
        timestamp_header,
    })
}

fn secrets(content: &Content) -> Result<Vec<(Source, Option<Wall>)>, Refusal> {
    let mut secrets = vec![(source(&content.secret)?, None)];
    if let Some(old) = &content.old_secret {
        let until: jiff::Timestamp = old.until.parse().map_err(|_| {
            let text = "`until` of the old secret is a time such as 2030-01-31T00:00:00Z";
            Refusal::Invalid(text.into())
        })?;
        secrets.push((source(&old.from)?, Some(Wall(until.as_millisecond()))));
    }
    Ok(secrets)
}

/// Where a secret is. What looks like the secret itself is not repeated in the message.
fn source(text: &str) -> Result<Source, Refusal> {
    match text.split_once(':') {
        Some(("env", name)) if !name.is_empty() && !name.contains(['=', '\0']) => {
            Ok(Source::Environment(name.to_owned()))
        }
        Some(("file", path)) if !path.is_empty() && !path.contains('\0') => {
            Ok(Source::File(path.to_owned()))
        }
        _ => {
            let text = "a secret is named, never written down: `env:NAME` or `file:PATH`";
            Err(Refusal::Invalid(text.into()))
        }
    }
}

fn window(content: &Content) -> Result<u64, Refusal> {
    let read = |name: &str, text: &Option<String>| match text {
        None => Ok(None),
        Some(text) => parse_duration_ms(text)
            .map(Some)
            .map_err(|error| Refusal::Invalid(format!("`{name}`: {error}"))),
    };
    let window_ms = read("replay_window", &content.replay_window)?.unwrap_or(limits::WINDOW_MS);
    let redelivers_ms = read("redelivers_for", &content.redelivers_for)?.unwrap_or(0);
    if redelivers_ms > window_ms {
        return Err(Refusal::RetryBeyondRetention(format!(
            "the sender delivers again for {}, and keys answer only for {}",
            format_duration_ms(redelivers_ms),
            format_duration_ms(window_ms),
        )));
    }
    Ok(window_ms)
}

fn key_parts(parts: &Parts) -> Result<Vec<Template>, Refusal> {
    let texts: Vec<&str> = match parts {
        Parts::One(text) => vec![text],
        Parts::Many(texts) => texts.iter().map(String::as_str).collect(),
    };
    if texts.len() > limits::HOOK_MEMBERS_MAX {
        return Err(Refusal::Invalid("a key has at most 100 parts".into()));
    }
    let templates = texts.into_iter().map(Template::parse).collect::<Result<Vec<_>, _>>()?;
    if !templates.iter().any(Template::has_a_place) {
        let text = "the key has no place in it, so all deliveries would be one run";
        return Err(Refusal::Invalid(text.into()));
    }
    Ok(templates)
}

fn mapping(members: &BTreeMap<String, Json>) -> Result<BTreeMap<String, Member>, Refusal> {
    if members.len() > limits::HOOK_MEMBERS_MAX {
        return Err(Refusal::Invalid("an input has at most 100 members".into()));
    }
    let member = |(name, value): (&String, &Json)| {
        let member = match value.read::<String>() {
            Ok(text) => Member::Made(Template::parse(&text)?),
            Err(_) => Member::Constant(value.clone()),
        };
        Ok((name.clone(), member))
    };
    members.iter().map(member).collect()
}
