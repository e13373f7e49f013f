//! The invariants of one effect and of one run, as checks over their records. `semel verify` runs
//! them on a live store, the tests after every step of every simulation.

pub mod head;
mod wakers;

pub use wakers::{Waker, check_entity, check_gate, check_wait};

use crate::derive;
use crate::effect::State;
use crate::effect::approve::digest_under;
use crate::journal::{Ending, Event};
use crate::limits;
use crate::record::{Answer, Attempt, By, Effect, Kind, Outcome, Verdict};
use crate::run::{How, On, Run, Wait};
use crate::time::Moment;

/// A broken invariant: which one, and what was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    pub invariant: &'static str,
    pub what: String,
}

/// Checks what one row must satisfy by itself.
pub fn check(effect: &Effect, now: &Moment) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut demand = |holds: bool, invariant: &'static str, what: &str| {
        if !holds {
            found.push(Violation { invariant, what: what.to_owned() });
        }
    };
    let state = effect.state(now);
    let live = effect.attempts.iter().filter(|attempt| attempt.is_live(now)).count();
    demand(live <= 1, "I4", "more than one live attempt");
    demand(rises(effect), "I4", "fences or attempt numbers do not strictly increase");
    demand(
        effect.attempts.len() <= limits::ATTEMPTS_MAX as usize,
        "I24",
        "more attempts than the limit",
    );
    if let Some(plan) = &effect.plan {
        let matches = plan.fingerprint.matches(plan.input.text().as_bytes());
        demand(matches, "I2", "the stored input does not match its own fingerprint");
        let derived = derive::downstream_key(&effect.address, effect.generation, None);
        // A team may declare UUIDs of its own; ours say by their version that they are derived.
        let is_uuid = plan.downstream_key.len() == derived.len()
            && plan.downstream_key.bytes().filter(|byte| *byte == b'-').count() == 4
            && plan.downstream_key.as_bytes()[14] == b'8';
        demand(
            !is_uuid || plan.downstream_key == derived,
            "I18",
            "the derived downstream key has changed",
        );
    }
    let has_receipt = effect.receipt().is_some();
    demand((state != State::Done) || has_receipt, "I8", "done without a receipt");
    demand(
        state != State::Failed || !has_receipt || effect.is_disputed(),
        "I8",
        "failed with a receipt, and not marked disputed",
    );
    let proven = |effect: &Effect| {
        effect.attempts.iter().filter(|attempt| attempt.kind != Kind::Look).all(is_proven)
    };
    let decided = effect.decisions.iter().any(|decision| decision.verdict == Verdict::Failed);
    demand(
        state != State::Failed || decided || proven(effect),
        "I8",
        "failed, but not every attempt is proven not applied",
    );
    demand(state != State::Void || proven(effect), "I8", "void after a send");
    let settled = matches!(state, State::Done | State::Failed | State::Void);
    // Time alone has answered a question, and nobody has written that down yet.
    let is_silent = effect.silence(now).is_some() && state == State::Failed;
    let is_noted = effect.settled.is_some() || is_silent;
    demand(settled == is_noted, "I6", "the time it was settled does not fit");
    demand(before_horizon(effect), "I19", "a send at or after the native_key horizon");
    demand(alarmed(effect), "I6", "two different receipts without an alarm");
    demand(sent_as_approved(effect), "I17", "sent, but not approved as it was sent");
    demand(judged_by_another(effect), "I16", "decided by whoever asked, against four eyes");
    found
}

/// Every send since a person was asked had a yes, to exactly what was sent.
fn sent_as_approved(effect: &Effect) -> bool {
    let (Some(approval), Some(plan)) = (&effect.approval, &effect.plan) else { return true };
    let action = effect.address.action.as_str();
    let is_yes = approval.judgement.as_ref().is_some_and(|one| one.answer == Answer::Approved);
    let sends = effect.attempts.iter().skip(approval.after as usize);
    sends.filter(|attempt| attempt.kind == Kind::Send).all(|attempt| {
        is_yes && digest_under(action, &attempt.contract, &plan.input) == approval.digest
    })
}

fn judged_by_another(effect: &Effect) -> bool {
    let approval = effect.approval.as_ref();
    let judged = approval.and_then(|approval| Some((approval, approval.judgement.as_ref()?)));
    judged.is_none_or(|(approval, given)| {
        given.answer == Answer::Expired || !approval.is_own(&given.actor)
    })
}

fn rises(effect: &Effect) -> bool {
    let mut fence = effect.fence_floor;
    let mut number = 0;
    effect.attempts.iter().all(|attempt| {
        let rises = attempt.fence > fence && attempt.number > number;
        (fence, number) = (attempt.fence, attempt.number);
        rises
    })
}

/// Sends before the one where the count began are proven not applied, and the wall clock may have
/// been ahead when they were made.
fn before_horizon(effect: &Effect) -> bool {
    let Some(first_sent) = effect.first_sent else { return true };
    let first = effect.attempts.iter().rposition(|attempt| attempt.began == first_sent);
    let counted = effect.attempts.iter().skip(first.unwrap_or(0));
    counted.filter(|attempt| attempt.kind == Kind::Send && !is_proven(attempt)).all(|attempt| {
        let horizon = attempt.contract.horizon(first_sent, attempt.settle_ms);
        horizon.is_none_or(|horizon| attempt.began < horizon)
    })
}

fn is_proven(attempt: &Attempt) -> bool {
    let end = attempt.end.as_ref().map(|end| &end.outcome);
    matches!(end, Some(Outcome::NotApplied { .. }))
}

/// A second receipt that differs must have raised the alarm. What a person or an import says is
/// one word for several attempts.
fn alarmed(effect: &Effect) -> bool {
    let first = effect.receipt();
    effect.attempts.iter().all(|attempt| {
        let by_worker = attempt
            .end
            .as_ref()
            .is_some_and(|end| matches!(end.by, By::Worker | By::Late | By::Look));
        let differs = attempt.receipt().is_some() && attempt.receipt() != first;
        !(by_worker && differs)
            || effect.alarms.iter().any(|alarm| Some(&alarm.receipt) == attempt.receipt())
    })
}

/// Checks what one run and the last entry of its journal must satisfy.
pub fn check_run(run: &Run, last: Option<&Event>, now: &Moment) -> Vec<Violation> {
    let mut found = Vec::new();
    let mut demand = |holds: bool, invariant: &'static str, what: &str| {
        if !holds {
            found.push(Violation { invariant, what: what.to_owned() });
        }
    };
    let is_open = run.ended.is_none();
    let is_awaited = run.wake_at(now).is_some() || run.waits_on().is_some();
    demand(!is_open || is_awaited, "I14", "unfinished, and nothing will ever wake it");
    let is_timed = |wait: &Wait| match wait.on {
        On::Timer | On::Retry => wait.due.is_some(),
        On::Signal(_) | On::Effect { .. } | On::Slot(_) | On::Child(_) | On::Entity(_) => true,
    };
    demand(run.waits.iter().all(is_timed), "I13", "it waits for a time that is not there");
    let holder = run.lease.as_ref().map(|lease| lease.fence);
    demand(holder.is_none_or(|fence| fence == run.fence), "I15", "held under an old fence");
    if run.expired.is_some() {
        demand(last.is_none(), "I11", "past its retention, but its journal is still there");
        return found;
    }
    demand(last.is_some(), "I11", "its journal is missing");
    let how = run.ended.as_ref().map(|ended| ended.how);
    demand(how == last.and_then(told_end), "I11", "its journal does not end as the run does");
    let is_paused = matches!(last, Some(Event::Paused { .. }));
    demand(run.paused.is_none() || is_paused, "I11", "paused, but its journal does not say so");
    found
}

fn told_end(last: &Event) -> Option<How> {
    let Event::Finished { end } = last else { return None };
    Some(match end {
        Ending::Done(_) => How::Done,
        Ending::Failed(_) => How::Failed,
        Ending::Cancelled(_) => How::Cancelled,
    })
}

#[cfg(test)]
mod tests;
