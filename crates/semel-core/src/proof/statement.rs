//! The statement: what a proof says, as data. Text, JSON and HTML show exactly this.

use serde::Serialize;

use super::sentence::Sentence;
use crate::json::Json;
use crate::wire::{AlarmView, ApprovalView, AttemptView, DecisionView, UndoView};
use crate::wire_run::EntryView;

/// What is proven about one effect, or about one run and its effects.
#[derive(Clone, Debug, Serialize)]
pub struct Statement {
    pub rules: u32,
    /// `effect` or `run`.
    pub about: &'static str,
    /// ACTION/KEY, or the id of the run.
    pub name: String,
    pub namespace: String,
    /// When the store was read.
    pub at: String,
    /// How often the store has gone back in time.
    pub epoch: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quarantine: Option<QuarantineStatement>,
    pub verdict: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<RunStatement>,
    pub effects: Vec<EffectStatement>,
}

/// The store went back in time, and nobody has said yet that this is settled.
#[derive(Clone, Debug, Serialize)]
pub struct QuarantineStatement {
    pub opened_at: String,
    pub recovered_at: String,
}

/// What follows from the evidence, and what does not.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// One word for programs.
    pub finding: &'static str,
    /// One sentence for people.
    pub says: Sentence,
    pub proven: Vec<Claim>,
    pub not_proven: Vec<Claim>,
    /// Invariants that do not hold: whoever wrote these records, the rules did not.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<Claim>,
}

/// A sentence, and what it rests on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Claim {
    pub says: Sentence,
    pub evidence: String,
}

/// One effect over all its generations.
#[derive(Clone, Debug, Serialize)]
pub struct EffectStatement {
    pub id: String,
    pub action: String,
    pub key: String,
    /// How the author says that the key is made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub derived: Option<String>,
    pub key_parts: Vec<KeyPart>,
    pub state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    pub verdict: Verdict,
    /// The oldest first.
    pub generations: Vec<GenerationStatement>,
    pub repeats: Vec<RepeatStatement>,
    /// Where journals speak of it.
    pub mentions: Vec<Mention>,
}

/// A part of a key, and the members of the input that it equals, as JSON pointers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KeyPart {
    pub part: String,
    pub equals: Vec<String>,
}

/// One go at an intent.
#[derive(Clone, Debug, Serialize)]
pub struct GenerationStatement {
    pub generation: u32,
    pub id: String,
    pub state: &'static str,
    pub version: u64,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub superseded_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<ContractStatement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<FingerprintStatement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downstream_key: Option<DownstreamKey>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_digest: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    pub attempts: Vec<AttemptStatement>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<AlarmView>,
}

/// The contract with its promise, word for word, and the times that go with it.
#[derive(Clone, Debug, Serialize)]
pub struct ContractStatement {
    pub name: &'static str,
    pub promise: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<String>,
    pub lease: String,
    pub deadline: String,
    pub settle_window: String,
    pub replay_window: String,
}

/// What the input was judged by.
#[derive(Clone, Debug, Serialize)]
pub struct FingerprintStatement {
    pub digest: String,
    pub form: u8,
    /// The members that count; without any list all of them do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub members: Option<Vec<String>>,
    /// Computed again from the stored input.
    pub matches_input: bool,
}

/// The key that the code of each send is handed.
#[derive(Clone, Debug, Serialize)]
pub struct DownstreamKey {
    pub key: String,
    /// It follows from namespace, action, key and generation. Otherwise its author declared it.
    pub derived: bool,
    /// The sends that were handed it: it is one field for all of them.
    pub sends: usize,
}

/// One try or look, as everybody sees it, and what only a proof tells.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptStatement {
    #[serde(flatten)]
    pub view: AttemptView,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    /// How long it could hold its lease, as it was last renewed.
    pub lease_ms: i64,
    pub deadline_ms: i64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub renewed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt_digest: Option<String>,
    /// Milliseconds since 1970, for drawings.
    #[serde(skip)]
    pub began_ms: i64,
    #[serde(skip)]
    pub ended_ms: Option<i64>,
}

/// Repeats that came by one door.
#[derive(Clone, Debug, Serialize)]
pub struct RepeatStatement {
    pub door: &'static str,
    pub at_least: u64,
    pub first_at: String,
    pub last_at: String,
}

/// Where a journal speaks of an effect.
#[derive(Clone, Debug, Serialize)]
pub struct Mention {
    pub run: String,
    pub seq: u64,
    pub at: String,
    pub kind: &'static str,
    pub command: String,
    /// The receipt was there before: nothing was sent.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub repeat: bool,
}

/// One run.
#[derive(Clone, Debug, Serialize)]
pub struct RunStatement {
    pub id: String,
    pub workflow: String,
    pub key: String,
    /// The id was derived again from namespace, workflow and key.
    pub id_derives: bool,
    pub state: &'static str,
    pub version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    pub chain: ChainStatement,
    pub takes: Vec<Take>,
    pub children: Vec<ChildStatement>,
    pub repeats: Vec<RepeatStatement>,
    pub entries: Vec<EntryView>,
}

/// The journal's chain of hashes, followed entry by entry.
#[derive(Clone, Debug, Serialize)]
pub struct ChainStatement {
    pub entries: u64,
    pub verified: bool,
    /// The link of the last entry that follows.
    pub head: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub broken: Option<String>,
}

/// A worker got the right to advance the run, and replayed it from its start.
#[derive(Clone, Debug, Serialize)]
pub struct Take {
    pub seq: u64,
    pub at: String,
    pub fence: u64,
    pub worker: String,
    pub release: String,
}

/// A run that this one asked for.
#[derive(Clone, Debug, Serialize)]
pub struct ChildStatement {
    pub command: String,
    pub id: String,
    pub workflow: String,
    pub key: String,
    pub state: &'static str,
}
