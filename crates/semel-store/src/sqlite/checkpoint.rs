//! One process moves the log into the database, whoever writes. The lock elects it; when it dies
//! the next one that asks takes over.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rusqlite::Connection;

use super::lock::LockFile;
use super::reader::spawn;
use super::turnstile::Turnstile;
use super::{side_folder, stop_if_the_disk_failed, store_error};
use crate::StoreError;

/// How often the elected process looks at the size of the log.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// The pause while the log grows: a fast writer fills many megabytes between two looks.
const LOOK_SOON: Duration = Duration::from_millis(10);
/// From here on the log is copied beside the writers, who then wait for the rest and start it anew.
const COPY_BYTES: u64 = 4 * 1024 * 1024;
/// From here on the file of the log is cut, too.
const TRUNCATE_BYTES: u64 = 64 * 1024 * 1024;
/// SQLite's default, which the store uses.
pub(super) const PAGE_BYTES: u64 = 4096;
/// How long the writers wait for readers of an old state before the log may start anew: a reader
/// that never ends may let the log grow, but not stop the writers.
pub(super) const READERS_WAIT: Duration = Duration::from_millis(100);
/// The pause after a checkpoint that could not finish.
const LOOK_AGAIN: Duration = Duration::from_secs(2);

pub(super) struct Checkpointer {
    closed: Arc<AtomicBool>,
}

impl Checkpointer {
    pub(super) fn start(path: &Path, connection: Connection) -> Result<Checkpointer, StoreError> {
        let patience = connection.busy_timeout(READERS_WAIT);
        patience.map_err(|error| store_error(&error))?;
        let folder = side_folder(path);
        let lock = LockFile::open(&folder, "checkpointer")?;
        let turnstile = Turnstile::open(&folder)?;
        let wal = wal_path(path);
        let closed = Arc::new(AtomicBool::new(false));
        let is_closed = closed.clone();
        spawn("semel-checkpointer", move || {
            // Asks again and again: blocked in the kernel, a store that is closed would keep its
            // thread and its files for as long as another process has the role.
            let Some(_role) = Role::wait_for(&lock, &is_closed) else { return };
            let mut bytes_before = 0;
            let mut quiet = Quiet::default();
            while !is_closed.load(Ordering::Relaxed) {
                let bytes = log_bytes(&wal);
                let is_growing = bytes > bytes_before && bytes >= COPY_BYTES;
                bytes_before = bytes;
                let is_quiet = std::fs::metadata(&wal).is_ok_and(|log| quiet.look(&log));
                let pause = match checkpoint(&connection, &turnstile, &wal, is_quiet) {
                    Ok(Copied::All) if is_growing => LOOK_SOON,
                    Ok(Copied::All) => LOOK_EVERY,
                    Ok(Copied::HeldBack) => LOOK_AGAIN,
                    Err(error) => {
                        tracing::warn!(%error, "the checkpoint failed; it is tried again");
                        LOOK_AGAIN
                    }
                };
                std::thread::sleep(pause);
            }
        })?;
        Ok(Checkpointer { closed })
    }
}

impl Drop for Checkpointer {
    fn drop(&mut self) {
        self.closed.store(true, Ordering::Relaxed);
    }
}

/// The role of the one who checkpoints.
struct Role<'a> {
    lock: &'a LockFile,
}

impl Role<'_> {
    fn wait_for<'a>(lock: &'a LockFile, is_closed: &AtomicBool) -> Option<Role<'a>> {
        while !is_closed.load(Ordering::Relaxed) {
            if lock.queue().try_enter() {
                if lock.try_take().unwrap_or(false) {
                    return Some(Role { lock });
                }
                lock.queue().leave();
            }
            std::thread::sleep(LOOK_EVERY);
        }
        None
    }
}

impl Drop for Role<'_> {
    fn drop(&mut self) {
        self.lock.release();
        self.lock.queue().leave();
    }
}

/// Whether the log has come to rest: then it is copied whatever its size, so that the database
/// file alone is seldom far behind.
#[derive(Default)]
struct Quiet {
    last: Option<(u64, SystemTime)>,
    is_copied: bool,
}

impl Quiet {
    /// `true` once, when the log has not changed since the last look.
    fn look(&mut self, log: &std::fs::Metadata) -> bool {
        let now = log.modified().ok().map(|modified| (log.len(), modified));
        let is_same = now.is_some() && now == self.last;
        let is_new = is_same && !self.is_copied && log.len() > 0;
        self.is_copied = is_same;
        self.last = now;
        is_new
    }
}

/// How far a checkpoint came.
enum Copied {
    All,
    /// Somebody still reads an old state.
    HeldBack,
}

fn checkpoint(
    connection: &Connection,
    turnstile: &Turnstile,
    wal: &Path,
    is_quiet: bool,
) -> Result<Copied, StoreError> {
    if log_bytes(wal) < COPY_BYTES && !is_quiet {
        return Ok(Copied::All);
    }
    let run = |pragma| run(connection, wal, pragma);
    let waiting_bytes = run("PRAGMA wal_checkpoint(NOOP)")?.waiting_bytes;
    if waiting_bytes < COPY_BYTES && !is_quiet {
        return Ok(Copied::All);
    }
    // Most of the copying happens while others write, and the log grows meanwhile.
    run("PRAGMA wal_checkpoint(PASSIVE)")?;
    if waiting_bytes < COPY_BYTES {
        return Ok(Copied::All);
    }
    let _turn = turnstile.enter()?;
    // A log that starts anew overwrites itself, which the disk syncs faster than a file that grows.
    // That is not worth waiting for a reader; only the size of the log is.
    let (pragma, patience) = match log_bytes(wal) < TRUNCATE_BYTES {
        true => ("PRAGMA wal_checkpoint(RESTART)", Duration::ZERO),
        false => ("PRAGMA wal_checkpoint(TRUNCATE)", READERS_WAIT),
    };
    connection.busy_timeout(patience).map_err(|error| store_error(&error))?;
    let ran = run(pragma)?;
    Ok(if ran.is_held_back { Copied::HeldBack } else { Copied::All })
}

/// Copies the log and cuts its file, as far as readers let it. The caller has the turn.
pub(super) fn truncate(connection: &Connection, wal: &Path) -> Result<(), StoreError> {
    // Without waiting first: what was copied needs no room any more, whatever becomes of the rest.
    run(connection, wal, "PRAGMA wal_checkpoint(PASSIVE)")?;
    run(connection, wal, "PRAGMA wal_checkpoint(TRUNCATE)").map(|_| ())
}

/// What a checkpoint says of itself.
struct Ran {
    is_held_back: bool,
    /// What is in the log and not in the database yet.
    waiting_bytes: u64,
}

fn run(connection: &Connection, wal: &Path, pragma: &str) -> Result<Ran, StoreError> {
    let ran = connection.query_row(pragma, [], |row| {
        let (frames, copied): (i64, i64) = (row.get(1)?, row.get(2)?);
        let waiting_bytes = u64::try_from(frames - copied).unwrap_or(0) * PAGE_BYTES;
        Ok(Ran { is_held_back: row.get(0)?, waiting_bytes })
    });
    ran.map_err(|error| {
        // A store that was closed and removed meanwhile is no failing disk.
        if wal.exists() {
            stop_if_the_disk_failed(&error);
        }
        store_error(&error)
    })
}

fn log_bytes(wal: &Path) -> u64 {
    std::fs::metadata(wal).map_or(0, |metadata| metadata.len())
}

pub(super) fn wal_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    PathBuf::from(name)
}
