//! The plainest correct store: the reference model of all others, and a double for tests.

mod runs;
mod table;

use std::ops::RangeInclusive;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use semel_core::effect::{Ground, Quarantine, State};
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::time::{Moment, Steady, Wall};
use tokio::sync::watch;

use table::Table;

use crate::{
    Append, Batch, Clock, CommitError, DueCursor, DuePage, Page, Query, Row, Store, StoreError,
    Write, read_record,
};

/// Effects and runs in maps, gone with the process.
pub struct Memory {
    clock: Clock,
    rows: Mutex<Rows>,
    hints: watch::Sender<u64>,
    quarantine: Option<Quarantine>,
}

#[derive(Default)]
struct Rows {
    effects: Table<(Address, u32), (i64, Row)>,
    last_row: i64,
    runs: runs::Tables,
}

impl Memory {
    /// An empty store.
    pub fn new(clock: Clock) -> Memory {
        let (hints, _) = watch::channel(0);
        Memory { clock, rows: Mutex::default(), hints, quarantine: None }
    }

    /// An empty store that is under quarantine.
    pub fn quarantined(clock: Clock, quarantine: Quarantine) -> Memory {
        Memory { quarantine: Some(quarantine), ..Memory::new(clock) }
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Rows {
    fn newest(&self, address: &Address) -> Option<&Row> {
        self.effects.rows().range(generations(address)).next_back().map(|(_, (_, row))| row)
    }

    fn get(&self, address: &Address, generation: u32) -> Option<&Row> {
        self.effects.get(&(address.clone(), generation)).map(|(_, row)| row)
    }

    /// Writes in order, each guard judged on what the writes before it left, or writes nothing.
    fn write_all(&mut self, writes: &[Write], now: Steady) -> bool {
        let written = writes.iter().all(|write| self.write(write, now));
        if written {
            self.effects.keep();
            self.runs.keep();
        } else {
            self.effects.undo();
            self.runs.undo();
        }
        written
    }

    /// Writes if the guard holds; says whether it did.
    fn write(&mut self, write: &Write, now: Steady) -> bool {
        match write {
            Write::Insert(row) => self.insert(row),
            Write::Update(row) => self.update(row),
            Write::Remove { address, generation, version } => {
                self.remove(address, *generation, *version)
            }
            Write::StartRun(row) => self.runs.start(row),
            Write::UpdateRun(row) => self.runs.update(row),
            Write::DropRun { namespace, id, number, version, row } => {
                self.runs.drop_run((namespace, id, *number), *version, row.as_ref())
            }
            Write::Append(append) => self.runs.append(append),
            Write::Holds { run, fence, seq, link } => self.runs.holds(*run, *fence, *seq, link),
            Write::Deliver(delivery) => self.runs.deliver(delivery, now),
            Write::Consume { run, identity } => self.runs.consume(*run, identity),
            Write::Touch { namespace, id, at } => {
                self.runs.touch(namespace, id, *at);
                true
            }
            Write::Blob { namespace, digest, text, run } => {
                self.runs.keep_blob(namespace, digest, text, *run);
                true
            }
        }
    }

    fn insert(&mut self, row: &Row) -> bool {
        let is_free = self.get(&row.address, row.generation).is_none();
        if is_free {
            self.last_row += 1;
            let key = (row.address.clone(), row.generation);
            self.effects.put(key, (self.last_row, row.clone()));
        }
        is_free
    }

    fn update(&mut self, row: &Row) -> bool {
        let key = (row.address.clone(), row.generation);
        match self.effects.get(&key) {
            Some((place, stored)) if stored.version + 1 == row.version => {
                let place = *place;
                self.effects.put(key, (place, row.clone()));
                true
            }
            Some(_) | None => false,
        }
    }

    fn remove(&mut self, address: &Address, generation: u32, version: u64) -> bool {
        let newest = self.newest(address);
        let holds =
            newest.is_some_and(|row| row.generation == generation && row.version == version);
        if holds {
            let all = self.effects.rows().range(generations(address));
            let all: Vec<_> = all.map(|(key, _)| key.clone()).collect();
            self.effects.remove_all(all);
        }
        holds
    }

    /// The batch was committed before: everything it writes is there.
    fn is_written(&self, writes: &[Write]) -> bool {
        let shows_it = writes.iter().any(Write::is_evidence);
        shows_it && writes.iter().all(|write| self.has(write))
    }

    /// The record is the whole truth about a row; the other columns may have been derived at a
    /// later moment.
    fn has(&self, write: &Write) -> bool {
        match write {
            Write::Insert(row) | Write::Update(row) => self
                .get(&row.address, row.generation)
                .is_some_and(|stored| stored.record == row.record),
            Write::Remove { address, .. } => self.newest(address).is_none(),
            Write::StartRun(row) | Write::UpdateRun(row) => self.runs.has_run(row),
            Write::DropRun { number, row, .. } => {
                !self.runs.has_number(*number)
                    || row.as_ref().is_some_and(|row| self.runs.has_run(row))
            }
            Write::Append(Append { run, seq, link, .. }) => self.runs.has_entry(*run, *seq, link),
            Write::Deliver(delivery) => self.runs.has_delivery(delivery),
            Write::Consume { run, identity } => self.runs.has_consumed(*run, identity),
            Write::Blob { namespace, digest, run, .. } => {
                self.runs.has_blob(namespace, digest, *run)
            }
            Write::Holds { .. } | Write::Touch { .. } => true,
        }
    }
}

fn generations(address: &Address) -> RangeInclusive<(Address, u32)> {
    (address.clone(), 0)..=(address.clone(), u32::MAX)
}

#[async_trait]
impl Store for Memory {
    fn ground(&self) -> Ground {
        let reading = self.clock.read();
        let now = Moment {
            wall: Wall(reading.wall_ms),
            steady: Steady { boot: 0, ms: reading.boot_ms },
            wall_is_behind: false,
        };
        Ground { now, epoch: 0, quarantine: self.quarantine }
    }

    fn clock(&self) -> &Clock {
        &self.clock
    }

    async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        let now = self.ground().now.steady;
        let mut rows = self.rows();
        if rows.write_all(&batch.writes, now) {
            self.hints.send_modify(|count| *count += 1);
            return Ok(());
        }
        if rows.is_written(&batch.writes) {
            return Ok(());
        }
        let effects = batch.writes.iter().filter_map(Write::address);
        let current = effects.map(|address| rows.newest(address));
        let current: Result<Vec<_>, _> = current.map(|row| row.map(read).transpose()).collect();
        Err(CommitError::Stale(current?))
    }

    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError> {
        self.rows().newest(address).map(read).transpose()
    }

    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError> {
        self.rows().get(address, generation).map(read).transpose()
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        let rows = self.rows();
        let mut found: Vec<_> = rows.effects.rows().values().collect();
        found.retain(|(row, stored)| matches(query, *row, stored));
        found.sort_by_key(|(row, _)| std::cmp::Reverse(*row));
        let more = found.len() > query.limit;
        found.truncate(query.limit);
        let next = found.last().filter(|_| more).map(|(row, _)| *row);
        let effects: Result<_, _> = found.iter().map(|(_, row)| read(row)).collect();
        Ok(Page { effects: effects?, next })
    }

    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError> {
        let now = self.ground().now;
        let rows = self.rows();
        let mut waiting: Vec<_> = rows
            .effects
            .rows()
            .values()
            .filter_map(|(row, stored)| {
                stored.due.map(|due| (DueCursor { due_ms: due.ms, row: *row }, stored))
            })
            .filter(|(cursor, _)| after.is_none_or(|after| *cursor > after))
            .collect();
        waiting.sort_by_key(|(cursor, _)| *cursor);
        let ready = waiting.iter().take(limit).take_while(|(at, _)| at.due_ms <= now.steady.ms);
        let effects: Result<Vec<_>, _> =
            ready.map(|(cursor, row)| read(row).map(|effect| (*cursor, effect))).collect();
        let effects = effects?;
        let next = waiting.get(effects.len()).map(|(cursor, _)| cursor.due_ms);
        Ok(DuePage { effects, next_due: next.map(|ms| Steady { ms, ..now.steady }) })
    }

    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError> {
        let now = self.ground().now;
        let rows = self.rows();
        let mut due: Vec<_> = rows
            .effects
            .rows()
            .values()
            .filter(|(_, row)| row.sweep_at.is_some_and(|at| at <= now.wall))
            .collect();
        due.sort_by_key(|(row, stored)| (stored.sweep_at, *row));
        due.truncate(limit);
        due.into_iter().map(|(_, row)| read(row)).collect()
    }

    fn session(&self) -> Option<&str> {
        None
    }

    fn is_dead(&self, _session: &str) -> bool {
        false
    }

    fn dead_sessions(&self) -> Vec<String> {
        Vec::new()
    }

    fn bury(&self, _session: &str) {}

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }
}

fn read(row: &Row) -> Result<Effect, StoreError> {
    read_record(&row.record, row.sum)
}

fn matches(query: &Query, row: i64, stored: &Row) -> bool {
    query.namespace.as_ref().is_none_or(|namespace| stored.address.namespace == *namespace)
        && query.action.as_ref().is_none_or(|action| stored.address.action == *action)
        && query.key.as_ref().is_none_or(|key| stored.address.key == *key)
        && query.state.is_none_or(|state| stored.state == state)
        && (!query.unsettled || matches!(stored.state, State::Pending | State::InDoubt))
        && (!query.alarmed || stored.alarmed)
        && query.after.is_none_or(|after| row < after)
}
