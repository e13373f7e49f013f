//! What `begin` does about a person's answer: asks for it, waits for it, or tells it.

use super::begin::plan;
use super::{Begin, Decision, Ground, Refusal, approve};
use crate::record::Effect;
use crate::time::Moment;

/// Nothing is sent that a person has to approve and has not. Once asked, everybody is held, and a
/// caller whose terms make it something else than what was approved asks anew.
pub(super) fn hold(
    effect: &Effect,
    ask: &Begin,
    ground: &Ground,
) -> Result<Option<Decision>, Refusal> {
    let now = &ground.now;
    let Some(asked) = question(effect, ask)? else { return Ok(None) };
    let plan = plan(effect, ask)?;
    if effect.is_approved(&plan) {
        return Ok(None);
    }
    if effect.is_held(now) && effect.asks_for(&plan) {
        return Err(held_back(effect, now));
    }
    Ok(Some(Decision::Hold(Box::new(approve::held(effect, plan, &asked, now)))))
}

/// What a person is to be asked, if anything. An effect that somebody asked about stays one to ask
/// about, and one that is sent never becomes a mere question.
pub(super) fn question(effect: &Effect, ask: &Begin) -> Result<Option<approve::Ask>, Refusal> {
    let asked = match (&effect.approval, &ask.approval) {
        (None, None) => return Ok(None),
        (Some(before), None) => approve::Ask::from(before),
        (None, Some(asked)) => asked.clone(),
        (Some(before), Some(asked)) => asked.clone().no_weaker_than(before),
    };
    let was_only = effect.approval.as_ref().is_some_and(|approval| approval.only);
    if effect.plan.is_some() && was_only != asked.only {
        return Err(Refusal::InputChanged);
    }
    asked.check()?;
    Ok(Some(asked))
}

/// A denial is told for what it is. Silence is written down first: told once, it stands, whatever
/// becomes of the clock.
pub(super) fn failed(effect: &Effect, now: &Moment) -> Result<Decision, Refusal> {
    if let Some(expired) = approve::expire(effect, now) {
        return Ok(Decision::Hold(Box::new(expired)));
    }
    match effect.denial(now) {
        Some(judgement) => Err(Refusal::Judged(judgement)),
        None => Ok(Decision::Failed(effect.failure().unwrap_or_default().to_owned())),
    }
}

/// What a caller is told while a person has not said yes.
pub(super) fn held_back(effect: &Effect, now: &Moment) -> Refusal {
    if let Some(judgement) = effect.denial(now) {
        return Refusal::Judged(judgement);
    }
    let expires = effect.approval.as_ref().and_then(|approval| approval.expires);
    Refusal::Held { retry_after_ms: expires.map(|at| at.remaining_ms(now)) }
}
