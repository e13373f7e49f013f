//! The clock of a server, as far as a process can know it: that of a Postgres, or of a Semel that
//! is reached over HTTP.
//!
//! Leases of many machines are judged by one clock: the server's. Each answer brings a reading of
//! it. Between two readings a process goes on by its own steady clock, which counts suspend. A
//! reading is always a little old when it arrives, so what is taken for the server's time is never
//! ahead of it: a lease is never ended early. How far it may be behind is bounded by how long the
//! answer took, which is part of the margin that a permit keeps.

use std::sync::{Mutex, PoisonError};

use crate::Clock;

/// An answer that took longer says too little: a permit's margin is two seconds.
const ANSWER_MS_MAX: i64 = 1_000;
/// Readings older than two of these are forgotten: two good clocks drift by milliseconds in it.
const WINDOW_MS: i64 = 30_000;

pub(crate) struct ServerTime {
    clock: Clock,
    offsets: Mutex<Offsets>,
}

/// The server's time minus ours. Each is a lower bound, so the largest is the best.
#[derive(Clone, Copy, Debug, Default)]
struct Offsets {
    since: i64,
    newest: Option<i64>,
    before: Option<i64>,
    /// They are of a server that is gone: good until there is a better one.
    is_over: bool,
}

impl ServerTime {
    pub(crate) fn new(clock: Clock) -> ServerTime {
        ServerTime { clock, offsets: Mutex::default() }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// Our own steady clock: what a question and its answer are timed by.
    pub(crate) fn local_ms(&self) -> i64 {
        self.clock.read().boot_ms
    }

    /// Takes a reading of the server's clock that was asked for at `asked_ms`. Returns whether the
    /// answer was quick enough to be of use.
    pub(crate) fn learn(&self, server_ms: i64, asked_ms: i64) -> bool {
        let now = self.local_ms();
        if now - asked_ms > ANSWER_MS_MAX {
            return false;
        }
        self.offsets.lock().unwrap_or_else(PoisonError::into_inner).learn(server_ms - now, now);
        true
    }

    /// Whether the last reading is so old that the two clocks may have parted since.
    pub(crate) fn is_old(&self) -> bool {
        let offsets = *self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        self.local_ms() - offsets.since >= WINDOW_MS
    }

    /// The next reading replaces all before it: there is another server now. Until it comes the
    /// time goes on, since somebody may ask at any moment.
    pub(crate) fn forget(&self) {
        self.offsets.lock().unwrap_or_else(PoisonError::into_inner).is_over = true;
    }

    /// The server's wall time, where that is the clock that was read.
    pub(crate) fn wall_ms(&self) -> i64 {
        match &self.clock {
            Clock::Manual(_) => self.clock.read().wall_ms,
            Clock::Real | Clock::Ahead(_) => self.server_ms(),
        }
    }

    /// What the server's clock shows by now, at the least.
    pub(crate) fn server_ms(&self) -> i64 {
        let offsets = *self.offsets.lock().unwrap_or_else(PoisonError::into_inner);
        let best = offsets.newest.max(offsets.before);
        self.local_ms() + best.expect("a store that is open has read the server's clock")
    }
}

impl Offsets {
    fn learn(&mut self, offset: i64, now: i64) {
        if self.is_over {
            *self = Offsets::default();
        }
        if self.newest.is_none() || now - self.since >= WINDOW_MS {
            self.before = self.newest.filter(|_| now - self.since < 2 * WINDOW_MS);
            self.newest = Some(offset);
            self.since = now;
        } else {
            self.newest = self.newest.max(Some(offset));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_lower_bound_of_a_window_or_two_counts() {
        let mut offsets = Offsets::default();
        offsets.learn(990, 0);
        offsets.learn(999, 10);
        offsets.learn(995, 20);
        assert_eq!(offsets.newest, Some(999));
        offsets.learn(980, WINDOW_MS);
        assert_eq!((offsets.newest, offsets.before), (Some(980), Some(999)));
        offsets.learn(985, 2 * WINDOW_MS);
        assert_eq!((offsets.newest, offsets.before), (Some(985), Some(980)));
    }

    #[test]
    fn another_servers_clock_replaces_the_old_one_when_it_is_read() {
        let time = ServerTime::new(Clock::Real);
        let offset = || time.wall_ms() - time.local_ms();
        let now = time.local_ms();
        time.offsets.lock().unwrap().learn(9_000, now);
        time.forget();
        assert!((8_900..9_100).contains(&offset()), "the time goes on meanwhile");
        time.offsets.lock().unwrap().learn(500, now);
        assert!((400..600).contains(&offset()), "an earlier clock counts, too");
    }

    #[test]
    fn a_reading_is_old_after_its_window_and_a_new_one_is_not() {
        let clock = crate::ManualClock::new(0);
        let time = ServerTime::new(Clock::Manual(clock.clone()));
        assert!(time.learn(5, time.local_ms()));
        assert!(!time.is_old());
        clock.advance_ms(30_000);
        assert!(time.is_old());
        assert!(time.learn(5, time.local_ms()));
        assert!(!time.is_old());
    }

    #[test]
    fn a_slow_answer_teaches_nothing() {
        let clock = crate::ManualClock::new(0);
        let time = ServerTime::new(Clock::Manual(clock.clone()));
        let asked = time.local_ms();
        clock.advance_ms(1_001);
        assert!(!time.learn(5, asked));
        assert!(time.learn(5, time.local_ms()));
    }
}
