//! Requests: what the HTTP API takes, and how it becomes what the rules take.

mod gate;
mod people;
mod runs;

pub use gate::{AppliedAsk, GateAsk, GateDoneAsk, GateFailedAsk};
pub use people::{JudgeAsk, JudgementAsk, LinkAsk, TokenAsk};
pub use runs::{MoveAsk, PromoteAsk, ScheduleAsk, SkipAsk, StartAsk, SteerAsk};

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::code::Code;
use crate::contract::Declared;
use crate::effect::{Begin, Person, Report, Resolution, Settle};
use crate::fingerprint::Rule;
use crate::json::{self, Json};
use crate::key::{Action, Address, Key, Namespace};
use crate::limits;
use crate::record::Contract;
use crate::shape;
use crate::time::parse_duration_ms;

/// Why a request means nothing: a code and a sentence that names the member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskInvalid {
    pub code: Code,
    pub why: String,
}

fn invalid<T>(code: Code, why: impl Into<String>) -> Result<T, AskInvalid> {
    Err(AskInvalid { code, why: why.into() })
}

/// What [`parse_duration_ms`] reads.
#[cfg(feature = "schema")]
const DURATION: &str = "^[0-9]+(ms|s|m|h|d)$";

/// Names of actions and workflows; beyond this they have at most 100 bytes.
#[cfg(feature = "schema")]
const NAME: &str = r"^[^\s/\u0000-\u001f\u007f-\u009f]+$";

/// An object in the place of a value: lists of its members are read as it, too, unless one looks.
fn object<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::de::DeserializeOwned,
{
    let raw = Box::<RawValue>::deserialize(deserializer)?;
    if !raw.get().starts_with('{') {
        return Err(serde::de::Error::custom("it is not an object"));
    }
    serde_json::from_str(raw.get()).map_err(serde::de::Error::custom)
}

/// A key: a text, or a list of texts.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum KeyAsk {
    Text(String),
    Parts(Vec<String>),
    /// A number, for instance: no key.
    #[cfg_attr(feature = "schema", schemars(skip))]
    Other(serde::de::IgnoredAny),
}

impl KeyAsk {
    pub fn key(&self) -> Result<Key, AskInvalid> {
        let key = match self {
            KeyAsk::Text(text) => Key::from_text(text),
            KeyAsk::Parts(parts) => Key::from_parts(parts),
            KeyAsk::Other(_) => {
                let why = "`key` is a text, or a list of texts";
                return invalid(Code::KeyInvalid, why);
            }
        };
        key.or_else(|error| invalid(Code::KeyInvalid, error.why))
    }
}

/// A contract: its name, or an object with what must be said of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ContractAsk {
    AtMostOnce,
    Conditional,
    Harmless,
    /// The destination honours an idempotency key for `retention`.
    NativeKey {
        #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
        retention: String,
    },
    /// The destination can be asked; a request of ours may land for `settle` after its attempt.
    Probe {
        #[serde(default)]
        #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
        settle: Option<String>,
        /// Look before the first send, too.
        #[serde(default)]
        first: bool,
    },
}

impl ContractAsk {
    /// The contract, and the settle window where it is said with it.
    fn read(&self) -> Result<(Contract, Option<u64>), AskInvalid> {
        Ok(match self {
            ContractAsk::AtMostOnce => (Contract::AtMostOnce, None),
            ContractAsk::Conditional => (Contract::Conditional, None),
            ContractAsk::Harmless => (Contract::Harmless, None),
            ContractAsk::NativeKey { retention } => {
                (Contract::NativeKey { retention_ms: duration("retention", retention)? }, None)
            }
            ContractAsk::Probe { settle, first } => {
                let settle = settle.as_deref().map(|text| duration("settle", text));
                (Contract::Probe { first: *first }, settle.transpose()?)
            }
        })
    }
}

fn duration(member: &str, text: &str) -> Result<u64, AskInvalid> {
    parse_duration_ms(text).or_else(|_| {
        let why = format!("`{member}` is no duration; write 500ms, 1s, 15m, 24h or 7d");
        invalid(Code::DurationInvalid, why)
    })
}

/// `POST /v1/effects/begin`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct BeginAsk {
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub action: String,
    /// The business key of the intent.
    #[cfg_attr(feature = "schema", schemars(required))]
    pub key: Option<KeyAsk>,
    /// What would be sent: any JSON.
    #[serde(default = "Json::null", deserialize_with = "json::asked")]
    pub input: Json,
    #[serde(default)]
    pub contract: Option<ContractAsk>,
    /// The top-level members of `input` that count; all of them when left out.
    #[serde(default)]
    pub fingerprint: Option<Vec<String>>,
    /// The key that the provider gets, where a team has its own.
    #[serde(default)]
    pub downstream_key: Option<String>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub lease: Option<String>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub deadline: Option<String>,
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub settle: Option<String>,
    /// For how long repeats get the receipt.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub window: Option<String>,
    /// Random for each call: lets a caller whose answer was lost recognise its own attempt.
    #[serde(default)]
    pub attempt_id: Option<String>,
    /// How long a caller that meets a pending effect waits for its receipt.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub hold: Option<String>,
    /// What its receipt looks like, as JSON Schema, up to 8 KiB. A receipt that a person gives for
    /// a doubt must fit it.
    #[serde(default, deserialize_with = "present")]
    #[cfg_attr(
        feature = "schema",
        schemars(with = "Option<serde_json::Map<String, serde_json::Value>>")
    )]
    pub receipt_shape: Option<Json>,
}

impl BeginAsk {
    /// The wish, in the caller's namespace.
    pub fn begin(&self, namespace: &Namespace, worker: &str) -> Result<Begin, AskInvalid> {
        let Some(key) = &self.key else {
            return invalid(Code::KeyMissing, "`key` is missing");
        };
        let address = address(namespace, &self.action, key)?;
        let contract = self.contract.as_ref().map(ContractAsk::read).transpose()?;
        let time = |member: &str, text: &Option<String>| {
            text.as_deref().map(|text| duration(member, text)).transpose()
        };
        let settle_ms = time("settle", &self.settle)?;
        let declared = Declared {
            contract: contract.map(|(contract, _)| contract),
            lease_ms: time("lease", &self.lease)?,
            deadline_ms: time("deadline", &self.deadline)?,
            settle_ms: settle_ms.or(contract.and_then(|(_, settle)| settle)),
            window_ms: time("window", &self.window)?,
            ..Declared::default()
        };
        let attempt_id = self.attempt_id.clone().unwrap_or_default();
        if attempt_id.len() > limits::KEY_BYTES_MAX || attempt_id.contains(char::is_control) {
            return invalid(Code::RequestInvalid, "`attempt_id` is too long or not printable");
        }
        let shape = self.receipt_shape.clone().filter(|shape| shape.text() != "null");
        let shape = shape.map(shape::checked).transpose();
        let shape = shape
            .or_else(|why| invalid(Code::RequestInvalid, format!("`receipt_shape`: {why}")))?;
        Ok(Begin {
            address,
            input: self.input.clone(),
            rule: self.fingerprint.as_ref().map_or(Rule::All, Rule::members),
            declared,
            downstream_key: self.downstream_key.clone(),
            attempt_id,
            worker: worker.to_owned(),
            session: None,
            can_look: matches!(contract, Some((Contract::Probe { .. }, _))),
            workflow: None,
            run: None,
            approval: None,
            undoes: None,
            derived: None,
            shape,
        })
    }

    /// How long to wait, at most so long as the server holds anybody.
    pub fn hold_ms(&self, most: u64) -> Result<u64, AskInvalid> {
        let asked = self.hold.as_deref().map(|text| duration("hold", text)).transpose()?;
        Ok(asked.unwrap_or(limits::HOLD_MS).min(most))
    }
}

fn address(namespace: &Namespace, action: &str, key: &KeyAsk) -> Result<Address, AskInvalid> {
    let key = key.key()?;
    let action = Action::new(action);
    let action = action.or_else(|error| invalid(Code::NameInvalid, error.to_string()))?;
    Ok(Address { namespace: namespace.clone(), action, key })
}

/// `POST /v1/effects/settle`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettleAsk {
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub action: String,
    #[cfg_attr(feature = "schema", schemars(required))]
    pub key: Option<KeyAsk>,
    pub fence: u64,
    #[serde(deserialize_with = "object")]
    pub result: ResultAsk,
}

/// What became of an attempt: exactly one of `receipt`, `not_applied` and `unknown`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResultAsk {
    /// It happened; any JSON, `null` and `false` included. Of a look: it was found.
    #[serde(default, deserialize_with = "present")]
    pub receipt: Option<Json>,
    /// Proof that nothing happened. Of a look: it is absent.
    #[serde(default)]
    pub not_applied: Option<bool>,
    /// With `not_applied`: and nothing ever will under this key.
    #[serde(default, rename = "final")]
    pub last: bool,
    /// Nobody knows.
    #[serde(default)]
    pub unknown: Option<bool>,
    #[serde(default)]
    pub reason: Option<String>,
}

/// A member that is there, also as `null`.
fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    json::asked(deserializer).map(Some)
}

impl SettleAsk {
    pub fn address(&self, namespace: &Namespace) -> Result<Address, AskInvalid> {
        let Some(key) = &self.key else {
            return invalid(Code::KeyMissing, "`key` is missing");
        };
        address(namespace, &self.action, key)
    }

    pub fn settle(&self) -> Result<Settle, AskInvalid> {
        Ok(Settle { fence: self.fence, report: self.result.report()?, retry_after_ms: None })
    }
}

impl ResultAsk {
    fn report(&self) -> Result<Report, AskInvalid> {
        let reason = self.reason.clone().unwrap_or_default();
        let is = |member: Option<bool>| member == Some(true);
        if self.not_applied == Some(false) || self.unknown == Some(false) {
            return invalid(Code::RequestInvalid, "`not_applied` and `unknown` are true or absent");
        }
        match (&self.receipt, is(self.not_applied), is(self.unknown)) {
            (Some(receipt), false, false) if !self.last => Ok(Report::Receipt(receipt.clone())),
            (None, true, false) => Ok(Report::NotApplied { reason, last: self.last }),
            (None, false, true) if !self.last => {
                Ok(Report::Unknown { reason, key_not_used: false })
            }
            _ => {
                let why = "`result` has exactly one of `receipt`, `not_applied` and `unknown`";
                invalid(Code::RequestInvalid, why)
            }
        }
    }
}

/// `POST /v1/effects/renew`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RenewAsk {
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub action: String,
    #[cfg_attr(feature = "schema", schemars(required))]
    pub key: Option<KeyAsk>,
    pub fence: u64,
}

impl RenewAsk {
    pub fn address(&self, namespace: &Namespace) -> Result<Address, AskInvalid> {
        let Some(key) = &self.key else {
            return invalid(Code::KeyMissing, "`key` is missing");
        };
        address(namespace, &self.action, key)
    }
}

/// `POST /v1/effects/{id}/resolve`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ResolveAsk {
    pub decision: DecisionAsk,
    /// With `done`: what repeats will get.
    #[serde(default, deserialize_with = "present")]
    pub receipt: Option<Json>,
    pub reason: String,
    /// The version that was looked at.
    pub version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DecisionAsk {
    Done,
    Retry,
    Failed,
}

impl ResolveAsk {
    pub fn resolution(&self) -> Result<Resolution, AskInvalid> {
        match (self.decision, &self.receipt) {
            (DecisionAsk::Done, receipt) => {
                Ok(Resolution::Done(receipt.clone().unwrap_or_else(Json::null)))
            }
            (DecisionAsk::Retry, None) => Ok(Resolution::Retry),
            (DecisionAsk::Failed, None) => Ok(Resolution::Failed),
            (DecisionAsk::Retry | DecisionAsk::Failed, Some(_)) => {
                invalid(Code::RequestInvalid, "`receipt` goes with the decision `done` only")
            }
        }
    }
}

/// `POST /v1/effects/{id}/grant`, `/supersede` and `/void`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecideAsk {
    pub reason: String,
    pub version: u64,
}

/// A person by the credential: its label is the actor.
pub fn person(actor: &str, reason: &str, version: u64) -> Person {
    Person { actor: actor.to_owned(), reason: reason.to_owned(), version }
}
