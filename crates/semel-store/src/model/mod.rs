//! The model: what a batch does to rows, in the plainest way that is right. The store in memory is
//! it, SQLite must equal it, and Postgres applies it to the rows that a group of batches touches.

mod cards;
pub(crate) mod runs;
mod table;

use std::ops::RangeInclusive;

use semel_core::effect::Ground;
use semel_core::key::Address;

pub(crate) use runs::Tables;
pub(crate) use table::Table;

use crate::cards::CardKey;
use crate::{Append, Card, Row, Write};

/// What a batch came to.
pub(crate) enum Applied {
    Written,
    /// Committed before, by the same caller.
    Already,
    /// The newest row of each effect that was to be written.
    Stale(Vec<Option<Row>>),
}

/// All rows of a store, or those that matter.
#[derive(Default)]
pub(crate) struct Rows {
    pub(crate) effects: Table<(Address, u32), (i64, Row)>,
    pub(crate) last_row: i64,
    pub(crate) runs: Tables,
    pub(crate) cards: Table<CardKey, Card>,
}

impl Rows {
    /// No rows yet; all changes to those that will be loaded are noted.
    pub(crate) fn tracking() -> Rows {
        let mut rows = Rows::default();
        rows.effects.track();
        rows.runs.track();
        rows.cards.track();
        rows
    }

    pub(crate) fn newest(&self, address: &Address) -> Option<&Row> {
        self.effects.rows().range(generations(address)).next_back().map(|(_, (_, row))| row)
    }

    pub(crate) fn get(&self, address: &Address, generation: u32) -> Option<&Row> {
        self.effects.get(&(address.clone(), generation)).map(|(_, row)| row)
    }

    /// Applies a batch: all of it or nothing.
    pub(crate) fn apply(&mut self, writes: &[Write], ground: &Ground) -> Applied {
        if self.write_all(writes, ground) {
            return Applied::Written;
        }
        if self.is_written(writes) {
            return Applied::Already;
        }
        let effects = writes.iter().filter_map(Write::address);
        Applied::Stale(effects.map(|address| self.newest(address).cloned()).collect())
    }

    /// Writes in order, each guard judged on what the writes before it left, or writes nothing.
    fn write_all(&mut self, writes: &[Write], ground: &Ground) -> bool {
        let written = writes.iter().all(|write| self.write(write, ground));
        if written {
            self.effects.keep();
            self.runs.keep();
            self.cards.keep();
        } else {
            self.effects.undo();
            self.runs.undo();
            self.cards.undo();
        }
        written
    }

    /// Writes if the guard holds; says whether it did.
    fn write(&mut self, write: &Write, ground: &Ground) -> bool {
        match write {
            Write::InEpoch(epoch) => *epoch == ground.epoch,
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
            Write::Deliver(delivery) => self.runs.deliver(delivery, ground.now.steady),
            Write::Consume { run, identity } => self.runs.consume(*run, identity),
            Write::Touch { namespace, id, at } => {
                self.runs.touch(namespace, id, *at);
                true
            }
            Write::Blob { namespace, digest, text, run } => {
                self.runs.keep_blob(namespace, digest, text, *run);
                true
            }
            Write::Card(card) => self.write_card(card),
            Write::DropCard { namespace, kind, name, version } => {
                self.drop_card((namespace, kind, name), *version)
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
            Write::Card(card) => self.has_card(card),
            Write::DropCard { namespace, kind, name, .. } => {
                self.lacks_card((namespace, kind, name))
            }
            Write::InEpoch(_) | Write::Holds { .. } | Write::Touch { .. } => true,
        }
    }
}

fn generations(address: &Address) -> RangeInclusive<(Address, u32)> {
    (address.clone(), 0)..=(address.clone(), u32::MAX)
}
