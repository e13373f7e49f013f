//! Processes that can be stopped and killed, each with its own handle on the one store. The handle
//! loses answers, is slow, or is away, as chance has it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use semel_core::effect::Ground;
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::run::Run;
use semel_store::memory::Memory;
use semel_store::{
    Batch, Card, CardPage, CardQuery, Cards, Clock, CommitError, Delivery, DueCursor, DuePage,
    DueRuns, Inked, Page, Query, RunPage, RunQuery, Runs, Store, StoreError,
};
use tokio::sync::watch;

use super::chance::Chance;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Runs,
    /// As by SIGSTOP: nothing it does reaches the store until it goes on.
    Stopped,
    Dead,
}

/// The sessions whose process is dead, and those among them that are buried.
#[derive(Default)]
pub(crate) struct Graves {
    dead: BTreeSet<String>,
    buried: BTreeSet<String>,
}

pub(crate) struct Process {
    session: String,
    mode: watch::Sender<Mode>,
    died_ms: Mutex<Option<i64>>,
    store: Arc<Memory>,
    graves: Arc<Mutex<Graves>>,
    chance: Arc<Chance>,
}

impl Process {
    pub(crate) fn start(
        number: u32,
        store: &Arc<Memory>,
        graves: &Arc<Mutex<Graves>>,
        chance: &Arc<Chance>,
    ) -> Arc<Process> {
        Arc::new(Process {
            session: format!("session-{number}"),
            mode: watch::Sender::new(Mode::Runs),
            died_ms: Mutex::new(None),
            store: store.clone(),
            graves: graves.clone(),
            chance: chance.clone(),
        })
    }

    pub(crate) fn mode(&self) -> Mode {
        *self.mode.borrow()
    }

    pub(crate) fn set(&self, mode: Mode) {
        if self.mode() == Mode::Dead {
            return;
        }
        if mode == Mode::Dead {
            *self.died_ms.lock().expect("no panic") = Some(self.ground().now.steady.ms);
            self.graves.lock().expect("no panic").dead.insert(self.session.clone());
        }
        self.mode.send_replace(mode);
    }

    pub(crate) fn died_ms(&self) -> Option<i64> {
        *self.died_ms.lock().expect("no panic")
    }

    /// Passes while the process runs; never again once it is dead.
    async fn runs(&self) {
        let mut mode = self.mode.subscribe();
        // The sender lives as long as this.
        let _ = mode.wait_for(|mode| *mode == Mode::Runs).await;
    }

    /// Sometimes the store takes its time.
    async fn linger(&self) {
        if self.chance.fails(30) {
            let ms = *self.chance.pick(&[5, 50, 500, 3_000]);
            self.clock().sleep_ms(ms).await;
        }
        self.runs().await;
    }

    async fn read<T>(
        &self,
        read: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.linger().await;
        if self.chance.fails(20) {
            return Err(away());
        }
        read.await
    }
}

fn away() -> StoreError {
    StoreError::Unavailable("as chance has it".into())
}

#[async_trait]
impl Store for Process {
    fn ground(&self) -> Ground {
        self.store.ground()
    }

    fn clock(&self) -> &Clock {
        self.store.clock()
    }

    async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        self.linger().await;
        if self.chance.fails(30) {
            return Err(away().into());
        }
        if self.chance.fails(40) {
            return Err(CommitError::Unknown);
        }
        let done = self.store.commit(batch).await;
        self.linger().await;
        if done.is_ok() && self.chance.fails(40) {
            return Err(CommitError::Unknown);
        }
        done
    }

    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError> {
        self.read(self.store.load(address)).await
    }

    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError> {
        self.read(self.store.load_generation(address, generation)).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.read(self.store.list(query)).await
    }

    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError> {
        self.read(self.store.due(after, limit)).await
    }

    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError> {
        self.read(self.store.sweepable(limit)).await
    }

    fn session(&self) -> Option<&str> {
        Some(&self.session)
    }

    fn is_dead(&self, session: &str) -> bool {
        self.graves.lock().expect("no panic").dead.contains(session)
    }

    fn dead_sessions(&self) -> Vec<String> {
        let graves = self.graves.lock().expect("no panic");
        graves.dead.difference(&graves.buried).cloned().collect()
    }

    fn bury(&self, session: &str) {
        self.graves.lock().expect("no panic").buried.insert(session.to_owned());
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.store.hints()
    }
}

/// Runs are read from below as they are.
#[async_trait]
impl Runs for Process {
    async fn run(&self, namespace: &str, id: &str) -> Result<Option<Run>, StoreError> {
        self.store.run(namespace, id).await
    }

    async fn namespace_of(&self, run: i64) -> Result<Option<String>, StoreError> {
        self.store.namespace_of(run).await
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

    async fn codeless_lanes(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.store.codeless_lanes(after, limit).await
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
impl Cards for Process {
    async fn card(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Card>, StoreError> {
        self.store.card(namespace, kind, name).await
    }

    async fn cards(&self, query: &CardQuery) -> Result<CardPage, StoreError> {
        self.store.cards(query).await
    }

    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError> {
        self.store.due_cards(kind, limit).await
    }
}
