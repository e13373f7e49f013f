//! Runs in the model: their rows, journals, inboxes and large values.

use std::ops::RangeInclusive;

use semel_core::journal::Link;
use semel_core::run::State;
use semel_core::time::Steady;

use super::table::Table;
use crate::{Append, Delivery, RunRow};

#[derive(Default)]
pub(crate) struct Tables {
    pub(crate) runs: Table<i64, RunRow>,
    /// Namespace and id of each run.
    pub(crate) names: Table<(String, String), i64>,
    pub(crate) journal: Table<(i64, u64), (Link, String)>,
    pub(crate) inbox: Table<(i64, i64), Delivery>,
    pub(crate) blobs: Table<(String, String), String>,
    /// Which run needs which blob.
    pub(crate) uses: Table<(i64, (String, String)), ()>,
}

/// The writes: each says whether its guard held.
impl Tables {
    pub(crate) fn start(&mut self, row: &RunRow) -> bool {
        let name = (row.namespace.clone(), row.id.clone());
        let is_free = self.runs.get(&row.number).is_none() && self.names.get(&name).is_none();
        if is_free {
            self.names.put(name, row.number);
            self.runs.put(row.number, row.clone());
        }
        is_free
    }

    pub(crate) fn update(&mut self, row: &RunRow) -> bool {
        let stored = self.named(&row.namespace, &row.id, row.number);
        let holds = stored.is_some_and(|stored| stored.version + 1 == row.version);
        if holds {
            self.runs.put(row.number, row.clone());
        }
        holds
    }

    pub(crate) fn drop_run(
        &mut self,
        (namespace, id, number): (&str, &str, i64),
        version: u64,
        tombstone: Option<&RunRow>,
    ) -> bool {
        let stored = self.named(namespace, id, number);
        if stored.is_none_or(|stored| stored.version != version) {
            return false;
        }
        match tombstone {
            Some(row) => self.runs.put(number, row.clone()),
            None => {
                self.runs.remove(&number);
                self.names.remove(&(namespace.to_owned(), id.to_owned()));
            }
        }
        let entries: Vec<_> = self.journal.rows().range(entries(number)).map(key).collect();
        self.journal.remove_all(entries);
        let deliveries: Vec<_> = self.inbox.rows().range(deliveries(number)).map(key).collect();
        self.inbox.remove_all(deliveries);
        let used = self.uses.rows().keys().filter(|(run, _)| *run == number);
        let used: Vec<_> = used.cloned().collect();
        self.uses.remove_all(used.clone());
        for (_, blob) in used {
            if !self.uses.rows().keys().any(|(_, other)| *other == blob) {
                self.blobs.remove(&blob);
            }
        }
        true
    }

    pub(crate) fn append(&mut self, append: &Append) -> bool {
        let Append { run, seq, after, link, text } = append;
        let follows = match seq.checked_sub(1) {
            Some(before) => self.has_entry(*run, before, after),
            None => true,
        };
        let holds = follows && self.journal.get(&(*run, *seq)).is_none();
        if holds {
            self.journal.put((*run, *seq), (*link, text.clone()));
        }
        holds
    }

    pub(crate) fn holds(&self, run: i64, fence: u64, seq: u64, link: &Link) -> bool {
        let is_held = self.runs.get(&run).is_some_and(|row| {
            // A paused run is not parked, but nobody holds it either.
            let is_held = !row.parked && !row.state.is_final() && row.state != State::Paused;
            is_held && row.fence == fence
        });
        is_held && self.has_entry(run, seq, link)
    }

    pub(crate) fn deliver(&mut self, delivery: &Delivery, now: Steady) -> bool {
        let run = delivery.run;
        let is_open = self.runs.get(&run).is_some_and(|row| !row.state.is_final());
        if !is_open || self.delivery(run, &delivery.identity).is_some() {
            return false;
        }
        let last = self.inbox.rows().range(deliveries(run)).next_back();
        let number = last.map_or(1, |((_, number), _)| number + 1);
        let stored = Delivery { number, consumed: false, ..delivery.clone() };
        self.inbox.put((run, number), stored);
        self.touch_number(run, now);
        true
    }

    pub(crate) fn consume(&mut self, run: i64, identity: &str) -> bool {
        let Some(delivery) = self.delivery(run, identity).filter(|delivery| !delivery.consumed)
        else {
            return false;
        };
        let consumed = Delivery { consumed: true, ..delivery.clone() };
        self.inbox.put((run, consumed.number), consumed);
        true
    }

    pub(crate) fn touch(&mut self, namespace: &str, id: &str, at: Steady) {
        if let Some(number) = self.names.get(&(namespace.to_owned(), id.to_owned())) {
            self.touch_number(*number, at);
        }
    }

    fn touch_number(&mut self, number: i64, at: Steady) {
        let row = self.runs.get(&number).filter(|row| !row.state.is_final());
        let touched = row.map(|row| RunRow {
            version: row.version + 1,
            wake_at: if row.parked { Some(at) } else { row.wake_at },
            ..row.clone()
        });
        if let Some(touched) = touched {
            self.runs.put(number, touched);
        }
    }

    pub(crate) fn keep_blob(&mut self, namespace: &str, digest: &str, text: &str, run: i64) {
        let name = (namespace.to_owned(), digest.to_owned());
        if self.blobs.get(&name).is_none() {
            self.blobs.put(name.clone(), text.to_owned());
        }
        self.uses.put((run, name), ());
    }

    /// Notes all changes from now on.
    pub(crate) fn track(&mut self) {
        let Tables { runs, names, journal, inbox, blobs, uses } = self;
        runs.track();
        names.track();
        journal.track();
        inbox.track();
        blobs.track();
        uses.track();
    }

    /// The batch stands.
    pub(crate) fn keep(&mut self) {
        let Tables { runs, names, journal, inbox, blobs, uses } = self;
        runs.keep();
        names.keep();
        journal.keep();
        inbox.keep();
        blobs.keep();
        uses.keep();
    }

    /// The batch never was.
    pub(crate) fn undo(&mut self) {
        let Tables { runs, names, journal, inbox, blobs, uses } = self;
        runs.undo();
        names.undo();
        journal.undo();
        inbox.undo();
        blobs.undo();
        uses.undo();
    }
}

/// What is there: for guards, and to know a repeat.
impl Tables {
    fn named(&self, namespace: &str, id: &str, number: i64) -> Option<&RunRow> {
        let row = self.runs.get(&number);
        row.filter(|row| row.namespace == namespace && row.id == id)
    }

    /// A touch may have moved the version on since; the record is what was written.
    pub(crate) fn has_run(&self, row: &RunRow) -> bool {
        let stored = self.runs.get(&row.number);
        stored.is_some_and(|stored| stored.record == row.record && stored.version >= row.version)
    }

    pub(crate) fn has_number(&self, number: i64) -> bool {
        self.runs.get(&number).is_some()
    }

    pub(crate) fn has_entry(&self, run: i64, seq: u64, link: &Link) -> bool {
        self.journal.get(&(run, seq)).is_some_and(|(stored, _)| stored == link)
    }

    pub(crate) fn has_delivery(&self, asked: &Delivery) -> bool {
        let stored = self.delivery(asked.run, &asked.identity);
        stored.is_some_and(|one| one.name == asked.name && one.payload == asked.payload)
    }

    pub(crate) fn has_consumed(&self, run: i64, identity: &str) -> bool {
        self.delivery(run, identity).is_some_and(|delivery| delivery.consumed)
    }

    pub(crate) fn has_blob(&self, namespace: &str, digest: &str, run: i64) -> bool {
        self.uses.get(&(run, (namespace.to_owned(), digest.to_owned()))).is_some()
    }

    pub(crate) fn delivery(&self, run: i64, identity: &str) -> Option<&Delivery> {
        let mut of_run = self.inbox.rows().range(deliveries(run)).map(|(_, delivery)| delivery);
        of_run.find(|delivery| delivery.identity == identity)
    }
}

pub(crate) fn entries(run: i64) -> RangeInclusive<(i64, u64)> {
    (run, 0)..=(run, u64::MAX)
}

pub(crate) fn deliveries(run: i64) -> RangeInclusive<(i64, i64)> {
    (run, i64::MIN)..=(run, i64::MAX)
}

fn key<K: Clone, V>((key, _): (&K, V)) -> K {
    key.clone()
}
