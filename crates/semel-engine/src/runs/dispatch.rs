//! Taking runs. One loop asks for runs that are due, whether new, woken, timed or abandoned, and
//! gives each to a driver.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use semel_core::code::Code;
use semel_core::gate::Policy;
use semel_core::key::Namespace;
use semel_core::limits;
use semel_core::run::{self, Run};
use semel_store::Inked;
use tokio::sync::Notify;
use tracing::Instrument;

use super::drive::{Driver, Taken};
use super::held::Held;
use super::port::Body;
use crate::call::is_passing;
use crate::loops::Loop;
use crate::{Engine, Error, Inner, lock, trace};

/// A namespace has at most so many places for each one that is free.
const SHARE: usize = 3;
/// How long a process that closes waits for its counts of repeats.
const REPEATS_PATIENCE_MS: u64 = 1_000;

/// The code of a workflow, as a worker offers it.
#[derive(Clone)]
pub struct Offer {
    pub body: Body,
    /// Names this version of the code: runs stay with the one they started on.
    pub release: String,
    /// Its runs never move to another release by themselves.
    pub strict: bool,
    /// It is for the draft twin only, until somebody promotes it.
    pub draft: bool,
    /// How many runs may be under way at once.
    pub policy: Policy,
}

impl Offer {
    /// An offer without any limits.
    pub fn new(body: Body, release: impl Into<String>) -> Offer {
        let (release, policy) = (release.into(), Policy::default());
        Offer { body, release, strict: false, draft: false, policy }
    }
}

/// What this process offers and holds.
pub(crate) struct Dispatch {
    state: Mutex<State>,
    wake: Notify,
    /// A driver has ended.
    freed: Notify,
    /// For how long runs are taken and kept.
    lease_ms: AtomicU64,
}

impl Default for Dispatch {
    fn default() -> Dispatch {
        Dispatch {
            state: Mutex::default(),
            wake: Notify::new(),
            freed: Notify::new(),
            lease_ms: AtomicU64::new(limits::LEASE_MS),
        }
    }
}

#[derive(Default)]
struct State {
    /// By lane of the workflow, then by release.
    offers: BTreeMap<String, BTreeMap<String, Arc<Offer>>>,
    held: HashMap<String, Arc<Held>>,
    /// How many of them each namespace has.
    by_namespace: HashMap<String, usize>,
    is_draining: bool,
    /// How often it was looked for due runs: each look begins with another lane.
    looks: usize,
    /// Up to which lane of runs that need no code the last look went.
    codeless_to: String,
}

/// What a run needs of the process that takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Need {
    Code,
    /// It is only to be ended.
    Nothing,
}

impl Need {
    fn of(run: &Run) -> Need {
        if run::is_codeless(&run.lane()) { Need::Nothing } else { Need::Code }
    }
}

/// A place for one run in this process. Dropped, it is free again.
pub(crate) struct Slot {
    dispatch: Arc<Dispatch>,
    id: String,
    namespace: String,
    need: Need,
    /// None is needed to end a run that is to be cancelled.
    pub(crate) offer: Option<Arc<Offer>>,
    pub(crate) held: Arc<Held>,
}

impl Slot {
    pub(crate) fn release(&self) -> &str {
        self.offer.as_ref().map_or("", |offer| &offer.release)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        // Whoever waits for a driver that ended without a word asks the store.
        self.held.leave_unsaid();
        let mut state = lock(&self.dispatch.state);
        let was_full = state.is_full(&self.namespace, self.need);
        state.held.remove(&self.id);
        if let Some(count) = state.by_namespace.get_mut(&self.namespace) {
            *count -= 1;
            if *count == 0 {
                state.by_namespace.remove(&self.namespace);
            }
        }
        drop(state);
        self.dispatch.freed.notify_waiters();
        // Otherwise the loop looks soon enough: asking at the end of each run would cost more than
        // the run. But what was delivered while the driver left would be heard by nobody.
        if was_full || self.held.was_touched() {
            self.dispatch.wake();
        }
    }
}

impl Dispatch {
    /// The driver of a run in this process, if there is one.
    pub(crate) fn held(&self, id: &str) -> Option<Arc<Held>> {
        lock(&self.state).held.get(id).cloned()
    }

    /// Something may be due.
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// What may be taken: the offered releases, and whatever needs no code. Each look begins with
    /// another one, so that nobody's runs are always the last.
    fn lanes(
        &self,
        codeless: Vec<String>,
        is_held_back: impl Fn(&str, &Offer) -> bool,
    ) -> Vec<String> {
        let mut state = lock(&self.state);
        if state.is_draining {
            return Vec::new();
        }
        let mut lanes = codeless;
        // Once that of all runs that need no code, whoever's they are.
        lanes.push(String::new());
        for (lane, offers) in &state.offers {
            let offered = offers.values().filter(|offer| !is_held_back(lane, offer));
            let releases: Vec<String> =
                offered.map(|offer| format!("{lane}@{}", offer.release)).collect();
            if !releases.is_empty() {
                lanes.push(lane.clone());
            }
            lanes.extend(releases);
        }
        state.looks = state.looks.wrapping_add(1);
        let first = state.looks % lanes.len();
        lanes.rotate_left(first);
        lanes
    }

    fn codeless_to(&self) -> String {
        lock(&self.state).codeless_to.clone()
    }

    /// The next look goes on from here; after the last lane, from the first.
    fn set_codeless_to(&self, seen: &[String]) {
        let last = seen.last().filter(|_| seen.len() == limits::CODELESS_LANES_MAX);
        lock(&self.state).codeless_to = last.cloned().unwrap_or_default();
    }

    fn free(&self) -> usize {
        limits::RUNS_HELD_MAX.saturating_sub(lock(&self.state).held.len())
    }

    /// All offers, with the lanes of their workflows.
    pub(crate) fn offers(&self) -> Vec<(String, Arc<Offer>)> {
        let state = lock(&self.state);
        let each = |(lane, offers): (&String, &BTreeMap<String, Arc<Offer>>)| {
            let lane = lane.clone();
            offers.values().map(move |offer| (lane.clone(), offer.clone())).collect::<Vec<_>>()
        };
        state.offers.iter().flat_map(each).collect()
    }
}

impl State {
    /// The code of a run, if it is here. One that has no release takes any; a draft that nobody
    /// has promoted is not offered to live runs.
    fn offer_for(&self, run: &Run, engine: &Engine) -> Option<Arc<Offer>> {
        let lane = run::lane(&run.namespace, &run.workflow);
        let offers = self.offers.get(&lane)?;
        let mut offered = offers.values().filter(|offer| !engine.is_held_back(&lane, offer));
        match &run.release {
            Some(release) => offered.find(|offer| offer.release == *release).cloned(),
            None => offered.next_back().cloned(),
        }
    }

    /// Where there are runs of several namespaces, none of them has all the places: each has at
    /// most three times as many as are free, so that some always are, however many share them.
    /// Runs that need no code are everybody's.
    fn is_full(&self, namespace: &str, need: Need) -> bool {
        let others = |lane: &String| !lane.starts_with(&format!("{namespace}/"));
        let is_shared = need == Need::Nothing || self.offers.keys().any(others);
        let free = limits::RUNS_HELD_MAX.saturating_sub(self.held.len());
        let own = self.by_namespace.get(namespace).copied().unwrap_or(0);
        free == 0 || (is_shared && own >= free * SHARE)
    }
}

impl Engine {
    /// Offers the code of a workflow: runs of it are taken in this process.
    pub fn offer(&self, namespace: &str, workflow: &str, offer: Offer) {
        let lane = run::lane(namespace, workflow);
        let mut state = lock(&self.inner.dispatch.state);
        let offers = state.offers.entry(lane).or_default();
        offers.insert(offer.release.clone(), Arc::new(offer));
        state.is_draining = false;
        drop(state);
        self.inner.registered.notify_one();
        self.inner.dispatch.wake();
    }

    /// How long a run stays with this process without a sign of life. Where no lock proves a
    /// process dead, a run of a dead one waits for so long; runs that are held keep what they have
    /// until it is renewed.
    pub fn set_run_lease_ms(&self, lease_ms: u64) -> Result<(), Error> {
        let bounds = limits::LEASE_MS_MIN..=limits::DURATION_MS_MAX;
        if !bounds.contains(&lease_ms) {
            let text = format!("a lease is at least {} ms", limits::LEASE_MS_MIN);
            return Err(Error::new(Code::DurationInvalid, text));
        }
        self.inner.dispatch.lease_ms.store(lease_ms, Ordering::Relaxed);
        Ok(())
    }

    pub(crate) fn run_lease_ms(&self) -> u64 {
        self.inner.dispatch.lease_ms.load(Ordering::Relaxed)
    }

    /// How many runs this process advances right now.
    pub fn runs_held(&self) -> usize {
        lock(&self.inner.dispatch.state).held.len()
    }

    /// Starts the loop that takes runs. It ends with the last handle to the engine.
    pub(crate) fn start_dispatch(&self) {
        tokio::spawn(dispatch_for_ever(Arc::downgrade(&self.inner)));
    }

    /// Takes no more runs and lets go of those that are held, each when what it has under way is
    /// recorded. Returns when none is left and no attempt is in progress, or after `patience_ms`.
    pub async fn drain(&self, patience_ms: u64) {
        let held: Vec<Arc<Held>> = {
            let mut state = lock(&self.inner.dispatch.state);
            state.is_draining = true;
            state.offers.clear();
            state.held.values().cloned().collect()
        };
        held.iter().for_each(|held| held.drain());
        let all_left = async {
            loop {
                let freed = self.inner.dispatch.freed.notified();
                if self.runs_held() == 0 {
                    return self.attempts_ended().await;
                }
                freed.await;
            }
        };
        tokio::select! {
            () = all_left => {}
            () = self.store().clock().sleep_ms(patience_ms) => {}
        }
        // Counts that cannot be written now are lost, and lower bounds anyway: nobody waits.
        tokio::select! {
            () = self.write_repeats() => {}
            () = self.store().clock().sleep_ms(REPEATS_PATIENCE_MS) => {}
        }
    }

    /// One look for runs that are due, as tests take it. Returns how many were taken up.
    pub async fn dispatch_once(&self) -> Result<usize, Error> {
        let (count, _) = self.take_due().await?;
        Ok(count)
    }

    /// Takes up what is due; says when the next one is, in milliseconds.
    async fn take_due(&self) -> Result<(usize, u64), Error> {
        let mut taken = 0;
        let mut next_ms = u64::MAX;
        let dispatch = &self.inner.dispatch;
        let after = dispatch.codeless_to();
        let codeless = self.store().codeless_lanes(&after, limits::CODELESS_LANES_MAX).await?;
        dispatch.set_codeless_to(&codeless);
        let is_held_back = |lane: &str, offer: &Offer| self.is_held_back(lane, offer);
        for lane in dispatch.lanes(codeless, is_held_back) {
            // Runs that are being taken are still due in the store.
            let free = dispatch.free();
            let asked = free.min(limits::SWEEP_ROWS_MAX) + self.runs_held();
            if free == 0 {
                break;
            }
            let due = self.store().due_runs(&lane, asked).await?;
            self.got_on(Loop::Dispatch);
            let now = self.store().ground().now;
            if let Some(next) = due.next {
                next_ms = next_ms.min(now.until(next));
            }
            let is_full = due.runs.len() >= asked;
            for run in due.runs {
                if let Some(slot) = self.slot(&run) {
                    tokio::spawn(take_up(self.clone(), slot, run));
                    taken += 1;
                }
            }
            if is_full && taken > 0 {
                next_ms = 0;
            }
        }
        Ok((taken, next_ms))
    }

    /// Ends a run that nobody holds and that is to be cancelled. Needs no code.
    /// Boxed: the end of a run may ask for that of its children.
    pub(crate) fn carry_out_cancel(&self, run: &Run) -> BoxFuture<'static, ()> {
        match self.slot(run) {
            Some(slot) => take_up(self.clone(), slot, run.clone()).boxed(),
            None => ready(()).boxed(),
        }
    }
}

impl Engine {
    /// A place for a run, if its code is here or not needed, there is room, and it is not held
    /// already.
    pub(crate) fn slot(&self, run: &Run) -> Option<Slot> {
        let dispatch = &self.inner.dispatch;
        let mut state = lock(&dispatch.state);
        let offer = state.offer_for(run, self);
        let need = Need::of(run);
        let is_missing = need == Need::Code && (offer.is_none() || state.is_draining);
        if is_missing || state.is_full(&run.namespace, need) || state.held.contains_key(&run.id) {
            return None;
        }
        let held = Held::new();
        let (id, namespace) = (run.id.clone(), run.namespace.clone());
        state.held.insert(id.clone(), held.clone());
        *state.by_namespace.entry(namespace.clone()).or_default() += 1;
        Some(Slot { dispatch: dispatch.clone(), id, namespace, need, offer, held })
    }

    /// The release of a workflow that this process offers.
    pub(crate) fn offered_here(&self, namespace: &Namespace, workflow: &str) -> Option<String> {
        self.offer_here(namespace, workflow).map(|offer| offer.release.clone())
    }

    /// What this process declares of a workflow: whether its runs are pinned, and its limits.
    pub(crate) fn declared_here(&self, namespace: &Namespace, workflow: &str) -> (bool, Policy) {
        let offer = self.offer_here(namespace, workflow);
        offer.map_or_else(Default::default, |offer| (offer.strict, offer.policy.clone()))
    }

    fn offer_here(&self, namespace: &Namespace, workflow: &str) -> Option<Arc<Offer>> {
        let state = lock(&self.inner.dispatch.state);
        let lane = run::lane(namespace.as_str(), workflow);
        let offered = state.offers.get(&lane)?.values();
        let mut offered = offered.filter(|offer| !self.is_held_back(&lane, offer));
        offered.next_back().cloned()
    }
}

async fn take_up(engine: Engine, slot: Slot, run: Run) {
    match engine.take_run(&run, slot.release()).await {
        Ok(Some((taken, entries))) => drive(engine, slot, taken, entries).await,
        Ok(None) => {}
        Err(error) => {
            if is_passing(error.code()) || !engine.set_aside(&run, 0, &error).await {
                // The place is kept meanwhile: the run is still due, and would be taken at once.
                engine.store().clock().sleep_ms(limits::POLL_MS).await;
            }
        }
    }
}

/// Advances a run in a task of its own.
pub(crate) fn spawn_driver(engine: &Engine, slot: Slot, taken: Taken, entries: Vec<Inked>) {
    tokio::spawn(drive(engine.clone(), slot, taken, entries));
}

async fn drive(engine: Engine, slot: Slot, taken: Taken, entries: Vec<Inked>) {
    let body = slot.offer.as_ref().map(|offer| offer.body.clone());
    let span = trace::take(&taken.run, taken.fence);
    let driver = Driver::new(&engine, body, slot.held.clone(), taken);
    let left = driver.drive(entries).instrument(span).await;
    slot.held.leave(left);
}

/// Looks for due runs until the engine is gone. A failing store is met again at the next look.
async fn dispatch_for_ever(inner: Weak<Inner>) {
    let mut patience_ms = LOOK_MS;
    while let Some(inner) = inner.upgrade() {
        let engine = Engine { inner, identity: None, actor: None };
        engine.turned(Loop::Dispatch);
        let next_ms = match engine.take_due().await {
            Ok((0, next_ms)) => {
                patience_ms = (patience_ms * 2).min(limits::POLL_MS);
                next_ms
            }
            Ok((_, next_ms)) => {
                patience_ms = LOOK_MS;
                next_ms
            }
            Err(error) => {
                tracing::warn!(%error, "looking for due runs failed; it is done again");
                u64::MAX
            }
        };
        let clock = engine.store().clock().clone();
        let dispatch = engine.inner.dispatch.clone();
        // Nothing of the engine is held while the loop sleeps.
        drop(engine);
        tokio::select! {
            () = clock.sleep_ms(next_ms.clamp(1, patience_ms)) => {}
            () = dispatch.wake.notified() => patience_ms = LOOK_MS,
        }
    }
}

/// How soon a busy worker looks for what another process started or woke. Each look in vain doubles
/// it, up to a second: an idle worker must cost nothing.
const LOOK_MS: u64 = 200;
