//! Where a worker dies or stops: at the point that its environment names, by a real signal, and
//! nowhere else. Points lie before and after each commit and around each word on the wire.

use std::collections::HashMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

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
/// Names a file that keeps how far the clocks of one rehearsal are ahead, in milliseconds: a
/// process begins where the others are, also those that were killed, and one that was stopped
/// wakes up as late as it is.
pub const CLOCK_FILE: &str = "SEMEL_REHEARSE_CLOCK";

/// The points of this process, which one is its last, and its clock.
pub struct Points {
    die_at: Option<String>,
    stop_at: Option<String>,
    clock: Arc<AheadClock>,
    clock_file: Option<PathBuf>,
    ahead_ms: Mutex<u64>,
    /// How often each name was passed.
    passed: Mutex<HashMap<String, u32>>,
}

impl Points {
    /// `None`: a worker like any other.
    pub fn from_environment() -> Option<Points> {
        Points::read(|name| std::env::var(name).ok())
    }

    fn read(environment: impl Fn(&str) -> Option<String>) -> Option<Points> {
        let named = |name: &str| environment(name).filter(|value| !value.is_empty());
        let (die_at, stop_at, ahead) = (named(DIE_AT), named(STOP_AT), named(AHEAD_MS));
        let clock_file = named(CLOCK_FILE).map(PathBuf::from);
        if die_at.is_none() && stop_at.is_none() && ahead.is_none() && clock_file.is_none() {
            return None;
        }
        let points = Points {
            die_at,
            stop_at,
            clock: AheadClock::new(0),
            clock_file,
            ahead_ms: Mutex::default(),
            passed: Mutex::default(),
        };
        points.catch_up();
        points.push_ms(ahead.and_then(|ms| ms.parse().ok()).unwrap_or_default());
        Some(points)
    }

    /// Whether a rehearsal like this may work on the store at an address. Where time is pushed that
    /// is only a file: on a server others work by the server's clock.
    pub fn may_open(&self, url: &str) -> bool {
        !self.moves_clock() || url.starts_with("sqlite:")
    }

    fn moves_clock(&self) -> bool {
        self.clock_file.is_some() || *lock(&self.ahead_ms) > 0
    }

    /// What its operator should know, in one line: a variable that was left in an environment ends
    /// workers and moves leases without a word.
    pub fn warning(&self) -> String {
        let set = [
            (DIE_AT, self.die_at.is_some()),
            (STOP_AT, self.stop_at.is_some()),
            (AHEAD_MS, self.clock_file.is_none() && self.moves_clock()),
            (CLOCK_FILE, self.clock_file.is_some()),
        ];
        let names: Vec<&str> = set.iter().filter(|(_, is)| *is).map(|(name, _)| *name).collect();
        let names = names.join(", ");
        format!("rehearsal: this process obeys {names}, it is not for production\n")
    }

    /// The clock that the store of this process is opened with.
    pub fn clock(&self) -> Clock {
        Clock::Ahead(self.clock.clone())
    }

    /// Pushes time ahead: this process's at once, that of the others when they begin or wake up.
    pub fn push_ms(&self, ms: u64) {
        let mut ahead_ms = lock(&self.ahead_ms);
        *ahead_ms = ahead_ms.saturating_add(ms);
        if let Some(file) = self.clock_file.as_ref().filter(|_| ms > 0) {
            // Renamed into its place: whoever is killed meanwhile leaves the time as it was.
            let new = file.with_extension(getpid().as_raw_nonzero().to_string());
            let _ = std::fs::write(&new, ahead_ms.to_string());
            let _ = std::fs::rename(&new, file);
        }
        self.clock.push_ms(ms);
    }

    /// Takes over the time of the others, where they are further ahead.
    fn catch_up(&self) {
        let kept = self.clock_file.as_ref().and_then(|file| std::fs::read_to_string(file).ok());
        let kept_ms: u64 = kept.and_then(|ms| ms.parse().ok()).unwrap_or_default();
        let mut ahead_ms = lock(&self.ahead_ms);
        self.clock.push_ms(kept_ms.saturating_sub(*ahead_ms));
        *ahead_ms = kept_ms.max(*ahead_ms);
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
                self.catch_up();
            }
        }
    }

    fn count(&self, name: &str) -> u32 {
        let mut passed = lock(&self.passed);
        let times = passed.entry(name.to_owned()).or_default();
        *times += 1;
        *times
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    use super::*;

    #[test]
    fn a_point_is_met_the_first_time_or_the_one_that_is_named() {
        assert!(is_named("before finished", "before finished", 1));
        assert!(!is_named("before finished", "before finished", 2));
        assert!(is_named("before finished (2)", "before finished", 2));
        assert!(!is_named("before finished (2)", "before finished", 1));
        assert!(!is_named("before finished", "before finish", 1));
    }

    fn points(set: &[(&str, &str)]) -> Option<Points> {
        let value = |name: &str| set.iter().find(|(known, _)| *known == name);
        Points::read(|name| value(name).map(|(_, value)| (*value).to_owned()))
    }

    #[test]
    fn a_rehearsal_says_what_it_obeys() {
        assert!(points(&[(DIE_AT, "")]).is_none(), "a worker like any other");
        let dies = points(&[(DIE_AT, "nowhere"), (AHEAD_MS, "5")]).expect("a rehearsal");
        let want = "rehearsal: this process obeys SEMEL_REHEARSE_DIE_AT, SEMEL_REHEARSE_AHEAD_MS, \
                    it is not for production\n";
        assert_eq!(dies.warning(), want);
    }

    #[test]
    fn time_is_pushed_only_on_a_store_of_ones_own() {
        let dies = points(&[(DIE_AT, "nowhere")]).expect("a rehearsal");
        assert!(dies.may_open("postgres://db/semel") && dies.may_open("sqlite:semel.db"));
        for set in [(AHEAD_MS, "5"), (CLOCK_FILE, "no/such/clock")] {
            let moves = points(&[set]).expect("a rehearsal");
            assert!(!moves.may_open("postgres://db/semel"), "{set:?}");
            assert!(moves.may_open("sqlite:semel.db"), "{set:?}");
        }
    }
}
