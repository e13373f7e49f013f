//! The ground of decisions, as the server told it last: its clocks go on by our own steady one.

use std::sync::{PoisonError, RwLock};

use semel_core::effect::Ground;
use semel_core::time::{Moment, Steady, Wall};

use super::protocol::GroundShape;
use crate::Clock;
use crate::server_time::ServerTime;

pub(super) struct ServerGround {
    steady: ServerTime,
    wall: ServerTime,
    told: RwLock<Option<Told>>,
}

#[derive(Clone, Copy)]
struct Told {
    ground: Ground,
    /// When it came, on our own clock.
    at_ms: i64,
}

impl ServerGround {
    pub(super) fn new(clock: &Clock) -> ServerGround {
        ServerGround {
            steady: ServerTime::new(clock.clone()),
            wall: ServerTime::new(clock.clone()),
            told: RwLock::default(),
        }
    }

    pub(super) fn clock(&self) -> &Clock {
        self.steady.clock()
    }

    pub(super) fn local_ms(&self) -> i64 {
        self.steady.local_ms()
    }

    /// Takes what an answer says that was asked for at `asked_ms`. `false`: it took too long to
    /// tell the time.
    pub(super) fn learn(&self, shape: &GroundShape, asked_ms: i64) -> bool {
        let ground = Ground::from(*shape);
        let mut told = self.told.write().unwrap_or_else(PoisonError::into_inner);
        if told.is_some_and(|told| told.overtakes(&ground, asked_ms)) {
            return true;
        }
        if told.is_some_and(|told| told.ground.now.steady.boot != ground.now.steady.boot) {
            // Another machine keeps the store now, or the same one after a restart.
            self.steady.forget();
            self.wall.forget();
        }
        let steady = self.steady.learn(ground.now.steady.ms, asked_ms);
        let in_time = self.wall.learn(ground.now.wall.0, asked_ms) && steady;
        if told.is_some() || in_time {
            *told = Some(Told { ground, at_ms: self.local_ms() });
        }
        in_time
    }

    pub(super) fn read(&self) -> Ground {
        let told = *self.told.read().unwrap_or_else(PoisonError::into_inner);
        let known = told.expect("a store that is open was greeted").ground;
        let ms = match self.clock() {
            Clock::Real | Clock::Ahead(_) => self.steady.server_ms(),
            Clock::Manual(_) => self.local_ms(),
        };
        let steady = Steady { boot: known.now.steady.boot, ms };
        let wall = Wall(self.wall.wall_ms());
        Ground { now: Moment { wall, steady, wall_is_behind: known.now.wall_is_behind }, ..known }
    }
}

impl Told {
    /// Whether an answer is older than what is known: answers may overtake each other.
    fn overtakes(&self, other: &Ground, asked_ms: i64) -> bool {
        let (known, told) = (self.ground.now.steady, other.now.steady);
        let is_later = other.epoch > self.ground.epoch
            || (known.boot == told.boot && told.ms >= known.ms)
            || asked_ms >= self.at_ms;
        !is_later
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ManualClock;

    fn shape(boot: u64, ms: i64, epoch: u64) -> GroundShape {
        GroundShape {
            wall: Wall(1_000_000 + ms),
            steady: Steady { boot, ms },
            wall_is_behind: false,
            epoch,
            quarantine: None,
        }
    }

    #[test]
    fn the_servers_clock_goes_on_by_ours_and_is_never_ahead() {
        let ground = ServerGround::new(&Clock::Real);
        assert!(ground.learn(&shape(3, 5_000, 7), ground.local_ms()));
        let read = ground.read();
        assert_eq!((read.epoch, read.now.steady.boot), (7, 3));
        assert!((5_000..6_000).contains(&read.now.steady.ms), "{read:?}");
        assert!((1_005_000..1_006_000).contains(&read.now.wall.0), "{read:?}");
    }

    #[test]
    fn an_answer_that_was_overtaken_changes_nothing_and_another_boot_does() {
        let clock = ManualClock::new(0);
        let ground = ServerGround::new(&Clock::Manual(clock.clone()));
        let asked = ground.local_ms();
        clock.advance_ms(10);
        ground.learn(&shape(3, 5_000, 7), ground.local_ms());
        ground.learn(&shape(2, 900_000, 6), asked);
        assert_eq!(ground.read().epoch, 7, "it was written before the server went on");
        clock.advance_ms(10);
        ground.learn(&shape(1, 100, 0), ground.local_ms());
        let now = ground.read();
        assert_eq!((now.epoch, now.now.steady.boot), (0, 1), "another store took its place");
    }

    #[test]
    fn a_first_answer_that_was_slow_is_no_greeting() {
        let clock = ManualClock::new(0);
        let ground = ServerGround::new(&Clock::Manual(clock.clone()));
        let asked = ground.local_ms();
        clock.advance_ms(5_000);
        assert!(!ground.learn(&shape(1, 1, 0), asked));
        assert!(ground.learn(&shape(1, 1, 0), ground.local_ms()));
    }
}
