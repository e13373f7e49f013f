//! One life of a process: its own handle on the shared store. It can die at any numbered point,
//! stop and go on, lose what the store says, or see an old list of what is due.

#![allow(dead_code, reason = "not every module uses every helper")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use semel_core::effect::Ground;
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::run::{self, Run};
use semel_store::memory::Memory;
use semel_store::{
    Batch, Card, CardPage, CardQuery, Cards, Clock, CommitError, Delivery, DueCursor, DuePage,
    DueRuns, Inked, Page, Query, RunPage, RunQuery, Runs, Store, StoreError, Write,
};
use tokio::sync::watch;

/// What goes wrong with one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It is done, and nobody is told.
    AnswerLost,
    /// It is not done, and nobody is told.
    RequestLost,
    /// It is not done, and the caller is told so.
    Unavailable,
}

impl Fault {
    pub(crate) const ALL: [Fault; 3] = [Fault::AnswerLost, Fault::RequestLost, Fault::Unavailable];
}

/// When a hook is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Before,
    After,
}

/// Something that happens right before or right after a commit of this process.
pub(crate) type Hook = Arc<dyn Fn(When, &Batch) -> BoxFuture<'static, ()> + Send + Sync>;

/// Something that happens when a point is reached.
pub(crate) type Act = Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>;

pub(crate) struct Life {
    below: Arc<Memory>,
    /// At which point it dies.
    die_at: Option<u32>,
    points: AtomicU32,
    act_at: Mutex<Option<(u32, Act)>>,
    dead: AtomicBool,
    runs: watch::Sender<bool>,
    commits: AtomicU32,
    /// By the number of the commit, from 1.
    faults: Mutex<BTreeMap<u32, Fault>>,
    hook: Mutex<Option<Hook>>,
    /// Reads of runs fail.
    blind: AtomicBool,
    /// What is due, as it was once.
    stale_due: Mutex<Option<DueRuns>>,
    due_asked: AtomicU32,
    activity: Arc<AtomicU32>,
}

impl Life {
    pub(crate) fn new(
        below: &Arc<Memory>,
        activity: &Arc<AtomicU32>,
        die_at: Option<u32>,
    ) -> Arc<Life> {
        Arc::new(Life {
            below: below.clone(),
            die_at,
            points: AtomicU32::new(0),
            act_at: Mutex::default(),
            dead: AtomicBool::new(false),
            runs: watch::Sender::new(true),
            commits: AtomicU32::new(0),
            faults: Mutex::default(),
            hook: Mutex::default(),
            blind: AtomicBool::new(false),
            stale_due: Mutex::default(),
            due_asked: AtomicU32::new(0),
            activity: activity.clone(),
        })
    }

    /// A point at which the process may die: then nothing behind it ever happens.
    pub(crate) async fn point(&self) {
        self.alive().await;
        let point = self.points.fetch_add(1, Ordering::SeqCst) + 1;
        if self.die_at == Some(point) {
            self.kill();
        }
        let act = self.act_at.lock().expect("no panic").take_if(|(at, _)| *at == point);
        if let Some((_, act)) = act {
            act().await;
        }
        self.alive().await;
    }

    /// Passes while the process runs; never again once it is dead.
    pub(crate) async fn alive(&self) {
        self.activity.fetch_add(1, Ordering::SeqCst);
        if self.is_dead() {
            return std::future::pending().await;
        }
        if !*self.runs.borrow() {
            let mut runs = self.runs.subscribe();
            // The sender lives as long as this.
            let _ = runs.wait_for(|runs| *runs).await;
        }
    }

    pub(crate) fn kill(&self) {
        self.dead.store(true, Ordering::SeqCst);
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// As by SIGSTOP: nothing it does reaches the store until it goes on.
    pub(crate) fn stop(&self) {
        self.runs.send_replace(false);
    }

    pub(crate) fn go_on(&self) {
        self.runs.send_replace(true);
    }

    pub(crate) fn points(&self) -> u32 {
        self.points.load(Ordering::SeqCst)
    }

    pub(crate) fn commits(&self) -> u32 {
        self.commits.load(Ordering::SeqCst)
    }

    pub(crate) fn due_asked(&self) -> u32 {
        self.due_asked.load(Ordering::SeqCst)
    }

    pub(crate) fn plan(&self, commit: u32, fault: Fault) {
        self.faults.lock().expect("no panic").insert(commit, fault);
    }

    /// When a point is reached, this happens first.
    pub(crate) fn act_at(&self, point: u32, act: Act) {
        *self.act_at.lock().expect("no panic") = Some((point, act));
    }

    pub(crate) fn set_hook(&self, hook: Hook) {
        *self.hook.lock().expect("no panic") = Some(hook);
    }

    pub(crate) fn set_blind(&self, blind: bool) {
        self.blind.store(blind, Ordering::SeqCst);
    }

    /// From now on this process is told that this is due, whatever is.
    pub(crate) fn set_stale_due(&self, due: Option<DueRuns>) {
        *self.stale_due.lock().expect("no panic") = due;
    }

    async fn hooked(&self, when: When, batch: &Batch) {
        let hook = self.hook.lock().expect("no panic").clone();
        if let Some(hook) = hook {
            hook(when, batch).await;
        }
    }

    async fn see(&self) -> Result<(), StoreError> {
        self.alive().await;
        if self.blind.load(Ordering::SeqCst) { Err(away()) } else { Ok(()) }
    }
}

fn away() -> StoreError {
    StoreError::Unavailable("as planned".into())
}

#[async_trait]
impl Store for Life {
    fn ground(&self) -> Ground {
        self.below.ground()
    }

    fn clock(&self) -> &Clock {
        self.below.clock()
    }

    async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        if says_what_it_offers(&batch) {
            self.alive().await;
            return self.below.commit(batch).await;
        }
        let number = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        // A commit takes a moment in which others act.
        tokio::task::yield_now().await;
        self.hooked(When::Before, &batch).await;
        self.point().await;
        let fault = self.faults.lock().expect("no panic").remove(&number);
        match fault {
            Some(Fault::RequestLost) => return Err(CommitError::Unknown),
            Some(Fault::Unavailable) => return Err(away().into()),
            Some(Fault::AnswerLost) | None => {}
        }
        let done = self.below.commit(batch.clone()).await;
        self.hooked(When::After, &batch).await;
        self.point().await;
        match fault {
            Some(Fault::AnswerLost) if done.is_ok() => Err(CommitError::Unknown),
            Some(_) | None => done,
        }
    }

    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError> {
        self.alive().await;
        self.below.load(address).await
    }

    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError> {
        self.alive().await;
        self.below.load_generation(address, generation).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.alive().await;
        self.below.list(query).await
    }

    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError> {
        self.alive().await;
        self.below.due(after, limit).await
    }

    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError> {
        self.alive().await;
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

#[async_trait]
impl Runs for Life {
    async fn run(&self, namespace: &str, id: &str) -> Result<Option<Run>, StoreError> {
        self.see().await?;
        self.below.run(namespace, id).await
    }

    async fn namespace_of(&self, run: i64) -> Result<Option<String>, StoreError> {
        self.see().await?;
        self.below.namespace_of(run).await
    }

    async fn journal(&self, run: i64, from: u64, limit: usize) -> Result<Vec<Inked>, StoreError> {
        self.see().await?;
        self.below.journal(run, from, limit).await
    }

    async fn last_entry(&self, run: i64) -> Result<Option<Inked>, StoreError> {
        self.see().await?;
        self.below.last_entry(run).await
    }

    async fn inbox(&self, run: i64) -> Result<Vec<Delivery>, StoreError> {
        self.see().await?;
        self.below.inbox(run).await
    }

    async fn delivery(&self, run: i64, identity: &str) -> Result<Option<Delivery>, StoreError> {
        self.see().await?;
        self.below.delivery(run, identity).await
    }

    async fn blob(&self, namespace: &str, digest: &str) -> Result<Option<String>, StoreError> {
        self.see().await?;
        self.below.blob(namespace, digest).await
    }

    async fn due_runs(&self, lane: &str, limit: usize) -> Result<DueRuns, StoreError> {
        self.alive().await;
        self.due_asked.fetch_add(1, Ordering::SeqCst);
        let stale = self.stale_due.lock().expect("no panic").clone();
        match stale.filter(|_| !run::is_codeless(lane)) {
            Some(stale) => Ok(stale),
            None => self.below.due_runs(lane, limit).await,
        }
    }

    async fn codeless_lanes(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.alive().await;
        self.below.codeless_lanes(after, limit).await
    }

    async fn next_queued(&self, queue: &str) -> Result<Option<Run>, StoreError> {
        self.see().await?;
        self.below.next_queued(queue).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<RunPage, StoreError> {
        self.see().await?;
        self.below.list_runs(query).await
    }

    async fn sweepable_runs(&self, limit: usize) -> Result<Vec<Run>, StoreError> {
        self.alive().await;
        self.below.sweepable_runs(limit).await
    }
}

#[async_trait]
impl Cards for Life {
    async fn card(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Card>, StoreError> {
        self.see().await?;
        self.below.card(namespace, kind, name).await
    }

    async fn cards(&self, query: &CardQuery) -> Result<CardPage, StoreError> {
        self.see().await?;
        self.below.cards(query).await
    }

    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError> {
        self.alive().await;
        self.below.due_cards(kind, limit).await
    }
}

/// A worker says so now and then, whatever its runs do: that is no point of theirs.
fn says_what_it_offers(batch: &Batch) -> bool {
    matches!(&batch.writes[..], [Write::Card(card)] if card.kind == "workflow")
}
