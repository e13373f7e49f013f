//! Room on the disk. What is committed lies in the log first; copying it into the database takes
//! room again. A log that grows into the last free bytes cannot be copied any more, and grows again
//! whenever somebody frees a little. So when the disk is nearly full the log is copied first, and a
//! commit is refused that would not leave the room for its own copy.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::checkpoint::{self, PAGE_BYTES, READERS_WAIT};
use super::store_error;
use crate::StoreError;

/// With so much beside the log nobody has to look any closer.
const PLENTY_BYTES: u64 = 256 * 1024 * 1024;
/// For the pages that a commit changes without adding any, and for the checkpoint's own needs.
const SPARE_BYTES: u64 = 256 * 1024;
/// How long a look that found plenty counts: one for each turn would slow every commit.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub(super) struct Room {
    database: PathBuf,
    log: PathBuf,
    folder: PathBuf,
    /// When there was plenty last.
    plenty: Cell<Option<Instant>>,
}

impl Room {
    pub(super) fn of(connection: &Connection) -> Room {
        let database = PathBuf::from(connection.path().unwrap_or_default());
        let folder = database.parent().unwrap_or(Path::new(".")).to_owned();
        let log = checkpoint::wal_path(&database);
        Room { database, log, folder, plenty: Cell::new(None) }
    }

    /// In a turn, before its transaction: copies the log if the room that is left asks for it.
    pub(super) fn make(&self, connection: &Connection) {
        if self.check(connection).is_ok() {
            return;
        }
        // It may not fit either, or somebody reads an old state; the check before the commit tells.
        let copied = connection
            .busy_timeout(READERS_WAIT)
            .map_err(|error| store_error(&error))
            .and_then(|()| checkpoint::truncate(connection, &self.log));
        if let Err(error) = copied {
            tracing::warn!(%error, "the disk is nearly full, and the log could not be copied");
        }
        // As `open::connect` has set it.
        let _ = connection.busy_timeout(Duration::from_secs(10));
    }

    /// Whether what is in the log, and in this transaction, can still be copied into the database.
    pub(super) fn check(&self, connection: &Connection) -> Result<(), StoreError> {
        if self.plenty.get().is_some_and(|looked| looked.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        // A disk that does not say how full it is will say so when a write fails.
        let Ok(stat) = rustix::fs::statvfs(&self.folder) else { return Ok(()) };
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free >= PLENTY_BYTES + 2 * bytes_of(&self.log) {
            self.plenty.set(Some(Instant::now()));
            return Ok(());
        }
        let pages = connection
            .prepare_cached("PRAGMA page_count")
            .and_then(|mut statement| statement.query_row([], |row| row.get::<_, u64>(0)));
        let pages = pages.map_err(|error| store_error(&error))?;
        // Pages that are only in the log: the database grows by them. Those of this transaction
        // go into the log before.
        let to_copy = (pages * PAGE_BYTES).saturating_sub(bytes_of(&self.database));
        let needed = 2 * to_copy + SPARE_BYTES;
        if free >= needed {
            return Ok(());
        }
        let [free, missing] = [free, needed - free].map(|bytes| bytes.div_ceil(1024));
        Err(StoreError::Full(format!(
            "{free} KiB are left, which copying the log into the database may need; free at least \
             {missing} KiB on the disk of {}",
            self.database.display()
        )))
    }
}

fn bytes_of(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |metadata| metadata.len())
}
