//! Real time, and time that tests move by hand.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::sync::watch;

/// A clock: both kinds of time, and the patience to wait for them.
#[derive(Clone, Debug)]
pub enum Clock {
    Real,
    /// Real time that a rehearsal may push ahead. Postgres goes by its own clock all the same.
    Ahead(Arc<AheadClock>),
    Manual(Arc<ManualClock>),
}

/// One reading, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    pub(crate) wall_ms: i64,
    pub(crate) boot_ms: i64,
}

impl Clock {
    pub(crate) fn read(&self) -> Reading {
        match self {
            Clock::Real => real(),
            Clock::Ahead(clock) => clock.read(),
            Clock::Manual(clock) => clock.read(),
        }
    }

    /// Which boot of which machine this is.
    pub(crate) fn boot_id(&self) -> String {
        match self {
            // Without it two boots cannot be told apart, so each opening counts as a new one.
            Clock::Real | Clock::Ahead(_) => {
                std::fs::read_to_string("/proc/sys/kernel/random/boot_id")
                    .map(|id| id.trim().to_owned())
                    .unwrap_or_else(|_| format!("unknown since {}", real_wall_ms()))
            }
            Clock::Manual(clock) => lock(&clock.boot_id).clone(),
        }
    }

    /// Waits for a time on the steady clock to pass.
    pub async fn sleep_ms(&self, ms: u64) {
        match self {
            Clock::Real => tokio::time::sleep(Duration::from_millis(ms)).await,
            Clock::Ahead(clock) => clock.sleep_ms(ms).await,
            Clock::Manual(clock) => clock.sleep_ms(ms).await,
        }
    }
}

/// A clock that goes as the real one does, and so much ahead of it.
#[derive(Debug)]
pub struct AheadClock {
    ahead_ms: watch::Sender<i64>,
}

impl AheadClock {
    pub fn new(ahead_ms: u64) -> Arc<AheadClock> {
        let (clock, _) = watch::channel(0);
        let clock = AheadClock { ahead_ms: clock };
        clock.push_ms(ahead_ms);
        Arc::new(clock)
    }

    /// Both clocks go forward at once; whoever sleeps until then wakes up.
    pub fn push_ms(&self, ms: u64) {
        self.ahead_ms.send_modify(|ahead| *ahead = ahead.saturating_add_unsigned(ms));
    }

    fn read(&self) -> Reading {
        let (real, ahead) = (real(), *self.ahead_ms.borrow());
        Reading { wall_ms: real.wall_ms + ahead, boot_ms: real.boot_ms + ahead }
    }

    async fn sleep_ms(&self, ms: u64) {
        let until = self.read().boot_ms.saturating_add_unsigned(ms);
        let mut pushed = self.ahead_ms.subscribe();
        while let Ok(left) = u64::try_from(until - self.read().boot_ms)
            && left > 0
        {
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(left)) => {}
                _ = pushed.changed() => {}
            }
        }
    }
}

/// A clock that stands still until a test moves it.
#[derive(Debug)]
pub struct ManualClock {
    reading: watch::Sender<(i64, i64)>,
    boot_id: Mutex<String>,
}

impl ManualClock {
    /// Starts at a wall time, one minute after boot.
    pub fn new(wall_ms: i64) -> Arc<ManualClock> {
        let (reading, _) = watch::channel((wall_ms, 60_000));
        Arc::new(ManualClock { reading, boot_id: Mutex::new("boot-1".to_owned()) })
    }

    /// Both clocks go forward.
    pub fn advance_ms(&self, ms: u64) {
        let ms = i64::try_from(ms).expect("a test's time is short");
        self.reading.send_modify(|(wall, boot)| {
            *wall += ms;
            *boot += ms;
        });
    }

    /// The wall clock steps, forward or back; the steady one does not.
    pub fn step_wall_ms(&self, ms: i64) {
        self.reading.send_modify(|(wall, _)| *wall += ms);
    }

    /// The machine restarts: another boot, whose steady clock starts at zero.
    pub fn reboot(&self, boot_id: &str) {
        boot_id.clone_into(&mut lock(&self.boot_id));
        self.reading.send_modify(|(_, boot)| *boot = 0);
    }

    fn read(&self) -> Reading {
        let (wall_ms, boot_ms) = *self.reading.borrow();
        Reading { wall_ms, boot_ms }
    }

    async fn sleep_ms(&self, ms: u64) {
        let until = self.read().boot_ms.saturating_add_unsigned(ms);
        let mut reading = self.reading.subscribe();
        // An error means that the clock is gone, and with it whoever could move it.
        let _ = reading.wait_for(|(_, boot)| *boot >= until).await;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn real() -> Reading {
    Reading { wall_ms: real_wall_ms(), boot_ms: real_boot_ms() }
}

fn real_wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Counts suspend, unlike `Instant`: a laptop that slept has lost its leases.
fn real_boot_ms() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}
