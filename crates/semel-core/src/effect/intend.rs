//! `intend`: an intent that somebody wrote down, to be acted on later by whoever brings the code.

use super::begin::{fresh, plan};
use super::hold::question;
use super::{Begin, Ground, Refusal, State, approve};
use crate::record::Effect;

/// What an intent means for one effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intended {
    /// Write the effect: planned, and due at once unless a person has to approve it first.
    Planned(Box<Effect>),
    /// The ledger knows this intent; whatever has become of it, nothing is added.
    Same,
}

/// Decides what an intent means. `stored` is the newest generation, when there is one. Nothing is
/// sent or assumed here: that is for `begin`, in a quarantine as ever.
pub fn intend(stored: Option<&Effect>, ask: &Begin, ground: &Ground) -> Result<Intended, Refusal> {
    let now = &ground.now;
    let Some(effect) = stored else {
        return planned(&fresh(ask, ground), ask, ground);
    };
    if effect.state(now) == State::Expired {
        return Err(Refusal::Expired);
    }
    if let Some(plan) = &effect.plan
        && !plan.fingerprint.matches(ask.input.text().as_bytes())
    {
        return Err(Refusal::InputChanged);
    }
    match effect.state(now) {
        State::Void => planned(effect, ask, ground),
        // A generation that was opened, and that nobody has asked for yet.
        State::Planned if effect.plan.is_none() => planned(effect, ask, ground),
        State::Planned
        | State::Pending
        | State::Done
        | State::Failed
        | State::InDoubt
        | State::Expired => Ok(Intended::Same),
    }
}

fn planned(effect: &Effect, ask: &Begin, ground: &Ground) -> Result<Intended, Refusal> {
    let plan = plan(effect, ask)?;
    if let Some(asked) = question(effect, ask)? {
        let held = approve::held(effect, plan, &asked, &ground.now);
        return Ok(Intended::Planned(Box::new(held)));
    }
    let mut next = effect.next();
    next.plan = Some(plan);
    next.voided = None;
    next.retry_at = None;
    Ok(Intended::Planned(Box::new(next.sealed(&ground.now))))
}

#[cfg(test)]
mod tests {
    use super::super::testing::Desk;

    #[test]
    fn a_planned_effect_is_due_at_once_and_begins_with_the_stored_input() {
        let mut desk = Desk::new("native_key");
        assert_eq!(desk.run(r#"intend input={"n":7}"#), "planned");
        let effect = desk.effect().expect("a row").clone();
        assert_eq!(effect.due(&desk.now), Some(desk.now.steady));
        assert_eq!((effect.version, effect.attempts.len()), (1, 0));
        assert_eq!(desk.run(r#"begin input={"n":8}"#), "! input_changed");
        assert_eq!(desk.run(r#"begin input={"n":7}"#), "send 1");
        assert_eq!(desk.permit.as_ref().expect("a permit").input.text(), r#"{"n":7}"#);
    }

    #[test]
    fn the_same_intent_again_adds_nothing() {
        let mut desk = Desk::new("native_key");
        desk.run("intend");
        let first = desk.rows.clone();
        assert_eq!(desk.run("intend"), "same");
        assert_eq!(desk.run(r#"intend input={"n":2}"#), "! input_changed");
        assert_eq!(desk.rows, first);
        desk.run("begin");
        desk.run(r#"receipt 1 "0""#);
        assert_eq!(desk.run("intend"), "same");
        assert_eq!(desk.run("begin"), r#"replay "0""#);
    }

    #[test]
    fn an_opened_generation_that_nobody_asked_for_is_not_due() {
        let mut desk = Desk::new("native_key");
        for line in ["intend", "begin", r#"receipt 1 "0""#, "supersede"] {
            desk.run(line);
        }
        assert_eq!(desk.effect().expect("a row").due(&desk.now), None);
        assert_eq!(desk.run(r#"intend input={"n":2}"#), "planned");
        assert_eq!(desk.effect().expect("a row").due(&desk.now), Some(desk.now.steady));
    }

    #[test]
    fn in_a_quarantine_a_planned_effect_is_begun_as_any_other() {
        let mut desk = Desk::new("at_most_once");
        desk.run("quarantine 5m");
        assert_eq!(desk.run("intend"), "planned");
        assert_eq!(desk.run("begin"), "written in_doubt");
    }
}
