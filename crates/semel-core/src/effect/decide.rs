//! What a named person decides: to settle a doubt, to do an intent again, to cancel it, to import.

use super::{EPOCH_SHIFT, Ground, Refusal, State, short};
use crate::json::Json;
use crate::key::Address;
use crate::limits;
use crate::record::{
    Approval, Attempt, By, Contract, Decision, Doubt, Effect, End, Kind, Outcome, Verdict,
};
use crate::shape;
use crate::time::{Moment, Wall};

/// Who decides, why, and upon which version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub actor: String,
    pub reason: String,
    pub version: u64,
}

/// How a doubt ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// It happened; this is its receipt.
    Done(Json),
    /// It did not happen, and shall not.
    Failed,
    /// It did not happen; it may be sent again.
    Retry,
}

/// Settles a doubt, or an effect whose attempts are used up, by a person's word.
pub fn resolve(
    effect: &Effect,
    person: &Person,
    resolution: &Resolution,
    now: &Moment,
) -> Result<Effect, Refusal> {
    let verdict = match resolution {
        Resolution::Done(_) => Verdict::Done,
        Resolution::Failed => Verdict::Failed,
        Resolution::Retry => Verdict::Retry,
    };
    let mut next = decided(effect, person, verdict, now)?;
    check_receipt(effect, resolution)?;
    match effect.state(now) {
        State::InDoubt | State::Planned => {}
        State::Pending => {
            let holder = effect.holder(now);
            let retry_after_ms = holder.map_or(0, |holder| now.until(holder.lease_until));
            return Err(Refusal::InProgress { retry_after_ms });
        }
        state @ (State::Done | State::Failed | State::Void) => {
            return Err(Refusal::AlreadySettled(state));
        }
        State::Expired => return Err(Refusal::Expired),
    }
    next.close_lapsed(now);
    let waits = next.attempts.iter().filter(|attempt| attempt.is_unknown(now));
    let wait_ms = waits.map(|attempt| now.until(attempt.settled_after(now))).max().unwrap_or(0);
    if verdict == Verdict::Retry && wait_ms > 0 {
        return Err(Refusal::TooEarly { retry_after_ms: wait_ms });
    }
    if let Resolution::Done(_) = resolution
        && !next.attempts.iter().any(|attempt| attempt.is_unknown(now))
    {
        // Nothing was sent by us, yet a person knows that it happened.
        let attempt = assumed(&next, "a person says that it happened", now);
        next.attempts.push(attempt);
    }
    for attempt in next.attempts.iter_mut().filter(|attempt| attempt.is_unknown(now)) {
        let reason = short(&person.reason);
        let outcome = match resolution {
            Resolution::Done(receipt) => Outcome::Applied { receipt: receipt.clone() },
            Resolution::Failed => Outcome::NotApplied { reason, last: true },
            Resolution::Retry => Outcome::NotApplied { reason, last: false },
        };
        attempt.end = Some(End { at: now.wall, by: By::Person, outcome });
    }
    if verdict == Verdict::Retry {
        next.open_budget()?;
    }
    Ok(next.sealed(now))
}

/// What a person gives as a receipt must be what the code that asked for the effect can read.
fn check_receipt(effect: &Effect, resolution: &Resolution) -> Result<(), Refusal> {
    let shape = effect.plan.as_ref().and_then(|plan| plan.shape.as_ref());
    let (Some(shape), Resolution::Done(receipt)) = (shape, resolution) else { return Ok(()) };
    match shape::misfit(shape, receipt) {
        Some(why) => Err(Refusal::ReceiptInvalid { why, shape: shape.clone() }),
        None => Ok(()),
    }
}

/// Opens the next generation, the only way to do an intent again. Returns the old one with the
/// decision in it, and the new one.
pub fn supersede(
    effect: &Effect,
    person: &Person,
    now: &Moment,
) -> Result<(Effect, Effect), Refusal> {
    let mut old = decided(effect, person, Verdict::Supersede, now)?;
    match effect.state(now) {
        State::Done | State::Failed | State::Expired => {}
        state @ (State::Planned | State::Pending | State::InDoubt | State::Void) => {
            return Err(Refusal::NotSettled(state));
        }
    }
    if effect.generation + 1 >= limits::GENERATIONS_MAX {
        return Err(Refusal::AttemptsExhausted);
    }
    let mut new = Effect::new(&effect.address, now);
    new.generation = effect.generation + 1;
    new.version = 1;
    new.workflow.clone_from(&effect.workflow);
    new.fence_floor = effect.last_fence();
    new.approval = effect.approval.as_ref().map(Approval::unasked);
    old.superseded = Some(now.wall);
    Ok((old.sealed(now), new))
}

/// Cancels an effect before any send. It may be begun again.
pub fn void(effect: &Effect, person: &Person, now: &Moment) -> Result<Effect, Refusal> {
    let mut next = decided(effect, person, Verdict::Void, now)?;
    match effect.state(now) {
        State::Planned if effect.attempts.iter().all(|attempt| attempt.kind == Kind::Look) => {}
        State::Planned | State::Pending | State::InDoubt => return Err(Refusal::AlreadySent),
        state @ (State::Done | State::Failed | State::Void) => {
            return Err(Refusal::AlreadySettled(state));
        }
        State::Expired => return Err(Refusal::Expired),
    }
    next.voided = Some(now.wall);
    // Whoever begins it again asks a person again.
    next.approval = effect.approval.as_ref().map(Approval::unasked);
    Ok(next.sealed(now))
}

/// A row of a home-made dedupe table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    pub address: Address,
    pub workflow: Option<String>,
    pub created: Wall,
    /// Done with this receipt; `None` when the old table only knows that it was started.
    pub receipt: Option<Json>,
}

/// Takes over a foreign row: done stays done, anything else is in doubt.
pub fn import(row: &Imported, person: &Person, now: &Moment) -> Result<Effect, Refusal> {
    let mut effect = Effect::new(&row.address, now);
    effect.created = row.created;
    effect.workflow.clone_from(&row.workflow);
    let mut effect = decided(&effect, person, Verdict::Import, now)?;
    let mut attempt = assumed(&effect, "imported: the old table does not say how it ended", now);
    attempt.began = row.created;
    if let Some(receipt) = &row.receipt {
        let outcome = Outcome::Applied { receipt: receipt.clone() };
        attempt.doubt = None;
        attempt.end = Some(End { at: row.created, by: By::Import, outcome });
    }
    effect.attempts.push(attempt);
    Ok(effect.sealed(now))
}

/// A process remembers an effect that the store has forgotten. Unless what is there speaks for
/// itself, it may have been sent, and is in doubt. `None`: nothing is to be written.
pub fn missed(
    stored: Option<&Effect>,
    address: &Address,
    person: &Person,
    ground: &Ground,
) -> Result<Option<Effect>, Refusal> {
    let now = &ground.now;
    let effect = stored.cloned().unwrap_or_else(|| Effect::new(address, now));
    match effect.state(now) {
        State::Planned | State::Void => {}
        State::Pending | State::InDoubt | State::Done | State::Failed | State::Expired => {
            return Ok(None);
        }
    }
    let floor = ground.epoch << EPOCH_SHIFT;
    if effect.attempts.iter().any(|attempt| attempt.fence > floor) {
        // It was begun since the store came back: what that assumed has been settled.
        return Ok(None);
    }
    let person = Person { version: effect.version, ..person.clone() };
    let mut next = decided(&effect, &person, Verdict::Import, now)?;
    let reason = "the store was restored: a process remembers that it was written";
    let mut attempt = assumed(&next, reason, now);
    attempt.fence = attempt.fence.max(floor + 1);
    next.voided = None;
    next.attempts.push(attempt);
    Ok(Some(next.sealed(now)))
}

pub(super) fn decided(
    effect: &Effect,
    person: &Person,
    verdict: Verdict,
    now: &Moment,
) -> Result<Effect, Refusal> {
    let named = |text: &str| !text.trim().is_empty() && text.len() <= limits::REASON_BYTES_MAX;
    if !named(&person.actor) || !named(&person.reason) {
        return Err(Refusal::ReasonMissing);
    }
    if person.version != effect.version {
        return Err(Refusal::VersionChanged { current: effect.version });
    }
    if effect.decisions.len() >= limits::DECISIONS_MAX {
        return Err(Refusal::AttemptsExhausted);
    }
    let mut next = effect.next();
    next.decisions.push(Decision {
        verdict,
        actor: person.actor.clone(),
        reason: person.reason.clone(),
        at: now.wall,
        version: person.version,
    });
    Ok(next)
}

pub(super) fn assumed(effect: &Effect, reason: &str, now: &Moment) -> Attempt {
    let terms = effect.plan.as_ref().map(|plan| plan.terms);
    let since = now.steady;
    Attempt {
        number: effect.attempts.last().map_or(0, |attempt| attempt.number) + 1,
        id: String::new(),
        fence: effect.last_fence() + 1,
        kind: Kind::Assumed,
        contract: terms.map_or(Contract::AtMostOnce, |terms| terms.contract),
        settle_ms: terms.map_or(limits::SETTLE_MS, |terms| terms.settle_ms),
        worker: String::new(),
        session: None,
        run: None,
        began: now.wall,
        began_at: since,
        lease_until: since,
        deadline: since,
        renewed: false,
        faulty: false,
        traceparent: None,
        doubt: Some(Doubt { at: now.wall, since, reason: short(reason), key_not_used: false }),
        end: None,
    }
}
