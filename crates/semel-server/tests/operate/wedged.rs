//! A store that stops answering one of the engine's loops, and otherwise does what the one below
//! does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use semel_core::effect::Ground;
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::run::Run;
use semel_engine::Loop;
use semel_store::{
    Batch, Card, CardPage, CardQuery, Cards, Clock, CommitError, Delivery, DueCursor, DuePage,
    DueRuns, Inked, Page, Query, RunPage, RunQuery, Runs, Store, StoreError,
};
use tokio::sync::watch;

pub(crate) struct Wedged {
    below: Arc<dyn Store>,
    hangs: [AtomicBool; 2],
}

impl Wedged {
    pub(crate) fn new(below: Arc<dyn Store>) -> Wedged {
        Wedged { below, hangs: Default::default() }
    }

    /// From now on this loop gets no answer any more.
    pub(crate) fn hang(&self, of: Loop) {
        self.hangs[of as usize].store(true, Ordering::SeqCst);
    }

    async fn answer(&self, of: Loop) {
        if self.hangs[of as usize].load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
    }
}

#[async_trait]
impl Store for Wedged {
    fn ground(&self) -> Ground {
        self.below.ground()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        self.below.commit(batch).await
    }

    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError> {
        self.below.load(address).await
    }

    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError> {
        self.below.load_generation(address, generation).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.below.list(query).await
    }

    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError> {
        self.answer(Loop::Job).await;
        self.below.due(after, limit).await
    }

    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError> {
        self.below.sweepable(limit).await
    }

    fn session(&self) -> Option<&str> {
        self.below.session()
    }

    fn is_dead(&self, session: &str) -> bool {
        self.below.is_dead(session)
    }

    fn dead_sessions(&self) -> Vec<String> {
        self.below.dead_sessions()
    }

    fn bury(&self, session: &str) {
        self.below.bury(session);
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.below.hints()
    }
}

/// Runs are read from below as they are.
#[async_trait]
impl Runs for Wedged {
    async fn run(&self, namespace: &str, id: &str) -> Result<Option<Run>, StoreError> {
        self.below.run(namespace, id).await
    }

    async fn namespace_of(&self, run: i64) -> Result<Option<String>, StoreError> {
        self.below.namespace_of(run).await
    }

    async fn journal(&self, run: i64, from: u64, limit: usize) -> Result<Vec<Inked>, StoreError> {
        self.below.journal(run, from, limit).await
    }

    async fn last_entry(&self, run: i64) -> Result<Option<Inked>, StoreError> {
        self.below.last_entry(run).await
    }

    async fn inbox(&self, run: i64) -> Result<Vec<Delivery>, StoreError> {
        self.below.inbox(run).await
    }

    async fn delivery(&self, run: i64, identity: &str) -> Result<Option<Delivery>, StoreError> {
        self.below.delivery(run, identity).await
    }

    async fn blob(&self, namespace: &str, digest: &str) -> Result<Option<String>, StoreError> {
        self.below.blob(namespace, digest).await
    }

    async fn due_runs(&self, lane: &str, limit: usize) -> Result<DueRuns, StoreError> {
        self.answer(Loop::Dispatch).await;
        self.below.due_runs(lane, limit).await
    }

    async fn codeless_lanes(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.below.codeless_lanes(after, limit).await
    }

    async fn next_queued(&self, queue: &str) -> Result<Option<Run>, StoreError> {
        self.below.next_queued(queue).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<RunPage, StoreError> {
        self.below.list_runs(query).await
    }

    async fn sweepable_runs(&self, limit: usize) -> Result<Vec<Run>, StoreError> {
        self.below.sweepable_runs(limit).await
    }
}

#[async_trait]
impl Cards for Wedged {
    async fn card(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Card>, StoreError> {
        self.below.card(namespace, kind, name).await
    }

    async fn cards(&self, query: &CardQuery) -> Result<CardPage, StoreError> {
        self.below.cards(query).await
    }

    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError> {
        self.below.due_cards(kind, limit).await
    }
}
