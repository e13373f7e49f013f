//! The real store, with a point before and after each commit.

use std::sync::Arc;

use async_trait::async_trait;
use semel_core::effect::Ground;
use semel_core::journal::{self, Event};
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::run::Run;
use semel_store::{
    Batch, Card, CardQuery, Cards, Clock, CommitError, Delivery, DueCursor, DuePage, DueRuns,
    Inked, Page, Query, RunPage, RunQuery, Runs, Store, StoreError, Write,
};
use tokio::sync::watch;

use super::points::Points;

/// A store that passes a point on either side of each commit.
pub struct Pointed {
    pub store: Arc<dyn Store>,
    pub points: Arc<Points>,
}

#[async_trait]
impl Store for Pointed {
    async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        let names: Vec<String> = batch.writes.iter().filter_map(name).collect();
        let at = |side: &str| -> Vec<String> {
            names.iter().map(|name| format!("{side} {name}")).collect()
        };
        self.points.pass(&at("before"));
        let answer = self.store.commit(batch).await;
        self.points.pass(&at("after"));
        answer
    }

    fn ground(&self) -> Ground {
        self.store.ground()
    }

    fn clock(&self) -> &Clock {
        self.store.clock()
    }

    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError> {
        self.store.load(address).await
    }

    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError> {
        self.store.load_generation(address, generation).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.store.list(query).await
    }

    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError> {
        self.store.due(after, limit).await
    }

    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError> {
        self.store.sweepable(limit).await
    }

    fn session(&self) -> Option<&str> {
        self.store.session()
    }

    fn is_dead(&self, session: &str) -> bool {
        self.store.is_dead(session)
    }

    fn dead_sessions(&self) -> Vec<String> {
        self.store.dead_sessions()
    }

    fn bury(&self, session: &str) {
        self.store.bury(session);
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.store.hints()
    }
}

#[async_trait]
impl Runs for Pointed {
    async fn run(&self, namespace: &str, id: &str) -> Result<Option<Run>, StoreError> {
        self.store.run(namespace, id).await
    }

    async fn journal(&self, run: i64, from: u64, limit: usize) -> Result<Vec<Inked>, StoreError> {
        self.store.journal(run, from, limit).await
    }

    async fn last_entry(&self, run: i64) -> Result<Option<Inked>, StoreError> {
        self.store.last_entry(run).await
    }

    async fn inbox(&self, run: i64) -> Result<Vec<Delivery>, StoreError> {
        self.store.inbox(run).await
    }

    async fn delivery(&self, run: i64, identity: &str) -> Result<Option<Delivery>, StoreError> {
        self.store.delivery(run, identity).await
    }

    async fn blob(&self, namespace: &str, digest: &str) -> Result<Option<String>, StoreError> {
        self.store.blob(namespace, digest).await
    }

    async fn due_runs(&self, lane: &str, limit: usize) -> Result<DueRuns, StoreError> {
        self.store.due_runs(lane, limit).await
    }

    async fn next_queued(&self, queue: &str) -> Result<Option<Run>, StoreError> {
        self.store.next_queued(queue).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<RunPage, StoreError> {
        self.store.list_runs(query).await
    }

    async fn sweepable_runs(&self, limit: usize) -> Result<Vec<Run>, StoreError> {
        self.store.sweepable_runs(limit).await
    }
}

#[async_trait]
impl Cards for Pointed {
    async fn card(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Card>, StoreError> {
        self.store.card(namespace, kind, name).await
    }

    async fn cards(&self, query: &CardQuery) -> Result<Vec<Card>, StoreError> {
        self.store.cards(query).await
    }

    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError> {
        self.store.due_cards(kind, limit).await
    }
}

/// What a write means in the story of a run: `planned ack-mail`, `ack-mail pending`, `finished`.
/// Whatever only accompanies another write has no name.
fn name(write: &Write) -> Option<String> {
    match write {
        Write::Append(append) => {
            let event = journal::decode(&append.text).ok()?.event;
            let id = match &event {
                Event::Step { id, .. } | Event::Planned { id, .. } | Event::Effect { id, .. } => id,
                _ => "",
            };
            // Each name comes once in this workflow, so its number says nothing.
            let id = id.strip_suffix("#0").unwrap_or(id);
            Some(format!("{} {id}", event.name()).trim_end().to_owned())
        }
        Write::Insert(row) | Write::Update(row) => {
            Some(format!("{} {}", row.address.action.as_str(), row.state))
        }
        Write::UpdateRun(row) => Some(format!("run {}", row.state)),
        Write::InEpoch(_)
        | Write::Remove { .. }
        | Write::StartRun(_)
        | Write::DropRun { .. }
        | Write::Holds { .. }
        | Write::Deliver(_)
        | Write::Consume { .. }
        | Write::Touch { .. }
        | Write::Blob { .. }
        | Write::Card(_)
        | Write::DropCard { .. } => None,
    }
}
