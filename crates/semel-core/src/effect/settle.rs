//! What happens to an attempt after it was armed: it is settled, renewed, or its lease is gone.

use super::{Refusal, State, approve, short};
use crate::fingerprint::says_the_same;
use crate::json::Json;
use crate::limits;
use crate::record::{Alarm, AlarmKind, Attempt, By, Doubt, Effect, End, Kind, Outcome};
use crate::time::Moment;

/// A worker's word on its attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settle {
    pub fence: u64,
    pub report: Report,
    /// Nobody sends again before this has passed; drawn from the effect's retry budget.
    pub retry_after_ms: Option<u64>,
}

/// What became of an attempt. For a look, a receipt means found and not applied means absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    Receipt(Json),
    /// A look found more than one: the first stands, the others alarm.
    Receipts(Json, Vec<Json>),
    /// Proof that nothing happened. `last`: and nothing ever will under this key.
    NotApplied {
        reason: String,
        last: bool,
    },
    Unknown {
        reason: String,
        key_not_used: bool,
    },
    /// The code raised a programming error, such as a wrong name. The same code would raise it
    /// again: a person grants another budget, or a new call tries it.
    Faulty {
        reason: String,
        landed: Landed,
    },
}

/// Whether what faulty code sent, if anything, can have landed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Landed {
    /// Nothing was sent. Never said of a look: that would mean absent.
    No,
    Unknown {
        key_not_used: bool,
    },
}

impl Report {
    /// What a report of faulty code says of the destination; any other report is its own.
    fn plain(&self) -> Report {
        match self.clone() {
            Report::Faulty { reason, landed: Landed::No } => {
                Report::NotApplied { reason, last: false }
            }
            Report::Faulty { reason, landed: Landed::Unknown { key_not_used } } => {
                Report::Unknown { reason, key_not_used }
            }
            report => report,
        }
    }
}

/// What settling changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settled {
    /// The effect to write; `None` when this was said before.
    pub effect: Option<Effect>,
    /// The lease was gone: the receipt closed its own attempt and moved nothing else.
    pub kept_as_evidence: bool,
}

/// Settles one attempt. A stale fence changes nothing, with one exception: a receipt closes its
/// own attempt under any fence, because it is evidence.
pub fn settle(effect: &Effect, ask: &Settle, now: &Moment) -> Result<Settled, Refusal> {
    if effect.expired.is_some() {
        return Err(Refusal::Expired);
    }
    let index = effect
        .attempts
        .iter()
        .position(|attempt| attempt.fence == ask.fence)
        .ok_or(Refusal::StaleFence)?;
    let attempt = &effect.attempts[index];
    let is_current = attempt.is_live(now) && ask.fence == effect.last_fence();
    let faulty = matches!(ask.report, Report::Faulty { .. });
    let report = ask.report.plain();
    match &report {
        Report::Receipt(receipt) => Ok(file(effect, index, receipt, &[], is_current, now)),
        Report::Receipts(receipt, others) => {
            Ok(file(effect, index, receipt, others, is_current, now))
        }
        Report::NotApplied { .. } | Report::Unknown { .. } if said_before(attempt, &report) => {
            Ok(Settled { effect: None, kept_as_evidence: false })
        }
        Report::NotApplied { .. } | Report::Unknown { .. } if !is_current => {
            Err(Refusal::StaleFence)
        }
        Report::NotApplied { reason, last } => {
            let mut next = effect.next();
            next.close_not_applied(index, reason, *last, now);
            next.attempts[index].faulty = faulty;
            match attempt.kind {
                // Absent: what comes next is a send, not a retry.
                Kind::Look => next.retry_at = None,
                Kind::Send | Kind::Assumed => next.schedule(ask.retry_after_ms, now),
            }
            Ok(Settled { effect: Some(next.sealed(now)), kept_as_evidence: false })
        }
        Report::Unknown { reason, key_not_used } => {
            let mut next = effect.next();
            next.attempts[index].doubt = Some(Doubt {
                at: now.wall,
                since: now.steady,
                reason: short(reason),
                key_not_used: *key_not_used,
            });
            next.attempts[index].faulty = faulty;
            next.schedule(ask.retry_after_ms, now);
            Ok(Settled { effect: Some(next.sealed(now)), kept_as_evidence: false })
        }
        Report::Faulty { .. } => unreachable!("it was made plain"),
    }
}

/// The same word again, because its first answer was lost.
fn said_before(attempt: &Attempt, report: &Report) -> bool {
    match (report, &attempt.end, &attempt.doubt) {
        (Report::NotApplied { reason, last }, Some(end), _) => {
            let last = *last && attempt.kind != Kind::Look;
            end.by == By::Worker
                && end.outcome == Outcome::NotApplied { reason: short(reason), last }
        }
        (Report::Unknown { reason, .. }, None, Some(doubt)) => doubt.reason == short(reason),
        (Report::Receipt(_) | Report::Receipts(..), _, _)
        | (Report::NotApplied { .. }, None, _)
        | (Report::Unknown { .. }, _, _)
        | (Report::Faulty { .. }, _, _) => false,
    }
}

/// Files a receipt. The first one stands for ever.
fn file(
    effect: &Effect,
    index: usize,
    receipt: &Json,
    others: &[Json],
    is_current: bool,
    now: &Moment,
) -> Settled {
    let attempt = &effect.attempts[index];
    let says = |one: &Json, other: &Json| says_the_same(one.text(), other.text());
    if attempt.receipt().is_some_and(|filed| says(filed, receipt)) && others.is_empty() {
        return Settled {
            effect: None,
            kept_as_evidence: !is_current && !ended_by_worker(attempt),
        };
    }
    let first = effect.receipt();
    let alarmed = |receipt: &Json| effect.alarms.iter().any(|alarm| says(&alarm.receipt, receipt));
    let differs = first.is_some_and(|first| !says(first, receipt));
    let has_failed = effect.state(now) == State::Failed;
    let mut next = effect.next();
    let mut alarm = |kind, receipt: &Json| {
        let fence = effect.attempts[index].fence;
        if next.alarms.len() < limits::ALARMS_MAX {
            next.alarms.push(Alarm { kind, at: now.wall, fence, receipt: receipt.clone() });
        }
    };
    if differs && !alarmed(receipt) {
        alarm(AlarmKind::AppliedTwice, receipt);
    }
    if has_failed && !effect.is_disputed() {
        alarm(AlarmKind::Disputed, receipt);
    }
    for other in others.iter().filter(|other| !alarmed(other)) {
        alarm(AlarmKind::AppliedTwice, other);
    }
    if attempt.receipt().is_none() {
        let by = match (attempt.kind, is_current) {
            (Kind::Look, _) => By::Look,
            (Kind::Send | Kind::Assumed, true) => By::Worker,
            (Kind::Send | Kind::Assumed, false) => By::Late,
        };
        let outcome = Outcome::Applied { receipt: receipt.clone() };
        // The first receipt is told by its time, so no later one may be dated before it, even if
        // the wall clock was set back.
        let first_at = effect.applied().and_then(|first| first.end.as_ref()).map(|end| end.at);
        let at = first_at.map_or(now.wall, |first| now.wall.max(first.plus(1)));
        next.attempts[index].end = Some(End { at, by, outcome });
    }
    next.retry_at = None;
    let changed = next.alarms.len() > effect.alarms.len() || attempt.receipt().is_none();
    Settled { effect: changed.then(|| next.sealed(now)), kept_as_evidence: !is_current }
}

fn ended_by_worker(attempt: &Attempt) -> bool {
    attempt.end.as_ref().is_some_and(|end| matches!(end.by, By::Worker | By::Look))
}

/// Whether the caller can stop its call at the deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Abort {
    Possible,
    /// A synchronous function: it stays open, renewed, and is listed as overdue.
    Impossible,
}

/// Extends the lease of a live attempt, up to its hard deadline.
pub fn renew(effect: &Effect, fence: u64, abort: Abort, now: &Moment) -> Result<Effect, Refusal> {
    let last = effect.attempts.last().filter(|attempt| attempt.fence == fence);
    let attempt = last.filter(|attempt| attempt.is_live(now)).ok_or(Refusal::StaleFence)?;
    let lease_ms = effect.plan.as_ref().map(|plan| plan.terms.lease_ms);
    let lease_until = now.steady.plus(lease_ms.ok_or(Refusal::StaleFence)?);
    let lease_until = match abort {
        Abort::Impossible => lease_until,
        Abort::Possible if now.reached(attempt.deadline) => return Err(Refusal::DeadlinePassed),
        Abort::Possible => lease_until.earlier(attempt.deadline),
    };
    let mut next = effect.next();
    let attempt = next.attempts.last_mut().expect("checked above");
    attempt.lease_until = lease_until;
    attempt.renewed = true;
    Ok(next.sealed(now))
}

/// Turns lapsed attempts into recorded doubt, and a question that nobody answered in time into an
/// answer; `None` when there is neither.
pub fn lapse(effect: &Effect, now: &Moment) -> Option<Effect> {
    let told = approve::expire(effect, now).or_else(|| approve::count_anew(effect, now));
    if told.is_some() {
        return told;
    }
    let mut next = effect.next();
    next.close_lapsed(now).then(|| next.sealed(now))
}

/// The process that held the attempt is proven dead: its lease is over and the settle window runs
/// from the proof.
pub fn died(effect: &Effect, session: &str, now: &Moment) -> Option<Effect> {
    if matches!(effect.state(now), State::Expired) {
        return None;
    }
    let mut next = effect.next();
    let mut changed = false;
    for attempt in &mut next.attempts {
        if attempt.is_open() && attempt.session.as_deref() == Some(session) {
            let reason = short("the worker's process died");
            attempt.doubt =
                Some(Doubt { at: now.wall, since: now.steady, reason, key_not_used: false });
            changed = true;
        }
    }
    changed.then(|| next.sealed(now))
}

impl Effect {
    /// Records as doubt what has become unknown by time. Says whether anything has.
    pub(super) fn close_lapsed(&mut self, now: &Moment) -> bool {
        let mut changed = false;
        for attempt in &mut self.attempts {
            if attempt.is_open() && !attempt.is_live(now) {
                let reason = short("the lease lapsed without a word from the worker");
                let since = attempt.lapse_point();
                attempt.doubt = Some(Doubt { at: now.wall, since, reason, key_not_used: false });
                changed = true;
            }
        }
        changed
    }

    /// A proof closes its own attempt only. What a look did not find closes every send that could
    /// no longer land when the look began.
    fn close_not_applied(&mut self, index: usize, reason: &str, last: bool, now: &Moment) {
        let looked_from = Moment { steady: self.attempts[index].began_at, ..*now };
        let is_look = self.attempts[index].kind == Kind::Look;
        let end = |by, reason: &str, last| {
            let outcome = Outcome::NotApplied { reason: short(reason), last };
            Some(End { at: now.wall, by, outcome })
        };
        self.attempts[index].end = end(By::Worker, reason, last && !is_look);
        if !is_look {
            return;
        }
        for attempt in &mut self.attempts {
            let landed = looked_from.reached(attempt.settled_after(&looked_from));
            if attempt.is_unknown(now) && landed {
                attempt.end = end(By::Look, "absent at the destination", false);
            }
        }
    }
}
