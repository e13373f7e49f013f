//! The audit chains: each entry follows the one before it, none is missing, and what is recorded
//! as decided elsewhere has its entry.

use std::collections::{HashMap, HashSet};

use semel_core::audit::{self, CARD, End};
use semel_core::journal::Event;
use semel_core::limits;
use semel_core::record::{Answer, Effect, Verdict};
use semel_core::time::Wall;
use semel_core::wire::rfc3339;
use semel_store::{Card, CardQuery, Upkeep};

use crate::exit::Failed;

/// What all entries say together, as they were read: the newest of each namespace first.
#[derive(Default)]
pub(super) struct Deeds {
    namespaces: HashMap<String, Chain>,
    pub(super) count: u64,
}

/// A decision that is on record and that no entry tells of, as far as entries were read.
pub(super) struct Untold {
    namespace: String,
    subject: String,
    at: Wall,
    what: &'static str,
}

#[derive(Default)]
struct Chain {
    /// What the entry before the last one that was read must be.
    wanted: Option<End>,
    first: Option<Wall>,
    /// What was decided upon, and when.
    known: HashSet<(String, i64)>,
}

impl Deeds {
    /// Takes the next card of the kind; says what is wrong with it.
    pub(super) fn take(&mut self, card: &Card) -> Option<String> {
        self.count += 1;
        let chain = self.namespaces.entry(card.namespace.clone()).or_default();
        let (entry, end) = match audit::read(&card.record) {
            Ok(read) => read,
            Err(what) => return Some(format!("entry {} cannot be read: {what}", card.name)),
        };
        let before = End { seq: entry.seq.saturating_sub(1), hash: entry.previous.clone() };
        let wanted = chain.wanted.replace(before);
        chain.first = Some(entry.at);
        chain.known.insert((entry.subject, entry.at.0));
        if card.name != audit::card_name(entry.seq) || card.version != 1 {
            return Some(format!("entry {} is not in its place", entry.seq));
        }
        match wanted {
            Some(wanted) if wanted.seq != end.seq => {
                Some(format!("entry {} is missing", wanted.seq))
            }
            Some(wanted) if wanted != end => Some(format!("entry {} was changed", end.seq)),
            Some(_) | None => None,
        }
    }

    /// The earlier entries of a namespace cannot be read any more: nobody can say what they were.
    pub(super) fn lose(&mut self, namespace: &str) {
        if let Some(chain) = self.namespaces.get_mut(namespace) {
            chain.wanted = None;
        }
    }

    /// Whether each chain began where it must.
    pub(super) fn beginnings(&self) -> Vec<String> {
        let broken = self.namespaces.iter().filter(|(namespace, chain)| {
            chain.wanted.as_ref().is_some_and(|end| *end != End::of_namespace(namespace))
        });
        let told =
            broken.map(|(namespace, _)| format!("the first entry of {namespace} is missing"));
        told.collect()
    }

    /// Whether a decision should have an entry, and has none. What was decided before there were
    /// entries cannot be told.
    fn is_untold(&self, untold: &Untold) -> bool {
        let Some(chain) = self.namespaces.get(&untold.namespace) else { return false };
        let is_told = chain.first.is_some_and(|first| first <= untold.at);
        is_told && !chain.known.contains(&(untold.subject.clone(), untold.at.0))
    }

    /// Decisions in the row of an effect that no entry tells of.
    pub(super) fn untold_of(&self, effect: &Effect) -> Vec<Untold> {
        let made = |at: Wall, what: &'static str| Untold {
            namespace: effect.address.namespace.as_str().to_owned(),
            subject: audit::effect_subject(&effect.address, effect.generation),
            at,
            what,
        };
        let decided = effect.decisions.iter();
        let decided = decided.filter(|decision| decision.verdict != Verdict::Import);
        let decided = decided.map(|decision| made(decision.at, "a decision"));
        let judged = effect.approval.as_ref().and_then(|approval| approval.judgement.as_ref());
        let judged = judged.filter(|judged| judged.answer != Answer::Expired);
        let judged = judged.map(|judged| made(judged.at, "an answer"));
        decided.chain(judged).filter(|untold| self.is_untold(untold)).collect()
    }

    /// The same for an entry of a run's journal.
    pub(super) fn untold_in(
        &self,
        (namespace, run): (&str, &str),
        event: &Event,
        at: Wall,
    ) -> Option<Untold> {
        let what = match event {
            // Not by a person: nobody offered its release.
            Event::Moved { actor, .. } if actor == "semel" => return None,
            Event::Moved { .. } => "a move",
            Event::Resumed { .. } => "a retry",
            Event::Skipped { .. } => "a skip",
            _ => return None,
        };
        let (namespace, subject) = (namespace.to_owned(), audit::run_subject(run));
        Some(Untold { namespace, subject, at, what }).filter(|untold| self.is_untold(untold))
    }

    /// Looks once more: what was decided while the store was read has its entry by now, and that
    /// is among the newest.
    pub(super) async fn still_untold(
        &self,
        store: &dyn Upkeep,
        untold: Vec<Untold>,
    ) -> Result<Vec<String>, Failed> {
        let mut newest: HashMap<String, HashSet<(String, i64)>> = HashMap::new();
        let mut found = Vec::new();
        for one in untold {
            if !newest.contains_key(&one.namespace) {
                let query = CardQuery {
                    namespace: Some(one.namespace.clone()),
                    kind: CARD.to_owned(),
                    after: None,
                    limit: limits::PAGE_ROWS_MAX,
                };
                let cards = store.cards(&query).await?.cards;
                let read = cards.iter().filter_map(|card| audit::read(&card.record).ok());
                let told = read.map(|(entry, _)| (entry.subject, entry.at.0)).collect();
                newest.insert(one.namespace.clone(), told);
            }
            let Untold { namespace, subject, at, what } = one;
            if !newest[&namespace].contains(&(subject.clone(), at.0)) {
                found.push(format!("{subject}: {what} of {} has no audit entry", rfc3339(at)));
            }
        }
        Ok(found)
    }
}

/// Whether a card is an entry.
pub(super) fn is_entry(card: &Card) -> bool {
    card.kind == CARD
}
