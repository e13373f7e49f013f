//! Taking runs. One loop asks for runs that are due, whether new, woken, timed or abandoned, and
//! gives each to a driver.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, ready};
use semel_core::code::Code;
use semel_core::limits;
use semel_core::run::Run;
use semel_store::Inked;
use tokio::sync::Notify;

use super::drive::{Driver, Taken};
use super::held::Held;
use super::port::Body;
use crate::{Engine, Error, Inner, lock};

/// The code of a workflow, as a worker offers it.
#[derive(Clone)]
pub struct Offer {
    pub body: Body,
    /// Names this version of the code in the journal.
    pub release: String,
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
    offers: HashMap<String, Arc<Offer>>,
    held: HashMap<String, Arc<Held>>,
    is_draining: bool,
}

/// A place for one run in this process. Dropped, it is free again.
pub(crate) struct Slot {
    dispatch: Arc<Dispatch>,
    id: String,
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
        let was_full = state.held.len() >= limits::RUNS_HELD_MAX;
        state.held.remove(&self.id);
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

    /// What may be taken: the offered workflows, and whatever needs no code.
    fn lanes(&self) -> Vec<String> {
        let state = lock(&self.state);
        if state.is_draining {
            return Vec::new();
        }
        state.offers.keys().cloned().chain([String::new()]).collect()
    }

    fn free(&self) -> usize {
        limits::RUNS_HELD_MAX.saturating_sub(lock(&self.state).held.len())
    }
}

impl Engine {
    /// Offers the code of a workflow: runs of it are taken in this process.
    pub fn offer(&self, namespace: &str, workflow: &str, offer: Offer) {
        let lane = semel_core::run::lane(namespace, workflow);
        let mut state = lock(&self.inner.dispatch.state);
        state.offers.insert(lane, Arc::new(offer));
        state.is_draining = false;
        drop(state);
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
    /// recorded. Returns when none is left, or after `patience_ms`.
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
                    return;
                }
                freed.await;
            }
        };
        tokio::select! {
            () = all_left => {}
            () = self.store().clock().sleep_ms(patience_ms) => {}
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
        for lane in self.inner.dispatch.lanes() {
            // Runs that are being taken are still due in the store.
            let free = self.inner.dispatch.free();
            let asked = free.min(limits::SWEEP_ROWS_MAX) + self.runs_held();
            if free == 0 {
                break;
            }
            let due = self.store().due_runs(&lane, asked).await?;
            let now = self.store().ground().now;
            if let Some(next) = due.next {
                next_ms = next_ms.min(now.until(next));
            }
            let is_full = due.runs.len() >= asked;
            for run in due.runs {
                if let Some(slot) = self.slot(&lane, &run.id) {
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
        match self.slot("", &run.id) {
            Some(slot) => take_up(self.clone(), slot, run.clone()).boxed(),
            None => ready(()).boxed(),
        }
    }
}

impl Engine {
    /// A place for a run of a lane, if its code is here, there is room, and it is not held already.
    pub(crate) fn slot(&self, lane: &str, id: &str) -> Option<Slot> {
        let dispatch = &self.inner.dispatch;
        let mut state = lock(&dispatch.state);
        let is_full = state.held.len() >= limits::RUNS_HELD_MAX;
        let offer = match lane {
            "" => None,
            lane => Some(state.offers.get(lane)?.clone()),
        };
        if is_full || state.held.contains_key(id) {
            return None;
        }
        let held = Held::new();
        state.held.insert(id.to_owned(), held.clone());
        Some(Slot { dispatch: dispatch.clone(), id: id.to_owned(), offer, held })
    }
}

async fn take_up(engine: Engine, slot: Slot, run: Run) {
    match engine.take_run(&run, slot.release()).await {
        Ok(Some((taken, entries))) => drive(engine, slot, taken, entries).await,
        Ok(None) => {}
        Err(error) => {
            tracing::warn!(run = %run.id, %error, "the run was not taken; it is tried again");
            // The place is kept meanwhile: the run is still due, and would be taken again at once.
            engine.store().clock().sleep_ms(limits::POLL_MS).await;
        }
    }
}

/// Advances a run in a task of its own.
pub(crate) fn spawn_driver(engine: &Engine, slot: Slot, taken: Taken, entries: Vec<Inked>) {
    tokio::spawn(drive(engine.clone(), slot, taken, entries));
}

async fn drive(engine: Engine, slot: Slot, taken: Taken, entries: Vec<Inked>) {
    let body = slot.offer.as_ref().map(|offer| offer.body.clone());
    let driver = Driver::new(&engine, body, slot.held.clone(), taken);
    let left = driver.drive(entries).await;
    slot.held.leave(left);
}

/// Looks for due runs until the engine is gone. A failing store is met again at the next look.
async fn dispatch_for_ever(inner: Weak<Inner>) {
    let mut patience_ms = LOOK_MS;
    while let Some(inner) = inner.upgrade() {
        let engine = Engine { inner };
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
