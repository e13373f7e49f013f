//! A store that fails as it is told, and otherwise does what the one below does.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

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

/// How one commit goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Goes right.
    None,
    /// Committed, and the answer is lost.
    AnswerLost,
    /// Not committed, and nobody knows.
    RequestLost,
    Unavailable,
    Full,
    /// Committed, but there is never an answer.
    AnswerStuck,
    /// Never committed, and there is never an answer.
    RequestStuck,
    /// Committed and answered, but so much later.
    Late(u64),
}

impl Fault {
    pub(crate) const ALL: [Fault; 4] =
        [Fault::AnswerLost, Fault::RequestLost, Fault::Unavailable, Fault::Full];
}

/// Wraps a store and takes one fault per commit from a list; beyond it all goes right.
pub(crate) struct Flaky {
    below: Arc<dyn Store>,
    faults: Mutex<VecDeque<Fault>>,
    /// Whether reads fail, too.
    blind: Mutex<bool>,
    /// What is asked for and never answered: due effects, due runs.
    mute: Mutex<[bool; 2]>,
    commits: Mutex<u32>,
}

impl Flaky {
    pub(crate) fn new(below: Arc<dyn Store>) -> Arc<Flaky> {
        let (faults, blind, commits) = (Mutex::default(), Mutex::default(), Mutex::default());
        Arc::new(Flaky { below, faults, blind, mute: Mutex::default(), commits })
    }

    /// The next commits go wrong like this.
    pub(crate) fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().expect("no panic").extend(faults);
    }

    pub(crate) fn set_blind(&self, blind: bool) {
        *self.blind.lock().expect("no panic") = blind;
    }

    /// From now on one of the engine's loops gets no answer any more.
    pub(crate) fn wedge(&self, of: Loop) {
        self.mute.lock().expect("no panic")[of as usize] = true;
    }

    async fn answer(&self, of: Loop) {
        if self.mute.lock().expect("no panic")[of as usize] {
            std::future::pending::<()>().await;
        }
    }

    /// How many commits were asked for.
    pub(crate) fn commits(&self) -> u32 {
        *self.commits.lock().expect("no panic")
    }

    fn see(&self) -> Result<(), StoreError> {
        if *self.blind.lock().expect("no panic") { Err(gone()) } else { Ok(()) }
    }
}

fn gone() -> StoreError {
    StoreError::Unavailable("as planned".into())
}

#[async_trait]
impl Store for Flaky {
    fn ground(&self) -> Ground {
        self.below.ground()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        *self.commits.lock().expect("no panic") += 1;
        let fault = self.faults.lock().expect("no panic").pop_front();
        match fault.unwrap_or(Fault::None) {
            Fault::None => self.below.commit(batch).await,
            Fault::AnswerLost => {
                self.below.commit(batch).await?;
                Err(CommitError::Unknown)
            }
            Fault::RequestLost => Err(CommitError::Unknown),
            Fault::Unavailable => Err(gone().into()),
            Fault::AnswerStuck => {
                self.below.commit(batch).await?;
                std::future::pending().await
            }
            Fault::RequestStuck => std::future::pending().await,
            Fault::Late(ms) => {
                self.below.commit(batch).await?;
                let Clock::Manual(clock) = self.below.clock() else { panic!("a clock by hand") };
                clock.advance_ms(ms);
                Ok(())
            }
            Fault::Full => Err(StoreError::Full("as planned".into()).into()),
        }
    }

    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError> {
        self.see()?;
        self.below.load(address).await
    }

    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError> {
        self.see()?;
        self.below.load_generation(address, generation).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.see()?;
        self.below.list(query).await
    }

    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError> {
        self.answer(Loop::Job).await;
        self.see()?;
        self.below.due(after, limit).await
    }

    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError> {
        self.see()?;
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
impl Runs for Flaky {
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
impl Cards for Flaky {
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
