//! Questions of a worker. What is out of its reach is not there: it gets the answer of an empty
//! store.

use std::time::Duration;

use semel_core::code::Code;
use semel_core::journal;
use semel_core::key::Namespace;
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::run::Run;
use semel_core::time::Steady;
use semel_store::remote::protocol::{
    AddressShape, CardQueryShape, CardShape, DeliveryShape, DueSeen, Found, InkedShape, Malformed,
    QueryShape, Read, RunQueryShape, RunSeen, UnreadableShape,
};
use semel_store::{
    CardPage, CardQuery, DueRuns, Inked, Page, Query, RunPage, RunQuery, StoreError, Unreadable,
};
use serde::Serialize;
use tokio::time::{Instant, timeout_at};

use super::{Desk, WAIT_STEP};
use crate::problem::Problem;
use crate::route::Reply;

/// Pages of everybody's due effects that are looked through for one answer.
const DUE_PAGES_MAX: usize = 8;

/// Why a question has no answer.
enum Stop {
    Malformed(Malformed),
    Hidden,
    Store(StoreError),
}

impl From<Malformed> for Stop {
    fn from(why: Malformed) -> Stop {
        Stop::Malformed(why)
    }
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::Store(error)
    }
}

impl From<Stop> for Problem {
    fn from(stop: Stop) -> Problem {
        match stop {
            Stop::Malformed(why) => Problem::new(Code::RequestInvalid, why.to_string()),
            Stop::Hidden => Problem::holds_token(),
            Stop::Store(error) => error.into(),
        }
    }
}

type Answer<T> = Result<T, Stop>;

pub(super) async fn answer(desk: &Desk, read: Read<'_>) -> Result<Reply, Problem> {
    Ok(match read {
        Read::Load { address } => desk.found(&desk.load(&address, None).await?),
        Read::LoadGeneration { address, generation } => {
            desk.found(&desk.load(&address, Some(generation)).await?)
        }
        Read::List(query) => desk.list(&query).await?,
        Read::Due { after, limit } => desk.found(&desk.due(after, limit).await?),
        Read::Sweepable { limit } => desk.found(&desk.sweepable(limit).await?),
        Read::Run { namespace, id } => desk.found(&desk.run(&namespace, &id).await?),
        Read::NamespaceOf { run } => desk.found(&desk.namespace_of(run).await?),
        Read::Journal { run, from, limit } => {
            let entries = desk.journal(run, from, limit).await?;
            desk.found(&cut(&entries))
        }
        Read::LastEntry { run } => {
            let entry = desk.last_entry(run).await?;
            desk.found(&entry.as_ref().map(InkedShape::from))
        }
        Read::Inbox { run } => desk.inbox(run).await?,
        Read::Delivery { run, identity } => desk.delivery(run, &identity).await?,
        Read::Blob { namespace, digest } => desk.found(&desk.blob(&namespace, &digest).await?),
        Read::DueRuns { lane, limit, wait_ms } => {
            desk.found(&desk.due_runs(&lane, limit, wait_ms).await?)
        }
        Read::NextQueued { queue } => desk.found(&desk.next_queued(&queue).await?),
        Read::ListRuns(query) => desk.list_runs(&query).await?,
        Read::SweepableRuns { limit } => desk.found(&desk.sweepable_runs(limit).await?),
        Read::Card { namespace, kind, name } => desk.card((&namespace, &kind, &name)).await?,
        Read::Cards(query) => desk.cards(query).await?,
        Read::DueCards { kind, limit } => desk.due_cards(&kind, limit).await?,
    })
}

fn bounded(limit: usize) -> usize {
    limit.min(limits::WORKER_ROWS_MAX)
}

/// As many entries as fit into an answer, and whether there are more of them.
fn cut(entries: &[Inked]) -> (Vec<InkedShape<'_>>, bool) {
    let mut bytes = 0;
    let fits = |entry: &&Inked| {
        let is_first = bytes == 0;
        bytes += entry.text.len();
        is_first || bytes <= limits::WORKER_ENTRIES_BYTES_MAX
    };
    let shapes: Vec<InkedShape<'_>> = entries.iter().take_while(fits).map(Into::into).collect();
    let is_cut = shapes.len() < entries.len();
    (shapes, is_cut)
}

impl Desk {
    fn found<T: Serialize>(&self, found: &T) -> Reply {
        self.found_page(found, Vec::new())
    }

    /// A list, with the rows of it that cannot be read.
    fn found_page<T: Serialize>(&self, found: &T, unreadable: Vec<Unreadable>) -> Reply {
        let unreadable = unreadable.into_iter().map(UnreadableShape::from).collect();
        Reply::ok(&Found { ground: self.ground(), found, unreadable })
    }

    async fn load(
        &self,
        address: &AddressShape<'_>,
        generation: Option<u32>,
    ) -> Answer<Option<Effect>> {
        let address = address.read()?;
        if !self.reach.sees(address.namespace.as_str()) {
            return Ok(None);
        }
        Ok(match generation {
            None => self.store().load(&address).await?,
            Some(generation) => self.store().load_generation(&address, generation).await?,
        })
    }

    async fn list(&self, query: &QueryShape<'_>) -> Answer<Reply> {
        let query = query.read()?;
        let namespace = query.namespace.unwrap_or_else(|| self.reach.namespace().clone());
        let page = match self.reach.sees(namespace.as_str()) {
            true => {
                let limit = bounded(query.limit);
                let query = Query { namespace: Some(namespace), limit, ..query };
                self.store().list(&query).await?
            }
            false => Page::default(),
        };
        Ok(self.found_page(&(page.effects, page.next), page.unreadable))
    }

    /// Looks through everybody's, so long as it is worth an answer.
    async fn due(&self, after: Option<(i64, i64)>, limit: usize) -> Answer<DueSeen> {
        let limit = bounded(limit);
        let mut seen = DueSeen { effects: Vec::new(), next_due: None, seen_to: None };
        let mut after = after.map(Into::into);
        for _ in 0..DUE_PAGES_MAX {
            let page = self.store().due(after, limit).await?;
            let is_last = page.seen_to.is_none();
            after = page.seen_to.or(after);
            seen.next_due = page.next_due;
            for (cursor, effect) in page.effects {
                if self.reach.sees(effect.address.namespace.as_str()) && seen.effects.len() < limit
                {
                    seen.effects.push(((cursor.due_ms, cursor.row), effect));
                }
            }
            // A page that was filled may have left some of its rows out.
            if seen.effects.len() == limit && limit > 0 {
                break;
            }
            if is_last || limit == 0 {
                return Ok(seen);
            }
        }
        seen.seen_to = match seen.effects.len() == limit {
            true => seen.effects.last().map(|(cursor, _)| *cursor),
            false => after.map(|cursor| (cursor.due_ms, cursor.row)),
        };
        Ok(seen)
    }

    /// Retention is the server's own work; a worker is not asked to.
    async fn sweepable(&self, limit: usize) -> Answer<Vec<Effect>> {
        if !self.reach.may_remove() {
            return Ok(Vec::new());
        }
        let mut found = self.store().sweepable(bounded(limit)).await?;
        found.retain(|effect| self.reach.sees(effect.address.namespace.as_str()));
        Ok(found)
    }

    async fn run(&self, namespace: &str, id: &str) -> Answer<Option<RunSeen>> {
        if !self.reach.sees(namespace) {
            return Ok(None);
        }
        let run = self.store().run(namespace, id).await?;
        if let Some(run) = &run {
            self.app.owners.learn(run.number, &run.namespace);
        }
        Ok(run.map(RunSeen::from))
    }

    async fn namespace_of(&self, run: i64) -> Answer<Option<String>> {
        // Asked anew: it is asked to know whether the run is there.
        let found = self.store().namespace_of(run).await?;
        Ok(found.filter(|namespace| self.reach.sees(namespace)))
    }

    async fn journal(&self, run: i64, from: u64, limit: usize) -> Answer<Vec<Inked>> {
        if !self.sees_run(run).await? {
            return Ok(Vec::new());
        }
        let entries = self.store().journal(run, from, bounded(limit)).await?;
        self.check_tokens(&entries)?;
        Ok(entries)
    }

    /// An entry goes out as it is written, or not at all: the chain is made of its text.
    fn check_tokens(&self, entries: &[Inked]) -> Answer<()> {
        let gives =
            |inked: &Inked| journal::decode(&inked.text).is_ok_and(|it| it.event.gives_token());
        match !self.reach.sees_tokens() && entries.iter().any(gives) {
            true => Err(Stop::Hidden),
            false => Ok(()),
        }
    }

    async fn last_entry(&self, run: i64) -> Answer<Option<Inked>> {
        if !self.sees_run(run).await? {
            return Ok(None);
        }
        let entry = self.store().last_entry(run).await?;
        self.check_tokens(entry.as_slice())?;
        Ok(entry)
    }

    async fn inbox(&self, run: i64) -> Answer<Reply> {
        let found = match self.sees_run(run).await? {
            true => self.store().inbox(run).await?,
            false => Vec::new(),
        };
        Ok(self.found(&found.iter().map(DeliveryShape::from).collect::<Vec<_>>()))
    }

    async fn delivery(&self, run: i64, identity: &str) -> Answer<Reply> {
        let found = match self.sees_run(run).await? {
            true => self.store().delivery(run, identity).await?,
            false => None,
        };
        Ok(self.found(&found.as_ref().map(DeliveryShape::from)))
    }

    async fn blob(&self, namespace: &str, digest: &str) -> Answer<Option<String>> {
        if !self.reach.sees(namespace) {
            return Ok(None);
        }
        Ok(self.store().blob(namespace, digest).await?)
    }

    async fn next_queued(&self, queue: &str) -> Answer<Option<RunSeen>> {
        if !self.reach.sees_lane(queue) {
            return Ok(None);
        }
        Ok(self.store().next_queued(queue).await?.map(RunSeen::from))
    }

    async fn list_runs(&self, query: &RunQueryShape<'_>) -> Answer<Reply> {
        let query = query.read()?;
        let own = || self.reach.namespace().as_str().to_owned();
        let namespace = query.namespace.unwrap_or_else(own);
        let page = match self.reach.sees(&namespace) {
            true => {
                let limit = bounded(query.limit);
                let query = RunQuery { namespace: Some(namespace), limit, ..query };
                self.store().list_runs(&query).await?
            }
            false => RunPage::default(),
        };
        let runs: Vec<RunSeen> = page.runs.into_iter().map(RunSeen::from).collect();
        Ok(self.found_page(&(runs, page.next), page.unreadable))
    }

    async fn sweepable_runs(&self, limit: usize) -> Answer<Vec<RunSeen>> {
        if !self.reach.may_remove() {
            return Ok(Vec::new());
        }
        let found = self.store().sweepable_runs(bounded(limit)).await?;
        let own = found.into_iter().filter(|run| self.reach.sees(&run.namespace));
        Ok(own.map(RunSeen::from).collect())
    }
}

/// Runs that are due, where somebody may wait for one.
impl Desk {
    async fn due_runs(
        &self,
        lane: &str,
        limit: usize,
        wait_ms: u64,
    ) -> Answer<(Vec<RunSeen>, Option<Steady>)> {
        // The lane without a name was once that of all runs that need no code, whoever's they are.
        if !lane.is_empty() && !self.reach.sees_lane(lane) {
            return Ok((Vec::new(), None));
        }
        let wait = Duration::from_millis(wait_ms.min(limits::WORKER_POLL_MS));
        let until = Instant::now() + wait;
        let mut hints = self.store().hints();
        loop {
            hints.mark_unchanged();
            let DueRuns { mut runs, next } = self.store().due_runs(lane, bounded(limit)).await?;
            runs.retain(|run| self.reach.sees(&run.namespace));
            if !runs.is_empty() || limit == 0 || !self.may_wait(until) {
                return Ok((self.seen(runs), next));
            }
            let now = self.store().ground().now;
            let soon = next.map_or(WAIT_STEP, |at| Duration::from_millis(now.until(at).max(1)));
            let soon = until.min(Instant::now() + soon.min(WAIT_STEP));
            // A hint or the time: either is a reason to look again.
            let _ = timeout_at(soon, hints.changed()).await;
        }
    }

    fn seen(&self, runs: Vec<Run>) -> Vec<RunSeen> {
        runs.iter().for_each(|run| self.app.owners.learn(run.number, &run.namespace));
        runs.into_iter().map(RunSeen::from).collect()
    }
}

/// Cards, of the kinds that an engine uses.
impl Desk {
    async fn card(&self, (namespace, kind, name): (&str, &str, &str)) -> Answer<Reply> {
        let found = match self.reach.sees(namespace) && self.reach.sees_kind(kind) {
            true => self.store().card(namespace, kind, name).await?,
            false => None,
        };
        Ok(self.found(&found.as_ref().map(CardShape::from)))
    }

    async fn cards(&self, query: CardQueryShape<'_>) -> Answer<Reply> {
        let query = CardQuery::from(query);
        let own: &Namespace = self.reach.namespace();
        let namespace = query.namespace.unwrap_or_else(|| own.as_str().to_owned());
        let page = match self.reach.sees(&namespace) && self.reach.sees_kind(&query.kind) {
            true => {
                let limit = bounded(query.limit);
                let query = CardQuery { namespace: Some(namespace), limit, ..query };
                self.store().cards(&query).await?
            }
            false => CardPage::default(),
        };
        let cards: Vec<_> = page.cards.iter().map(CardShape::from).collect();
        Ok(self.found_page(&cards, page.unreadable))
    }

    /// Schedules fire and old cards are removed by the server itself; a worker is not asked to.
    async fn due_cards(&self, kind: &str, limit: usize) -> Answer<Reply> {
        let mut found = match self.reach.may_remove() && self.reach.sees_kind(kind) {
            true => self.store().due_cards(kind, bounded(limit)).await?,
            false => Vec::new(),
        };
        found.retain(|card| self.reach.sees(&card.namespace));
        Ok(self.found(&found.iter().map(CardShape::from).collect::<Vec<_>>()))
    }
}
