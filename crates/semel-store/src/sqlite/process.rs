//! Which process is which, by what the kernel says of it: its number alone is given out again.

use std::sync::OnceLock;

use rustix::process::{Pid, test_kill_process};
use semel_core::code::Code;

use crate::StoreError;

/// A process of some boot of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pid: u32,
    /// In ticks since the boot.
    started: u64,
    /// The pid namespace in which the number counts; 0 when it is not known.
    namespace: u64,
    /// The beginning of the boot's id; 0 when it is not known.
    boot: u32,
}

impl Process {
    pub(super) fn own() -> Process {
        let pid = std::process::id();
        let namespace = std::fs::read_link("/proc/self/ns/pid").ok();
        let namespace = namespace.as_deref().and_then(|link| link.to_str()).and_then(number_in);
        let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        let boot = boot.and_then(|id| u32::from_str_radix(id.get(..8)?, 16).ok());
        let seen = Seen::of(pid);
        Process {
            pid,
            started: seen.as_ref().map_or(0, |seen| seen.started),
            namespace: seen.and(namespace).unwrap_or(0),
            boot: boot.unwrap_or(0),
        }
    }

    /// The text that a session carries: nothing in it can leave a folder.
    pub(super) fn name(&self) -> String {
        let Process { pid, started, namespace, boot } = self;
        format!("{pid}-{started}-{namespace}-{boot:08x}")
    }

    pub(super) fn named(text: &str) -> Option<Process> {
        let mut fields = text.split('-');
        let process = Process {
            pid: fields.next()?.parse().ok()?,
            started: fields.next()?.parse().ok()?,
            namespace: fields.next()?.parse().ok()?,
            boot: u32::from_str_radix(fields.next()?, 16).ok()?,
        };
        // Only one text names a process.
        (process.name() == text).then_some(process)
    }

    /// Whether it is over; `None` when that cannot be seen from here, as in another container.
    pub(super) fn is_gone(&self) -> Option<bool> {
        let here = here();
        if self.boot != 0 && here.boot != 0 && self.boot != here.boot {
            return Some(true);
        }
        if self.namespace == 0 || self.namespace != here.namespace {
            return None;
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw)?;
        if test_kill_process(pid) == Err(rustix::io::Errno::SRCH) {
            return Some(true);
        }
        // One that is there and may not be looked at proves nothing.
        let seen = Seen::of(self.pid);
        Some(seen.is_some_and(|seen| seen.started != self.started || seen.is_dead()))
    }
}

/// This process, as it was named first; a fork is told apart by its number.
fn here() -> &'static Process {
    static HERE: OnceLock<Process> = OnceLock::new();
    HERE.get_or_init(Process::own)
}

/// What `/proc` says of a process.
struct Seen {
    state: char,
    started: u64,
}

impl Seen {
    fn of(pid: u32) -> Option<Seen> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is the program's name, in brackets; it may hold anything.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let started = fields.nth(18)?.parse().ok()?;
        Some(Seen { state, started })
    }

    /// Over, and only not waited for yet by its parent.
    fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x')
    }
}

/// Whether a process was stopped, by a signal or a debugger.
pub(super) fn is_stopped(pid: u32) -> bool {
    Seen::of(pid).is_some_and(|seen| matches!(seen.state, 'T' | 't'))
}

/// `pid:[4026531836]`
fn number_in(link: &str) -> Option<u64> {
    link.strip_prefix("pid:[")?.strip_suffix(']')?.parse().ok()
}

/// Whether this process was forked off one that had opened a store. Its threads are not here, and
/// the SQLite in here believes in locks that only the parent holds.
pub(super) fn is_forked() -> bool {
    here().pid != std::process::id()
}

/// Refuses whatever such a child asks for.
pub(super) fn refuse_if_forked() -> Result<(), StoreError> {
    if is_forked() {
        let text = "this process was forked off one that had opened Semel";
        return Err(StoreError::Refused(Code::Forked, text.into()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_names_one_process_and_leads_nowhere() {
        let own = Process::own();
        assert_eq!(Process::named(&own.name()).as_ref(), Some(&own));
        for other in ["", "1", "1-2-3", "1-2-3-4", "01-2-3-00000004", "1-2-3-00000004-5", "../x"] {
            assert_eq!(Process::named(other), None, "{other}");
        }
    }

    #[test]
    fn a_process_is_gone_when_another_has_its_number() {
        let own = Process::own();
        assert_eq!(own.is_gone(), Some(false));
        assert_eq!(Process { started: own.started + 1, ..own.clone() }.is_gone(), Some(true));
        assert_eq!(Process { boot: own.boot ^ 1, ..own.clone() }.is_gone(), Some(true));
        let elsewhere = Process { namespace: own.namespace + 1, ..own.clone() };
        assert_eq!(elsewhere.is_gone(), None);
        assert_eq!(Process { namespace: 0, ..own }.is_gone(), None);
    }
}
