//! What this process remembers to have written. When the server turns out to have forgotten some
//! of it, that is what may have been lost, and it is listed.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use semel_core::time::Wall;
use tokio_postgres::types::Type;

use super::connect::{Param, Session};
use super::store_error;
use crate::{Row, RunRow, StoreError, Write};

/// How many rows are remembered: more than a standby lags behind.
const ROWS_MAX: usize = 10_000;

#[derive(Default)]
pub(super) struct Memory {
    rows: Mutex<Remembered>,
}

#[derive(Default)]
struct Remembered {
    epoch: u64,
    rows: VecDeque<Written>,
    /// Of earlier epochs, and not compared with the server yet.
    unlisted: Vec<Written>,
}

/// One row that was written and acknowledged.
struct Written {
    namespace: String,
    /// Of an effect; a run has none.
    action: Option<String>,
    /// The key of an effect, the id of a run.
    name: String,
    generation: Option<i64>,
    version: i64,
    sum: i64,
    state: &'static str,
    at: Wall,
}

impl Memory {
    /// Notes what a batch wrote in an epoch.
    pub(super) fn note(&self, epoch: u64, writes: &[Write], at: Wall) {
        let written = writes.iter().filter_map(|write| match write {
            Write::Insert(row) | Write::Update(row) => Some(effect(row, at)),
            Write::StartRun(row) | Write::UpdateRun(row) => Some(run(row, at)),
            Write::InEpoch(_)
            | Write::Remove { .. }
            | Write::DropRun { .. }
            | Write::Append(_)
            | Write::Holds { .. }
            | Write::Deliver(_)
            | Write::Consume { .. }
            | Write::Touch { .. }
            | Write::Blob { .. } => None,
        });
        let mut remembered = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.enter(epoch);
        for row in written {
            if remembered.rows.len() == ROWS_MAX {
                remembered.rows.pop_front();
            }
            remembered.rows.push_back(row);
        }
    }

    /// What was written before this epoch; forgotten when it is listed.
    fn take_before(&self, epoch: u64) -> Unlisted<'_> {
        let mut remembered = self.rows.lock().unwrap_or_else(PoisonError::into_inner);
        remembered.enter(epoch);
        Unlisted { memory: self, rows: std::mem::take(&mut remembered.unlisted) }
    }
}

impl Remembered {
    fn enter(&mut self, epoch: u64) {
        if self.epoch < epoch {
            self.epoch = epoch;
            self.unlisted.extend(self.rows.drain(..));
        }
    }
}

/// Rows that are being listed. Unless that succeeds, whoever looks at the server next tries again.
struct Unlisted<'a> {
    memory: &'a Memory,
    rows: Vec<Written>,
}

impl Drop for Unlisted<'_> {
    fn drop(&mut self) {
        if !self.rows.is_empty() {
            let mut remembered = self.memory.rows.lock().unwrap_or_else(PoisonError::into_inner);
            remembered.unlisted.append(&mut self.rows);
        }
    }
}

fn effect(row: &Row, at: Wall) -> Written {
    Written {
        namespace: row.address.namespace.as_str().to_owned(),
        action: Some(row.address.action.as_str().to_owned()),
        name: row.address.key.as_str().to_owned(),
        generation: Some(i64::from(row.generation)),
        version: i64::try_from(row.version).unwrap_or(i64::MAX),
        sum: row.sum,
        state: row.state.as_str(),
        at,
    }
}

fn run(row: &RunRow, at: Wall) -> Written {
    Written {
        namespace: row.namespace.clone(),
        action: None,
        name: row.id.clone(),
        generation: None,
        version: i64::try_from(row.version).unwrap_or(i64::MAX),
        sum: row.sum,
        state: row.state.as_str(),
        at,
    }
}

/// A row is there when it is at this version as it was written, or at a later one. Of several
/// versions of one row only the newest is listed.
const REPORT: &str = "INSERT INTO semel.lost \
     (epoch, namespace, action, name, generation, version, state, written_at, worker) \
     SELECT DISTINCT ON (w.namespace, w.action, w.name, w.generation) $1, w.namespace, w.action, \
     w.name, w.generation, w.version, w.state, w.written_at, $2 \
     FROM unnest($3::text[], $4::text[], $5::text[], $6::bigint[], $7::bigint[], $8::bigint[], \
     $9::text[], $10::bigint[]) \
     AS w(namespace, action, name, generation, version, sum, state, written_at) \
     WHERE NOT EXISTS (SELECT 1 FROM semel.effects AS e WHERE e.namespace = w.namespace \
     AND e.action = w.action AND e.key = w.name AND e.generation = w.generation \
     AND (e.version > w.version OR (e.version = w.version AND e.sum = w.sum))) \
     AND NOT EXISTS (SELECT 1 FROM semel.runs AS r WHERE w.action IS NULL \
     AND r.namespace = w.namespace AND r.id = w.name \
     AND (r.version > w.version OR (r.version = w.version AND r.sum = w.sum))) \
     ORDER BY w.namespace, w.action, w.name, w.generation, w.version DESC";

/// Lists what this process wrote before the epoch that the server is in now, and what is gone.
pub(super) async fn report(session: &Session) -> Result<(), StoreError> {
    let shared = session.shared();
    let epoch = session.meta().epoch;
    let mut unlisted = shared.memory.take_before(epoch);
    let rows = &unlisted.rows;
    if rows.is_empty() {
        return Ok(());
    }
    let epoch = i64::try_from(epoch).unwrap_or(i64::MAX);
    let namespaces: Vec<&str> = rows.iter().map(|row| row.namespace.as_str()).collect();
    let actions: Vec<Option<&str>> = rows.iter().map(|row| row.action.as_deref()).collect();
    let names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    let generations: Vec<Option<i64>> = rows.iter().map(|row| row.generation).collect();
    let versions: Vec<i64> = rows.iter().map(|row| row.version).collect();
    let sums: Vec<i64> = rows.iter().map(|row| row.sum).collect();
    let states: Vec<&str> = rows.iter().map(|row| row.state).collect();
    let times: Vec<i64> = rows.iter().map(|row| row.at.0).collect();
    let params: [Param<'_>; 10] = [
        (&epoch, Type::INT8),
        (&shared.worker, Type::TEXT),
        (&namespaces, Type::TEXT_ARRAY),
        (&actions, Type::TEXT_ARRAY),
        (&names, Type::TEXT_ARRAY),
        (&generations, Type::INT8_ARRAY),
        (&versions, Type::INT8_ARRAY),
        (&sums, Type::INT8_ARRAY),
        (&states, Type::TEXT_ARRAY),
        (&times, Type::INT8_ARRAY),
    ];
    session.query(REPORT, &params).await.map_err(|error| store_error(&error))?;
    unlisted.rows.clear();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_listed_is_listed_by_the_next_one() {
        let memory = Memory::default();
        let touched = Written {
            namespace: "default".to_owned(),
            action: None,
            name: "r-1".to_owned(),
            generation: None,
            version: 1,
            sum: 1,
            state: "running",
            at: Wall(0),
        };
        memory.rows.lock().unwrap().rows.push_back(touched);
        // Writes of the new epoch do not hide those of the old.
        memory.note(1, &[], Wall(0));
        drop(memory.take_before(1));
        let mut unlisted = memory.take_before(1);
        assert_eq!(unlisted.rows.len(), 1);
        unlisted.rows.clear();
        drop(unlisted);
        assert!(memory.take_before(1).rows.is_empty());
    }
}
