//! Carrying an effect out: ask for a permit, run the user's code in a task the engine owns, file
//! what it says, and try again as the contract and the retry policy allow.

mod attempt;
mod code;

pub use code::{Doer, Intent, Looked, Reached, Sent};

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::contract::{Declared, TermsRefusal};
use semel_core::effect::approve::Ask;
use semel_core::effect::{Begin, Refusal, Report, Settle, State};
use semel_core::fingerprint::Rule;
use semel_core::journal::Link;
use semel_core::json::Json;
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::{Contract, Effect, Kind, Named, Outcome};
use semel_core::repeats::{Door, Subject};
use semel_core::retry::Retry;
use semel_core::time::{Moment, Steady};
use semel_store::Write;
use tracing::Instrument;

use crate::effects::{Answer, Armed};
use crate::runs;
use crate::{Engine, Error, trace};

/// One call of an effect, as its author declared it.
#[derive(Clone, Debug)]
pub struct Call {
    pub address: Address,
    pub input: Json,
    pub rule: Rule,
    pub declared: Declared,
    pub downstream_key: Option<String>,
    pub retry: Retry,
    pub hold_ms: u64,
    pub workflow: Option<String>,
    pub run: Option<String>,
    /// A person decides before the first send.
    pub approval: Option<Ask>,
    /// The effect that this one takes back.
    pub undoes: Option<Named>,
    /// How the author says that the key is made, for whoever asks for a proof.
    pub derived: Option<String>,
    /// The shape of the result, as JSON Schema: what a person gives as the receipt must fit.
    pub shape: Option<Json>,
    /// Where it is called in a run: nothing is begun once another worker has that.
    pub guard: Option<Guard>,
}

/// A run as its holder knows it: its fence, and an entry that is in its journal.
#[derive(Clone, Copy, Debug)]
pub struct Guard {
    pub run: i64,
    pub fence: u64,
    pub seq: u64,
    pub link: Link,
}

impl Guard {
    /// The guard, as a batch carries it.
    pub(crate) fn write(&self) -> Write {
        Write::Holds { run: self.run, fence: self.fence, seq: self.seq, link: self.link }
    }
}

/// Whether somebody was told what had become of the effect before.
pub(crate) fn is_repeat(told: &Result<(Json, bool), Error>) -> bool {
    match told {
        Ok((_, was_there)) => *was_there,
        Err(error) => error.code() == Code::Undone,
    }
}

/// How long one call waits, and for what. What it may send is the effect's own budget, on record.
#[derive(Clone, Copy)]
struct Waits {
    retry: Retry,
    sends: u32,
    started: Steady,
    /// For a turn of the rate.
    turn_ms: u64,
}

impl Waits {
    fn has_time_for(&self, now: &Moment, ms: u64) -> bool {
        self.retry.attempts_max > 1
            && now.since(self.started).saturating_add(ms) <= self.retry.total_ms
    }
}

impl Engine {
    /// Performs an effect once, or returns what became of it before. Dropping the future detaches
    /// from the attempt and never cuts it.
    pub async fn call(&self, call: Call, doer: Arc<Doer>) -> Result<Json, Error> {
        let address = call.address.clone();
        let told = self.call_telling(call, doer).await;
        if is_repeat(&told) {
            self.note_repeat(Subject::Effect(address), Door::Call);
        }
        told.map(|(receipt, _)| receipt)
    }

    /// Like [`Engine::call`]; also tells whether the receipt was there before.
    pub(crate) async fn call_telling(
        &self,
        call: Call,
        doer: Arc<Doer>,
    ) -> Result<(Json, bool), Error> {
        check(&call, &doer)?;
        if let Some(undoes) = &call.undoes {
            self.note_undoing(&call.address, undoes).await?;
            let done = Box::pin(self.call_checked(call.clone(), doer)).await?;
            self.note_undone(&call.address, undoes, &done.0).await?;
            return Ok(done);
        }
        self.call_checked(call, doer).await
    }

    async fn call_checked(&self, call: Call, doer: Arc<Doer>) -> Result<(Json, bool), Error> {
        if runs::is_in_body() {
            let text = "an effect was called in the body of a workflow; call it by its context";
            return Err(Error::new(Code::ForeignAwait, text));
        }
        let started = self.store().ground().now.steady;
        let mut waits = Waits { retry: call.retry, sends: 0, started, turn_ms: 0 };
        loop {
            self.check_wanted(&call).await?;
            let ask = call.ask(&doer);
            let span = trace::attempt(&call.address);
            let begun = self.begin_under(ask, call.hold_ms, call.guard, &doer.executor);
            let (armed, slot) = match begun.instrument(span.clone()).await {
                Ok((Answer::Replay(receipt), _)) => return Ok((receipt, waits.sends == 0)),
                Ok((Answer::Undone(receipt, undo), _)) => return Err(Error::undone(receipt, undo)),
                Ok((Answer::Failed(reason), _)) => {
                    return Err(Error::new(Code::EffectFailed, reason));
                }
                Ok((Answer::Attempt(armed), slot)) => {
                    (waits.sends, waits.turn_ms) = (waits.sends + 1, 0);
                    (armed, slot)
                }
                Ok((Answer::Probe(armed), slot)) => (armed, slot),
                Err(error) if error.code() == Code::RateLimited => {
                    self.wait_for_turn(&call, error, &mut waits).await?;
                    continue;
                }
                Err(error) => {
                    self.wait_for_look(error, &waits).await?;
                    continue;
                }
            };
            if armed.permit.kind == Kind::Look && doer.look.is_none() {
                return Err(self.cannot_look(*armed).await);
            }
            let fence = armed.permit.fence;
            let filed = self.run_detached(*armed, slot, doer.clone(), span).await?;
            let now = self.store().ground().now;
            match filed.state {
                State::Done => {
                    let receipt = filed.effect.receipt().expect("done has a receipt");
                    return Ok((receipt.clone(), false));
                }
                State::Failed => {
                    let reason = filed.effect.failure().unwrap_or_default();
                    return Err(Error::new(Code::EffectFailed, reason));
                }
                // A look that found nothing, a doubt that only a person or time can end, or
                // somebody else was quicker: begin again tells.
                State::Planned | State::InDoubt if filed.effect.is_exhausted(None, &now) => {
                    return Err(exhausted(&filed.effect, &call, &now));
                }
                State::Planned if was_absent(&filed.effect, fence) => {}
                State::InDoubt if filed.effect.due(&now).is_none() => {}
                State::Pending | State::Void | State::Expired => {}
                State::Planned | State::InDoubt => {
                    self.back_off(&filed.effect, &call, &now).await?;
                }
            }
        }
    }

    /// The stored contract asks for a look, and this caller, who declared none, has no code for it.
    async fn cannot_look(&self, armed: Armed) -> Error {
        let text = "the effect is to be looked up, which needs code that looks";
        let report = Report::Unknown { reason: text.to_owned(), key_not_used: false };
        let ask = Settle { fence: armed.permit.fence, report, retry_after_ms: None };
        match self.settle_firmly(&armed.effect, &ask).await {
            Ok(_) => Error::new(Code::ContractNeedsLook, text),
            Err(error) => error,
        }
    }

    /// In doubt, but a look may be due within the time that is left: waits for it.
    async fn wait_for_look(&self, error: Error, waits: &Waits) -> Result<(), Error> {
        let now = self.store().ground().now;
        match error.retry_after_ms() {
            Some(ms) if error.code() == Code::InDoubt && waits.has_time_for(&now, ms) => {
                self.store().clock().sleep_ms(ms).await;
                Ok(())
            }
            Some(_) | None => Err(error),
        }
    }

    /// Nothing is sent for a run that is paused or over, unless the run itself asks.
    async fn check_wanted(&self, call: &Call) -> Result<(), Error> {
        let (Some(run), None) = (&call.run, call.guard) else { return Ok(()) };
        let effect = self.store().load(&call.address).await?;
        if let Some(effect) = effect
            && self.is_unwanted(&effect).await
        {
            let text = format!("run {run} is paused or over: its effect is not sent");
            return Err(Error::new(Code::RunPaused, text));
        }
        Ok(())
    }

    /// Waits for a turn of the rate for as long as the call would wait for another's answer. A run
    /// is parked instead: nothing waits in memory for it.
    async fn wait_for_turn(
        &self,
        call: &Call,
        error: Error,
        waits: &mut Waits,
    ) -> Result<(), Error> {
        let ms = error.retry_after_ms().unwrap_or(limits::POLL_MS);
        waits.turn_ms = waits.turn_ms.saturating_add(ms);
        if call.guard.is_some() || waits.turn_ms > call.hold_ms {
            return Err(error);
        }
        self.store().clock().sleep_ms(ms).await;
        Ok(())
    }

    /// Waits for the row's own retry time. A caller that retries by itself is told at once.
    async fn back_off(&self, effect: &Effect, call: &Call, now: &Moment) -> Result<(), Error> {
        if call.retry.attempts_max <= 1 {
            return Err(exhausted(effect, call, now));
        }
        // A row that somebody else moved on has no time for this caller.
        let own_ms = || call.retry.delay_ms(1, 0, self.inner.chance.jitter()).unwrap_or(0);
        let delay_ms = effect.retry_at.map_or_else(own_ms, |at| now.until(at));
        self.store().clock().sleep_ms(delay_ms).await;
        Ok(())
    }
}

pub(crate) fn is_passing(code: Code) -> bool {
    matches!(code, Code::StoreBusy | Code::StoreFull | Code::StoreUnavailable)
}

impl Call {
    fn ask(&self, doer: &Doer) -> Begin {
        Begin {
            address: self.address.clone(),
            input: self.input.clone(),
            rule: self.rule.clone(),
            declared: Declared {
                // A caller without retries of ours retries by itself: it keeps no budget.
                retry: self.declared.retry.or((self.retry.attempts_max > 1).then_some(self.retry)),
                ..self.declared
            },
            downstream_key: self.downstream_key.clone(),
            attempt_id: String::new(),
            worker: String::new(),
            session: None,
            can_look: doer.look.is_some(),
            workflow: self.workflow.clone(),
            run: self.run.clone(),
            approval: self.approval.clone(),
            undoes: self.undoes.clone(),
            derived: self.derived.clone(),
            shape: self.shape.clone(),
        }
    }
}

fn check(call: &Call, doer: &Doer) -> Result<(), Error> {
    let terms = call.declared.terms().map_err(Refusal::Terms)?;
    terms.check_retry(&call.retry).map_err(|refusal: TermsRefusal| Refusal::Terms(refusal))?;
    if matches!(terms.contract, Contract::Probe { .. }) && doer.look.is_none() {
        return Err(Error::new(Code::ContractNeedsLook, "a probe needs code that looks"));
    }
    if terms.contract == Contract::Transaction {
        let text = "rows in the ledger's own database are written through a transaction";
        return Err(Error::new(Code::TermsInvalid, text));
    }
    Ok(())
}

/// Whether the attempt was a look that found nothing.
fn was_absent(effect: &Effect, fence: u64) -> bool {
    let attempt = effect.attempts.iter().find(|attempt| attempt.fence == fence);
    attempt.is_some_and(|look| look.kind == Kind::Look && look.not_applied_reason().is_some())
}

fn exhausted(effect: &Effect, call: &Call, now: &Moment) -> Error {
    let faulty = effect.faulty(Kind::Look).or_else(|| effect.faulty(Kind::Send));
    let last = faulty.or(effect.attempts.last());
    let reason = last.and_then(|attempt| {
        let doubt = attempt.doubt.as_ref().map(|doubt| doubt.reason.as_str());
        doubt.or_else(|| attempt.not_applied_reason())
    });
    let reason = reason.unwrap_or("no reason was given");
    let sends = effect.sends_since_grant();
    let end = last.and_then(|attempt| attempt.end.as_ref()).map(|end| &end.outcome);
    match effect.state(now) {
        // The destination refuses, and only an earlier attempt is in doubt: sending once more
        // would not help, a person must find out.
        State::InDoubt if matches!(end, Some(Outcome::NotApplied { last: true, .. })) => {
            Error::new(Code::InDoubt, format!("refused, after an attempt without answer: {reason}"))
        }
        State::InDoubt if faulty.is_some() => Error::faulty(Code::InDoubt, reason),
        _ if faulty.is_some() => Error::faulty(Code::ProgrammingError, reason),
        State::InDoubt => {
            Error::exhausted(Code::InDoubt, format!("no answer after {sends} sends: {reason}"))
        }
        _ if call.retry.attempts_max <= 1 => Error::exhausted(Code::NotApplied, reason),
        _ => {
            let text = format!("not applied after {sends} sends: {reason}");
            Error::exhausted(Code::RetriesExhausted, text)
        }
    }
}
