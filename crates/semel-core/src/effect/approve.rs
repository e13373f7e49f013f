//! Approvals: a person decides on one exact payload before it is sent. Asked by the first `begin`,
//! held for every caller, answered once; that nobody answered in time is an answer, too.

use super::{Person, Refusal, State, short};
use crate::fingerprint::{Fingerprint, Rule};
use crate::journal::{At, Link};
use crate::json::Json;
use crate::limits;
use crate::record::{Answer, Approval, By, Effect, End, Judgement, Outcome, Plan};
use crate::time::Moment;
use crate::wire::rfc3339;

/// What an author asks a person for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// When silence is an answer.
    pub expires_ms: Option<u64>,
    pub requester: Option<String>,
    /// The requester may not decide.
    pub four_eyes: bool,
    pub note: Option<String>,
    /// There is nothing to send: the answer is the receipt.
    pub only: bool,
}

impl From<&Approval> for Ask {
    fn from(approval: &Approval) -> Ask {
        Ask {
            expires_ms: approval.expires.map(|at| {
                u64::try_from(at.0.0.saturating_sub(approval.asked.0)).unwrap_or(1).max(1)
            }),
            requester: approval.requester.clone(),
            four_eyes: approval.four_eyes,
            note: approval.note.clone(),
            only: approval.only,
        }
    }
}

impl Ask {
    /// Refuses what could not be shown or kept.
    pub fn check(&self) -> Result<(), Refusal> {
        let is_long = |text: &Option<String>| {
            text.as_ref().is_some_and(|text| text.len() > limits::REASON_BYTES_MAX)
        };
        let is_nobody = self.requester.as_ref().is_none_or(|name| name.trim().is_empty());
        if is_long(&self.note) || is_long(&self.requester) {
            return Err(Refusal::ApprovalInvalid("the note or the requester is too long"));
        }
        if self.four_eyes && is_nobody {
            return Err(Refusal::ApprovalInvalid("four eyes need a requester"));
        }
        if self.expires_ms.is_some_and(|ms| ms == 0 || ms > limits::DURATION_MS_MAX) {
            return Err(Refusal::ApprovalInvalid("it expires at once, or in over a hundred years"));
        }
        Ok(())
    }
}

/// What is approved: destination, promise and every byte of the input.
pub fn digest(action: &str, plan: &Plan) -> String {
    let approved = serde_json::json!([action, plan.terms.contract.name(), plan.input.text()]);
    Link(Fingerprint::of(approved.to_string().as_bytes(), &Rule::All).digest).to_string()
}

/// The effect as it waits for a person.
pub(super) fn held(effect: &Effect, plan: Plan, ask: &Ask, now: &Moment) -> Effect {
    let mut next = effect.next();
    next.approval = Some(Approval {
        asked: now.wall,
        digest: digest(effect.address.action.as_str(), &plan),
        expires: ask.expires_ms.map(|ms| At::from(now).plus(ms)),
        requester: ask.requester.clone(),
        four_eyes: ask.four_eyes,
        note: ask.note.clone(),
        only: ask.only,
        judgement: None,
    });
    next.plan = Some(plan);
    next.voided = None;
    next.retry_at = None;
    next.sealed(now)
}

/// Answers the question. The digest is that of the payload which the person saw.
pub fn judge(
    effect: &Effect,
    person: &Person,
    answer: Answer,
    digest: &str,
    now: &Moment,
) -> Result<Effect, Refusal> {
    let approval = effect.approval.as_ref().ok_or(Refusal::NotHeld(effect.state(now)))?;
    if let Some(judgement) = effect.judgement(now) {
        return Err(Refusal::Judged(judgement));
    }
    let named = |text: &str| !text.trim().is_empty() && text.len() <= limits::REASON_BYTES_MAX;
    if !named(&person.actor) || (answer != Answer::Approved && !named(&person.reason)) {
        return Err(Refusal::ReasonMissing);
    }
    if approval.four_eyes && approval.requester.as_deref() == Some(person.actor.trim()) {
        return Err(Refusal::FourEyes);
    }
    if effect.state(now) != State::Planned {
        return Err(Refusal::NotHeld(effect.state(now)));
    }
    if approval.digest != digest {
        return Err(Refusal::PayloadChanged);
    }
    let judgement = Judgement {
        answer,
        actor: person.actor.trim().to_owned(),
        note: short(&person.reason),
        at: now.wall,
    };
    Ok(judged(effect, judgement, now))
}

/// Nobody answered in time: that is written down. `None`: there is nothing to write.
pub(super) fn expire(effect: &Effect, now: &Moment) -> Option<Effect> {
    let is_answered = effect.approval.as_ref()?.judgement.is_some();
    let judgement = effect.judgement(now).filter(|_| !is_answered)?;
    Some(judged(effect, judgement, now))
}

fn judged(effect: &Effect, judgement: Judgement, now: &Moment) -> Effect {
    let mut next = effect.next();
    let approval = next.approval.as_mut().expect("it was asked for");
    approval.judgement = Some(judgement.clone());
    if approval.only && judgement.answer == Answer::Approved {
        let mut attempt = super::decide::assumed(&next, "a person's answer", now);
        attempt.doubt = None;
        let outcome = Outcome::Applied { receipt: receipt(&judgement) };
        attempt.end = Some(End { at: now.wall, by: By::Person, outcome });
        next.attempts.push(attempt);
    }
    next.sealed(now)
}

/// What a question that is only a question gives back.
fn receipt(judgement: &Judgement) -> Json {
    let Judgement { actor, note, at, .. } = judgement;
    let receipt = serde_json::json!({ "by": actor, "note": note, "at": rfc3339(*at) });
    Json::from_text(&receipt.to_string()).expect("it is JSON")
}

impl Effect {
    /// Whether it waits for a person's answer.
    pub fn is_held(&self, now: &Moment) -> bool {
        self.approval.is_some()
            && self.judgement(now).is_none()
            && self.state(now) == State::Planned
    }

    /// The answer, once there is one. Time gives it, too.
    pub fn judgement(&self, now: &Moment) -> Option<Judgement> {
        let approval = self.approval.as_ref()?;
        let given = approval.judgement.clone();
        given.or_else(|| {
            let expires = approval.expires.filter(|at| at.is_reached(now))?;
            let note = "nobody decided in time".to_owned();
            let actor = "semel".to_owned();
            Some(Judgement { answer: Answer::Expired, actor, note, at: expires.0 })
        })
    }

    /// The answer, where it was no.
    pub(super) fn denial(&self, now: &Moment) -> Option<Judgement> {
        self.judgement(now).filter(|judgement| judgement.answer != Answer::Approved)
    }

    /// Whether what was approved is what would be sent now.
    pub(super) fn is_approved(&self, plan: &Plan) -> bool {
        let judgement = self.approval.as_ref().and_then(|approval| approval.judgement.as_ref());
        judgement.is_some_and(|given| given.answer == Answer::Approved) && self.asks_for(plan)
    }

    /// Whether the question is about this very plan.
    pub(super) fn asks_for(&self, plan: &Plan) -> bool {
        let digest = digest(self.address.action.as_str(), plan);
        self.approval.as_ref().is_some_and(|approval| approval.digest == digest)
    }
}

impl Judgement {
    /// The answer in words.
    pub fn text(&self) -> String {
        let Judgement { answer, actor, note, .. } = self;
        let note = if note.is_empty() { String::new() } else { format!(": {note}") };
        format!("{} by {actor}{note}", answer.as_str())
    }
}

impl Answer {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Answer::Approved => "approved",
            Answer::Denied => "denied",
            Answer::Returned => "returned",
            Answer::Expired => "expired",
        }
    }
}
