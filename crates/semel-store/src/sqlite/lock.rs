//! Locks between processes that a forked child does not share. `flock` and open file description
//! locks belong to the open file, which a child has in common with its parent: while the child
//! lives, the death of the parent frees nothing. Record locks belong to the process that took them.
//!
//! In return, closing *any* descriptor of a file drops all locks that its process has on it, and
//! the threads of a process do not keep each other out. So a process opens each lock file once,
//! keeps that descriptor for as long as anybody uses it, and lets its own threads queue before it.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use rustix::fs::{FlockOperation, fcntl_lock};
use rustix::io::Errno;
use rustix::process::{Flock, FlockType, fcntl_getlk};

use super::{io_error, process};
use crate::StoreError;

/// Its device and its inode.
type Identity = (u64, u64);

/// The lock files that this process has open. Each is opened and closed under this mutex.
static OPEN: Mutex<BTreeMap<Identity, Arc<Inner>>> = Mutex::new(BTreeMap::new());

fn open_files() -> MutexGuard<'static, BTreeMap<Identity, Arc<Inner>>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A lock file, shared by all in this process who opened it.
pub(super) struct LockFile {
    /// Only taken when dropped.
    inner: Option<Arc<Inner>>,
}

struct Inner {
    file: File,
    identity: Identity,
    queue: Queue,
}

impl LockFile {
    /// Opens the file, or creates it.
    pub(super) fn open(folder: &Path, name: &str) -> Result<LockFile, StoreError> {
        let failed = |error: io::Error| io_error("a lock file", &error);
        let path = folder.join(name);
        let mut open = open_files();
        // Looked up by its name: a second descriptor would have to be closed again.
        let known = std::fs::metadata(&path).ok().and_then(|file| open.get(&identity_of(&file)));
        if let Some(known) = known {
            return Ok(LockFile { inner: Some(known.clone()) });
        }
        let file = private_file(&path).map_err(failed)?;
        let identity = identity_of(&file.metadata().map_err(failed)?);
        let inner = Arc::new(Inner { file, identity, queue: Queue::default() });
        open.insert(identity, inner.clone());
        Ok(LockFile { inner: Some(inner) })
    }

    fn inner(&self) -> &Inner {
        self.inner.as_ref().expect("only taken when dropped")
    }

    /// The order in which the threads of this process take the lock: each must be at the front.
    pub(super) fn queue(&self) -> &Queue {
        &self.inner().queue
    }

    /// Takes the lock for this process, if no other has it.
    pub(super) fn try_take(&self) -> io::Result<bool> {
        match fcntl_lock(&self.inner().file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(true),
            Err(Errno::AGAIN | Errno::ACCESS) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits in the kernel until this process has the lock, also through signals: a host may handle
    /// them without restarting calls.
    pub(super) fn take(&self) -> io::Result<()> {
        loop {
            match fcntl_lock(&self.inner().file, FlockOperation::LockExclusive) {
                Err(Errno::INTR) => {}
                // The kernel takes all threads of a process for one. Where the program has locks of
                // its own it may see a circle that is none.
                Err(Errno::DEADLK) => std::thread::sleep(Duration::from_millis(1)),
                taken => return Ok(taken?),
            }
        }
    }

    pub(super) fn release(&self) {
        // It can only fail when the descriptor is gone, and then the lock is as well.
        let _ = fcntl_lock(&self.inner().file, FlockOperation::Unlock);
    }

    /// The other process that has the lock, by its number where that is known here.
    pub(super) fn holder(&self) -> Option<Option<u32>> {
        holder(&self.inner().file)
    }

    /// Writes a short text into the file, over the last one.
    pub(super) fn note(&self, text: &str) {
        // A text that cannot be written is missed only by whoever asks what is wrong.
        let _ = self.inner().file.write_all_at(text.as_bytes(), 0);
    }

    /// The text that was written last; all are of one length.
    pub(super) fn noted(&self) -> Option<String> {
        let mut bytes = [0; 64];
        let count = self.inner().file.read_at(&mut bytes, 0).ok()?;
        String::from_utf8(bytes[..count].to_vec()).ok()
    }
}

impl Drop for LockFile {
    fn drop(&mut self) {
        if process::is_forked() {
            // Nothing of it is ours, and the mutex may be held by a thread that is not here.
            return std::mem::forget(self.inner.take());
        }
        let mut open = open_files();
        let Some(inner) = self.inner.take() else { return };
        let is_last = Arc::strong_count(&inner) == 2;
        if is_last {
            open.remove(&inner.identity);
        }
        // Closed before anybody can open it anew: closing drops the locks of the whole process.
        drop(inner);
        drop(open);
    }
}

/// How a lock file is found from outside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// Some process has it, maybe this one; or nobody can say.
    Held,
    Free,
    Missing,
}

/// Whether some process has the lock of a file.
pub(super) fn look(path: &Path) -> Found {
    let open = open_files();
    match std::fs::metadata(path) {
        Ok(file) if open.contains_key(&identity_of(&file)) => return Found::Held,
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Found::Missing,
        Err(_) => return Found::Held,
    }
    let found = match File::open(path) {
        Ok(file) if holder(&file).is_none() => Found::Free,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Found::Missing,
        Ok(_) | Err(_) => Found::Held,
    };
    drop(open);
    found
}

fn holder(file: &File) -> Option<Option<u32>> {
    match fcntl_getlk(file, &Flock::from(FlockType::WriteLock)) {
        Ok(Some(lock)) => Some(lock.pid.and_then(|pid| u32::try_from(pid.as_raw_pid()).ok())),
        Ok(None) => None,
        // What cannot be asked is not called free.
        Err(_) => Some(None),
    }
}

/// Opens a file that is for its owner only, or creates it.
pub(super) fn private_file(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).read(true).write(true).mode(0o600);
    options.open(path)
}

fn identity_of(file: &std::fs::Metadata) -> Identity {
    (file.dev(), file.ino())
}

/// First come, first served.
#[derive(Default)]
pub(super) struct Queue {
    /// The next number, and the one at the front.
    numbers: Mutex<(u64, u64)>,
    moved: Condvar,
}

impl Queue {
    /// Waits for the front.
    pub(super) fn enter(&self) {
        let mut numbers = self.numbers();
        let own = numbers.0;
        numbers.0 += 1;
        let waits = |numbers: &mut (u64, u64)| numbers.1 != own;
        drop(self.moved.wait_while(numbers, waits).unwrap_or_else(PoisonError::into_inner));
    }

    /// Steps to the front, if nobody is there.
    pub(super) fn try_enter(&self) -> bool {
        let mut numbers = self.numbers();
        let is_empty = numbers.0 == numbers.1;
        numbers.0 += u64::from(is_empty);
        is_empty
    }

    /// Leaves the front to the next.
    pub(super) fn leave(&self) {
        self.numbers().1 += 1;
        self.moved.notify_all();
    }

    fn numbers(&self) -> MutexGuard<'_, (u64, u64)> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
