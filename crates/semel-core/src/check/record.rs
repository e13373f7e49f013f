//! What cases, observations and verdicts look like in flight: the Python package and the reports
//! read and write exactly these.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// What is done to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The process dies, and another one goes on.
    Kill,
    /// The connection is cut before the destination does anything.
    CutBefore,
    /// The destination does it, and its answer is lost.
    CutAfter,
    /// The destination does it and never answers.
    Timeout,
    /// The destination answers with an error and has done nothing.
    ErrorBefore,
    /// The destination does it, and answers with an error.
    ErrorAfter,
    /// The destination refuses with 403 and has done nothing, after an earlier call went through:
    /// a refusal says nothing about what the same attempt wrote before.
    RefuseAfter,
    /// The run is started a second time under its key, once it has ended.
    RepeatTrigger,
    /// An approval is given twice.
    RepeatApproval,
    /// A callback is answered twice.
    RepeatCallback,
    /// A signal is delivered twice.
    RepeatSignal,
    /// [`super::DUPLICATES`] starts of one key come at once.
    Duplicates,
    /// The process stands still until its leases are over and another one has gone on; then it goes
    /// on, too.
    PauseBeyondLease,
    /// The process dies, and the one that goes on offers another release of the same code.
    NewRelease,
}

/// Where it is done.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Place {
    /// A point by its name, such as `before crm-ticket done` or `after step classify (2)`.
    Point(String),
    /// A request, by its number among all requests of the undisturbed run, from 1.
    Send { number: u32, route: String },
    /// Something from outside that the run waited for, by the name of the wait.
    Wait(String),
    /// The run as a whole.
    Run,
}

/// One fault at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Case {
    pub fault: Fault,
    pub place: Place,
    /// The process that goes on dies as well, at this point.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
}

/// One request, as a destination saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Method and path, or whatever the destination calls it.
    pub route: String,
    /// The idempotency key that came along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// How many named points the run had passed by then, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_points: Option<usize>,
}

/// What the undisturbed run did.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Baseline {
    /// The points that were passed, in order. One point may have several names.
    pub points: Vec<Vec<String>>,
    /// The requests that destinations saw, in order.
    #[serde(default)]
    pub requests: Vec<Request>,
    /// Waits that were answered from outside.
    #[serde(default)]
    pub approvals: Vec<String>,
    #[serde(default)]
    pub signals: Vec<String>,
    #[serde(default)]
    pub callbacks: Vec<String>,
    /// The ledger afterwards.
    #[serde(default)]
    pub effects: Vec<EffectSeen>,
    /// How many things there are at each destination afterwards.
    #[serde(default)]
    pub objects: BTreeMap<String, u64>,
    /// How often each model was asked.
    #[serde(default)]
    pub model_calls: BTreeMap<String, u64>,
    /// Where the run stands at the end: `done`, `failed`, …
    pub state: String,
    /// Why it stands there, where that is not `done`.
    #[serde(default)]
    pub detail: String,
    /// What it came to, where every undisturbed run comes to the same: cases are compared with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
}

/// One effect in the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectSeen {
    pub action: String,
    pub key: String,
    #[serde(default)]
    pub generation: u32,
    pub contract: String,
    pub state: String,
    pub downstream_key: String,
    #[serde(default)]
    pub attempts: Vec<AttemptSeen>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// An attempt in doubt never read its key, so nobody may send it again.
    #[serde(default)]
    pub key_not_used: bool,
    /// Two different receipts came.
    #[serde(default)]
    pub applied_twice: bool,
}

/// One attempt of an effect.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptSeen {
    /// `send`, `look` or `assumed`.
    pub kind: String,
    /// `open`, `applied`, `not_applied` or `unknown`.
    pub outcome: String,
    /// Nobody could say at some time what it had done, whatever was found out later.
    #[serde(default)]
    pub was_doubted: bool,
}

/// What was seen after the fault, and after everybody had time to recover.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Observation {
    /// Whether the place of the fault was reached at all.
    pub is_met: bool,
    pub state: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<String>,
    /// What an unfinished run waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits_on: Option<String>,
    /// The code of the refusal by which it is paused or has failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    #[serde(default)]
    pub detail: String,
    #[serde(default)]
    pub effects: Vec<EffectSeen>,
    #[serde(default)]
    pub requests: Vec<Request>,
    #[serde(default)]
    pub objects: BTreeMap<String, u64>,
    #[serde(default)]
    pub model_calls: BTreeMap<String, u64>,
    /// The run was replayed afterwards, and so many requests came meanwhile, those to models apart.
    /// `None`: it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replay_requests: Option<u64>,
    #[serde(default)]
    pub replay_model_calls: u64,
    /// Starts, signals, approvals or callbacks that were repeated and got another answer.
    #[serde(default)]
    pub other_answers: u64,
    /// Why the case could not be carried out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    #[serde(default)]
    pub ms: u64,
}

/// What became of the promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// As if nothing had gone wrong.
    Once,
    /// Nobody knows whether it happened; it is listed, and nothing was sent again.
    InDoubt,
    /// A destination has more than the undisturbed run made.
    Twice,
    /// A destination has less, and the run is over.
    Lost,
    /// The run does not end, and no doubt explains it.
    Stuck,
    /// The run, or a repeat of it, came to another end.
    Diverged,
    /// The same intent went out under another key.
    KeyChanged,
    /// A model was asked again although its answer was on record.
    PaidTwice,
    /// The case could not be carried out, or the ledger does not show what happened.
    Error,
}

/// Whether one line of the promise holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LineState {
    Yes,
    No,
    /// This case says nothing about it.
    Silent,
}

/// One of the five lines that each case prints.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub what: String,
    pub state: LineState,
    pub text: String,
}

/// What a case came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    pub name: String,
    pub case: Case,
    pub outcome: Outcome,
    pub is_ok: bool,
    /// Why the outcome is what it is.
    pub detail: String,
    pub lines: Vec<Line>,
    /// The command that plays this case again, where it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reproduce: Option<String>,
    pub ms: u64,
}

/// All verdicts on one workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    pub workflow: String,
    /// The points of the undisturbed run by name, and its requests by route, in order.
    pub points: Vec<String>,
    pub sends: Vec<String>,
    /// How the undisturbed run ended, and why, where that is not `done`.
    #[serde(default)]
    pub ends: String,
    #[serde(default)]
    pub detail: String,
    pub verdicts: Vec<Verdict>,
    /// Cases that the budget left out.
    pub left_out: usize,
    pub ms: u64,
}
