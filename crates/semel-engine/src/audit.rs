//! The audit chain: each decision of a person is an entry, in the commit that carries it out.

use semel_core::audit::{self, CARD, Deed, End, Entry, Verb};
use semel_core::code::Code;
use semel_core::effect::{Person, Resolution};
use semel_core::key::{Address, Namespace};
use semel_core::limits;
use semel_core::record::{Answer, Effect};
use semel_core::time::Wall;
use semel_store::{Batch, Card, CardQuery, StoreError, Unreadable, Write};

use crate::cards::Listed;
use crate::commit::Stopped;
use crate::{Engine, Error};

/// Entries of one namespace, the newest first, and the number after which the next page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditPage {
    pub entries: Vec<Entry>,
    pub next: Option<u64>,
    /// Those of the page that cannot be read, by their number.
    pub unreadable: Vec<Unreadable>,
}

impl Engine {
    /// Commits writes together with the decision behind them, which is appended to the chain of the
    /// namespace. Another process that appends first makes the batch stale: then both are decided
    /// again. The decisions of this process take turns, so that they never do that to each other.
    pub(crate) async fn commit_audited(
        &self,
        mut writes: Vec<Write>,
        namespace: &str,
        deed: &Deed,
        at: Wall,
    ) -> Result<(), Stopped> {
        let _turn = self.inner.audit_turn.lock().await;
        writes.push(self.audited(namespace, deed, at).await?);
        writes.extend(self.identified(at));
        self.commit(Batch { writes: writes.into() }).await
    }

    /// The write that appends a decision.
    async fn audited(&self, namespace: &str, deed: &Deed, at: Wall) -> Result<Write, Error> {
        let end = self.audit_end(namespace).await?;
        let (entry, record) = audit::append(&end, deed, at);
        Ok(Write::Card(Card {
            namespace: namespace.to_owned(),
            kind: CARD.to_owned(),
            name: audit::card_name(entry.seq),
            version: 1,
            due: None,
            record,
        }))
    }

    async fn audit_end(&self, namespace: &str) -> Result<End, Error> {
        let newest = self.store().cards(&entries(namespace, None, 1)).await?;
        // Nothing is chained to an entry that cannot be read, nor to the one before it.
        if let Some(Unreadable { name, code, why, .. }) = newest.unreadable.first() {
            return Err(Error::new(*code, format!("audit entry {name}: {why}")));
        }
        Ok(match newest.cards.first() {
            None => End::of_namespace(namespace),
            Some(card) => audit::read(&card.record).map_err(|what| unreadable(card, &what))?.1,
        })
    }

    /// Whether a card that somebody else wrote is the next entry of its chain.
    pub async fn is_next_entry(&self, card: &Card) -> Result<bool, Error> {
        let end = self.audit_end(&card.namespace).await?;
        let entry = audit::follow(&end, &card.record);
        Ok(entry.is_ok_and(|(entry, _)| audit::card_name(entry.seq) == card.name))
    }

    /// Appends a decision whose consequences are written elsewhere.
    pub async fn note_deed(&self, namespace: &Namespace, deed: &Deed) -> Result<(), Error> {
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let at = self.store().ground().now.wall;
            match self.commit_audited(Vec::new(), namespace.as_str(), deed, at).await {
                Ok(()) => return Ok(()),
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the audit chain kept growing"))
    }

    /// What people decided in a namespace, the newest first.
    pub async fn audit_entries(
        &self,
        namespace: &Namespace,
        before: Option<u64>,
        limit: usize,
    ) -> Result<AuditPage, Error> {
        let limit = limit.clamp(1, limits::PAGE_ROWS_MAX);
        let page = self.store().cards(&entries(namespace.as_str(), before, limit)).await?;
        let mut listed = Listed::new();
        listed.add(&page, |card| {
            let read = audit::read(&card.record).map_err(|what| unreadable(card, &what));
            Ok(read?.0)
        })?;
        let Listed { found: entries, mut unreadable } = listed;
        for row in &mut unreadable {
            row.name = audit::seq_of(&row.name).map_or(row.name.clone(), |seq| seq.to_string());
        }
        let next = page.next.and_then(|(_, name)| audit::seq_of(&name));
        Ok(AuditPage { entries, next: next.filter(|seq| *seq > 1), unreadable })
    }
}

fn entries(namespace: &str, before: Option<u64>, limit: usize) -> CardQuery {
    CardQuery {
        namespace: Some(namespace.to_owned()),
        kind: CARD.to_owned(),
        after: before.map(|seq| (namespace.to_owned(), audit::card_name(seq))),
        limit,
    }
}

fn unreadable(card: &Card, what: &str) -> Error {
    StoreError::Corrupt(format!("audit entry {}: {what}", card.name)).into()
}

/// A person's word on an effect.
pub(crate) fn on_effect(effect: &Effect, person: &Person, verb: Verb) -> Deed {
    on_address(&effect.address, effect.generation, person, verb)
}

fn on_address(address: &Address, generation: u32, person: &Person, verb: Verb) -> Deed {
    Deed {
        actor: person.actor.clone(),
        verb,
        subject: audit::effect_subject(address, generation),
        reason: person.reason.clone(),
        version: Some(person.version),
        detail: None,
    }
}

/// A person's word on a run.
pub(crate) fn on_run(id: &str, actor: &str, reason: &str, verb: Verb) -> Deed {
    Deed {
        actor: actor.to_owned(),
        verb,
        subject: audit::run_subject(id),
        reason: reason.to_owned(),
        version: None,
        detail: None,
    }
}

/// What an answer is called; silence is nobody's decision.
pub(crate) fn verb_of_answer(answer: Answer) -> Option<Verb> {
    match answer {
        Answer::Approved => Some(Verb::Approve),
        Answer::Denied => Some(Verb::Deny),
        Answer::Returned => Some(Verb::Return),
        Answer::Expired => None,
    }
}

pub(crate) fn verb_of_resolution(resolution: &Resolution) -> Verb {
    match resolution {
        Resolution::Done(_) => Verb::ResolveDone,
        Resolution::Failed => Verb::ResolveFailed,
        Resolution::Retry => Verb::ResolveRetry,
    }
}
