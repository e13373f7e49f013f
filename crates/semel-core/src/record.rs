//! What an effect looks like at rest: plain data, written as one JSON document into one row.
//!
//! The rules over it live in [`crate::effect`]. The shape is versioned by [`FORMAT`]; fields may be
//! added with a default, never reused for something else.

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::gate::Rate;
use crate::journal::At;
use crate::json::Json;
use crate::key::Address;
use crate::limits;
use crate::time::{Steady, Wall};

/// The version of this shape. A store that holds a newer one is refused.
pub const FORMAT: u32 = 1;

/// One effect: one generation of one (namespace, action, key).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Effect {
    #[serde(with = "address_text")]
    pub address: Address,
    pub generation: u32,
    /// Grows by one with each write; what a guard compares and a person decides upon.
    pub version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    pub created: Wall,
    /// The highest fence of all earlier generations.
    pub fence_floor: u64,
    /// What the first `begin` asked for. A generation opened by supersede has none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Plan>,
    /// A person decides on the plan before the first send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub attempts: Vec<Attempt>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<Decision>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<Alarm>,
    /// No send or look before this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<Steady>,
    /// The first send that may have landed: where a provider's retention starts to count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_sent: Option<Wall>,
    /// How many attempts there were when a person last granted more.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub granted_after: u32,
    /// Since when no further try fits the retry budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spent: Option<Wall>,
    /// Cancelled before any send, and not begun again since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub voided: Option<Wall>,
    /// When it became done, failed or void.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Wall>,
    /// Kept beyond its own window, because its run was unfinished or ended later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_until: Option<Wall>,
    /// Runs that are parked until somebody settles this.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiters: Vec<String>,
    /// What this effect takes back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undoes: Option<Named>,
    /// What takes this effect back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<Undo>,
    /// A newer generation was opened; this one is history.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub superseded: Option<Wall>,
    /// Since when this row is only a tombstone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired: Option<Wall>,
}

/// What every attempt of a generation shares, fixed by the first `begin`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// The input that is sent, whoever sends it.
    pub input: Json,
    #[serde(with = "fingerprint_text")]
    pub fingerprint: Fingerprint,
    pub downstream_key: String,
    pub terms: Terms,
    /// How the author says that the key is made, such as `{request_id}`. For people: no rule reads
    /// it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub derived: Option<String>,
    /// The shape of its result, as JSON Schema: what a person gives as its receipt must fit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape: Option<Json>,
}

/// The declared contract and times of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    pub contract: Contract,
    pub lease_ms: u64,
    pub deadline_ms: u64,
    pub settle_ms: u64,
    pub window_ms: u64,
    pub attempts_max: u32,
    /// The retry budget, fixed by the first caller that declares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// The rate of the action, as declared last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<Rate>,
}

/// How often and how long an effect is tried again. Never for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retry {
    /// Sends in all, the first included.
    pub attempts_max: u32,
    /// No retry is planned for later than this after the first attempt.
    pub total_ms: u64,
    /// The first delay is drawn from zero up to this.
    pub delay_ms: u64,
    /// No delay is longer than this.
    pub delay_ms_max: u64,
}

/// What the destination offers, and so what may be promised.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contract {
    Transaction,
    NativeKey { retention_ms: u64 },
    Conditional,
    Probe { first: bool },
    AtMostOnce,
    Harmless,
}

/// One try or one look.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    pub number: u32,
    /// Random per call, so that a worker recognises its own commit.
    pub id: String,
    pub fence: u64,
    pub kind: Kind,
    /// Frozen: a doubt is judged by what the attempt was sent under.
    pub contract: Contract,
    pub settle_ms: u64,
    pub worker: String,
    /// The process that holds the lease, where a lock can prove it alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// The run that made it, where that is not the one that planned the effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    pub began: Wall,
    pub began_at: Steady,
    pub lease_until: Steady,
    pub deadline: Steady,
    #[serde(default, skip_serializing_if = "is_false")]
    pub renewed: bool,
    /// The code raised a programming error: nothing tries the same code again by itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub faulty: bool,
    /// The span that it was made in, as W3C writes a `traceparent`. For people: no rule reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// Set when nobody could say what the attempt did. Stays as evidence after an end is found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub doubt: Option<Doubt>,
    /// Set when it is known what the attempt did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<End>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Send,
    Look,
    /// Not made by us, or lost: an import or a quarantine says that it may have happened.
    Assumed,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    pub at: Wall,
    /// Where the settle window begins.
    pub since: Steady,
    pub reason: String,
    /// The attempt never read its downstream key, so a resend would not be recognised.
    #[serde(default, skip_serializing_if = "is_false")]
    pub key_not_used: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    pub at: Wall,
    pub by: By,
    pub outcome: Outcome,
}

/// Who closed an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum By {
    Worker,
    /// The worker's receipt, after its lease was gone: evidence.
    Late,
    Look,
    Person,
    Import,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Applied {
        receipt: Json,
    },
    NotApplied {
        reason: String,
        #[serde(default, skip_serializing_if = "is_false")]
        last: bool,
    },
}

/// An effect of the same namespace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub action: String,
    pub key: String,
    pub generation: u32,
}

/// The undo of an effect: begun, and with a receipt when it is done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo {
    pub by: Named,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Json>,
}

/// The question to a person: may exactly this be done?
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Approval {
    pub asked: Wall,
    /// What the person sees and what is sent: one digest over action, contract and whole input.
    pub digest: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<At>,
    /// Who wants it. With four eyes, somebody else decides.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub four_eyes: bool,
    /// What the author says to the reviewer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// There is nothing to send: the answer is the receipt.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only: bool,
    /// How many attempts there were before it was asked: they needed no answer.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub after: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub judgement: Option<Judgement>,
}

/// The answer, given once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judgement {
    pub answer: Answer,
    pub actor: String,
    pub note: String,
    pub at: Wall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Approved,
    Denied,
    /// Not like this: the author may change it, which makes it another intent.
    Returned,
    /// Nobody answered in time.
    Expired,
}

/// What a named person decided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    pub verdict: Verdict,
    pub actor: String,
    pub reason: String,
    pub at: Wall,
    /// The version that was decided upon.
    pub version: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Done,
    Failed,
    Retry,
    /// Another retry budget.
    Grant,
    Void,
    Supersede,
    Import,
}

/// Something that must not happen, happened. Alarms are listed and never cleared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Alarm {
    pub kind: AlarmKind,
    pub at: Wall,
    pub fence: u64,
    /// The receipt that does not fit, kept as evidence.
    pub receipt: Json,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AlarmKind {
    /// A second, different receipt.
    AppliedTwice,
    /// A receipt after a person's `failed`.
    Disputed,
}

/// Writes an effect for its row.
pub fn encode(effect: &Effect) -> String {
    serde_json::to_string(effect).expect("an effect is plain data")
}

/// Reads an effect from its row. Builds data only, never code.
pub fn decode(text: &str) -> Result<Effect, String> {
    let effect: Effect = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if effect.attempts.len() > limits::ATTEMPTS_MAX as usize {
        return Err(format!("{} attempts in one row", effect.attempts.len()));
    }
    Ok(effect)
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

mod address_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::key::{Action, Address, Key, Namespace};

    pub(super) fn serialize<S: Serializer>(address: &Address, to: S) -> Result<S::Ok, S::Error> {
        (address.namespace.as_str(), address.action.as_str(), address.key.as_str()).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Address, D::Error> {
        let (namespace, action, key) = <(String, String, String)>::deserialize(from)?;
        Ok(Address {
            namespace: Namespace::stored(&namespace).map_err(D::Error::custom)?,
            action: Action::new(&action).map_err(D::Error::custom)?,
            key: Key::parse(&key).map_err(D::Error::custom)?,
        })
    }
}

mod fingerprint_text {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

    use crate::fingerprint::{Fingerprint, Rule};

    /// Form, members that count (`null`: all), digest in hex.
    type Text = (u8, Option<Vec<String>>, String);

    pub(super) fn serialize<S: Serializer>(print: &Fingerprint, to: S) -> Result<S::Ok, S::Error> {
        let members = match &print.rule {
            Rule::All => None,
            Rule::Members(names) => Some(names.as_slice()),
        };
        (print.form, members, hex(&print.digest)).serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Fingerprint, D::Error> {
        let (form, members, digest) = Text::deserialize(from)?;
        let digest = unhex(&digest).ok_or_else(|| D::Error::custom("a digest is 64 hex digits"))?;
        let rule = members.map_or(Rule::All, Rule::Members);
        Ok(Fingerprint { form, rule, digest })
    }

    fn hex(bytes: &[u8; 32]) -> String {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        bytes
            .iter()
            .flat_map(|byte| [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]])
            .map(char::from)
            .collect()
    }

    fn unhex(text: &str) -> Option<[u8; 32]> {
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |c: u8| char::from(c).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(bytes)
    }
}
