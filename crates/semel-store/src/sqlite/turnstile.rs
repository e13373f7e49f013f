//! The order of the processes that write. SQLite's own busy handler polls, so an unlucky process
//! can starve; here each one queues in the kernel.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use semel_core::limits;
use semel_core::time::Wall;
use semel_core::wire::rfc3339;

use super::lock::LockFile;
use super::reader::spawn;
use super::{io_error, process};
use crate::{Clock, StoreError};

/// Two locks. Whoever holds `next` is the only one waiting for `turn`, so a process that has just
/// written cannot slip in again before the one that waited. Of each process one thread at a time.
#[derive(Clone)]
pub(super) struct Turnstile {
    locks: Arc<Locks>,
}

struct Locks {
    next: LockFile,
    turn: LockFile,
}

impl Turnstile {
    pub(super) fn open(folder: &Path) -> Result<Turnstile, StoreError> {
        let (next, turn) = (LockFile::open(folder, "next")?, LockFile::open(folder, "turn")?);
        Ok(Turnstile { locks: Arc::new(Locks { next, turn }) })
    }

    /// Waits for this process' turn; it ends when the guard is dropped, or with the process.
    pub(super) fn enter(&self) -> Result<Turn, StoreError> {
        let Locks { next, turn } = &*self.locks;
        turn.queue().enter();
        let entered = next.take().and_then(|()| {
            let entered = turn.try_take().and_then(|is_ours| match is_ours {
                true => Ok(()),
                false => {
                    next.note(&note());
                    turn.take()
                }
            });
            next.release();
            entered
        });
        match entered {
            Ok(()) => {
                turn.note(&note());
                Ok(Turn { locks: self.locks.clone() })
            }
            Err(error) => {
                turn.queue().leave();
                Err(io_error("the turnstile", &error))
            }
        }
    }

    /// The same for a caller who waits in person: not behind a turn that does not end.
    pub(super) fn enter_in_time(&self, clock: &Clock) -> Result<Turn, StoreError> {
        const LOOK_EVERY: Duration = Duration::from_millis(20);
        let (entered, waiting) = mpsc::sync_channel(0);
        let turnstile = self.clone();
        // A thread of its own: nothing else ends a wait in the kernel. Where the caller is gone by
        // then, the turn ends at once.
        spawn("semel-turnstile", move || drop(entered.send(turnstile.enter())))?;
        let (mut patience, mut asked) = (Patience::default(), clock.read().boot_ms);
        loop {
            match waiting.recv_timeout(LOOK_EVERY) {
                Ok(turn) => return turn,
                Err(mpsc::RecvTimeoutError::Disconnected) => {
                    return Err(StoreError::Unavailable("the turnstile has stopped".into()));
                }
                Err(mpsc::RecvTimeoutError::Timeout) => {}
            }
            if clock.read().boot_ms - asked >= limits::TURN_MS_MAX.cast_signed() {
                asked = clock.read().boot_ms;
                patience.look(self)?;
            }
        }
    }

    /// The other process that has the turn, or is the next and does not take it.
    pub(super) fn holder(&self) -> Option<Holder> {
        let Locks { next, turn } = &*self.locks;
        [turn, next].into_iter().find_map(|lock| {
            let pid = lock.holder()?;
            let noted = lock.noted().and_then(|text| read_note(&text));
            // A process that was stopped before it wrote its own has left that of another.
            let noted = noted.filter(|(noted, _)| pid.is_none_or(|pid| pid == *noted));
            let is_stopped = pid.is_some_and(process::is_stopped);
            let (there, since) = noted.unzip();
            Some(Holder { pid, pid_there: there, since, is_stopped })
        })
    }
}

pub(super) struct Turn {
    locks: Arc<Locks>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.locks.turn.release();
        self.locks.turn.queue().leave();
    }
}

/// What a caller who waits for a turn has seen: twice the same turn, and it does not end.
#[derive(Default)]
pub(super) struct Patience {
    seen: Option<Holder>,
}

impl Patience {
    /// Looks once in `TURN_MS_MAX` who has the turn.
    pub(super) fn look(&mut self, turnstile: &Turnstile) -> Result<(), StoreError> {
        let now = turnstile.holder();
        match &now {
            Some(holder) if self.seen.as_ref().is_some_and(|seen| seen.is_same_turn(holder)) => {
                Err(StoreError::Busy(format!("{holder}; {}", holder.advice())))
            }
            _ => {
                self.seen = now;
                Ok(())
            }
        }
    }
}

/// A process that has the turn to write, or is the next to have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its number, where it can be seen from here: not in another container.
    pub pid: Option<u32>,
    /// The number that it has by its own account.
    pid_there: Option<u32>,
    /// Since when it holds it; `None` when it was stopped before it said so.
    pub since: Option<Wall>,
    /// Whether it was stopped, by a signal or a debugger.
    pub is_stopped: bool,
}

impl Holder {
    fn is_same_turn(&self, other: &Holder) -> bool {
        (self.pid, self.pid_there, self.since) == (other.pid, other.pid_there, other.since)
    }

    /// What an operator may do about it.
    pub fn advice(&self) -> String {
        match (self.pid, self.is_stopped) {
            (Some(pid), true) => format!("continue it with `kill -CONT {pid}`, or end it"),
            (Some(pid), false) => format!("see what process {pid} waits for, or end it"),
            (None, _) => "look for it in the other containers that share this store".to_owned(),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.pid, self.pid_there) {
            (Some(pid), _) => write!(out, "process {pid}")?,
            (None, Some(pid)) => write!(out, "process {pid} of another container")?,
            (None, None) => write!(out, "a process of another container")?,
        }
        let stopped = if self.is_stopped { " is stopped and" } else { "" };
        write!(out, "{stopped} has held the turn to write")?;
        match self.since {
            Some(since) => write!(out, " since {}", rfc3339(since)),
            None => write!(out, " for an unknown time"),
        }
    }
}

/// Who holds a lock, and since when. Of one length, so that a later one covers an earlier one.
fn note() -> String {
    format!("{:10} {:20}\n", std::process::id(), Clock::Real.read().wall_ms)
}

fn read_note(text: &str) -> Option<(u32, Wall)> {
    let mut fields = text.split_whitespace();
    let pid = fields.next()?.parse().ok()?;
    Some((pid, Wall(fields.next()?.parse().ok()?)))
}
