//! Letting a run go: it has ended, stands still, waits, or is to be cancelled.

use semel_core::code::Code;
use semel_core::effect::{self, State};
use semel_core::journal::{At, Ending, Event, Fault};
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::run::{self, Cancel, How, On, Pause, Refusal, Run, Wait};
use semel_core::time::Moment;
use semel_store::{Batch, Inked, Write};

use super::drive::{Driver, Halt};
use super::entities::touch;
use super::held::Left;
use super::port::Work;
use super::timers::Purpose;
use crate::call::is_passing;
use crate::commit::{Patience, Stopped};
use crate::{Engine, Error};

/// Why a run ends that nobody has cancelled.
const OVERDUE: &str = "the deadline of the run has passed";

/// How long a look at the row waits for what is being written.
const FLUSH_MS: u64 = 100;

impl Driver {
    /// Advances the run until it ends, stands still, or waits for something far away.
    pub(crate) async fn drive(mut self, entries: Vec<Inked>) -> Left {
        let driven = match self.replay(entries).await {
            Ok(()) => self.go_on().await,
            Err(halt) => Err(halt),
        };
        let left = match driven {
            Err(Halt::Pause { id, fault }) => self.pause(id, fault).await,
            Err(Halt::NeedsCode) => self.leave_to_code().await,
            driven => driven,
        };
        match left {
            Ok(left) => left,
            Err(Halt::NeedsCode) => {
                tracing::warn!(run = %self.run.id, "it is ended by a worker that has its code");
                Left::Away
            }
            Err(Halt::Lost) => {
                tracing::warn!(run = %self.run.id, fence = self.fence, "the run was taken over");
                Left::Away
            }
            Err(Halt::Failed(error)) => {
                tracing::warn!(run = %self.run.id, %error, "the run was let go; it is taken again");
                Left::Away
            }
            Err(Halt::Pause { fault, .. }) => {
                tracing::error!(run = %self.run.id, code = %fault.code, "a pause was not recorded");
                Left::Away
            }
        }
    }

    async fn go_on(&mut self) -> Result<Left, Halt> {
        loop {
            if self.undoing.is_some() {
                if let Some(left) = self.go_on_undoing().await? {
                    return Ok(left);
                }
            // A journal that says so without anybody having asked: the deadline has passed before.
            } else if self.run.cancel.is_some() || self.is_overdue || self.is_cancelling {
                if let Some(left) = self.cancel().await? {
                    return Ok(left);
                }
            } else if self.outcome.is_some() {
                if let Some(left) = self.try_end().await? {
                    return Ok(left);
                }
            } else if self.held.is_draining() {
                if self.steps.is_empty() && self.effects.is_empty() && self.errands.is_empty() {
                    return self.release().await;
                }
            } else {
                self.look_at_children().await?;
                self.look_at_entities().await?;
                self.start_commands().await?;
                if self.outcome.is_some() {
                    continue;
                }
                if self.is_idle() && !self.lingers() {
                    match self.park().await? {
                        Some(left) => return Ok(left),
                        None => continue,
                    }
                }
            }
            let happened = self.next().await?;
            self.handle(happened).await?;
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.steps.is_empty()
            && self.effects.is_empty()
            && self.errands.is_empty()
            && self.unstarted.is_empty()
            && self.ink.is_durable()
    }

    /// The next timer is so near that parking would cost more than waiting.
    pub(crate) fn lingers(&self) -> bool {
        let now = self.engine.store().ground().now;
        let first = self.timers.first(&now);
        first.is_some_and(|timer| timer.due.remaining_ms(&now) <= limits::LINGER_MS)
    }

    /// Looks whether the row or the inbox has changed, and keeps the lease.
    pub(crate) async fn look_at_row(&mut self) -> Result<(), Halt> {
        // What is on its way consumes deliveries; read before it lands, they would come twice. A
        // store that is away must not keep steps from going on: the next look comes soon.
        let clock = self.engine.store().clock().clone();
        tokio::select! {
            biased;
            flushed = self.ink.flush() => flushed?,
            () = clock.sleep_ms(FLUSH_MS) => return Ok(()),
        }
        match self.reload().await {
            Err(Halt::Failed(error)) if is_passing(error.code()) => return Ok(()),
            looked => looked?,
        }
        let now = self.engine.store().ground().now;
        let lease = self.run.lease.as_ref().expect("a run of ours is leased");
        let lease_ms = self.engine.run_lease_ms();
        if now.until(lease.until) > lease_ms / 3 * 2 {
            return Ok(());
        }
        let renewed = run::renew(&self.run, self.fence, lease_ms, &now);
        let renewed = renewed.map_err(|_| Halt::Lost)?;
        match self.engine.commit(Write::run(&renewed, &now).into()).await {
            Ok(()) => self.run = renewed,
            // Touched meanwhile: the next look sees it.
            Err(Stopped::Stale(_)) => self.held.touch(),
            Err(Stopped::Error(error)) if is_passing(error.code()) => {}
            Err(Stopped::Error(error)) => return Err(error.into()),
        }
        Ok(())
    }

    async fn reload(&mut self) -> Result<(), Halt> {
        let store = self.engine.store();
        let run = store.run(&self.run.namespace, &self.run.id).await.map_err(Error::from)?;
        let run = run.ok_or(Halt::Lost)?;
        if run.lease.as_ref().is_none_or(|lease| lease.fence != self.fence) {
            return Err(Halt::Lost);
        }
        if run.version != self.run.version {
            self.inbox = store.inbox(run.number).await.map_err(Error::from)?;
        }
        self.run = run;
        Ok(())
    }

    /// When nothing can go on before it is known.
    async fn reload_firmly(&mut self) -> Result<(), Halt> {
        let mut patience = Patience::default();
        loop {
            match self.reload().await {
                Err(Halt::Failed(error)) if is_passing(error.code()) => {
                    patience.wait(self.engine.store().clock(), error).await?;
                }
                looked => return looked,
            }
        }
    }

    /// The code has returned. The run ends when nothing that it began outside is open any more.
    async fn try_end(&mut self) -> Result<Option<Left>, Halt> {
        self.steps.clear();
        self.signals.clear();
        self.timers.keep_effects();
        let has_effects = self.unstarted.iter().any(|id| self.open_effects.contains_key(id));
        if has_effects && !self.ink.is_durable() {
            // What guards an effect names the last entry, which must be there before.
            return Ok(None);
        }
        for id in std::mem::take(&mut self.unstarted) {
            let Some(what) = self.open_effects.get(&id) else { continue };
            let effect = load_effect(&self.engine, &address(&self.run, what)).await?;
            let now = self.engine.store().ground().now;
            let is_begun = effect.is_some_and(|effect| match effect.state(&now) {
                State::Planned | State::Void => false,
                State::Pending | State::InDoubt | State::Done | State::Failed | State::Expired => {
                    true
                }
            });
            if is_begun {
                self.start_effect(id);
            }
        }
        if !self.effects.is_empty() {
            return Ok(None);
        }
        if !self.timers.is_empty() {
            if !self.ink.is_durable() || self.lingers() {
                return Ok(None);
            }
            // There is no code left to end; passed, it would make the run due for ever.
            self.run.deadline = None;
            return self.park().await;
        }
        let is_failed = matches!(self.outcome, Some(Err(_)));
        let waits = match self.unended_children(is_failed).await? {
            Some(waits) => waits,
            None => return Ok(None),
        };
        if !waits.is_empty() {
            self.run.deadline = None;
            return self.commit_park(waits, Vec::new()).await;
        }
        let outcome = self.outcome.take().expect("the code has returned");
        match outcome {
            Ok(value) => {
                let ending = Ending::Done(self.ink.value(value.clone()));
                self.end(How::Done, ending, Ok(value)).await.map(Some)
            }
            Err(error) => {
                let ids = self.to_undo().await?;
                if ids.is_empty() {
                    return self.end_failed(error).await.map(Some);
                }
                self.happen(Event::Undoing { ids, fault: Some((&error).into()) }).await?;
                Ok(None)
            }
        }
    }

    pub(crate) async fn end_failed(&mut self, error: Error) -> Result<Left, Halt> {
        self.end(How::Failed, Ending::Failed((&error).into()), Err(error)).await
    }

    /// Ends as whoever asked for the end wants it; or as failed, when nobody did: then the deadline
    /// has passed.
    pub(crate) async fn end_cancelled(&mut self) -> Result<Left, Halt> {
        match self.run.cancel.clone() {
            None => self.end_failed(Error::new(Code::DeadlinePassed, OVERDUE)).await,
            Some(Cancel { fault: Some(fault), .. }) => self.end_failed((*fault).into()).await,
            Some(Cancel { reason, .. }) => {
                let text = format!("the run was cancelled: {reason}");
                let error = Error::new(Code::Cancelled, text);
                self.end(How::Cancelled, Ending::Cancelled(reason), Err(error)).await
            }
        }
    }

    async fn end(
        &mut self,
        how: How,
        end: Ending,
        answer: Result<Json, Error>,
    ) -> Result<Left, Halt> {
        let fence = self.fence;
        self.leave(Some(Event::Finished { end }), |run, now| run::finish(run, fence, how, now))
            .await?;
        tracing::info!(run = %self.run.id, key = %self.run.key, state = %self.run.state(), "ended");
        Ok(Left::Ended(answer))
    }

    /// The run stands still until an operator decides. Attempts under way settle by themselves.
    async fn pause(&mut self, id: Option<String>, fault: Fault) -> Result<Left, Halt> {
        let fence = self.fence;
        let Fault { code, detail, raised, .. } = fault.clone();
        tracing::warn!(run = %self.run.id, %code, "paused");
        let at = self.engine.store().ground().now.wall;
        let paused = Pause { id: id.clone(), code, detail, raised, at };
        self.leave(Some(Event::Paused { id, fault }), |run, _| {
            run::pause(run, fence, paused.clone())
        })
        .await?;
        Ok(Left::Away)
    }

    /// Lets a worker go on that has the code.
    async fn leave_to_code(&mut self) -> Result<Left, Halt> {
        let fence = self.fence;
        self.leave(None, |run, _| run::needs_code(run, fence)).await?;
        Ok(Left::Away)
    }

    /// Lets another worker go on at once.
    pub(crate) async fn release(&mut self) -> Result<Left, Halt> {
        let fence = self.fence;
        self.leave(None, |run, _| run::park(run, fence, Vec::new())).await?;
        Ok(Left::Away)
    }

    /// Commits what is queued, a last entry and the row together. Somebody may touch the row
    /// meanwhile; only whoever takes it over stops us.
    async fn leave(
        &mut self,
        event: Option<Event>,
        rule: impl Fn(&Run, &Moment) -> Result<Run, Refusal>,
    ) -> Result<(), Halt> {
        let now = self.engine.store().ground().now;
        if let Some(event) = event {
            self.ink.append(At::from(&now), event);
        }
        let writes = self.ink.take_waiting().await?;
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let now = self.engine.store().ground().now;
            let next = rule(&self.run, &now).map_err(|_| Halt::Lost)?;
            let mut batch = writes.clone();
            batch.push(Write::run(&next, &now));
            let woken = self.farewell(&next, &now, &mut batch).await?;
            let batch = Batch { writes: batch.into() };
            match self.engine.commit_firmly(batch).await {
                Ok(()) => {
                    self.run = next;
                    woken.iter().for_each(|id| self.engine.touched(id));
                    return Ok(());
                }
                Err(Stopped::Stale(_)) => self.reload_firmly().await?,
                Err(Stopped::Error(error)) => return Err(error.into()),
            }
        }
        Err(Error::new(Code::StoreBusy, "the run kept changing").into())
    }

    /// What the end of a run writes beside it: its entities and slots are somebody else's, and
    /// whoever waits for its end is woken. Returns the runs that were.
    async fn farewell(
        &mut self,
        ended: &Run,
        now: &Moment,
        batch: &mut Vec<Write>,
    ) -> Result<Vec<String>, Halt> {
        if ended.ended.is_none() {
            return Ok(Vec::new());
        }
        let (writes, mut woken) = self.let_entities_go(now).await?;
        batch.extend(writes);
        let engine = self.engine.clone();
        let give_back = || engine.give_slots_back(ended, now);
        let (writes, admitted) = engine.read_firmly(give_back).await?;
        batch.extend(writes);
        woken.extend(admitted);
        batch.extend(ended.watchers.iter().map(|id| touch(ended, id, now)));
        woken.extend(ended.watchers.iter().cloned());
        Ok(woken)
    }

    /// Nothing can go on before something comes. Compare and set: whatever came since the row was
    /// read makes this fail, and is looked at first.
    pub(crate) async fn park(&mut self) -> Result<Option<Left>, Halt> {
        let mut waits: Vec<Wait> = Vec::new();
        for (id, name) in &self.signals {
            let due = self.timers.find(id).map(|timer| timer.due);
            let note = match &self.works[id] {
                Work::Wait { note, .. } => note.clone(),
                Work::Step { .. }
                | Work::Effect { .. }
                | Work::Child(_)
                | Work::Enter { .. }
                | Work::Leave { .. }
                | Work::Callback
                | Work::Sleep { .. } => None,
            };
            waits.push(Wait { id: id.clone(), on: On::Signal(name.clone()), due, note });
        }
        waits.extend(self.children.waits());
        waits.extend(self.entities.waits());
        let mut writes = Vec::new();
        for timer in self.timers.all() {
            let (id, due) = (timer.id.clone(), Some(timer.due));
            match timer.purpose {
                Purpose::Sleep => waits.push(Wait { id, on: On::Timer, due, note: None }),
                Purpose::Retry => waits.push(Wait { id, on: On::Retry, due, note: None }),
                Purpose::Again | Purpose::Someday => {
                    let is_sure = timer.purpose == Purpose::Someday;
                    let Some((wait, write)) = self.wait_for_effect(id, due, is_sure).await? else {
                        // It was settled meanwhile.
                        self.timers.remove(&timer.id);
                        self.unstarted.push_back(timer.id);
                        return Ok(None);
                    };
                    waits.push(wait);
                    writes.extend(write);
                }
                Purpose::Timeout | Purpose::Deadline => {}
            }
        }
        self.commit_park(waits, writes).await
    }

    pub(crate) async fn commit_park(
        &mut self,
        waits: Vec<Wait>,
        mut writes: Vec<Write>,
    ) -> Result<Option<Left>, Halt> {
        self.ink.flush().await?;
        let now = self.engine.store().ground().now;
        let mut parked = run::park(&self.run, self.fence, waits).map_err(|_| Halt::Lost)?;
        // Whoever goes on taking back needs the code.
        parked.needs_code |= self.undoing.is_some();
        writes.push(Write::run(&parked, &now));
        match self.engine.commit_firmly(Batch { writes: writes.into() }).await {
            Ok(()) => Ok(Some(Left::Away)),
            Err(Stopped::Stale(_)) => {
                self.reload_firmly().await?;
                Ok(None)
            }
            Err(Stopped::Error(error)) => Err(error.into()),
        }
    }

    /// Notes this run in the row of an effect that somebody else settles. `None`: nobody has to.
    async fn wait_for_effect(
        &mut self,
        id: String,
        due: Option<At>,
        is_sure: bool,
    ) -> Result<Option<(Wait, Option<Write>)>, Halt> {
        let address = address(&self.run, &self.open_effects[&id]);
        let Some(effect) = load_effect(&self.engine, &address).await? else { return Ok(None) };
        let now = self.engine.store().ground().now;
        match effect.state(&now) {
            State::Pending | State::InDoubt => {}
            State::Planned if effect.retry_at.is_some_and(|at| !now.reached(at)) => {}
            State::Planned if effect.is_held(&now) => {}
            State::Planned | State::Done | State::Failed | State::Void | State::Expired => {
                return Ok(None);
            }
        }
        let waiting = effect::wait(&effect, &self.run.id);
        // Whoever settles it wakes the run: then there is nothing to look at by time.
        let due = if waiting.is_some() && is_sure { None } else { due };
        let (action, key) = (address.action.as_str().to_owned(), address.key.as_str().to_owned());
        let wait = Wait { id, on: On::Effect { action, key }, due, note: None };
        Ok(Some((wait, waiting.map(|effect| Write::effect(&effect, &now)))))
    }

    /// Ends the run as soon as nothing that it began outside is under way or in doubt.
    async fn cancel(&mut self) -> Result<Option<Left>, Halt> {
        self.drop_code();
        if !self.errands.is_empty() {
            return Ok(None);
        }
        let (actor, reason) = match &self.run.cancel {
            Some(cancel) => (cancel.actor.clone(), cancel.reason.clone()),
            None => ("semel".to_owned(), OVERDUE.to_owned()),
        };
        if !self.is_cancelling {
            self.is_cancelling = true;
            let at = At::from(&self.engine.store().ground().now);
            self.ink.append(at, Event::Cancelling { actor, reason });
        }
        let Some(mut waits) = self.unended_children(true).await? else { return Ok(None) };
        let mut writes = Vec::new();
        for (id, what) in self.open_effects.clone() {
            let address = address(&self.run, &what);
            let Some(effect) = load_effect(&self.engine, &address).await? else { continue };
            let now = self.engine.store().ground().now;
            if !matches!(effect.state(&now), State::Pending | State::InDoubt) {
                continue;
            }
            // Nothing is sent or looked up for this run any more: only a change of the row, by its
            // lapse, a handler or a person, is worth waking for.
            let due = Some(At::from(&now).plus(limits::LOOK_AGAIN_MS));
            if let Some((wait, write)) = self.wait_for_effect(id, due, true).await? {
                waits.push(wait);
                writes.extend(write);
            }
        }
        if !waits.is_empty() {
            // It has done its work. Left in the row, it would make the run due for ever.
            self.run.deadline = None;
            return self.commit_park(waits, writes).await;
        }
        let ids = if self.asks_code { self.to_undo().await? } else { Vec::new() };
        if ids.is_empty() {
            return self.end_cancelled().await.map(Some);
        }
        self.happen(Event::Undoing { ids, fault: None }).await?;
        Ok(None)
    }
}

pub(crate) async fn load_effect(
    engine: &Engine,
    address: &Address,
) -> Result<Option<Effect>, Halt> {
    let found = engine.read_firmly(|| engine.store().load(address)).await?;
    let now = engine.store().ground().now;
    Ok(found.map(|effect| engine.judged(effect, &now)))
}

/// The effect that a command asked for, as the journal names it.
pub(crate) fn address(run: &Run, what: &str) -> Address {
    let named = what.strip_prefix("effect ").and_then(|name| name.split_once('/'));
    let (action, key) = named.expect("a planned effect is named by action and key");
    Address {
        namespace: Namespace::stored(&run.namespace).expect("a stored name is valid"),
        action: Action::new(action).expect("a planned action is valid"),
        key: Key::parse(key).expect("a planned key is valid"),
    }
}
