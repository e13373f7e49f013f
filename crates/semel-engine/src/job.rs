//! The engine's own job: it turns lapsed attempts into recorded doubt, wakes whoever can send or
//! look, and sweeps what is past its retention. It decides nothing that a rule does not decide, and
//! it sends nothing itself: handlers do.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, Weak};

use futures_util::future::join_all;
use semel_core::contract::Declared;
use semel_core::effect::{self, State, Sweep};
use semel_core::key::{Action, Namespace};
use semel_core::limits;
use semel_core::record::{Contract, Effect};
use semel_core::retry::Retry;
use semel_store::{DueCursor, Query, Write};

use crate::call::{Call, Doer};
use crate::commit::Stopped;
use crate::{Engine, Error, Inner, lock};

/// Code that attends to the due effects of one action.
pub struct Handler {
    pub doer: Arc<Doer>,
    pub declared: Declared,
    pub retry: Retry,
}

/// How often all due effects are looked at anew, in turns of the job.
const FULL_LOOK_EVERY: u64 = 5;
/// How often retention is looked at, in turns of the job.
const SWEEP_EVERY: u64 = 60;
/// Effects that handlers of one process attend to at once.
const ATTENDED_MAX: usize = 64;

impl Engine {
    /// Registers the code for an action: due effects of it are attended to in this process.
    pub fn handle(&self, namespace: Namespace, action: Action, handler: Handler) {
        let handlers = self.inner.handlers.write();
        let mut handlers = handlers.unwrap_or_else(PoisonError::into_inner);
        handlers.insert((namespace, action), Arc::new(handler));
        self.inner.registered.notify_one();
    }

    /// Starts the job and the taking of runs. Both end with the last handle to the engine.
    pub fn start(&self) {
        self.start_dispatch();
        tokio::spawn(turn_for_ever(Arc::downgrade(&self.inner)));
    }

    /// One turn of the job, as tests take it: due effects, dead sessions, retention.
    pub async fn turn(&self) -> Result<(), Error> {
        self.close_dead_sessions().await?;
        let mut cursor = None;
        while self.look_at_due(&mut cursor).await? {}
        self.sweep().await.map(|_| ())
    }

    /// Looks at one page of due effects; `true` when there may be more.
    async fn look_at_due(&self, cursor: &mut Option<DueCursor>) -> Result<bool, Error> {
        let page = self.store().due(*cursor, limits::SWEEP_ROWS_MAX).await?;
        *cursor = page.effects.last().map(|(cursor, _)| *cursor).or(*cursor);
        let is_full = page.effects.len() == limits::SWEEP_ROWS_MAX;
        join_all(page.effects.into_iter().map(|(_, effect)| self.attend(effect))).await;
        Ok(is_full)
    }

    /// Records a lapse, tells those who wait, and lets a handler go on where there is one.
    async fn attend(&self, effect: Effect) {
        let ground = self.store().ground();
        let effect = match effect::lapse(&effect, &ground.now) {
            None => effect,
            Some(lapsed) => match self.write(&lapsed, &ground).await {
                Ok(()) => {
                    tracing::warn!(effect = %lapsed.address, "an attempt lapsed: in doubt");
                    lapsed
                }
                // Somebody else is at it.
                Err(Stopped::Stale(_)) => return,
                Err(Stopped::Error(error)) => {
                    tracing::warn!(effect = %effect.address, %error, "a lapse was not recorded");
                    return;
                }
            },
        };
        let is_due = effect.due(&ground.now).is_some_and(|due| ground.now.reached(due));
        if is_due && matches!(effect.state(&ground.now), State::InDoubt | State::Planned) {
            self.inner.flights.publish(&effect);
            self.hand_over(effect);
        }
    }

    /// Gives a due effect to the handler of its action, unless one is busy with it already.
    fn hand_over(&self, effect: Effect) {
        let key = (effect.address.namespace.clone(), effect.address.action.clone());
        let handlers = self.inner.handlers.read().unwrap_or_else(PoisonError::into_inner);
        let (Some(handler), Some(plan)) = (handlers.get(&key).cloned(), effect.plan) else {
            return;
        };
        let must_look = matches!(plan.terms.contract, Contract::Probe { .. });
        if must_look && handler.doer.look.is_none() {
            // Listed as unattended: the code that is here cannot do it.
            return;
        }
        let mut attended = lock(&self.inner.attended);
        if attended.len() >= ATTENDED_MAX || !attended.insert(effect.address.clone()) {
            return;
        }
        let call = Call {
            address: effect.address.clone(),
            input: plan.input,
            rule: plan.fingerprint.rule,
            declared: handler.declared,
            downstream_key: None,
            retry: handler.retry,
            hold_ms: 0,
            workflow: effect.workflow,
            run: effect.run,
            guard: None,
        };
        let engine = self.clone();
        tokio::spawn(async move {
            let address = call.address.clone();
            if let Err(error) = engine.call(call, handler.doer.clone()).await {
                tracing::warn!(effect = %address, %error, "the handler did not settle the effect");
            }
            lock(&engine.inner.attended).remove(&address);
        });
    }

    /// Closes the attempts of processes that are proven dead, then forgets those.
    async fn close_dead_sessions(&self) -> Result<(), Error> {
        let dead: HashSet<String> = self.store().dead_sessions().into_iter().collect();
        if dead.is_empty() {
            return Ok(());
        }
        let mut query = Query::everywhere(limits::SWEEP_ROWS_MAX);
        query.state = Some(State::Pending);
        loop {
            let page = self.store().list(&query).await?;
            join_all(page.effects.iter().map(|effect| self.close_dead(effect, &dead))).await;
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        self.free_dead_runs(&dead).await?;
        dead.iter().for_each(|session| self.store().bury(session));
        Ok(())
    }

    async fn close_dead(&self, effect: &Effect, dead: &HashSet<String>) {
        let now = self.store().ground().now;
        let session = effect.holder(&now).and_then(|holder| holder.session.clone());
        let Some(session) = session.filter(|session| dead.contains(session)) else { return };
        let closed = self.change(&effect.address, |effect, ground| {
            let nothing = || Error::new(semel_core::code::Code::NotFound, "closed already");
            effect::died(effect, &session, &ground.now).ok_or_else(nothing)
        });
        if closed.await.is_ok() {
            tracing::warn!(effect = %effect.address, "a worker died: its attempt is in doubt");
        }
    }

    /// Removes what is past its retention, a bounded batch at a time. Returns how many rows.
    pub async fn sweep(&self) -> Result<usize, Error> {
        let mut swept = self.sweep_runs().await?;
        loop {
            let due = self.store().sweepable(limits::SWEEP_ROWS_MAX).await?;
            let changes = join_all(due.iter().map(|effect| self.sweep_one(effect))).await;
            let changed = changes.into_iter().filter(|changed| *changed).count();
            swept += changed;
            if changed == 0 || due.len() < limits::SWEEP_ROWS_MAX {
                return Ok(swept);
            }
        }
    }

    async fn sweep_one(&self, effect: &Effect) -> bool {
        let ground = self.store().ground();
        let write = match effect::sweep(effect, &ground.now) {
            Sweep::Keep => return false,
            Sweep::Tombstone(tombstone) => match self.kept_for_run(effect).await {
                Some(kept) => Write::effect(&kept, &ground.now),
                None => Write::effect(&tombstone, &ground.now),
            },
            Sweep::Remove => Write::Remove {
                address: effect.address.clone(),
                generation: effect.generation,
                version: effect.version,
            },
        };
        // Whoever changed the row meanwhile has the last word; the next sweep looks again.
        self.commit(write.into()).await.is_ok()
    }
}

/// Turns until the engine is gone. A failing store is met again at the next turn.
async fn turn_for_ever(inner: Weak<Inner>) {
    let mut cursor = None;
    let mut turns: u64 = 0;
    while let Some(inner) = inner.upgrade() {
        let engine = Engine { inner };
        if turns.is_multiple_of(FULL_LOOK_EVERY) {
            cursor = None;
        }
        if let Err(error) = engine.one_turn(&mut cursor, turns).await {
            tracing::warn!(%error, "a turn of the job failed; it is taken again");
        }
        turns += 1;
        let clock = engine.store().clock().clone();
        let registered = engine.inner.registered.clone();
        // Nothing of the engine is held while the job sleeps.
        drop(engine);
        tokio::select! {
            () = clock.sleep_ms(limits::POLL_MS) => {}
            () = registered.notified() => cursor = None,
        }
    }
}

impl Engine {
    async fn one_turn(&self, cursor: &mut Option<DueCursor>, turns: u64) -> Result<(), Error> {
        self.close_dead_sessions().await?;
        while self.look_at_due(cursor).await? {}
        if turns.is_multiple_of(SWEEP_EVERY) {
            self.sweep().await?;
        }
        Ok(())
    }
}
