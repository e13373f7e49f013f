//! The plainest correct store: the reference model of all others, and a double for tests.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use semel_core::effect::{Ground, Quarantine, State};
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::time::{Moment, Steady, Wall};
use tokio::sync::watch;

use crate::{
    Batch, Clock, CommitError, DueCursor, DuePage, Page, Query, Row, Store, StoreError, Write,
    read_record,
};

/// Effects in a map, gone with the process.
pub struct Memory {
    clock: Clock,
    rows: Mutex<Rows>,
    hints: watch::Sender<u64>,
    quarantine: Option<Quarantine>,
}

#[derive(Default)]
struct Rows {
    by_address: BTreeMap<(Address, u32), (i64, Row)>,
    last_row: i64,
}

/// One generation of a key, and its row with its place in the order of rows.
type Entry = ((Address, u32), (i64, Row));

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
        let range = (address.clone(), 0)..=(address.clone(), u32::MAX);
        self.by_address.range(range).next_back().map(|(_, (_, row))| row)
    }

    fn get(&self, address: &Address, generation: u32) -> Option<&Row> {
        self.by_address.get(&(address.clone(), generation)).map(|(_, row)| row)
    }

    fn guard_holds(&self, write: &Write) -> bool {
        match write {
            Write::Insert(row) => self.get(&row.address, row.generation).is_none(),
            Write::Update(row) => self
                .get(&row.address, row.generation)
                .is_some_and(|stored| stored.version + 1 == row.version),
            Write::Remove { address, generation, version } => self
                .newest(address)
                .is_some_and(|row| row.generation == *generation && row.version == *version),
        }
    }

    /// The batch was committed before, and nothing has changed since. The record is the whole truth
    /// about a row; the other columns may have been derived at a later moment.
    fn is_written(&self, write: &Write) -> bool {
        match write {
            Write::Insert(row) | Write::Update(row) => self
                .get(&row.address, row.generation)
                .is_some_and(|stored| stored.record == row.record),
            Write::Remove { address, .. } => self.newest(address).is_none(),
        }
    }

    /// Writes in order, each guard judged on what the writes before it left, or writes nothing.
    fn write_all(&mut self, writes: &[Write]) -> bool {
        let before: Vec<_> = match writes {
            // One write is whole by itself.
            [_] => Vec::new(),
            writes => writes.iter().flat_map(|write| self.of(write.address())).collect(),
        };
        for (index, write) in writes.iter().enumerate() {
            if !self.guard_holds(write) {
                for write in &writes[..index] {
                    self.by_address.retain(|(stored, _), _| stored != write.address());
                }
                self.by_address.extend(before);
                return false;
            }
            self.write(write.clone());
        }
        true
    }

    /// All generations of a key, as they are.
    fn of(&self, address: &Address) -> Vec<Entry> {
        let range = (address.clone(), 0)..=(address.clone(), u32::MAX);
        self.by_address.range(range).map(|(key, stored)| (key.clone(), stored.clone())).collect()
    }

    fn write(&mut self, write: Write) {
        match write {
            Write::Insert(row) => {
                self.last_row += 1;
                let key = (row.address.clone(), row.generation);
                self.by_address.insert(key, (self.last_row, row));
            }
            Write::Update(row) => {
                let key = (row.address.clone(), row.generation);
                let slot = self.by_address.get_mut(&key).expect("the guard was checked");
                slot.1 = row;
            }
            Write::Remove { address, .. } => {
                self.by_address.retain(|(stored, _), _| *stored != address);
            }
        }
    }
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
        let mut rows = self.rows();
        if rows.write_all(&batch.writes) {
            self.hints.send_modify(|count| *count += 1);
            return Ok(());
        }
        if batch.writes.iter().all(|write| rows.is_written(write)) {
            return Ok(());
        }
        let current = batch.writes.iter().map(|write| rows.newest(write.address()));
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
        let mut found: Vec<_> = rows.by_address.values().collect();
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
            .by_address
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
            .by_address
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
