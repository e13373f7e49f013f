//! Runs as rows, writing: each statement checks its guard, and says whether it held.

use rusqlite::{CachedStatement, Connection, params};
use semel_core::journal::Link;
use semel_core::time::Steady;

use crate::{Append, Delivery, RunRow};

/// The statements of a run's every step, prepared once for a whole group of batches.
pub(super) struct RunWrites<'a> {
    connection: &'a Connection,
    append: CachedStatement<'a>,
    update: CachedStatement<'a>,
    holds: CachedStatement<'a>,
}

/// Without the entry before there is no place to write to, and a row without one is ignored. Not
/// `INSERT ... SELECT ... WHERE EXISTS`: reading the table it writes, SQLite would copy the row
/// through a temporary table.
const APPEND: &str = "INSERT OR IGNORE INTO journal (run, seq, link, entry) VALUES (?1, \
     CASE WHEN ?2 = 0 THEN 0 ELSE \
     (SELECT seq + 1 FROM journal WHERE run = ?1 AND seq = ?2 - 1 AND link = ?3) END, ?4, ?5)";

const START: &str = "INSERT INTO runs (number, namespace, id, version, workflow, key, lane, \
     state, parked, fence, created_at, wake_at, waits_on, queue, sweep_at, sum, record, seal) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18) \
     ON CONFLICT DO NOTHING";

const UPDATE: &str = "UPDATE runs SET version = ?5, lane = ?6, state = ?7, parked = ?8, \
     fence = ?9, wake_at = ?10, waits_on = ?11, queue = ?12, sweep_at = ?13, sum = ?14, \
     record = ?15, seal = ?16 WHERE number = ?1 AND namespace = ?2 AND id = ?3 AND version = ?4";

const IS_AT: &str =
    "SELECT 1 FROM runs WHERE number = ?1 AND namespace = ?2 AND id = ?3 AND version = ?4";

/// A paused run is not parked, but nobody holds it either.
const HOLDS: &str = "SELECT EXISTS (SELECT 1 FROM runs WHERE number = ?1 AND fence = ?2 \
     AND parked = 0 AND state <> 'paused' AND state <> 'done' AND state <> 'failed' \
     AND state <> 'cancelled' AND state <> 'expired') \
     AND EXISTS (SELECT 1 FROM journal WHERE run = ?1 AND seq = ?3 AND link = ?4)";

/// Like an append: without an unfinished run there is no run to deliver to.
const DELIVER: &str = "INSERT OR IGNORE INTO inbox \
     (run, number, identity, name, payload, at, consumed, seal) \
     SELECT run, number, ?2, ?3, ?4, ?5, 0, \
     semel_seal('delivery', run, number, ?2, ?3, ?4, ?5, 0) FROM (SELECT \
     (SELECT number FROM runs WHERE number = ?1 AND state <> 'done' AND state <> 'failed' \
      AND state <> 'cancelled' AND state <> 'expired') AS run, \
     (SELECT coalesce(max(number), 0) + 1 FROM inbox WHERE run = ?1) AS number)";

const TOUCH: &str = "UPDATE runs SET version = version + 1, \
     wake_at = CASE WHEN parked = 1 THEN ?1 ELSE wake_at END, \
     seal = semel_seal('run', number, namespace, id, version + 1, workflow, key, lane, state, \
     parked, fence, created_at, CASE WHEN parked = 1 THEN ?1 ELSE wake_at END, waits_on, queue, \
     sweep_at, sum) \
     WHERE namespace = ?2 AND id = ?3 AND state <> 'done' AND state <> 'failed' \
     AND state <> 'cancelled' AND state <> 'expired'";

const TOUCH_NUMBER: &str = "UPDATE runs SET version = version + 1, \
     wake_at = CASE WHEN parked = 1 THEN ?1 ELSE wake_at END, \
     seal = semel_seal('run', number, namespace, id, version + 1, workflow, key, lane, state, \
     parked, fence, created_at, CASE WHEN parked = 1 THEN ?1 ELSE wake_at END, waits_on, queue, \
     sweep_at, sum) WHERE number = ?2";

const CONSUME: &str = "UPDATE inbox SET consumed = 1, \
     seal = semel_seal('delivery', run, number, identity, name, payload, at, 1) \
     WHERE run = ?1 AND identity = ?2 AND consumed = 0";

const KEEP_BLOB: &str =
    "INSERT INTO blobs (namespace, digest, text) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";

const USE_BLOB: &str =
    "INSERT INTO blob_uses (namespace, digest, run) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";

const REMOVE: &str =
    "DELETE FROM runs WHERE number = ?1 AND namespace = ?2 AND id = ?3 AND version = ?4";

/// What belongs to a run, in the order in which it may go.
const DROP: [&str; 4] = [
    "DELETE FROM journal WHERE run = ?1",
    "DELETE FROM inbox WHERE run = ?1",
    "DELETE FROM blobs WHERE (namespace, digest) IN \
         (SELECT namespace, digest FROM blob_uses WHERE run = ?1) \
         AND NOT EXISTS (SELECT 1 FROM blob_uses AS other WHERE other.run <> ?1 \
         AND other.namespace = blobs.namespace AND other.digest = blobs.digest)",
    "DELETE FROM blob_uses WHERE run = ?1",
];

impl<'a> RunWrites<'a> {
    pub(super) fn prepare(connection: &'a Connection) -> rusqlite::Result<RunWrites<'a>> {
        Ok(RunWrites {
            connection,
            append: connection.prepare_cached(APPEND)?,
            update: connection.prepare_cached(UPDATE)?,
            holds: connection.prepare_cached(HOLDS)?,
        })
    }

    pub(super) fn append(&mut self, append: &Append) -> rusqlite::Result<bool> {
        let Append { run, seq, after, link, text } = append;
        let changed = self.append.execute(params![run, seq, after.0, link.0, text])?;
        Ok(changed == 1)
    }

    pub(super) fn start(&mut self, row: &RunRow) -> rusqlite::Result<bool> {
        let changed = self.connection.prepare_cached(START)?.execute(params![
            row.number,
            row.namespace,
            row.id,
            row.version,
            row.workflow,
            row.key,
            row.lane,
            row.state.as_str(),
            row.parked,
            row.fence,
            row.created.0,
            row.wake_at.map(|at| at.ms),
            row.waits_on,
            row.queue,
            row.sweep_at.map(|at| at.0),
            row.sum,
            row.record,
            row.seal(row.wake_at.map(|at| at.ms)).0,
        ])?;
        Ok(changed == 1)
    }

    pub(super) fn update(&mut self, row: &RunRow) -> rusqlite::Result<bool> {
        let name = (row.namespace.as_str(), row.id.as_str(), row.number);
        self.replace(name, row.version.checked_sub(1), row)
    }

    /// Whether the run is at the version before a row.
    pub(super) fn is_before(&mut self, row: &RunRow) -> rusqlite::Result<bool> {
        let version = row.version.checked_sub(1);
        let mut statement = self.connection.prepare_cached(IS_AT)?;
        statement.exists(params![row.number, row.namespace, row.id, version])
    }

    /// Writes a row over the one that has this name and version.
    fn replace(
        &mut self,
        (namespace, id, number): (&str, &str, i64),
        version: Option<u64>,
        row: &RunRow,
    ) -> rusqlite::Result<bool> {
        let changed = self.update.execute(params![
            number,
            namespace,
            id,
            version,
            row.version,
            row.lane,
            row.state.as_str(),
            row.parked,
            row.fence,
            row.wake_at.map(|at| at.ms),
            row.waits_on,
            row.queue,
            row.sweep_at.map(|at| at.0),
            row.sum,
            row.record,
            row.seal(row.wake_at.map(|at| at.ms)).0,
        ])?;
        Ok(changed == 1)
    }

    pub(super) fn drop_run(
        &mut self,
        name: (&str, &str, i64),
        version: u64,
        tombstone: Option<&RunRow>,
    ) -> rusqlite::Result<bool> {
        let (namespace, id, number) = name;
        let holds = match tombstone {
            Some(row) => self.replace(name, Some(version), row)?,
            None => {
                let mut remove = self.connection.prepare_cached(REMOVE)?;
                remove.execute(params![number, namespace, id, version])? == 1
            }
        };
        if holds {
            for text in DROP {
                self.connection.prepare_cached(text)?.execute([number])?;
            }
        }
        Ok(holds)
    }

    pub(super) fn holds(
        &mut self,
        run: i64,
        fence: u64,
        seq: u64,
        link: &Link,
    ) -> rusqlite::Result<bool> {
        self.holds.query_row(params![run, fence, seq, link.0], |row| row.get(0))
    }

    pub(super) fn deliver(&mut self, delivery: &Delivery, now: Steady) -> rusqlite::Result<bool> {
        let Delivery { run, identity, name, payload, at, number: _, consumed: _ } = delivery;
        let mut deliver = self.connection.prepare_cached(DELIVER)?;
        if deliver.execute(params![run, identity, name, payload, at.0])? == 0 {
            return Ok(false);
        }
        self.connection.prepare_cached(TOUCH_NUMBER)?.execute(params![now.ms, run])?;
        Ok(true)
    }

    pub(super) fn consume(&mut self, run: i64, identity: &str) -> rusqlite::Result<bool> {
        let mut consume = self.connection.prepare_cached(CONSUME)?;
        Ok(consume.execute(params![run, identity])? == 1)
    }

    /// Has no guard.
    pub(super) fn touch(&mut self, namespace: &str, id: &str, at: Steady) -> rusqlite::Result<()> {
        let mut touch = self.connection.prepare_cached(TOUCH)?;
        touch.execute(params![at.ms, namespace, id]).map(|_| ())
    }

    /// Has no guard.
    pub(super) fn keep_blob(
        &mut self,
        namespace: &str,
        digest: &str,
        text: &str,
        run: i64,
    ) -> rusqlite::Result<()> {
        let mut keep = self.connection.prepare_cached(KEEP_BLOB)?;
        keep.execute(params![namespace, digest, text])?;
        let mut using = self.connection.prepare_cached(USE_BLOB)?;
        using.execute(params![namespace, digest, run]).map(|_| ())
    }
}
