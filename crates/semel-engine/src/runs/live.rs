//! Going on where the journal ends: starting commands, and taking note of what comes of them.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use semel_core::code::Code;
use semel_core::journal::{At, Event, Fault, Outcome};
use semel_core::json::Json;
use semel_core::limits;
use semel_core::repeats::{Door, Subject};
use semel_core::retry::Trouble;
use semel_core::run::course::Issued;
use semel_store::Write;
use tracing::Instrument;

use super::drive::{Driver, Halt, Happened, foreign, pause};
use super::port::{Exhausted, OnDoubt, StepFault, StepTry, Work};
use super::timers::Purpose;
use crate::call::{is_passing, is_repeat};
use crate::clearance::{Clearance, Until};
use crate::{Error, lock, measure, trace};

impl Driver {
    /// Takes note of one thing that happened.
    pub(crate) async fn handle(&mut self, happened: Happened) -> Result<(), Halt> {
        match happened {
            Happened::Durable => Ok(()),
            Happened::Stepped { id, result } => self.stepped(id, result).await,
            Happened::Late { id } => self.begin_again(id).await,
            Happened::Settled { id, result } => self.settled(id, result).await,
            Happened::Child { id, result } => self.child_started(id, *result).await,
            Happened::Entered { id, result } => self.entered(id, result).await,
            Happened::LeftEntity { id, result } => self.left_entity(id, result).await,
            Happened::Due => self.fire().await,
            Happened::Touched => self.look_at_row().await,
            Happened::Foreign => Err(foreign()),
        }
    }

    /// Starts what the code asked for, once everything before it is durable.
    pub(crate) async fn start_commands(&mut self) -> Result<(), Halt> {
        self.open_callbacks().await?;
        self.open_waits();
        self.receive().await?;
        // What is to be taken back is taken back, however long the journal is.
        if self.ink.is_full() && self.undoing.is_none() {
            let text = format!("the journal has {} entries", limits::JOURNAL_ENTRIES_MAX);
            return Err(pause(None, Code::TooMany, text));
        }
        if self.unstarted.is_empty() {
            return Ok(());
        }
        self.plan_effects().await?;
        if !self.ink.is_durable() {
            return Ok(());
        }
        while let Some(id) = self.unstarted.pop_front() {
            match &self.works[&id] {
                Work::Step { .. } => self.start_step(id),
                Work::Effect { .. } => self.start_effect(id),
                Work::Child(_) => self.start_child(id),
                Work::Enter { .. } => self.start_enter(id),
                Work::Leave { .. } => self.start_leave(id),
                Work::Callback | Work::Sleep { .. } | Work::Wait { .. } => {
                    unreachable!("these were opened before")
                }
            }
        }
        Ok(())
    }

    /// Timers and waits begin at once: they reach nothing outside.
    fn open_waits(&mut self) {
        if self.unstarted.is_empty() {
            return;
        }
        let (works, asked) = (&self.works, &self.asked);
        let (timers, signals) = (&mut self.timers, &mut self.signals);
        let before = &self.waits_before;
        // One that was open when the run was parked keeps the time it had then.
        let due = |id: &str, ms: u64| {
            let known = before.iter().find(|wait| wait.id == id).and_then(|wait| wait.due);
            known.unwrap_or_else(|| asked[id].plus(ms))
        };
        self.unstarted.retain(|id| match &works[id] {
            Work::Sleep { ms } => {
                timers.set(id, due(id, *ms), Purpose::Sleep);
                false
            }
            Work::Wait { name, timeout_ms, .. } => {
                signals.push((id.clone(), name.clone()));
                if let Some(ms) = timeout_ms {
                    timers.set(id, due(id, *ms), Purpose::Timeout);
                }
                false
            }
            Work::Step { .. }
            | Work::Effect { .. }
            | Work::Child(_)
            | Work::Enter { .. }
            | Work::Leave { .. }
            | Work::Callback => true,
        });
    }

    /// The key of an effect is on record before anything is begun under it.
    async fn plan_effects(&mut self) -> Result<(), Halt> {
        let unplanned: Vec<String> = self
            .unstarted
            .iter()
            .filter(|id| self.works[*id].is_planned())
            .filter(|id| !self.issued(id).planned)
            .cloned()
            .collect();
        for id in unplanned {
            let what = self.issued(&id).what;
            let undo = self.undoables.contains_key(&id);
            self.happen(Event::Planned { id, what, undo }).await?;
        }
        Ok(())
    }

    pub(crate) fn issued(&self, id: &str) -> Issued {
        lock(&self.desk).course.open(id).expect("an unanswered command is open").clone()
    }

    fn start_step(&mut self, id: String) {
        let (failed, retry_at) = {
            let desk = lock(&self.desk);
            let known = desk.course.open(&id).expect("an unanswered command is open");
            (known.failed, known.retry_at)
        };
        if let Some(retry_at) = retry_at
            && !retry_at.is_reached(&self.engine.store().ground().now)
        {
            self.timers.set(&id, retry_at, Purpose::Retry);
            return;
        }
        let Work::Step { run, executor, .. } = &self.works[&id] else {
            unreachable!("it is a step")
        };
        let (run, executor, engine) = (run.clone(), executor.clone(), self.engine.clone());
        let begins_until = self.begins_until.clone();
        if lock(&self.desk).is_model(&id) {
            measure::model_called();
        }
        let span = trace::step(&id, failed + 1);
        let attempt = async move {
            let slot = match executor.ready().await {
                Ok(slot) => slot,
                Err(error) => {
                    let (detail, trouble) = (error.detail().to_owned(), Trouble::Passing);
                    let fault = StepFault { detail, trouble, raised: None };
                    return Happened::Stepped { id, result: Err(fault) };
                }
            };
            let clearance = Clearance::new(&engine, Until::Lease(begins_until), slot);
            // The last look at the lease before the code, in the poll that calls it.
            if !executor.is_away() && !clearance.begin() {
                return Happened::Late { id };
            }
            let turn = StepTry { attempt: failed + 1, clearance: clearance.clone() };
            let attempt = AssertUnwindSafe(async { run(turn).await });
            let panicked = || {
                let detail = "the step panicked".into();
                StepFault { detail, trouble: Trouble::Programming, raised: None }
            };
            let result = attempt.catch_unwind().await.unwrap_or_else(|_| Err(panicked()));
            if clearance.was_late() {
                return Happened::Late { id };
            }
            if result.is_err() {
                trace::failed();
            }
            Happened::Stepped { id, result }
        };
        self.steps.push(attempt.instrument(span).boxed());
    }

    /// The lease was over before the code of a step began. It begins if the run is still ours.
    async fn begin_again(&mut self, id: String) -> Result<(), Halt> {
        self.renew_firmly().await?;
        self.unstarted.push_back(id);
        Ok(())
    }

    pub(crate) fn start_effect(&mut self, id: String) {
        let Work::Effect { call, doer, .. } = &self.works[&id] else {
            unreachable!("it is an effect")
        };
        let (mut call, doer) = (call.clone(), Arc::clone(doer));
        call.guard = Some(self.guard());
        let engine = self.engine.clone();
        let address = call.address.clone();
        let was_held = call.approval.is_some();
        let attempt = async move {
            let mut result = engine.call_telling(*call, doer).await;
            // What waited for an approval may be sent by a handler: this is its first answer.
            if let (Ok((_, was_there)), true) = (&mut result, was_held) {
                *was_there = false;
            }
            if is_repeat(&result) {
                engine.note_repeat(Subject::Effect(address), Door::Run);
            }
            Happened::Settled { id, result }
        };
        self.effects.push(attempt.boxed());
    }

    async fn stepped(&mut self, id: String, result: Result<Json, StepFault>) -> Result<(), Halt> {
        let known = self.issued(&id);
        let attempts = known.failed + 1;
        let fault = match result {
            Ok(value) => {
                let result = Outcome::Value(self.ink.value(value));
                let what = known.what;
                self.happen(Event::Step { id, what, attempts, result }).await?;
                return Ok(());
            }
            Err(fault) => fault,
        };
        let what = known.what.clone();
        let raised = fault.raised.map(|raised| Box::new(raised.bounded()));
        let kept = Fault::new(Code::StepFailed, fault.detail.clone()).with(raised.clone());
        if fault.trouble == Trouble::Final {
            let result = Outcome::Fault(kept);
            self.happen(Event::Step { id, what, attempts, result }).await?;
            return Ok(());
        }
        let Work::Step { retry, exhausted, .. } = &self.works[&id] else {
            unreachable!("it is a step")
        };
        let (retry, exhausted) = (*retry, *exhausted);
        let now = self.engine.store().ground().now;
        let elapsed_ms = known.first_failed.map_or(0, |at| at.elapsed_ms(&now));
        let delay_ms = retry.after(fault.trouble, attempts, elapsed_ms, self.engine.jitter());
        let retry_at = delay_ms.map(|ms| At::from(&now).plus(ms));
        let failed = Event::StepFailed {
            id: id.clone(),
            what: what.clone(),
            attempt: attempts,
            fault: kept.clone(),
            retry_at,
        };
        self.happen(failed).await?;
        if retry_at.is_some() {
            self.unstarted.push_back(id);
            return Ok(());
        }
        // What the code of the run gets to see is the step's own fault, if it asked for it.
        let (fault, shown) = match fault.trouble {
            Trouble::Programming => (Fault::new(Code::ProgrammingError, fault.detail), kept),
            Trouble::Passing | Trouble::Final => {
                let text = format!("failed {attempts} times, at last: {}", fault.detail);
                let fault = Fault::new(Code::RetriesExhausted, text);
                (fault.clone(), fault)
            }
        };
        match exhausted {
            Exhausted::Pause => Err(Halt::Pause { id: Some(id), fault: fault.with(raised) }),
            Exhausted::Fail => {
                let result = Outcome::Fault(shown.with(raised));
                self.happen(Event::Step { id, what, attempts, result }).await.map(|_| ())
            }
        }
    }

    async fn settled(
        &mut self,
        id: String,
        result: Result<(Json, bool), Error>,
    ) -> Result<(), Halt> {
        let error = match result {
            Ok((receipt, repeat)) => {
                let result = Outcome::Value(self.ink.value(receipt));
                return self.end_effect(id, result, repeat).await;
            }
            Err(error) => error,
        };
        let Work::Effect { on_doubt, .. } = &self.works[&id] else {
            unreachable!("it is an effect")
        };
        match (error.code(), on_doubt) {
            // Of this run, not of the effect: begun under a lease that is gone.
            (Code::RunTaken, _) => Err(Halt::Lost),
            // The contract would resend, but not for ever.
            (Code::InDoubt, OnDoubt::Wait) if error.is_exhausted() => {
                Err(pause(Some(id), Code::RetriesExhausted, error.detail()))
            }
            (Code::InDoubt, OnDoubt::Wait) | (Code::InProgress | Code::Held, _) => {
                self.look_again(&id, error.retry_after_ms());
                Ok(())
            }
            // Nothing was begun, so there is no row to wait for: only a time.
            (Code::RateLimited, _) => {
                let now = At::from(&self.engine.store().ground().now);
                let ms = error.retry_after_ms().unwrap_or(limits::POLL_MS).max(1);
                self.timers.set(&id, now.plus(ms), Purpose::Retry);
                Ok(())
            }
            (
                Code::NotApplied
                | Code::RetriesExhausted
                | Code::AttemptsExhausted
                | Code::ProgrammingError,
                _,
            ) => Err(pause(Some(id), error.code(), error.detail())),
            (code, _) if is_passing(code) || is_of_the_attempt(code) => {
                tracing::warn!(run = %self.run.id, %error, "an effect is tried again shortly");
                self.look_again(&id, Some(limits::POLL_MS));
                Ok(())
            }
            // Never only logged: what could not be taken back waits for an operator.
            (code, _) if self.is_undo(&id) && !is_of_the_store(code) => {
                Err(pause(Some(id), code, error.detail()))
            }
            // Of the store, not of the effect: it says nothing about what the run came to.
            (code, _) if is_of_the_store(code) => Err(Halt::Failed(error)),
            _ => self.end_effect(id, Outcome::Fault((&error).into()), false).await,
        }
    }

    async fn end_effect(&mut self, id: String, result: Outcome, repeat: bool) -> Result<(), Halt> {
        let what = self.issued(&id).what;
        self.happen(Event::Effect { id, what, result, repeat }).await.map(|_| ())
    }

    /// Somebody else settles the effect: whoever does wakes the run, and this is only patience.
    fn look_again(&mut self, id: &str, after_ms: Option<u64>) {
        let now = At::from(&self.engine.store().ground().now);
        match after_ms {
            Some(ms) => self.timers.set(id, now.plus(ms.max(1)), Purpose::Again),
            None => self.timers.set(id, now.plus(limits::LOOK_AGAIN_MS), Purpose::Someday),
        }
    }

    /// Fires one timer that is due.
    async fn fire(&mut self) -> Result<(), Halt> {
        let now = self.engine.store().ground().now;
        let Some(timer) = self.timers.due(&now).cloned() else { return Ok(()) };
        self.timers.remove(&timer.id);
        let id = timer.id;
        match timer.purpose {
            Purpose::Sleep => {
                let what = self.issued(&id).what;
                self.happen(Event::Fired { id, what }).await.map(|_| ())
            }
            Purpose::Timeout => {
                let what = self.issued(&id).what;
                self.happen(Event::TimedOut { id, what }).await.map(|_| ())
            }
            Purpose::Retry | Purpose::Again | Purpose::Someday => {
                self.unstarted.push_back(id);
                Ok(())
            }
            Purpose::Deadline => {
                self.is_overdue = true;
                Ok(())
            }
        }
    }

    /// Gives waits the deliveries that came for them, the oldest first, each once.
    async fn receive(&mut self) -> Result<(), Halt> {
        while let Some((wait, delivery)) = self.match_inbox() {
            let delivery = self.inbox.remove(delivery);
            let (id, _) = self.signals[wait].clone();
            let what = self.issued(&id).what;
            let payload = serde_json::from_str(&delivery.payload).map_err(|error| {
                let text = format!("delivery {}: {error}", delivery.identity);
                Error::from(semel_store::StoreError::Corrupt(text))
            })?;
            let identity = delivery.identity;
            let run = self.run.number;
            self.ink.also(Write::Consume { run, identity: identity.clone() });
            self.happen(Event::Received { id, what, delivery: identity, payload }).await?;
            self.open_waits();
        }
        Ok(())
    }

    fn match_inbox(&self) -> Option<(usize, usize)> {
        self.signals.iter().enumerate().find_map(|(wait, (_, name))| {
            let delivery = self.inbox.iter().position(|delivery| delivery.name == *name)?;
            Some((wait, delivery))
        })
    }
}

/// The store cannot be used at all until somebody repairs it.
fn is_of_the_store(code: Code) -> bool {
    matches!(
        code,
        Code::StoreCorrupt
            | Code::StoreNewer
            | Code::StoreOlder
            | Code::StoreMissing
            | Code::StoreForeign
            | Code::EncryptionKeyMissing
            | Code::EncryptionKeyMismatch
    )
}

/// The attempt came to nothing for a reason of ours: another one is worth it.
fn is_of_the_attempt(code: Code) -> bool {
    match code {
        Code::PermitLapsed | Code::DeadlinePassed | Code::StaleFence | Code::Internal => true,
        // The store has gone back, and does not know the attempt: what it asks for now is decided
        // by the next begin.
        Code::NotFound => true,
        _ => false,
    }
}
