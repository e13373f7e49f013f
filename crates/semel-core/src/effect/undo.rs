//! Taking an effect back. The undo is an effect of its own; what it takes back points to it from
//! the moment it may be sent, and is no plain replay any more.

use super::{Refusal, State};
use crate::json::Json;
use crate::record::{Effect, Kind, Named, Undo};
use crate::time::Moment;

/// Notes in a done effect that this one takes it back. `None`: it is noted already. An effect is
/// taken back once: whoever comes with another undo waits for what becomes of the first.
pub fn undoing(effect: &Effect, by: &Named, now: &Moment) -> Result<Option<Effect>, Refusal> {
    match &effect.undo {
        Some(undo) if undo.by == *by => return Ok(None),
        Some(_) => return Err(Refusal::Undoing),
        None => {}
    }
    match effect.state(now) {
        State::Done => {}
        State::Expired => return Err(Refusal::Expired),
        state
        @ (State::Planned | State::Pending | State::Failed | State::InDoubt | State::Void) => {
            return Err(Refusal::NotSettled(state));
        }
    }
    let undo = Some(Undo { by: by.clone(), receipt: None });
    Ok(Some(Effect { undo, ..effect.next() }))
}

/// Notes the receipt of the undo: the first one stands. `None`: there is nothing to note.
pub fn undone(effect: &Effect, by: &Named, receipt: &Json) -> Option<Effect> {
    let is_noted = effect.undo.as_ref().is_some_and(|undo| undo.receipt.is_some());
    if is_noted || effect.expired.is_some() {
        return None;
    }
    let undo = Some(Undo { by: by.clone(), receipt: Some(receipt.clone()) });
    Some(Effect { undo, ..effect.next() })
}

impl Effect {
    /// The name by which another effect points to this one.
    pub fn named(&self) -> Named {
        Named {
            action: self.address.action.as_str().to_owned(),
            key: self.address.key.as_str().to_owned(),
            generation: self.generation,
        }
    }

    /// The run whose attempt is known to have applied: it alone takes the effect back.
    pub fn owner(&self) -> Option<&str> {
        let applied = self.applied()?;
        let sent = match applied.kind {
            Kind::Send => applied,
            // Found: the send that may have done it. Without one it was there before.
            Kind::Look => self.attempts.iter().rev().find(|attempt| attempt.kind == Kind::Send)?,
            Kind::Assumed => return None,
        };
        sent.run.as_deref().or(self.run.as_deref()).filter(|run| !run.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Desk;
    use super::*;

    fn by() -> Named {
        Named { action: "refund".into(), key: "42".into(), generation: 0 }
    }

    fn charged() -> Desk {
        let mut desk = Desk::new("native_key");
        desk.run("begin");
        desk.run(r#"receipt 1 "ch_1""#);
        desk
    }

    #[test]
    fn an_undone_effect_answers_with_both_receipts_and_never_a_plain_replay() {
        let mut desk = charged();
        assert_eq!(desk.run("begin"), r#"replay "ch_1""#);
        let effect = desk.effect().expect("a row").clone();
        let undoing = undoing(&effect, &by(), &desk.now).expect("done").expect("new");
        desk.rows = vec![undoing.clone()];
        assert_eq!(desk.run("begin"), "! in_progress after 1s");
        let receipt = Json::from_text(r#""re_1""#).expect("JSON");
        desk.rows = vec![undone(&undoing, &by(), &receipt).expect("new")];
        assert_eq!(desk.run("begin"), r#"undone "ch_1" "re_1""#);
    }

    #[test]
    fn noting_it_again_changes_nothing_and_another_undo_waits() {
        let desk = charged();
        let effect = desk.effect().expect("a row");
        let marked = undoing(effect, &by(), &desk.now).expect("done").expect("new");
        assert_eq!(undoing(&marked, &by(), &desk.now), Ok(None));
        let other = Named { key: "43".into(), ..by() };
        assert_eq!(undoing(&marked, &other, &desk.now), Err(Refusal::Undoing));
        let receipt = Json::from_text("1").expect("JSON");
        let done = undone(&marked, &by(), &receipt).expect("new");
        let second = Json::from_text("2").expect("JSON");
        assert_eq!(undone(&done, &by(), &second), None, "the first receipt stands");
    }

    #[test]
    fn only_what_was_done_is_taken_back() {
        let mut desk = Desk::new("at_most_once");
        desk.run("begin");
        let refused = |desk: &Desk| undoing(desk.effect().expect("a row"), &by(), &desk.now);
        assert_eq!(refused(&desk), Err(Refusal::NotSettled(State::Pending)));
        desk.run("unknown 1");
        assert_eq!(refused(&desk), Err(Refusal::NotSettled(State::InDoubt)));
    }
}
