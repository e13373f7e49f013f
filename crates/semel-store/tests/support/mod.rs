//! What the tests on real files and real processes share.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod chance;
pub(crate) mod child;
pub(crate) mod history;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_store::conformance::Subject;
use semel_store::sqlite::{Access, Sqlite};
use semel_store::{Clock, ManualClock, StoreError};

/// A wall time to start manual clocks at.
pub(crate) const WALL_MS: i64 = 1_790_000_000_000;

/// A folder for one store, removed at the end.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path().join("semel.db")
    }

    /// A store on a clock that stands still.
    pub(crate) fn subject(&self) -> Subject {
        let clock = Clock::Manual(ManualClock::new(WALL_MS));
        Arc::new(self.try_open(Access::ReadWrite, clock).expect("a new store"))
    }

    pub(crate) fn open_on(&self, clock: Clock) -> Sqlite {
        self.try_open(Access::ReadWrite, clock).expect("the store opens")
    }

    /// The store, to write, on the real clock.
    pub(crate) fn open(&self) -> Sqlite {
        self.try_open(Access::ReadWrite, Clock::Real).expect("the store opens")
    }

    pub(crate) fn open_to_read(&self) -> Sqlite {
        self.try_open(Access::ReadOnly, Clock::Real).expect("the store opens")
    }

    pub(crate) fn try_open(&self, access: Access, clock: Clock) -> Result<Sqlite, StoreError> {
        Sqlite::open(&self.store(), access, clock)
    }

    /// Closes the store and waits until its threads have let go of the file. Nobody may touch the
    /// file from this process before: closing a second descriptor would drop SQLite's locks.
    pub(crate) fn close(&self, store: Sqlite) {
        drop(store);
        let open = || open_files().into_iter().any(|file| file.starts_with(self.path()));
        wait_until("the store is closed", || !open());
    }
}

/// The files that this process holds open.
fn open_files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("the open files");
    entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}

/// Waits for something that must happen; the limit only ends a test that has failed.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(30), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A file beside the store: `-wal`, `-semel/mark`.
pub(crate) fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}
