//! What a group of batches asks about, and what this process need not ask.

use std::collections::{BTreeSet, HashMap};

use semel_core::journal::Link;
use semel_core::key::Address;

use super::load::signed;
use crate::{Append, Batch, Write};

/// An entry of a journal, by its place and its link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub(super) seq: u64,
    pub(super) link: Link,
}

/// The last entries that this process has written. An entry never changes, so whoever follows one
/// of them need not ask whether it is there.
#[derive(Default)]
pub(super) struct Ends {
    epoch: u64,
    ends: HashMap<i64, End>,
}

/// More runs than a process advances at once.
const ENDS_MAX: usize = 4 * semel_core::limits::RUNS_HELD_MAX;

impl Ends {
    /// What was written before a return may be gone.
    fn is(&self, epoch: u64, run: i64, end: End) -> bool {
        self.epoch == epoch && self.ends.get(&run) == Some(&end)
    }

    /// Notes what was committed in an epoch.
    pub(super) fn note(&mut self, epoch: u64, writes: &[Write]) {
        if self.epoch != epoch || self.ends.len() > ENDS_MAX {
            *self = Ends { epoch, ends: HashMap::new() };
        }
        for write in writes {
            match write {
                Write::Append(append) => {
                    let end = End { seq: append.seq, link: append.link };
                    self.ends.insert(append.run, end);
                }
                Write::UpdateRun(row) if row.state.is_final() => {
                    self.ends.remove(&row.number);
                }
                Write::DropRun { number, .. } => {
                    self.ends.remove(number);
                }
                _ => {}
            }
        }
    }

    pub(super) fn forget(&mut self) {
        self.ends.clear();
    }
}

/// What a group asks about.
#[derive(Default)]
pub(super) struct Wanted<'a> {
    pub(super) effects: BTreeSet<&'a Address>,
    /// Runs that may be written.
    pub(super) runs: BTreeSet<i64>,
    pub(super) names: BTreeSet<(&'a str, &'a str)>,
    /// Runs that are only asked who holds them.
    pub(super) held: BTreeSet<i64>,
    pub(super) entries: BTreeSet<(i64, i64)>,
    pub(super) deliveries: BTreeSet<(i64, &'a str)>,
    pub(super) inboxes: BTreeSet<i64>,
    pub(super) uses: BTreeSet<(&'a str, &'a str, i64)>,
    /// By namespace, kind and name.
    pub(super) cards: BTreeSet<(&'a str, &'a str, &'a str)>,
}

impl<'a> Wanted<'a> {
    /// Everything that the guards of these batches look at.
    pub(super) fn all(batches: &'a [Batch]) -> Wanted<'a> {
        let mut wanted = Wanted::default();
        let writes = batches.iter().flat_map(|batch| batch.writes.iter());
        writes.for_each(|write| wanted.add(write));
        wanted
    }

    /// Without what this process knows, and what a unique index says as well: that a place in a
    /// journal, or the name of a new run, is free. Returns the entries that are known, which they
    /// are in this epoch only.
    pub(super) fn unknown(
        batches: &'a [Batch],
        ends: &Ends,
        epoch: u64,
    ) -> (Wanted<'a>, Vec<(i64, End)>) {
        let (mut wanted, mut known) = (Wanted::default(), Vec::new());
        let mut new: HashMap<(i64, u64), Link> = HashMap::new();
        for write in batches.iter().flat_map(|batch| batch.writes.iter()) {
            match write {
                Write::StartRun(_) => {}
                Write::Append(append) => {
                    let Append { run, seq, after, link, .. } = append;
                    new.insert((*run, *seq), *link);
                    let Some(before) = seq.checked_sub(1) else { continue };
                    let end = End { seq: before, link: *after };
                    if new.get(&(*run, before)) == Some(after) {
                        // Written by this very group, or refused with what follows it.
                    } else if ends.is(epoch, *run, end) {
                        known.push((*run, end));
                    } else {
                        wanted.entries.insert((*run, signed(before)));
                    }
                }
                _ => wanted.add(write),
            }
        }
        (wanted, known)
    }

    pub(super) fn is_empty(&self) -> bool {
        let Wanted { effects, runs, names, held, entries, deliveries, inboxes, uses, cards } = self;
        effects.is_empty()
            && runs.is_empty()
            && names.is_empty()
            && held.is_empty()
            && entries.is_empty()
            && deliveries.is_empty()
            && inboxes.is_empty()
            && uses.is_empty()
            && cards.is_empty()
    }

    /// Effects alone.
    pub(super) fn effects(addresses: impl Iterator<Item = &'a Address>) -> Wanted<'a> {
        Wanted { effects: addresses.collect(), ..Wanted::default() }
    }

    fn add(&mut self, write: &'a Write) {
        match write {
            Write::InEpoch(_) => {}
            Write::Insert(row) | Write::Update(row) => {
                self.effects.insert(&row.address);
            }
            Write::Remove { address, .. } => {
                self.effects.insert(address);
            }
            Write::StartRun(row) | Write::UpdateRun(row) => {
                self.runs.insert(row.number);
                if row.version == 1 {
                    self.names.insert((&row.namespace, &row.id));
                }
            }
            Write::DropRun { number, .. } => {
                self.runs.insert(*number);
            }
            Write::Append(append) => {
                let seq = signed(append.seq);
                self.entries.insert((append.run, seq));
                if seq > 0 {
                    self.entries.insert((append.run, seq - 1));
                }
            }
            Write::Holds { run, seq, .. } => {
                self.held.insert(*run);
                self.entries.insert((*run, signed(*seq)));
            }
            Write::Deliver(delivery) => {
                self.runs.insert(delivery.run);
                self.inboxes.insert(delivery.run);
                self.deliveries.insert((delivery.run, &delivery.identity));
            }
            Write::Consume { run, identity } => {
                self.deliveries.insert((*run, identity));
            }
            Write::Touch { namespace, id, .. } => {
                self.names.insert((namespace, id));
            }
            Write::Blob { namespace, digest, run, .. } => {
                self.uses.insert((namespace, digest, *run));
            }
            Write::Card(card) => {
                self.cards.insert((&card.namespace, &card.kind, &card.name));
            }
            Write::DropCard { namespace, kind, name, .. } => {
                self.cards.insert((namespace, kind, name));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_is_known_in_the_epoch_in_which_it_was_written() {
        let (after, link) = (Link([1; 32]), Link([2; 32]));
        let append = |seq, after, link| {
            Write::Append(Append { run: 1, seq, after, link, text: String::new() })
        };
        let mut ends = Ends::default();
        ends.note(3, &[append(1, after, link)]);
        let next = [Batch::from(append(2, link, after))];
        let (wanted, known) = Wanted::unknown(&next, &ends, 3);
        assert!(wanted.is_empty());
        assert_eq!(known, [(1, End { seq: 1, link })]);
        let (wanted, known) = Wanted::unknown(&next, &ends, 4);
        assert_eq!(wanted.entries, BTreeSet::from([(1, 1)]), "a return may have taken it");
        assert_eq!(known, []);
    }
}
