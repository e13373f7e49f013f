//! A hint that some process has committed, and where the file stands since. While somebody waits,
//! a thread asks SQLite every few milliseconds whether the data has changed; while nobody does, it
//! sleeps.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::sync::watch;

use super::Shared;
use super::reader::spawn;
use crate::StoreError;

/// Short against any lease, long against a read of one shared page.
const LOOK_EVERY: Duration = Duration::from_millis(5);

pub(super) struct Watcher {
    inner: Arc<Inner>,
}

struct Inner {
    changes: watch::Sender<u64>,
    closed: Mutex<bool>,
    wanted: Condvar,
}

impl Watcher {
    pub(super) fn start(
        connection: Connection,
        shared: Arc<Shared>,
    ) -> Result<Watcher, StoreError> {
        let (changes, _) = watch::channel(0);
        let inner = Inner { changes, closed: Mutex::new(false), wanted: Condvar::new() };
        let inner = Arc::new(inner);
        let watched = inner.clone();
        spawn("semel-watcher", move || watched.run(&connection, &shared))?;
        Ok(Watcher { inner })
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        let receiver = self.inner.changes.subscribe();
        // Under the lock: the thread either has not looked yet or waits and is woken.
        let _closed = self.inner.closed.lock().unwrap_or_else(PoisonError::into_inner);
        self.inner.wanted.notify_one();
        receiver
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        *self.inner.closed.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.inner.wanted.notify_one();
    }
}

impl Inner {
    fn run(&self, connection: &Connection, shared: &Shared) {
        let mut seen = None;
        while self.wait_until_wanted() {
            let version = connection.query_row("PRAGMA data_version", [], |row| row.get(0));
            // An error is no hint; the waiters look for themselves once a second.
            let version: Option<i64> = version.ok();
            if seen != version {
                seen = version;
                // Before the hint: whoever wakes decides upon the quarantine as it is now.
                shared.look(connection);
                self.changes.send_modify(|count| *count += 1);
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }

    /// Sleeps while nobody listens; `false` when the store is closed.
    fn wait_until_wanted(&self) -> bool {
        let closed = self.closed.lock().unwrap_or_else(PoisonError::into_inner);
        let idle = |closed: &mut bool| !*closed && self.changes.receiver_count() == 0;
        !*self.wanted.wait_while(closed, idle).unwrap_or_else(PoisonError::into_inner)
    }
}
