//! What this process remembers to have written. When the store turns out to have forgotten some of
//! it, that is what may have been lost, and it is listed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

use semel_core::key::Address;
use semel_core::time::Wall;

use crate::{Row, RunRow, Write};

/// How many rows are remembered: more than a standby lags behind.
const ROWS_MAX: usize = 10_000;

#[derive(Default)]
pub(crate) struct Memory {
    rows: Mutex<VecDeque<Written>>,
}

/// Rows on their way into the list. They are remembered again if they do not get there.
pub(crate) struct Taken<'a> {
    memory: &'a Memory,
    pub(crate) rows: Vec<Written>,
}

/// One row that was written, or removed, and acknowledged.
pub(crate) struct Written {
    pub(crate) epoch: u64,
    pub(crate) namespace: String,
    /// Of an effect; a run has none.
    pub(crate) action: Option<String>,
    /// The key of an effect, the id of a run.
    pub(crate) name: String,
    pub(crate) generation: Option<i64>,
    pub(crate) version: i64,
    pub(crate) sum: i64,
    /// `None`: it was removed. That it is not there is no loss.
    pub(crate) state: Option<&'static str>,
    pub(crate) at: Wall,
}

impl Memory {
    /// Notes what a batch wrote in an epoch.
    pub(crate) fn note(&self, epoch: u64, writes: &[Write], at: Wall) {
        let written = writes.iter().filter_map(|write| match write {
            Write::Insert(row) | Write::Update(row) => Some(effect(row)),
            Write::StartRun(row) | Write::UpdateRun(row) => Some(run(row)),
            Write::Remove { address, .. } => Some(removed_effect(address)),
            Write::DropRun { row: Some(row), .. } => Some(run(row)),
            Write::DropRun { namespace, id, row: None, .. } => Some(removed_run(namespace, id)),
            Write::InEpoch(_)
            | Write::Append(_)
            | Write::Holds { .. }
            | Write::Deliver(_)
            | Write::Consume { .. }
            | Write::Touch { .. }
            | Write::Blob { .. }
            | Write::Card(_)
            | Write::DropCard { .. } => None,
        });
        let mut rows = self.rows();
        for row in written {
            if rows.len() == ROWS_MAX {
                rows.pop_front();
            }
            rows.push_back(Written { epoch, at, ..row });
        }
    }

    fn rows(&self) -> MutexGuard<'_, VecDeque<Written>> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What was written before this epoch, the newest of each row.
    pub(crate) fn take_before(&self, epoch: u64) -> Taken<'_> {
        let mut rows = self.rows();
        let (before, since) =
            std::mem::take(&mut *rows).into_iter().partition(|row| row.epoch < epoch);
        *rows = since;
        Taken { memory: self, rows: newest(before) }
    }
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        let mut rows = self.memory.rows();
        let since = std::mem::take(&mut *rows);
        rows.extend(self.rows.drain(..).chain(since));
    }
}

/// The last word about each row, without those that were removed.
fn newest(rows: VecDeque<Written>) -> Vec<Written> {
    let mut newest = BTreeMap::new();
    for row in rows {
        let name = (row.namespace.clone(), row.action.clone(), row.name.clone());
        // A key is removed with all its generations.
        if row.state.is_none() {
            newest.remove(&name);
        } else {
            let generations: &mut BTreeMap<_, _> = newest.entry(name).or_default();
            generations.insert(row.generation, row);
        }
    }
    newest.into_values().flat_map(BTreeMap::into_values).collect()
}

fn effect(row: &Row) -> Written {
    Written {
        namespace: row.address.namespace.as_str().to_owned(),
        action: Some(row.address.action.as_str().to_owned()),
        name: row.address.key.as_str().to_owned(),
        generation: Some(i64::from(row.generation)),
        version: i64::try_from(row.version).unwrap_or(i64::MAX),
        sum: row.sum,
        state: Some(row.state.as_str()),
        epoch: 0,
        at: Wall(0),
    }
}

fn run(row: &RunRow) -> Written {
    Written {
        namespace: row.namespace.clone(),
        action: None,
        name: row.id.clone(),
        generation: None,
        version: i64::try_from(row.version).unwrap_or(i64::MAX),
        sum: row.sum,
        state: Some(row.state.as_str()),
        epoch: 0,
        at: Wall(0),
    }
}

fn removed_effect(address: &Address) -> Written {
    Written {
        namespace: address.namespace.as_str().to_owned(),
        action: Some(address.action.as_str().to_owned()),
        name: address.key.as_str().to_owned(),
        ..removed()
    }
}

fn removed_run(namespace: &str, id: &str) -> Written {
    Written { namespace: namespace.to_owned(), name: id.to_owned(), ..removed() }
}

fn removed() -> Written {
    Written {
        epoch: 0,
        namespace: String::new(),
        action: None,
        name: String::new(),
        generation: None,
        version: 0,
        sum: 0,
        state: None,
        at: Wall(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(memory: &Memory) -> Vec<String> {
        memory.rows().iter().map(|row| row.name.clone()).collect()
    }

    #[test]
    fn what_could_not_be_listed_is_remembered_in_its_epoch() {
        let memory = Memory::default();
        let row = |epoch, name: &str| Written {
            epoch,
            name: name.to_owned(),
            state: Some("done"),
            ..removed()
        };
        memory.rows().extend([row(0, "a"), row(0, "b"), row(0, "a")]);
        let taken = memory.take_before(1);
        assert_eq!(names(&memory), [""; 0]);
        memory.rows().push_back(row(1, "c"));
        drop(taken);
        assert_eq!(names(&memory), ["a", "b", "c"]);
        let mut taken = memory.take_before(1);
        taken.rows.clear();
        drop(taken);
        assert_eq!(names(&memory), ["c"], "listed once, and what came since stays");
    }
}
