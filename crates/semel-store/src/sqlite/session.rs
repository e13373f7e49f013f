//! A held lock proves a process alive. When it dies, however it dies, the kernel drops the lock,
//! and its leases are over at once.
//!
//! The folder of the locks may be deleted or a lock be dropped by the program itself while the
//! process lives. So a session also names its process, in every record that it holds: death needs
//! the word of the lock *and* of the kernel, wherever that process can be seen.

use std::path::{Path, PathBuf};

use super::lock::{self, Found, LockFile};
use super::open::create_private_folder;
use super::process::{self, Process};
use super::{io_error, side_folder};
use crate::{StoreError, random_hex};

pub(super) struct Session {
    id: String,
    folder: PathBuf,
    /// Locked for as long as the store is open.
    lock: LockFile,
}

impl Session {
    /// Opens a session. Its lock is held before any lease can name it, and before anybody can see
    /// its file: a file without a lock would be buried as dead.
    pub(super) fn open(path: &Path) -> Result<Session, StoreError> {
        let failed = |error: std::io::Error| io_error("the session lock", &error);
        let folder = sessions(path);
        create_private_folder(&folder)?;
        let id = format!("{}-{}", random_hex()?, Process::own().name());
        let unnamed = format!("{id}.new");
        let lock = LockFile::open(&folder, &unnamed)?;
        lock.take().map_err(failed)?;
        std::fs::rename(folder.join(unnamed), folder.join(&id)).map_err(failed)?;
        Ok(Session { id, folder, lock })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

impl Drop for Session {
    /// The process may live on: it says itself that this session is over.
    fn drop(&mut self) {
        if !process::is_forked() {
            // Where it cannot be said, the leases end by time, or with the process.
            let _ = std::fs::rename(self.folder.join(&self.id), self.folder.join(ended(&self.id)));
            self.lock.release();
        }
    }
}

/// Whether the process of a session is proven dead, or has closed the store. A lock that can be
/// taken is no proof while the process is still there; a missing file alone is no proof at all.
pub(super) fn is_dead(path: &Path, session: &str) -> bool {
    let Some(process) = process_of(session) else { return false };
    let folder = sessions(path);
    if folder.join(ended(session)).exists() {
        return true;
    }
    match lock::look(&folder.join(session)) {
        Found::Held => false,
        Found::Free => process.is_gone().unwrap_or(true),
        Found::Missing => process.is_gone().unwrap_or(false),
    }
}

fn process_of(session: &str) -> Option<Process> {
    let (id, process) = session.split_once('-')?;
    let is_id = id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
    is_id.then(|| Process::named(process)).flatten()
}

fn ended(session: &str) -> String {
    format!("{session}{ENDED}")
}

const ENDED: &str = ".ended";

fn sessions(path: &Path) -> PathBuf {
    side_folder(path).join("sessions")
}

/// The sessions whose files are still there but whose processes are not.
pub(super) fn dead(path: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(sessions(path)) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let names = names.map(|name| name.strip_suffix(ENDED).map(str::to_owned).unwrap_or(name));
    names.filter(|name| is_dead(path, name)).collect()
}

/// Removes the file of a dead session, so that the folder does not grow with restarts.
pub(super) fn bury(path: &Path, session: &str) {
    if is_dead(path, session) {
        // Another process may have been quicker.
        for name in [session, &ended(session)] {
            let _ = std::fs::remove_file(sessions(path).join(name));
        }
    }
}
