//! Views: how an effect is shown. API, CLI and console render exactly these.

use serde::Serialize;

use crate::derive;
use crate::effect::State;
use crate::json::Json;
use crate::record::{
    Alarm, AlarmKind, Approval, Attempt, By, Contract, Decision, Effect, End, Kind, Named, Outcome,
    Undo, Verdict,
};
use crate::time::{Moment, Wall, format_duration_ms};

/// One effect, as everybody sees it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct EffectView {
    pub id: String,
    pub namespace: String,
    pub action: String,
    pub key: String,
    pub generation: u32,
    pub state: &'static str,
    pub version: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Json>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contract: Option<ContractView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downstream_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workflow: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    pub created_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled_at: Option<String>,
    /// Until when a repeat gets the receipt; later the key answers "expired".
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replays_until: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub replay_window: Option<String>,
    pub overdue: bool,
    /// The retry budget is used up: nothing is tried until a person grants another one.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub exhausted: bool,
    pub disputed: bool,
    /// The effect that this one takes back, as ACTION/KEY.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undoes: Option<String>,
    /// What takes this effect back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo: Option<UndoView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalView>,
    pub attempts: Vec<AttemptView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub decisions: Vec<DecisionView>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alarms: Vec<AlarmView>,
}

/// What `begin` answers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "outcome", rename_all = "snake_case")]
pub enum BeginView {
    Attempt(ArmedView),
    Probe(ArmedView),
    Replay { receipt: Json },
    Undone { receipt: Json, undo_receipt: Json },
    Failed { reason: String },
}

/// A permit to send or to look, once.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ArmedView {
    pub id: String,
    pub fence: u64,
    pub attempt: u32,
    pub downstream_key: String,
    /// What to send: the first input of this generation.
    pub input: Json,
    pub lease_until: String,
    pub lease_ms: u64,
    pub deadline: String,
    pub deadline_ms: u64,
    pub resumed: bool,
}

/// What the gate answers: one word, and what goes with it.
#[derive(Clone, Debug, Default, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateView {
    pub decision: &'static str,
    pub id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Json>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub undo_receipt: Option<Json>,
    /// With `go`: what to pass on to the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub downstream_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// An effect that waits for a person, with what would be sent.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HeldEffectView {
    #[serde(flatten)]
    pub effect: EffectView,
    pub input: Option<Json>,
}

/// A contract with its promise, word for word.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ContractView {
    pub name: &'static str,
    pub promise: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retention: Option<String>,
}

/// One try or look.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AttemptView {
    pub number: u32,
    pub kind: &'static str,
    pub fence: u64,
    pub contract: &'static str,
    pub worker: String,
    pub began_at: String,
    /// `open`, `applied`, `not_applied` or `unknown`; a look is `found` or `absent`.
    pub outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubted_at: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub key_not_used: bool,
    /// The span in which it was made.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
}

/// The undo of an effect.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UndoView {
    /// The effect that takes it back, as ACTION/KEY.
    pub by: String,
    /// Its receipt; without one the undo is under way or in doubt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub receipt: Option<Json>,
}

/// The question to a person, and its answer.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ApprovalView {
    /// Nobody has answered yet, and nothing is sent before.
    pub held: bool,
    /// Names what is approved: to be given back with the answer.
    pub digest: String,
    pub asked_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub requester: Option<String>,
    pub four_eyes: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// A mere question: there is nothing to send.
    pub only: bool,
    /// `approved`, `denied`, `returned` or `expired`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_by: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer_note: Option<String>,
}

/// What a person decided.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DecisionView {
    pub verdict: &'static str,
    pub actor: String,
    pub reason: String,
    pub at: String,
    pub version: u64,
}

/// An alarm with its evidence.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AlarmView {
    pub kind: &'static str,
    pub at: String,
    pub fence: u64,
    pub receipt: Json,
}

/// Shows an effect as it is at a moment.
pub fn effect_view(effect: &Effect, now: &Moment) -> EffectView {
    let state = effect.state(now);
    let plan = effect.plan.as_ref();
    let address = &effect.address;
    let failure = (state == State::Failed).then(|| {
        let silence = || effect.judgement(now).map(|answer| answer.note);
        effect.failure().map(str::to_owned).or_else(silence).unwrap_or_default()
    });
    EffectView {
        id: derive::effect_ref(address, effect.generation),
        namespace: address.namespace.as_str().to_owned(),
        action: address.action.as_str().to_owned(),
        key: address.key.as_str().to_owned(),
        generation: effect.generation,
        state: state.as_str(),
        version: effect.version,
        receipt: effect.receipt().cloned(),
        warnings: warnings(effect),
        failure,
        contract: plan.map(|plan| contract_view(&plan.terms.contract)),
        downstream_key: plan.map(|plan| plan.downstream_key.clone()),
        workflow: effect.workflow.clone(),
        run: effect.run.clone(),
        created_at: rfc3339(effect.created),
        settled_at: effect.settled.map(rfc3339),
        replays_until: effect.sweep_at().filter(|_| effect.expired.is_none()).map(rfc3339),
        replay_window: plan.map(|plan| format_duration_ms(plan.terms.window_ms)),
        overdue: effect.attempts.iter().any(|attempt| attempt.is_overdue(now)),
        exhausted: effect.is_exhausted(None, now),
        disputed: effect.is_disputed(),
        undoes: effect.undoes.as_ref().map(name_of),
        undo: effect.undo.as_ref().map(undo_view),
        approval: effect.approval.as_ref().map(|approval| approval_view(approval, effect, now)),
        attempts: effect.attempts.iter().map(|attempt| attempt_view(attempt, now)).collect(),
        decisions: effect.decisions.iter().map(decision_view).collect(),
        alarms: effect.alarms.iter().map(alarm_view).collect(),
    }
}

/// RFC 3339 in UTC.
pub fn rfc3339(wall: Wall) -> String {
    let timestamp = jiff::Timestamp::from_millisecond(wall.0);
    timestamp.map_or_else(|_| format!("{} ms", wall.0), |timestamp| timestamp.to_string())
}

fn undo_view(undo: &Undo) -> UndoView {
    UndoView { by: name_of(&undo.by), receipt: undo.receipt.clone() }
}

fn name_of(named: &Named) -> String {
    format!("{}/{}", named.action, named.key)
}

/// What is accepted, but should not stay so.
fn warnings(effect: &Effect) -> Vec<&'static str> {
    let bare = ["true", "false", "null"];
    let receipt = effect.receipt().map(|receipt| receipt.text().trim());
    if receipt.is_some_and(|receipt| bare.contains(&receipt)) {
        return vec!["the receipt is a bare value: return the provider's object id and time"];
    }
    Vec::new()
}

fn contract_view(contract: &Contract) -> ContractView {
    let retention = match contract {
        Contract::NativeKey { retention_ms } => Some(format_duration_ms(*retention_ms)),
        Contract::Transaction
        | Contract::Conditional
        | Contract::Probe { .. }
        | Contract::AtMostOnce
        | Contract::Harmless => None,
    };
    ContractView { name: contract.name(), promise: contract.promise(), retention }
}

fn attempt_view(attempt: &Attempt, now: &Moment) -> AttemptView {
    let outcome = match (attempt.kind, attempt.end.as_ref().map(|end| &end.outcome)) {
        (Kind::Look, Some(Outcome::Applied { .. })) => "found",
        (Kind::Look, Some(Outcome::NotApplied { .. })) => "absent",
        (Kind::Send | Kind::Assumed, Some(Outcome::Applied { .. })) => "applied",
        (Kind::Send | Kind::Assumed, Some(Outcome::NotApplied { .. })) => "not_applied",
        (_, None) if attempt.is_live(now) => "open",
        (_, None) => "unknown",
    };
    let proof = attempt.end.as_ref().and_then(|end| match &end.outcome {
        Outcome::NotApplied { reason, .. } => Some(reason.clone()),
        Outcome::Applied { .. } => None,
    });
    AttemptView {
        number: attempt.number,
        kind: kind_name(attempt.kind),
        fence: attempt.fence,
        contract: attempt.contract.name(),
        worker: attempt.worker.clone(),
        began_at: rfc3339(attempt.began),
        outcome,
        by: attempt.end.as_ref().map(by_name),
        ended_at: attempt.end.as_ref().map(|end| rfc3339(end.at)),
        reason: proof.or_else(|| attempt.doubt.as_ref().map(|doubt| doubt.reason.clone())),
        doubted_at: attempt.doubt.as_ref().map(|doubt| rfc3339(doubt.at)),
        key_not_used: attempt.doubt.as_ref().is_some_and(|doubt| doubt.key_not_used),
        traceparent: attempt.traceparent.clone(),
    }
}

fn approval_view(approval: &Approval, effect: &Effect, now: &Moment) -> ApprovalView {
    let answer = effect.judgement(now);
    ApprovalView {
        held: effect.is_held(now),
        digest: approval.digest.clone(),
        asked_at: rfc3339(approval.asked),
        expires_at: approval.expires.map(|at| rfc3339(at.0)),
        requester: approval.requester.clone(),
        four_eyes: approval.four_eyes,
        note: approval.note.clone(),
        only: approval.only,
        answer: answer.as_ref().map(|given| given.answer.as_str()),
        answered_by: answer.as_ref().map(|given| given.actor.clone()),
        answered_at: answer.as_ref().map(|given| rfc3339(given.at)),
        answer_note: answer.map(|given| given.note),
    }
}

fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Send => "send",
        Kind::Look => "look",
        Kind::Assumed => "assumed",
    }
}

fn by_name(end: &End) -> &'static str {
    match end.by {
        By::Worker => "worker",
        By::Late => "late",
        By::Look => "look",
        By::Person => "person",
        By::Import => "import",
    }
}

impl Verdict {
    /// The verdict's name, as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Done => "done",
            Verdict::Failed => "failed",
            Verdict::Retry => "retry",
            Verdict::Grant => "grant",
            Verdict::Void => "void",
            Verdict::Supersede => "supersede",
            Verdict::Import => "import",
        }
    }
}

fn decision_view(decision: &Decision) -> DecisionView {
    DecisionView {
        verdict: decision.verdict.as_str(),
        actor: decision.actor.clone(),
        reason: decision.reason.clone(),
        at: rfc3339(decision.at),
        version: decision.version,
    }
}

fn alarm_view(alarm: &Alarm) -> AlarmView {
    let kind = match alarm.kind {
        AlarmKind::AppliedTwice => "applied_twice",
        AlarmKind::Disputed => "disputed",
    };
    AlarmView { kind, at: rfc3339(alarm.at), fence: alarm.fence, receipt: alarm.receipt.clone() }
}
