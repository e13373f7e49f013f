//! One batch inside the transaction of its group: its guards, its writes, and whether it was
//! committed before.

use rusqlite::Connection;
use semel_core::time::Steady;

use super::cards;
use super::reader::ReadError;
use super::rows::{self, Stored, Writes};
use super::run_rows;
use super::run_writes::RunWrites;
use crate::{Append, Batch, RunRow, StoreError, Write};

/// How one batch ended inside its transaction.
pub(super) enum Applied {
    Written,
    /// Committed before, by the same caller.
    Already,
    /// The newest row of each effect that was to be written.
    Stale(Vec<Option<Stored>>),
}

/// What a group of batches is applied with.
pub(super) struct Applier<'a> {
    connection: &'a Connection,
    effects: Writes<'a>,
    runs: RunWrites<'a>,
    now: Steady,
    epoch: u64,
}

impl<'a> Applier<'a> {
    pub(super) fn prepare(
        connection: &'a Connection,
        now: Steady,
        epoch: u64,
    ) -> rusqlite::Result<Self> {
        let effects = Writes::prepare(connection)?;
        Ok(Applier { connection, effects, runs: RunWrites::prepare(connection)?, now, epoch })
    }

    /// Checks the guards of a batch and writes it, or leaves everything as it was.
    pub(super) fn apply(&mut self, batch: &Batch) -> Result<Applied, ReadError> {
        if needs_savepoint(&batch.writes) {
            return self.apply_or_undo(batch);
        }
        // Asked before anything is written: so it cannot fail after.
        if let Some(row) = only_update(&batch.writes)
            && !self.runs.is_before(row)?
        {
            return self.not_applied(batch);
        }
        let mut has_changed = false;
        for write in batch.writes.iter() {
            if self.write(write)? {
                has_changed |= changes(write);
            } else if has_changed {
                // What cannot fail did: undo the whole group.
                let text = "an entry lies behind the end of its journal";
                return Err(StoreError::Corrupt(text.into()).into());
            } else {
                return self.not_applied(batch);
            }
        }
        Ok(Applied::Written)
    }

    fn apply_or_undo(&mut self, batch: &Batch) -> Result<Applied, ReadError> {
        let run = |text| self.connection.prepare_cached(text)?.execute([]);
        run("SAVEPOINT batch")?;
        for write in batch.writes.iter() {
            if !self.write(write)? {
                let run = |text| self.connection.prepare_cached(text)?.execute([]);
                run("ROLLBACK TO batch")?;
                run("RELEASE batch")?;
                return self.not_applied(batch);
            }
        }
        self.connection.prepare_cached("RELEASE batch")?.execute([])?;
        Ok(Applied::Written)
    }

    /// Writes if the guard holds; says whether it did.
    fn write(&mut self, write: &Write) -> Result<bool, ReadError> {
        let runs = &mut self.runs;
        Ok(match write {
            Write::InEpoch(epoch) => *epoch == self.epoch,
            Write::Insert(row) => self.effects.insert(row)?,
            Write::Update(row) => self.effects.update(row)?,
            Write::Remove { address, generation, version } => {
                let newest = rows::newest(self.connection, address)?;
                let holds = newest
                    .is_some_and(|row| row.generation == *generation && row.version == *version);
                if holds {
                    rows::remove(self.connection, address)?;
                }
                holds
            }
            Write::StartRun(row) => runs.start(row)?,
            Write::UpdateRun(row) => runs.update(row)?,
            Write::DropRun { namespace, id, number, version, row } => {
                runs.drop_run((namespace, id, *number), *version, row.as_ref())?
            }
            Write::Append(append) => runs.append(append)?,
            Write::Holds { run, fence, seq, link } => runs.holds(*run, *fence, *seq, link)?,
            Write::Deliver(delivery) => runs.deliver(delivery, self.now)?,
            Write::Consume { run, identity } => runs.consume(*run, identity)?,
            Write::Touch { namespace, id, at } => {
                runs.touch(namespace, id, *at)?;
                true
            }
            Write::Blob { namespace, digest, text, run } => {
                runs.keep_blob(namespace, digest, text, *run)?;
                true
            }
            Write::Card(card) => cards::write(self.connection, card)?,
            Write::DropCard { namespace, kind, name, version } => {
                cards::remove(self.connection, (namespace, kind, name), *version)?
            }
        })
    }

    /// A guard failed. Either this very batch was committed before, or the rows have moved on.
    fn not_applied(&self, batch: &Batch) -> Result<Applied, ReadError> {
        let mut already = batch.writes.iter().any(Write::is_evidence);
        for write in batch.writes.iter() {
            already = already && self.has(write)?;
        }
        if already {
            return Ok(Applied::Already);
        }
        let effects = batch.writes.iter().filter_map(Write::address);
        let newest = effects.map(|address| rows::newest(self.connection, address));
        Ok(Applied::Stale(newest.collect::<Result<_, _>>()?))
    }

    /// Whether the result of a write is in the store. The record is the whole truth about a row.
    fn has(&self, write: &Write) -> Result<bool, ReadError> {
        let connection = self.connection;
        Ok(match write {
            Write::Insert(row) | Write::Update(row) => {
                let same = rows::generation(connection, &row.address, row.generation)?;
                same.is_some_and(|stored| stored.record == row.record)
            }
            Write::Remove { address, .. } => rows::newest(connection, address)?.is_none(),
            Write::StartRun(row) | Write::UpdateRun(row) => run_rows::has_run(connection, row)?,
            Write::DropRun { number, row, .. } => {
                let is_tombstone = row.as_ref().map(|row| run_rows::has_run(connection, row));
                is_tombstone.transpose()? == Some(true)
                    || !run_rows::has_number(connection, *number)?
            }
            Write::Append(Append { run, seq, link, .. }) => {
                let found = run_rows::journal(connection, *run, *seq, 1)?;
                found.first().is_some_and(|entry| entry.seq == *seq && entry.link == *link)
            }
            Write::Deliver(asked) => {
                let found = run_rows::delivery(connection, asked.run, &asked.identity)?;
                found.is_some_and(|one| one.name == asked.name && one.payload == asked.payload)
            }
            Write::Consume { run, identity } => {
                let found = run_rows::delivery(connection, *run, identity)?;
                found.is_some_and(|delivery| delivery.consumed)
            }
            Write::Blob { namespace, digest, run, .. } => {
                run_rows::uses_blob(connection, namespace, digest, *run)?
            }
            Write::Card(card) => cards::has(connection, card)?,
            Write::DropCard { namespace, kind, name, .. } => {
                !cards::is_there(connection, (namespace, kind, name))?
            }
            Write::InEpoch(_) | Write::Holds { .. } | Write::Touch { .. } => true,
        })
    }
}

/// Whether a guard may fail after something was written. It may not on an entry that follows the
/// one written just before it: where that one was free, so is everything behind it. Nor on the
/// first entry of a run that is new, nor on the only row of a run, which is asked for before.
fn needs_savepoint(writes: &[Write]) -> bool {
    let Some(first) = writes.iter().position(changes) else { return false };
    let is_asked = only_update(writes).is_some();
    writes[first..].windows(2).any(|pair| match pair {
        [_, Write::UpdateRun(_)] => !is_asked,
        [Write::StartRun(row), Write::Append(next)] => next.run != row.number || next.seq != 0,
        [Write::Append(before), Write::Append(next)] => {
            next.run != before.run || next.seq != before.seq + 1 || next.after != before.link
        }
        [_, next] => is_guarded(next),
        _ => unreachable!("windows of two"),
    })
}

/// The one row of a run in a batch of it and entries.
fn only_update(writes: &[Write]) -> Option<&RunRow> {
    let mut found = None;
    for write in writes {
        match write {
            Write::UpdateRun(row) if found.is_none() => found = Some(row),
            Write::Append(_) | Write::Blob { .. } => {}
            Write::InEpoch(_)
            | Write::UpdateRun(_)
            | Write::Insert(_)
            | Write::Update(_)
            | Write::Remove { .. }
            | Write::StartRun(_)
            | Write::DropRun { .. }
            | Write::Holds { .. }
            | Write::Deliver(_)
            | Write::Consume { .. }
            | Write::Touch { .. }
            | Write::Card(_)
            | Write::DropCard { .. } => return None,
        }
    }
    found
}

fn changes(write: &Write) -> bool {
    !matches!(write, Write::InEpoch(_) | Write::Holds { .. })
}

fn is_guarded(write: &Write) -> bool {
    !matches!(write, Write::Touch { .. } | Write::Blob { .. })
}
