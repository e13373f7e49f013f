//! Approvals: a person decides on one exact payload before it is sent. Asked by the first `begin`,
//! held for every caller, answered once; that nobody answered in time is an answer, too.

use super::{Person, Refusal, State};
use crate::fingerprint::{Fingerprint, Rule};
use crate::journal::{At, Link};
use crate::json::Json;
use crate::limits;
use crate::record::{
    Answer, Approval, Attempt, By, Contract, Effect, End, Judgement, Kind, Outcome, Plan, Verdict,
};
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
        let is_nobody = self.requester.as_ref().is_none_or(|name| spelt(name).is_empty());
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

    /// Asked anew, a question may not be easier to answer than before.
    pub(super) fn no_weaker_than(mut self, before: &Approval) -> Ask {
        if before.four_eyes && !self.four_eyes {
            self.four_eyes = true;
            self.requester.clone_from(&before.requester);
        }
        self
    }
}

/// What is approved: destination, promise and every byte of the input.
pub fn digest(action: &str, plan: &Plan) -> String {
    digest_under(action, &plan.terms.contract, &plan.input)
}

/// The digest of what an attempt under this contract sends.
pub(crate) fn digest_under(action: &str, contract: &Contract, input: &Json) -> String {
    let approved = serde_json::json!([action, contract.name(), input.text()]);
    Link(Fingerprint::of(approved.to_string().as_bytes(), &Rule::All).digest).to_string()
}

/// A name as four eyes compare it: neither case nor what cannot be seen makes somebody else.
pub(crate) fn spelt(name: &str) -> String {
    let is_seen = |c: &char| {
        let is_blank = c.is_whitespace() || c.is_control();
        !is_blank && !matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2060}' | '\u{feff}')
    };
    name.chars().filter(is_seen).flat_map(char::to_lowercase).collect()
}

/// The effect as it waits for a person.
pub(super) fn held(effect: &Effect, plan: Plan, ask: &Ask, now: &Moment) -> Effect {
    let mut next = effect.next();
    next.approval = Some(asked(effect, &plan, ask, now));
    next.plan = Some(plan);
    next.voided = None;
    next.retry_at = None;
    next.sealed(now)
}

/// The question about a plan, without an answer.
pub(super) fn asked(effect: &Effect, plan: &Plan, ask: &Ask, now: &Moment) -> Approval {
    Approval {
        asked: now.wall,
        digest: digest(effect.address.action.as_str(), plan),
        expires: ask.expires_ms.map(|ms| At::from(now).plus(ms)),
        requester: ask.requester.clone(),
        four_eyes: ask.four_eyes,
        note: ask.note.clone(),
        only: ask.only,
        after: u32::try_from(effect.attempts.len()).expect("bounded by the limit"),
        judgement: None,
    }
}

/// The answer that stands, and what is to be written for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// `None`: it was written before.
    pub effect: Option<Effect>,
    pub judgement: Judgement,
    /// Given now, by whoever asked. Otherwise it is the first one, whatever was asked for.
    pub is_new: bool,
}

/// Answers the question. The digest is that of the payload which the person saw. A question that
/// has an answer gives it back: the first stands, and that nobody gave one in time is one.
pub fn judge(
    effect: &Effect,
    person: &Person,
    answer: Answer,
    digest: &str,
    now: &Moment,
) -> Result<Judged, Refusal> {
    let approval = effect.approval.as_ref().ok_or(Refusal::NotHeld(effect.state(now)))?;
    if let Some(judgement) = effect.judgement(now) {
        return Ok(Judged { effect: expire(effect, now), judgement, is_new: false });
    }
    let fits = |text: &str| text.len() <= limits::REASON_BYTES_MAX;
    let is_named = !spelt(&person.actor).is_empty() && fits(&person.actor);
    let has_reason = answer == Answer::Approved || !person.reason.trim().is_empty();
    // Silence is nobody's to give: time does.
    if !is_named || !has_reason || !fits(&person.reason) || answer == Answer::Expired {
        return Err(Refusal::ReasonMissing);
    }
    if !effect.is_held(now) {
        return Err(Refusal::NotHeld(effect.state(now)));
    }
    if approval.is_own(&person.actor) {
        return Err(Refusal::FourEyes);
    }
    if approval.digest != digest {
        return Err(Refusal::PayloadChanged);
    }
    let judgement = Judgement {
        answer,
        actor: person.actor.trim().to_owned(),
        note: person.reason.trim().to_owned(),
        at: now.wall,
    };
    let next = judged(effect, &judgement, now);
    Ok(Judged { effect: Some(next), judgement, is_new: true })
}

/// Nobody answered in time: that is written down. `None`: there is nothing to write.
pub(super) fn expire(effect: &Effect, now: &Moment) -> Option<Effect> {
    let judgement = effect.silence(now)?;
    Some(judged(effect, &judgement, now))
}

/// After a reboot the wall clock says once how much time is left; from then on the steady clock
/// counts. `None`: it does already, or the wall clock cannot be trusted.
pub(super) fn count_anew(effect: &Effect, now: &Moment) -> Option<Effect> {
    let expires = effect.approval.as_ref()?.expires?;
    if !effect.is_held(now) || expires.1.boot == now.steady.boot || now.wall_is_behind {
        return None;
    }
    let mut next = effect.next();
    next.approval.as_mut()?.expires = Some(At(expires.0, expires.on_steady(now)));
    Some(next.sealed(now))
}

fn judged(effect: &Effect, judgement: &Judgement, now: &Moment) -> Effect {
    let mut next = effect.next();
    let approval = next.approval.as_mut().expect("it was asked for");
    approval.judgement = Some(judgement.clone());
    if approval.only && judgement.answer == Answer::Approved {
        let mut attempt = super::decide::assumed(&next, "a person's answer", now);
        attempt.doubt = None;
        let outcome = Outcome::Applied { receipt: receipt(judgement) };
        attempt.end = Some(End { at: now.wall, by: By::Person, outcome });
        next.attempts.push(attempt);
    }
    next.sealed(now)
}

/// What a question that is only a question gives back.
fn receipt(judgement: &Judgement) -> Json {
    let Judgement { actor, note, at, .. } = judgement;
    let receipt = serde_json::json!({ "by": actor, "note": note, "at": rfc3339(*at) });
    Json::from_text(receipt.to_string()).expect("it is JSON")
}

impl Approval {
    /// The same question, not asked yet: of a new generation, or of an effect that was cancelled.
    pub(super) fn unasked(&self) -> Approval {
        Approval { judgement: None, after: 0, ..self.clone() }
    }

    /// Whether four eyes keep this person from deciding.
    pub(crate) fn is_own(&self, actor: &str) -> bool {
        let asked = self.requester.as_deref().map(spelt);
        self.four_eyes && asked == Some(spelt(actor))
    }
}

impl Effect {
    /// Whether it waits for a person's answer.
    pub fn is_held(&self, now: &Moment) -> bool {
        self.is_asked() && self.silence(now).is_none() && self.state(now) == State::Planned
    }

    /// The answer, once there is one. Time gives it, too.
    pub fn judgement(&self, now: &Moment) -> Option<Judgement> {
        let given = self.approval.as_ref()?.judgement.clone();
        given.or_else(|| self.silence(now))
    }

    /// The answer that time has given and nobody has written down yet.
    pub(crate) fn silence(&self, now: &Moment) -> Option<Judgement> {
        let expires = self.approval.as_ref().filter(|_| self.is_asked())?.expires?;
        expires.is_reached(now).then(|| Judgement {
            answer: Answer::Expired,
            actor: "semel".to_owned(),
            note: "nobody decided in time".to_owned(),
            at: expires.0,
        })
    }

    /// Whether a question was put and has no answer on record. One about what may have happened
    /// already, was cancelled, or is of a generation that nobody has begun, is not put.
    fn is_asked(&self) -> bool {
        let is_out = |attempt: &Attempt| {
            let end = attempt.end.as_ref().map(|end| &end.outcome);
            attempt.kind != Kind::Look && !matches!(end, Some(Outcome::NotApplied { .. }))
        };
        let is_failed = self.decisions.iter().any(|made| made.verdict == Verdict::Failed);
        let is_open = self.approval.as_ref().is_some_and(|asked| asked.judgement.is_none());
        is_open
            && self.plan.is_some()
            && self.voided.is_none()
            && self.expired.is_none()
            && !is_failed
            && self.final_refusal().is_none()
            && self.receipt().is_none()
            && !self.attempts.iter().any(is_out)
    }

    /// The answer, where it was no.
    pub(super) fn denial(&self, now: &Moment) -> Option<Judgement> {
        self.judgement(now).filter(|judgement| judgement.answer != Answer::Approved)
    }

    /// Whether a send under this plan lacks the approval that somebody asked for.
    pub(super) fn lacks_approval(&self, plan: &Plan) -> bool {
        self.approval.is_some() && !self.is_approved(plan)
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
