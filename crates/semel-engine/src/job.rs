//! The engine's own job: it turns due ticks into runs and lapsed attempts into recorded doubt,
//! wakes whoever can send or look, and sweeps what is past its retention. It decides nothing that a
//! rule does not decide, and it sends nothing itself: handlers do.

use std::collections::HashSet;
use std::sync::{Arc, PoisonError, Weak};

use futures_util::future::join_all;
use semel_core::code::Code;
use semel_core::contract::Declared;
use semel_core::effect::approve::Ask;
use semel_core::effect::{self, State, Sweep};
use semel_core::fingerprint::Rule;
use semel_core::json::Json;
use semel_core::key::{Action, Address, Namespace};
use semel_core::limits;
use semel_core::record::{Contract, Effect};
use semel_core::retry::Retry;
use semel_core::time::Steady;
use semel_store::{DueCursor, Query, Write};

use crate::call::{Call, Doer};
use crate::commit::Stopped;
use crate::loops::Loop;
use crate::rates::Shares;
use crate::{Engine, Error, Inner, lock, measure};

/// Code that attends to the due effects of one action.
pub struct Handler {
    pub doer: Arc<Doer>,
    pub declared: Declared,
    pub retry: Retry,
    pub planning: Planning,
}

/// What a declaration says about effects that no call of it planned, such as those from an outbox.
#[derive(Clone, Debug)]
pub struct Planning {
    pub rule: Rule,
    /// A person decides before the first send, whichever way the effect came.
    pub approval: Option<Ask>,
    /// The shape of the result, as JSON Schema.
    pub shape: Option<Json>,
    /// The part of the declaration that needs the arguments of a call: an outbox cannot plan it.
    pub only_by_call: Option<String>,
}

impl Default for Planning {
    fn default() -> Planning {
        Planning { rule: Rule::All, approval: None, shape: None, only_by_call: None }
    }
}

impl Handler {
    /// A handler whose effects may be planned by anybody and need no approval.
    pub fn new(doer: Arc<Doer>, declared: Declared, retry: Retry) -> Handler {
        Handler { doer, declared, retry, planning: Planning::default() }
    }

    /// The terms under which it plans and sends: its retries are those of the effect, if nobody
    /// has declared any before.
    pub(crate) fn terms(&self) -> Declared {
        Declared { retry: self.declared.retry.or(Some(self.retry)), ..self.declared }
    }
}

/// What came of looking at a due effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Attended {
    Looked,
    /// A handler is here, but all of them are busy.
    NoRoom,
    /// Too many of them are busy with effects of this namespace: others have their turn.
    NoShare,
    /// The rate of its action has no room for it now.
    Left,
}

/// How far a look at due effects goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reach {
    /// Until the handlers have no room: it goes on from there when they do.
    Room,
    /// To the end: others may have lapsed, whoever is busy here.
    End,
    /// Until the rate of an action has no room: what was left before is looked at anew.
    Turn,
}

/// How often all due effects are looked at anew, in turns of the job.
const FULL_LOOK_EVERY: u64 = 5;
/// How often retention is looked at, in turns of the job.
const SWEEP_EVERY: u64 = 60;
/// How often runs of releases that nobody offers are looked at, in turns of the job.
const MOVE_EVERY: u64 = 10;
/// Effects that handlers of one process attend to at once.
const ATTENDED_MAX: usize = 64;
/// Where handlers are of several namespaces, each has at most so many of them for each that is
/// free.
const SHARE: usize = 3;
/// Pages that one look goes on behind effects whose namespace has its share.
const PAGES_BEHIND_MAX: usize = 8;

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

    /// One turn of the job, as tests take it: due ticks and effects, dead sessions, retention.
    pub async fn turn(&self) -> Result<(), Error> {
        self.forward().await?;
        self.announce().await?;
        self.move_abandoned().await?;
        self.turn_schedules().await?;
        self.close_dead_sessions().await?;
        let mut cursor = None;
        self.look_at_due(&mut cursor, Reach::End).await?;
        self.write_repeats().await;
        self.write_deliveries().await;
        self.sweep().await.map(|_| ())
    }

    /// Looks at due effects after the cursor, and moves it behind those that are seen to.
    async fn look_at_due(&self, cursor: &mut Option<DueCursor>, reach: Reach) -> Result<(), Error> {
        let mut place = *cursor;
        let (mut has_room, mut all_seen, mut behind) = (true, true, 0);
        let shares = Shares::default();
        loop {
            let page = self.store().due(place, limits::SWEEP_ROWS_MAX).await?;
            self.got_on(Loop::Job);
            let (places, effects): (Vec<DueCursor>, Vec<Effect>) = page.effects.into_iter().unzip();
            let befores = std::iter::once(place).chain(places.iter().copied().map(Some));
            let attending = effects.into_iter().zip(befores);
            let attending = attending.map(|(effect, before)| self.attend(effect, before, &shares));
            let attended = join_all(attending).await;
            let is_left = attended.contains(&Attended::Left);
            for (seen, attended) in places.into_iter().zip(attended) {
                has_room &= attended != Attended::NoRoom;
                // What a rate has left is looked at by its own time.
                all_seen &= matches!(attended, Attended::Looked | Attended::Left);
                if all_seen {
                    *cursor = Some(seen);
                }
            }
            let Some(seen_to) = page.seen_to else { return Ok(()) };
            place = Some(seen_to);
            if all_seen {
                *cursor = place;
            }
            behind += usize::from(!all_seen);
            let is_enough = match reach {
                Reach::Room => !has_room || behind > PAGES_BEHIND_MAX,
                Reach::Turn => !has_room || is_left,
                Reach::End => false,
            };
            if is_enough {
                return Ok(());
            }
        }
    }

    /// Records a lapse, tells those who wait, and lets a handler go on where there is one.
    async fn attend(&self, effect: Effect, before: Option<DueCursor>, shares: &Shares) -> Attended {
        let ground = self.store().ground();
        let effect = match effect::lapse(&effect, &ground.now) {
            None => effect,
            Some(lapsed) => match self.write(&lapsed, &ground).await {
                Ok(()) => {
                    let state = lapsed.state(&ground.now);
                    tell_lapse(&lapsed, state);
                    measure::came_to(state, &lapsed);
                    lapsed
                }
                // Somebody else is at it.
                Err(Stopped::Stale(_)) => return Attended::Looked,
                Err(Stopped::Error(error)) => {
                    tracing::warn!(effect = %effect.address, %error, "a lapse was not recorded");
                    return Attended::Looked;
                }
            },
        };
        let is_due = effect.due(&ground.now).is_some_and(|due| ground.now.reached(due));
        if is_due && matches!(effect.state(&ground.now), State::InDoubt | State::Planned) {
            self.inner.flights.publish(&effect);
            if self.is_unwanted(&effect).await {
                return Attended::Looked;
            }
            let Some(handler) = self.handler_for(&effect) else { return Attended::Looked };
            let plan = effect.plan.as_ref().expect("a handler was found for it");
            let must_look = matches!(plan.terms.contract, Contract::Probe { .. });
            let is_look = must_look && effect.state(&ground.now) == State::InDoubt;
            let rate = handler.declared.rate.or(plan.terms.rate).filter(|_| !is_look);
            if !self.has_turn(&effect.address, rate, shares, before).await {
                return Attended::Left;
            }
            return self.hand_over(effect, handler, before);
        }
        Attended::Looked
    }

    /// Whether the run that planned an effect does not want it sent.
    pub(crate) async fn is_unwanted(&self, effect: &Effect) -> bool {
        let now = self.store().ground().now;
        let Some(id) = effect.asks_run(&now) else { return false };
        match self.store().run(effect.address.namespace.as_str(), id).await {
            Ok(Some(run)) => effect.is_unwanted(&run, &now),
            Ok(None) => false,
            // Not known: it is asked again at the next turn.
            Err(_) => true,
        }
    }

    /// The handler of this process that may attend to a due effect.
    fn handler_for(&self, effect: &Effect) -> Option<Arc<Handler>> {
        let key = (effect.address.namespace.clone(), effect.address.action.clone());
        let handlers = self.inner.handlers.read().unwrap_or_else(PoisonError::into_inner);
        let (handler, plan) = (handlers.get(&key)?.clone(), effect.plan.as_ref()?);
        let must_look = matches!(plan.terms.contract, Contract::Probe { .. });
        // Listed as unattended: the code that is here cannot do it.
        let cannot_look = must_look && handler.doer.look.is_none();
        let now = self.store().ground().now;
        let is_spent = effect.is_exhausted(Some(&handler.retry), &now);
        (!cannot_look && !is_spent).then_some(handler)
    }

    /// Gives a due effect to the handler of its action, unless one is busy with it already.
    fn hand_over(
        &self,
        effect: Effect,
        handler: Arc<Handler>,
        before: Option<DueCursor>,
    ) -> Attended {
        let Some(plan) = effect.plan else { return Attended::Looked };
        let own = effect.address.namespace.clone();
        let handlers = self.inner.handlers.read().unwrap_or_else(PoisonError::into_inner);
        let is_shared = handlers.keys().any(|(namespace, _)| *namespace != own);
        drop(handlers);
        let mut attended = lock(&self.inner.attended);
        if attended.contains(&effect.address) {
            return Attended::Looked;
        }
        let free = ATTENDED_MAX.saturating_sub(attended.len());
        if free == 0 {
            return Attended::NoRoom;
        }
        let is_own = |address: &&Address| address.namespace == own;
        if is_shared && attended.iter().filter(is_own).count() >= free * SHARE {
            return Attended::NoShare;
        }
        attended.insert(effect.address.clone());
        let call = Call {
            address: effect.address.clone(),
            input: plan.input,
            rule: plan.fingerprint.rule,
            declared: handler.terms(),
            downstream_key: None,
            retry: handler.retry,
            hold_ms: 0,
            workflow: effect.workflow,
            run: effect.run,
            approval: handler.planning.approval.clone(),
            undoes: effect.undoes,
            derived: None,
            shape: None,
            guard: None,
        };
        let engine = self.clone();
        tokio::spawn(async move {
            let address = call.address.clone();
            match engine.call_telling(call, handler.doer.clone()).await {
                Ok(_) => {}
                Err(error) if error.code() == Code::RateLimited => {
                    engine.leave_until(&address, error.retry_after_ms().unwrap_or(0), before);
                }
                Err(error) => {
                    tracing::warn!(effect = %address, %error, "the handler did not settle it");
                }
            }
            let mut attended = lock(&engine.inner.attended);
            attended.remove(&address);
            // Not for each that ends: a look brings as many as there is room for.
            if attended.len() == ATTENDED_MAX / 2 {
                engine.inner.freed.notify_one();
            }
        });
        Attended::Looked
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
            let nothing = || Error::new(Code::NotFound, "closed already");
            effect::died(effect, &session, &ground.now).ok_or_else(nothing)
        });
        if closed.await.is_ok() {
            tracing::warn!(effect = %effect.address, "a worker died: its attempt is in doubt");
        }
    }

    /// Removes what is past its retention, a bounded batch at a time. Returns how many rows.
    pub async fn sweep(&self) -> Result<usize, Error> {
        // What is wrong with one kind of rows is not a reason to keep the others.
        let parts = [
            self.sweep_effects().await,
            self.sweep_runs().await,
            self.sweep_callbacks().await,
            self.sweep_repeats().await,
            self.sweep_identities().await,
            self.sweep_links().await,
        ];
        parts.into_iter().sum()
    }

    async fn sweep_effects(&self) -> Result<usize, Error> {
        let mut swept = 0;
        loop {
            let due = self.store().sweepable(limits::SWEEP_ROWS_MAX).await?;
            self.got_on(Loop::Job);
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

fn tell_lapse(effect: &Effect, state: State) {
    let effect = &effect.address;
    match state {
        State::InDoubt => tracing::warn!(%effect, "an attempt lapsed: in doubt"),
        State::Failed => tracing::warn!(%effect, "nobody decided in time: not approved"),
        State::Planned | State::Pending | State::Done | State::Void | State::Expired => {}
    }
}

/// Turns until the engine is gone. A failing store is met again at the next turn.
async fn turn_for_ever(inner: Weak<Inner>) {
    let mut cursor = None;
    let mut turns: u64 = 0;
    let mut next_turn: Option<Steady> = None;
    while let Some(inner) = inner.upgrade() {
        let engine = Engine { inner, identity: None, actor: None };
        engine.turned(Loop::Job);
        let now = engine.store().ground().now;
        let until = match next_turn {
            // Only room was made for more of what is due.
            Some(until) if !now.reached(until) => {
                engine.heard(engine.look_at_left().await);
                engine.heard(engine.look_at_due(&mut cursor, Reach::Room).await);
                until
            }
            Some(_) | None => {
                engine.heard(engine.look_at_left().await);
                engine.heard(engine.one_turn(&mut cursor, turns).await);
                turns += 1;
                now.steady.plus(limits::POLL_MS)
            }
        };
        next_turn = Some(until);
        // No longer than a turn, even if the store's clock was set back meanwhile.
        let left_ms = engine.store().ground().now.until(until).min(limits::POLL_MS);
        // Sooner, if a rate has room again by then.
        let left_ms = engine.left_for_ms().map_or(left_ms, |ms| left_ms.min(ms));
        let clock = engine.store().clock().clone();
        let (registered, freed) = (engine.inner.registered.clone(), engine.inner.freed.clone());
        // Nothing of the engine is held while the job sleeps.
        drop(engine);
        tokio::select! {
            () = clock.sleep_ms(left_ms.max(1)) => {}
            () = freed.notified() => {}
            () = registered.notified() => (cursor, next_turn) = (None, None),
        }
    }
}

impl Engine {
    /// Looks anew at due effects that the rate of their action had no room for.
    async fn look_at_left(&self) -> Result<(), Error> {
        match self.take_left() {
            Some(mut from) => self.look_at_due(&mut from, Reach::Turn).await,
            None => Ok(()),
        }
    }

    async fn one_turn(&self, cursor: &mut Option<DueCursor>, turns: u64) -> Result<(), Error> {
        // Whatever is wrong with the outbox or a schedule is no reason to leave lapses unseen.
        self.heard(self.forward().await.map(|_| ()));
        self.heard(self.announce().await);
        self.write_repeats().await;
        self.got_on(Loop::Job);
        self.write_deliveries().await;
        if turns.is_multiple_of(MOVE_EVERY) {
            self.heard(self.move_abandoned().await.map(|_| ()));
        }
        self.heard(self.turn_schedules().await.map(|_| ()));
        self.got_on(Loop::Job);
        self.heard(self.close_dead_sessions().await);
        let is_full_look = turns.is_multiple_of(FULL_LOOK_EVERY);
        if is_full_look {
            *cursor = None;
        }
        let reach = if is_full_look { Reach::End } else { Reach::Room };
        self.look_at_due(cursor, reach).await?;
        if turns.is_multiple_of(SWEEP_EVERY) {
            self.sweep().await?;
        }
        Ok(())
    }

    fn heard(&self, turned: Result<(), Error>) {
        if let Err(error) = turned {
            tracing::warn!(worker = %self.inner.worker, %error, "a turn of the job failed");
        }
    }
}
