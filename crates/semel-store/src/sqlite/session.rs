//! A held file lock proves a process alive. When it dies, however it dies, the kernel drops the
//! lock, and its leases are over at once.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::open::create_private_folder;
use super::turnstile::{lock_file, wait_for};
use super::{io_error, side_folder};
use crate::{StoreError, random_hex};

pub(super) struct Session {
    id: String,
    /// Locked for as long as the process lives.
    _lock: File,
}

impl Session {
    /// Opens a session. Its lock is held before any lease can name it, and before anybody can see
    /// its file: a file without a lock would be buried as dead.
    pub(super) fn open(path: &Path) -> Result<Session, StoreError> {
        let failed = |error: std::io::Error| io_error("the session lock", &error);
        let folder = sessions(path);
        create_private_folder(&folder)?;
        let id = random_hex()?;
        let unnamed = format!("{id}.new");
        let lock = lock_file(&folder, &unnamed)?;
        wait_for(&lock).map_err(failed)?;
        std::fs::rename(folder.join(unnamed), folder.join(&id)).map_err(failed)?;
        Ok(Session { id, _lock: lock })
    }

    pub(super) fn id(&self) -> &str {
        &self.id
    }
}

/// Whether the process of a session is proven dead. Sessions are never reused, so a missing file
/// proves it, and so does a lock that we can take. Shared, so that two who ask do not see each
/// other as the session.
pub(super) fn is_dead(path: &Path, session: &str) -> bool {
    let is_name = session.len() == 32 && session.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_name {
        return false;
    }
    match File::open(sessions(path).join(session)) {
        Ok(file) => file.try_lock_shared().is_ok(),
        Err(error) => error.kind() == std::io::ErrorKind::NotFound,
    }
}

fn sessions(path: &Path) -> PathBuf {
    side_folder(path).join("sessions")
}

/// The sessions whose files are still there but whose processes are not.
pub(super) fn dead(path: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(sessions(path)) else { return Vec::new() };
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| is_dead(path, name)).collect()
}

/// Removes the file of a dead session, so that the folder does not grow with restarts.
pub(super) fn bury(path: &Path, session: &str) {
    if is_dead(path, session) {
        // Another process may have been quicker.
        let _ = std::fs::remove_file(sessions(path).join(session));
    }
}
