//! What an author says of a trigger: one shape in files, over the API and in the card.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::template::TemplateInvalid;
use crate::code::Code;
use crate::json::Json;
use crate::time::Wall;

/// The kind of card that triggers are kept as.
pub const CARD: &str = "trigger";

/// One trigger, as its card keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trigger {
    pub content: Content,
    pub created: Wall,
    pub changed: Wall,
}

/// What its author says of a trigger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Content {
    /// The workflow that each delivery starts.
    pub workflow: String,
    /// The release to start on; without one, the live one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// In files: where the trigger and its runs are. A card is in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub scheme: Name,
    /// Of `cloudevents`: what makes them genuine, `bearer` or `hmac`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Name>,
    /// Of `hmac`: the header with the signature. Of `bearer`: with the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub header: Option<String>,
    /// Of `hmac`: `sha256` or `sha512`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub algorithm: Option<String>,
    /// Of `hmac`: `hex` or `base64`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encoding: Option<String>,
    /// Of `hmac`: what stands before the signature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Of `hmac`: the header with the time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp_header: Option<String>,
    /// Of `hmac`: what is signed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signed: Option<String>,
    /// Where the secret is: `env:NAME` or `file:PATH`, never the secret.
    pub secret: String,
    /// The one before it, which still counts for a while.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub old_secret: Option<OldSecret>,
    /// The key of the run; without it, the trigger's name and the sender's delivery id.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<Parts>,
    /// The members of the run's input; without it, the whole body.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<BTreeMap<String, Json>>,
    /// For how long the sender delivers the same again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redelivers_for: Option<String>,
    /// For how long the keys of its runs answer after their end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_window: Option<String>,
}

/// The schemes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Name {
    Standard,
    Stripe,
    GitHub,
    Slack,
    Hmac,
    Bearer,
    CloudEvents,
}

/// A secret that is on its way out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OldSecret {
    pub from: String,
    /// From then on it is refused; RFC 3339.
    pub until: String,
}

/// One text, or several that are the parts of a key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged, expecting = "`key` is a text or a list of texts")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Parts {
    One(String),
    Many(Vec<String>),
}

/// Why a wish about a trigger was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound,
    Invalid(String),
    RetryBeyondRetention(String),
}

/// Reads what an author says of a trigger.
pub fn parse(text: &str) -> Result<Content, Refusal> {
    serde_json::from_str(text).map_err(|error| Refusal::Invalid(error.to_string()))
}

/// The trigger with a new content. `None`: it says the same already.
pub fn put(before: Option<&Trigger>, content: &Content, now: Wall) -> Option<Trigger> {
    let content = Content { namespace: None, ..content.clone() };
    match before {
        Some(before) if before.content == content => None,
        Some(before) => Some(Trigger { content, created: before.created, changed: now }),
        None => Some(Trigger { content, created: now, changed: now }),
    }
}

/// Writes a trigger for its card.
pub fn encode(trigger: &Trigger) -> String {
    serde_json::to_string(trigger).expect("a trigger is plain data")
}

/// Reads a trigger from its card. Builds data only, never code.
pub fn decode(text: &str) -> Result<Trigger, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Refusal::NotFound => Code::NotFound,
            Refusal::Invalid(_) => Code::TriggerInvalid,
            Refusal::RetryBeyondRetention(_) => Code::RetryBeyondRetention,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::NotFound => f.write_str("there is no such trigger"),
            Refusal::Invalid(why) | Refusal::RetryBeyondRetention(why) => f.write_str(why),
        }
    }
}

impl std::error::Error for Refusal {}

impl From<TemplateInvalid> for Refusal {
    fn from(error: TemplateInvalid) -> Refusal {
        Refusal::Invalid(error.0)
    }
}
