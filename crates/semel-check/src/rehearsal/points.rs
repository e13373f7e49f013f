//! Where a worker dies or stops: at the point that its environment names, by a real signal, and
//! nowhere else. Points lie before and after each commit and around each word on the wire.

use std::collections::HashMap;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{Signal, getpid, kill_process};
use semel_store::{AheadClock, Clock};

/// Names the point to die at. `nowhere` lists all points that are passed. A name that comes more
/// than once in a process is met at its first time; `NAME (2)` is the second.
pub const DIE_AT: &str = "SEMEL_REHEARSE_DIE_AT";
/// Names the point to stop at, by a SIGSTOP: whoever continues the process makes it a zombie.
pub const STOP_AT: &str = "SEMEL_REHEARSE_STOP_AT";
/// How far the clock of this process is ahead, in milliseconds: leases end and timers are due
/// without waiting for them.
pub const AHEAD_MS: &str = "SEMEL_REHEARSE_AHEAD_MS";

/// The points of this process, which one is its last, and its clock.
pub struct Points {
    die_at: Option<String>,
    stop_at: Option<String>,
    clock: Arc<AheadClock>,
    /// How often each name was passed.
    passed: Mutex<HashMap<String, u32>>,
}

impl Points {
    /// `None`: a worker like any other.
    pub fn from_environment() -> Option<Points> {
        let named = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let (die_at, stop_at, ahead) = (named(DIE_AT), named(STOP_AT), named(AHEAD_MS));
        if die_at.is_none() && stop_at.is_none() && ahead.is_none() {
            return None;
        }
        let ahead_ms = ahead.and_then(|ms| ms.parse().ok()).unwrap_or_default();
        Some(Points { die_at, stop_at, clock: AheadClock::new(ahead_ms), passed: Mutex::default() })
    }

    /// The clock that the store of this process is opened with.
    pub fn clock(&self) -> Clock {
        Clock::Ahead(self.clock.clone())
    }

    /// Pushes this process's time ahead.
    pub fn push_ms(&self, ms: u64) {
        self.clock.push_ms(ms);
    }

    /// Passes a point that has one name or several, and says so; or never returns.
    pub fn pass(&self, names: &[String]) {
        let line = format!("point: {}\n", names.join(" | "));
        // One write: whoever is killed meanwhile leaves a whole line or none.
        let _ = std::io::stderr().write_all(line.as_bytes());
        for name in names {
            let times = self.count(name);
            let is_met =
                |at: &Option<String>| at.as_ref().is_some_and(|at| is_named(at, name, times));
            if is_met(&self.die_at) {
                die();
            }
            if is_met(&self.stop_at) {
                let _ = kill_process(getpid(), Signal::STOP);
            }
        }
    }

    fn count(&self, name: &str) -> u32 {
        let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
        let times = passed.entry(name.to_owned()).or_default();
        *times += 1;
        *times
    }
}

fn is_named(at: &str, name: &str, times: u32) -> bool {
    match at.strip_prefix(name) {
        Some("") => times == 1,
        Some(rest) => rest == format!(" ({times})"),
        None => false,
    }
}

fn die() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    // The signal arrives before this thread comes back from the kernel.
    std::process::abort()
}

#[cfg(test)]
mod tests {
    use super::is_named;

    #[test]
    fn a_point_is_met_the_first_time_or_the_one_that_is_named() {
        assert!(is_named("before finished", "before finished", 1));
        assert!(!is_named("before finished", "before finished", 2));
        assert!(is_named("before finished (2)", "before finished", 2));
        assert!(!is_named("before finished (2)", "before finished", 1));
        assert!(!is_named("before finished", "before finish", 1));
    }
}
