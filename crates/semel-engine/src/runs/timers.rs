//! What a driver waits for by time: its open timers, and a regular look at its row.

use std::collections::BTreeMap;
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use semel_core::journal::At;
use semel_core::limits;
use semel_core::time::Moment;
use semel_store::Clock;

/// What a timer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Sleep,
    /// The patience of a wait for a signal.
    Timeout,
    /// The next attempt of a step.
    Retry,
    /// Another look at an effect that is due then.
    Again,
    /// Another look at an effect that only somebody else's word moves.
    Someday,
    /// The deadline of the run.
    Deadline,
}

#[derive(Clone, Debug)]
pub(crate) struct Timer {
    pub(crate) id: String,
    pub(crate) due: At,
    pub(crate) purpose: Purpose,
}

/// The open timers of one run, and the sleeps that stand for them.
pub(crate) struct Timers {
    clock: Clock,
    open: Vec<Timer>,
    alarm: Option<(At, BoxFuture<'static, ()>)>,
    tick: Option<BoxFuture<'static, ()>>,
    tick_ms: u64,
}

impl Timers {
    /// The row is looked at often enough to renew a lease of so long at a third of it.
    pub(crate) fn new(clock: Clock, lease_ms: u64) -> Timers {
        let tick_ms = limits::POLL_MS.min(lease_ms / 3);
        Timers { clock, open: Vec::new(), alarm: None, tick: None, tick_ms }
    }

    pub(crate) fn set(&mut self, id: &str, due: At, purpose: Purpose) {
        self.open.push(Timer { id: id.to_owned(), due, purpose });
    }

    pub(crate) fn remove(&mut self, id: &str) {
        if !self.open.is_empty() {
            self.open.retain(|timer| timer.id != id);
        }
    }

    pub(crate) fn clear(&mut self) {
        self.open.clear();
    }

    /// Drops all that are not for effects: those that are looked at again, and those that wait for
    /// their rate.
    pub(crate) fn keep_effects(&mut self, effects: &BTreeMap<String, String>) {
        self.open.retain(|timer| match timer.purpose {
            Purpose::Again | Purpose::Someday => true,
            Purpose::Retry => effects.contains_key(&timer.id),
            Purpose::Sleep | Purpose::Timeout | Purpose::Deadline => false,
        });
    }

    pub(crate) fn all(&self) -> Vec<Timer> {
        self.open.clone()
    }

    pub(crate) fn find(&self, id: &str) -> Option<&Timer> {
        self.open.iter().find(|timer| timer.id == id)
    }

    /// The next timer to fire; of two that are due at once, the one that was set first.
    pub(crate) fn first(&self, now: &Moment) -> Option<&Timer> {
        self.open.iter().min_by_key(|timer| timer.due.remaining_ms(now))
    }

    /// The timer that is due, if one is.
    pub(crate) fn due(&self, now: &Moment) -> Option<&Timer> {
        // By how long they are due, not only that they are: so the order is that of their times.
        let due = self.open.iter().filter(|timer| timer.due.is_reached(now));
        due.min_by_key(|timer| timer.due.1.ms)
    }

    /// Ready when a timer is due.
    pub(crate) fn poll_due(&mut self, context: &mut Context<'_>, now: &Moment) -> Poll<()> {
        let Some(first) = self.first(now).map(|timer| timer.due) else {
            self.alarm = None;
            return Poll::Pending;
        };
        if first.is_reached(now) {
            return Poll::Ready(());
        }
        if self.alarm.as_ref().is_none_or(|(due, _)| *due != first) {
            let (clock, ms) = (self.clock.clone(), first.remaining_ms(now));
            self.alarm = Some((first, async move { clock.sleep_ms(ms).await }.boxed()));
        }
        let (_, alarm) = self.alarm.as_mut().expect("it was set above");
        let rung = alarm.poll_unpin(context);
        if rung.is_ready() {
            self.alarm = None;
        }
        rung
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Ready about once a second, or more often under a short lease, for as long as somebody waits.
    pub(crate) fn poll_tick(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let (clock, ms) = (&self.clock, self.tick_ms);
        let tick = self.tick.get_or_insert_with(|| {
            let clock = clock.clone();
            async move { clock.sleep_ms(ms).await }.boxed()
        });
        let ticked = tick.poll_unpin(context);
        if ticked.is_ready() {
            self.tick = None;
        }
        ticked
    }
}
