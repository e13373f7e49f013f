//! The plainest correct store: the reference model of all others, and a double for tests.

mod cards;
mod runs;

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use semel_core::effect::{Ground, Quarantine, State};
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::time::{Moment, Steady, Wall};
use tokio::sync::watch;

use crate::model::{Applied, Rows};
use crate::{
    Batch, Clock, CommitError, DueCursor, DuePage, Page, Query, Row, Store, StoreError, Veil,
    read_record,
};

/// Effects, runs and cards in maps, gone with the process.
pub struct Memory {
    clock: Clock,
    rows: Mutex<Rows>,
    hints: watch::Sender<u64>,
    quarantine: Option<Quarantine>,
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
        let ground = self.ground();
        match self.rows().apply(&batch.writes, &ground) {
            Applied::Written => self.hints.send_modify(|count| *count += 1),
            Applied::Already => {}
            Applied::Stale(rows) => {
                let current = rows.iter().map(|row| row.as_ref().map(read).transpose());
                return Err(CommitError::Stale(current.collect::<Result<_, _>>()?));
            }
        }
        Ok(())
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
        Ok(Page { effects: effects?, next, unreadable: Vec::new() })
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
        let is_more = next.is_some_and(|ms| ms <= now.steady.ms);
        let seen_to = effects.last().filter(|_| is_more).map(|(cursor, _)| *cursor);
        let next_due = next.map(|ms| Steady { ms, ..now.steady });
        Ok(DuePage { effects, next_due, seen_to })
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
    read_record(&Veil::default(), row.address.namespace.as_str(), &row.record, row.sum)
}

fn matches(query: &Query, row: i64, stored: &Row) -> bool {
    query.namespace.as_ref().is_none_or(|namespace| stored.address.namespace == *namespace)
        && query.action.as_ref().is_none_or(|action| stored.address.action == *action)
        && query.key.as_ref().is_none_or(|key| stored.address.key == *key)
        && query.state.is_none_or(|state| stored.state == state)
        && (!query.unsettled || matches!(stored.state, State::Pending | State::InDoubt))
        && (!query.alarmed || stored.alarmed)
        && (!query.held || stored.held)
        && query.after.is_none_or(|after| row < after)
}
