//! The order of the processes that write. SQLite's own busy handler polls, so an unlucky process
//! can starve; here each one queues in the kernel.

use std::fs::File;
use std::path::Path;

use super::io_error;
use crate::StoreError;

/// Two locks. Whoever holds `next` is the only one waiting for `turn`, so a process that has just
/// written cannot slip in again before the one that waited.
pub(super) struct Turnstile {
    next: File,
    turn: File,
}

impl Turnstile {
    pub(super) fn open(folder: &Path) -> Result<Turnstile, StoreError> {
        Ok(Turnstile { next: lock_file(folder, "next")?, turn: lock_file(folder, "turn")? })
    }

    /// Waits for this process' turn; it ends when the guard is dropped, or with the process.
    pub(super) fn enter(&self) -> Result<Turn<'_>, StoreError> {
        let failed = |error: std::io::Error| io_error("the turnstile", &error);
        wait_for(&self.next).map_err(failed)?;
        let turn = wait_for(&self.turn).map_err(failed);
        self.next.unlock().map_err(failed)?;
        turn.map(|()| Turn { turn: &self.turn })
    }
}

pub(super) struct Turn<'a> {
    turn: &'a File,
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        // It can only fail when the descriptor is gone, and then the lock is, too.
        let _ = self.turn.unlock();
    }
}

/// Waits for a lock, also through signals: a host may handle them without restarting calls.
pub(super) fn wait_for(file: &File) -> std::io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            done => return done,
        }
    }
}

pub(super) fn lock_file(folder: &Path, name: &str) -> Result<File, StoreError> {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    options.open(folder.join(name)).map_err(|error| io_error("a lock file", &error))
}
