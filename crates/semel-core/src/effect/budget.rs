//! The retry budget of an effect: attempts and total time, on record, shared by every caller, run
//! and handler. Only a person grants another one.

use super::decide::decided;
use super::{Person, Refusal, State, Why};
use crate::journal::At;
use crate::limits;
use crate::record::{Attempt, Contract, Effect, Kind, Terms, Verdict};
use crate::retry::Retry;
use crate::time::{Moment, Steady};

/// Grants another budget of the same size, under the same downstream key. Nothing else changes: a
/// doubt stays one, and its contract decides what is tried.
pub fn grant(effect: &Effect, person: &Person, now: &Moment) -> Result<Effect, Refusal> {
    let mut next = decided(effect, person, Verdict::Grant, now)?;
    match effect.state(now) {
        State::Planned | State::InDoubt => {}
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
    if !effect.is_exhausted(None, now) {
        return Err(Refusal::NotExhausted);
    }
    next.close_lapsed(now);
    next.open_budget()?;
    Ok(next.sealed(now))
}

impl Effect {
    /// Whether nothing more is tried until a person grants more. `usual` is the policy of a handler
    /// that would take an effect whose callers declared none.
    pub fn is_exhausted(&self, usual: Option<&Retry>, now: &Moment) -> bool {
        let Some(plan) = &self.plan else { return false };
        let mut terms = plan.terms;
        if let (None, Some(retry)) = (terms.retry, usual) {
            terms.attempts_max = retry.attempts();
        }
        let looks = matches!(terms.contract, Contract::Probe { .. });
        let is_over = |kind| self.is_spent(kind, &terms) || self.faulty(kind).is_some();
        match self.state(now) {
            State::Planned => {
                !self.is_held(now) && (is_over(Kind::Send) || looks && is_over(Kind::Look))
            }
            // Where only a person can find out, another budget would not help.
            State::InDoubt if self.doubt_due(now).is_none() => false,
            State::InDoubt if looks => is_over(Kind::Look),
            State::InDoubt => is_over(Kind::Send),
            State::Pending | State::Done | State::Failed | State::Void | State::Expired => false,
        }
    }

    /// The last attempt of this kind, if its code raised a programming error. Nothing tries that
    /// code again by itself; a new call or another budget says that it is mended.
    pub fn faulty(&self, kind: Kind) -> Option<&Attempt> {
        let last = self.since_grant().iter().rev().find(|attempt| attempt.kind == kind);
        last.filter(|attempt| attempt.faulty)
    }

    /// How many sends were made since a person last granted more.
    pub fn sends_since_grant(&self) -> u32 {
        self.made(Kind::Send)
    }

    /// The delay before the next try, or `None` when the budget on record has none. `chance` is
    /// drawn by the caller, uniformly from all of `u32`.
    pub fn delay_ms(&self, now: &Moment, chance: u32) -> Option<u64> {
        let retry = self.plan.as_ref().and_then(|plan| plan.terms.retry)?;
        retry.delay_ms(self.tries(), self.budget_age_ms(now), chance)
    }

    /// Notes when the next try is due after an attempt that failed, or that none is left. A settler
    /// without a wish of its own gets the longest delay of the policy.
    pub(super) fn schedule(&mut self, wish_ms: Option<u64>, now: &Moment) {
        if self.attempts.last().is_some_and(|attempt| attempt.faulty) {
            self.retry_at = None;
            return;
        }
        let at = |ms: u64| -> Option<Steady> { Some(now.steady.plus(ms)) };
        let Some(retry) = self.plan.as_ref().and_then(|plan| plan.terms.retry) else {
            self.retry_at = wish_ms.and_then(at);
            return;
        };
        let age_ms = self.budget_age_ms(now);
        let delay_ms = wish_ms.or_else(|| retry.delay_ms(self.tries(), age_ms, u32::MAX));
        let fits = |ms: &u64| age_ms.saturating_add(*ms) <= retry.total_ms;
        self.retry_at = delay_ms.filter(fits).and_then(at);
        if self.retry_at.is_none() {
            self.spent = Some(now.wall);
        }
    }

    /// Opens a new budget, if the row has room for its attempts.
    pub(super) fn open_budget(&mut self) -> Result<(), Refusal> {
        has_room(self)?;
        self.granted_after = u32::try_from(self.attempts.len()).expect("bounded by the limit");
        self.retry_at = None;
        self.spent = None;
        Ok(())
    }

    /// Refuses an attempt that the budget does not have.
    pub(super) fn check_budget(
        &self,
        kind: Kind,
        terms: &Terms,
        now: &Moment,
    ) -> Result<(), Refusal> {
        has_room(self)?;
        if !self.is_spent(kind, terms) {
            return Ok(());
        }
        Err(match self.state(now) {
            // The destination refuses, and only an earlier send is in doubt: another one would not
            // help.
            State::InDoubt if self.final_refusal().is_some() => {
                Refusal::InDoubt { why: Why::NeedsPerson, retry_after_ms: None }
            }
            State::InDoubt => Refusal::InDoubt { why: Why::Exhausted, retry_after_ms: None },
            _ => Refusal::RetriesExhausted { sends: self.sends_since_grant() },
        })
    }

    /// Whether the budget has no attempt of this kind left. Time that is over ends the sends; the
    /// looks go on until one cannot tell.
    fn is_spent(&self, kind: Kind, terms: &Terms) -> bool {
        let cannot_tell = self.since_grant().last().is_some_and(is_unanswered_look);
        let is_late = self.spent.is_some() && (kind == Kind::Send || cannot_tell);
        is_late || self.made(kind) >= terms.attempts_max || has_room(self).is_err()
    }

    /// Looks use the policy up like sends, so that one that cannot tell is not asked for ever.
    fn tries(&self) -> u32 {
        self.made(Kind::Send).max(self.made(Kind::Look))
    }

    fn made(&self, kind: Kind) -> u32 {
        let counts = |attempt: &&Attempt| match kind {
            Kind::Look => is_unanswered_look(attempt),
            Kind::Send | Kind::Assumed => attempt.kind == kind,
        };
        let made = self.since_grant().iter().filter(counts).count();
        u32::try_from(made).expect("bounded by the limit")
    }

    fn budget_age_ms(&self, now: &Moment) -> u64 {
        let counts = |attempt: &&Attempt| attempt.kind != Kind::Assumed && !attempt.faulty;
        let first = self.since_grant().iter().find(counts);
        first.map_or(0, |first| At(first.began, first.began_at).elapsed_ms(now))
    }

    /// The attempts since a person last granted more.
    pub(super) fn since_grant(&self) -> &[Attempt] {
        self.attempts.get(self.granted_after as usize..).unwrap_or_default()
    }
}

fn is_unanswered_look(attempt: &Attempt) -> bool {
    attempt.kind == Kind::Look && attempt.end.is_none()
}

/// The last place in the row is kept for the word of a person.
pub(super) fn has_room(effect: &Effect) -> Result<(), Refusal> {
    let is_full = effect.attempts.len() + 1 >= limits::ATTEMPTS_MAX as usize;
    if is_full { Err(Refusal::AttemptsExhausted) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Desk;

    fn desk(terms: &str) -> Desk {
        Desk::new(terms)
    }

    fn play(desk: &mut Desk, story: &[(&str, &str)]) {
        for (line, want) in story {
            assert_eq!(desk.run(line), *want, "{line}");
        }
    }

    #[test]
    fn req_r10_one_budget_serves_every_caller() {
        let mut desk = desk("native_key retries=3:100ms:300ms:5s");
        play(
            &mut desk,
            &[
                ("begin", "send 1"),
                ("not_applied 1", "planned"),
                ("begin", "! in_progress after 100ms"),
                ("wait 100ms", "planned"),
                // Another caller with other numbers widens nothing.
                ("begin retries=50:1ms:1ms:1h", "send 2"),
                ("not_applied 2", "planned"),
                ("begin", "! in_progress after 200ms"),
                ("wait 200ms", "planned"),
                ("begin retries=none", "send 3"),
                ("not_applied 3", "planned"),
                ("wait 1h", "planned"),
                ("begin", "! retries_exhausted"),
                ("begin retries=50:1ms:1ms:1h", "! retries_exhausted"),
                ("begin retries=none", "! retries_exhausted"),
            ],
        );
        assert_eq!(desk.effect().expect("a row").due(&desk.now), None, "no handler is asked");
    }

    #[test]
    fn req_r10_total_time_ends_the_budget_for_everybody() {
        let mut desk = desk("native_key retries=50:1s:1s:5s");
        play(
            &mut desk,
            &[
                ("begin", "send 1"),
                ("wait 4s", "pending"),
                ("not_applied 1", "planned"),
                ("wait 1s", "planned"),
                ("begin", "send 2"),
                ("not_applied 2", "planned"),
                ("begin", "! retries_exhausted"),
                ("boot", "planned"),
                ("begin", "! retries_exhausted"),
            ],
        );
    }

    #[test]
    fn a_worker_that_died_does_not_use_up_the_time() {
        let mut desk = desk("native_key retries=3:1s:1s:5s");
        play(
            &mut desk,
            &[
                ("begin", "send 1"),
                ("wait 30s", "in_doubt"),
                ("begin", "send 2"),
                ("not_applied 2", "in_doubt"),
                ("begin", "! in_doubt (exhausted)"),
            ],
        );
    }

    #[test]
    fn req_r10_a_grant_opens_another_budget_under_the_same_downstream_key() {
        let mut desk = desk("native_key retries=2:1ms:1ms:5s");
        desk.run("begin");
        let key = desk.permit.as_ref().expect("a permit").downstream_key.clone();
        play(
            &mut desk,
            &[
                ("grant", "! in_progress after 30s"),
                ("not_applied 1", "planned"),
                ("grant", "! not_exhausted"),
                ("wait 1ms", "planned"),
                ("begin", "send 2"),
                ("not_applied 2", "planned"),
                ("grant silent", "! input_invalid"),
                ("grant nobody", "! input_invalid"),
                ("grant old_version", "! version_changed"),
                ("grant", "planned"),
                ("begin", "send 3"),
            ],
        );
        assert_eq!(desk.permit.as_ref().expect("a permit").downstream_key, key);
        play(
            &mut desk,
            &[
                ("not_applied 3", "planned"),
                ("wait 1ms", "planned"),
                ("begin", "send 4"),
                ("not_applied 4", "planned"),
                ("begin", "! retries_exhausted"),
                // The word of a person that it did not happen grants as well.
                ("retry", "planned"),
                ("begin", "send 5"),
                (r#"receipt 5 "0""#, "done"),
                ("grant", "! already_settled"),
            ],
        );
    }

    #[test]
    fn a_doubt_whose_resends_are_used_up_stays_one_when_more_are_granted() {
        let mut desk = desk("native_key retries=1:1ms:1ms:5s");
        play(
            &mut desk,
            &[
                ("begin", "send 1"),
                ("unknown 1", "in_doubt"),
                ("begin", "! in_doubt (exhausted)"),
                ("grant", "in_doubt"),
                ("begin", "send 2"),
            ],
        );
    }

    #[test]
    fn a_look_that_cannot_tell_is_not_asked_for_ever() {
        let mut desk = desk("probe retries=2:1ms:1ms:1h");
        play(
            &mut desk,
            &[
                ("begin", "send 1"),
                ("unknown 1", "in_doubt"),
                ("wait 2m", "in_doubt"),
                ("begin", "look 2"),
                ("unknown 2", "in_doubt"),
                ("wait 1ms", "in_doubt"),
                ("begin", "look 3"),
                ("unknown 3", "in_doubt"),
                ("wait 1ms", "in_doubt"),
                ("begin", "! in_doubt (exhausted)"),
                ("grant", "in_doubt"),
                ("begin", "look 4"),
                ("not_applied 4", "planned"),
                ("begin", "send 5"),
            ],
        );
    }

    #[test]
    fn a_caller_that_retries_by_itself_keeps_no_budget() {
        let mut desk = desk("native_key retries=none");
        for number in 1..=5 {
            assert_eq!(desk.run("begin"), format!("send {number}"));
            assert_eq!(desk.run(&format!("not_applied {number}")), "planned");
        }
        let effect = desk.effect().expect("a row");
        assert!(!effect.is_exhausted(None, &desk.now));
        let once = crate::retry::Retry::NONE;
        assert!(effect.is_exhausted(Some(&once), &desk.now), "no handler sends it behind its back");
    }

    #[test]
    fn req_r10_a_programming_error_is_never_retried_and_uses_up_one_attempt() {
        let mut desk = desk("native_key retries=3:100ms:300ms:5s");
        play(
            &mut desk,
            &[("begin", "send 1"), ("faulty 1", "planned"), ("faulty 1", "said before")],
        );
        let effect = desk.effect().expect("a row");
        assert_eq!(effect.due(&desk.now), None, "no handler tries the same code again");
        assert!(effect.is_exhausted(None, &desk.now), "it is listed for a person");
        play(
            &mut desk,
            &[
                // Corrected code has the whole time of the budget, whenever it comes.
                ("wait 1h", "planned"),
                ("begin", "send 2"),
                ("not_applied 2", "planned"),
                ("begin", "! in_progress after 200ms"),
                ("wait 200ms", "planned"),
                ("begin", "send 3"),
                ("faulty 3", "planned"),
                ("begin", "! retries_exhausted"),
                ("grant", "planned"),
            ],
        );
        assert!(desk.effect().expect("a row").due(&desk.now).is_some(), "a grant goes on");
    }

    #[test]
    fn req_r10_a_programming_error_after_a_send_is_a_doubt_that_nothing_resends_by_itself() {
        for contract in ["native_key", "conditional", "harmless"] {
            let mut desk = desk(&format!("{contract} retries=3:100ms:300ms:5s"));
            play(&mut desk, &[("begin", "send 1"), ("faulty_unknown 1", "in_doubt")]);
            let effect = desk.effect().expect("a row");
            assert_eq!(effect.due(&desk.now), None, "{contract}");
            assert!(effect.is_exhausted(None, &desk.now), "{contract}");
            play(&mut desk, &[("grant", "in_doubt"), ("begin", "send 2")]);
        }
        let mut desk = desk("at_most_once retries=3:100ms:300ms:5s");
        play(&mut desk, &[("begin", "send 1"), ("faulty_unknown 1", "in_doubt")]);
        assert!(desk.run("begin").starts_with("! in_doubt"), "a person decides");
    }

    #[test]
    fn req_r10_a_look_goes_on_after_a_faulty_send_and_stops_when_it_is_faulty_itself() {
        let mut desk = desk("probe retries=3:100ms:300ms:5s");
        play(&mut desk, &[("begin", "send 1"), ("faulty_unknown 1", "in_doubt")]);
        assert!(desk.effect().expect("a row").due(&desk.now).is_some(), "it is looked up");
        play(
            &mut desk,
            &[("wait 2m", "in_doubt"), ("begin", "look 2"), ("not_applied 2", "planned")],
        );
        let effect = desk.effect().expect("a row");
        assert_eq!(effect.due(&desk.now), None, "absent, but the code that sends is at fault");
        play(&mut desk, &[("begin", "send 3"), ("unknown 3", "in_doubt"), ("wait 2m", "in_doubt")]);
        play(&mut desk, &[("begin", "look 4"), ("faulty_unknown 4", "in_doubt")]);
        assert_eq!(desk.effect().expect("a row").due(&desk.now), None, "the look is at fault");
        play(&mut desk, &[("grant", "in_doubt"), ("begin", "look 5")]);
    }

    #[test]
    fn a_full_row_is_not_granted_what_it_cannot_hold() {
        let mut desk = desk("harmless");
        for _ in 0..99 {
            desk.run("begin");
            desk.run("not_applied last");
        }
        assert_eq!(desk.run("begin"), "! attempts_exhausted");
        assert_eq!(desk.run("grant"), "! attempts_exhausted");
        assert_eq!(desk.run("retry"), "! attempts_exhausted");
        assert_eq!(desk.run("failed"), "failed");
    }
}
