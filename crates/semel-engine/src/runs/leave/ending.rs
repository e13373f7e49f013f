//! How a run ends, pauses or is cancelled: one batch with its last entries.

use semel_core::code::Code;
use semel_core::effect::State;
use semel_core::journal::{At, Ending, Event, Fault};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::run::{self, Cancel, How, Pause, Refusal, Run};
use semel_core::time::Moment;
use semel_store::{Batch, Write};

use super::park::add_note;
use super::{address, load_effect};
use crate::Error;
use crate::commit::Stopped;
use crate::runs::drive::{Driver, Halt};
use crate::runs::entities::touch;
use crate::runs::held::Left;

/// Why a run ends that nobody has cancelled.
const OVERDUE: &str = "the deadline of the run has passed";

impl Driver {
    /// The code has returned. The run ends when nothing that it began outside is open any more.
    pub(super) async fn try_end(&mut self) -> Result<Option<Left>, Halt> {
        self.steps.clear();
        self.signals.clear();
        self.timers.keep_effects(&self.open_effects);
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
                let ids = self.find_undoable().await?;
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
    pub(super) async fn pause(&mut self, id: Option<String>, fault: Fault) -> Result<Left, Halt> {
        let fence = self.fence;
        let Fault { code, detail, raised, .. } = fault.clone();
        let exception = raised.as_ref().map(|raised| raised.kind.as_str());
        tracing::warn!(run = %self.run.id, %code, exception, "paused");
        let at = self.engine.store().ground().now.wall;
        let paused = Pause { id: id.clone(), code, detail, raised, at };
        let event = Event::Paused { id, fault, anew: self.hears_anew() };
        self.leave(Some(event), |run, _| run::pause(run, fence, paused.clone())).await?;
        Ok(Left::Away)
    }

    /// Lets a worker go on that has the code.
    pub(super) async fn leave_to_code(&mut self) -> Result<Left, Halt> {
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
    pub(super) async fn leave(
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

    /// Ends the run as soon as nothing that it began outside is under way or in doubt.
    pub(super) async fn cancel(&mut self) -> Result<Option<Left>, Halt> {
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
                add_note(&mut writes, write);
            }
        }
        if !waits.is_empty() {
            // It has done its work. Left in the row, it would make the run due for ever.
            self.run.deadline = None;
            return self.commit_park(waits, writes).await;
        }
        let ids = if self.asks_code { self.find_undoable().await? } else { Vec::new() };
        if ids.is_empty() {
            return self.end_cancelled().await.map(Some);
        }
        self.happen(Event::Undoing { ids, fault: None }).await?;
        Ok(None)
    }
}
