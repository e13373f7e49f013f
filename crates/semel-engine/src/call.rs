//! Carrying an effect out: ask for a permit, run the user's code in a task the engine owns, file
//! what it says, and try again as the contract and the retry policy allow.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use semel_core::code::Code;
use semel_core::contract::{Declared, TermsRefusal};
use semel_core::effect::approve::Ask;
use semel_core::effect::{Abort, Begin, Landed, Permit, Refusal, Report, Settle, State};
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
use tracing::{Instrument, Span};

use crate::clearance::{Clearance, Executor, Slot, Until};
use crate::commit::Patience;
use crate::effects::{Answer, Armed, Filed};
use crate::runs;
use crate::{Engine, Error, measure, trace};

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

/// The user's code for one action.
pub struct Doer {
    pub send: Box<dyn Fn(Intent) -> BoxFuture<'static, Sent> + Send + Sync>,
    pub look: Option<Box<dyn Fn(Intent) -> BoxFuture<'static, Looked> + Send + Sync>>,
    pub abort: Abort,
    pub executor: Executor,
}

/// What a send says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sent {
    Receipt(Json),
    /// Proof that nothing happened; it may be tried again.
    NotApplied(String),
    /// Proof that nothing happened, and nothing will.
    Refused(String),
    Unknown(String),
    /// A programming error: the same code is not tried again by itself.
    Faulty(String, Reached),
}

/// Whether anything of an attempt can have reached its destination.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reached {
    Nothing,
    Perhaps,
}

/// What a look found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Looked {
    Found(Json, Vec<Json>),
    Absent,
    Unknown(String),
    /// A programming error: the same code is not asked again by itself.
    Faulty(String),
}

/// What user code gets to see: the intent it carries out, and the key to pass on.
#[derive(Clone, Debug)]
pub struct Intent {
    permit: Arc<Permit>,
    address: Arc<Address>,
    key_used: Arc<AtomicBool>,
    clearance: Clearance,
}

impl Intent {
    fn new(armed: &Armed, clearance: Clearance) -> Intent {
        Intent {
            permit: Arc::new(armed.permit.clone()),
            address: Arc::new(armed.effect.address.clone()),
            key_used: Arc::new(AtomicBool::new(false)),
            clearance,
        }
    }

    /// The right to begin, which an executor that is not the engine's own task asks for.
    pub fn clearance(&self) -> &Clearance {
        &self.clearance
    }

    /// The key for the provider, the same in every attempt. Reading it counts as passing it on.
    pub fn downstream_key(&self) -> &str {
        self.key_used.store(true, Ordering::Relaxed);
        &self.permit.downstream_key
    }

    /// Whether this text is the key for the provider. If so it counts as passed on: whoever asks is
    /// about to send it.
    pub fn is_downstream_key(&self, text: &str) -> bool {
        let is_same = self.permit.downstream_key == text;
        if is_same {
            self.key_used.store(true, Ordering::Relaxed);
        }
        is_same
    }

    /// Whether the code has read the key for the provider in this attempt.
    pub fn has_used_key(&self) -> bool {
        self.key_used.load(Ordering::Relaxed)
    }

    /// The input to send: the first one of this intent, whatever this caller brought.
    pub fn input(&self) -> &Json {
        &self.permit.input
    }

    /// The input as a type.
    pub fn input_as<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_str(self.input().text())
            .map_err(|error| Error::new(Code::InputInvalid, format!("the stored input: {error}")))
    }

    /// Which effect this is.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Which attempt this is, from 1.
    pub fn attempt(&self) -> u32 {
        self.permit.attempt
    }

    /// The fence of this attempt.
    pub fn fence(&self) -> u64 {
        self.permit.fence
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

    /// Runs an attempt in a task of its own and waits for it.
    async fn run_detached(
        &self,
        armed: Armed,
        slot: Slot,
        doer: Arc<Doer>,
        span: Span,
    ) -> Result<Filed, Error> {
        let engine = self.clone();
        let (address, deadline) = (armed.effect.address.clone(), armed.permit.deadline);
        let underway = self.inner.attempts.begin(address, deadline);
        let attempt = async move {
            let _underway = underway;
            engine.attempt(armed, slot, &doer).await
        };
        let task = tokio::spawn(attempt.instrument(span));
        let stopped = |error| Error::new(Code::Internal, format!("the attempt stopped: {error}"));
        task.await.map_err(stopped)?
    }

    async fn attempt(&self, armed: Armed, slot: Slot, doer: &Doer) -> Result<Filed, Error> {
        let clearance = Clearance::new(self, Until::Permit(armed.permit.valid_until), slot);
        let intent = Intent::new(&armed, clearance.clone());
        let began = armed.effect.attempts.last().map(|attempt| attempt.began_at);
        let (effect, report) = match armed.permit.kind {
            Kind::Send => {
                let key_used = intent.key_used.clone();
                let send = || (doer.send)(intent);
                let (effect, ended) = self.keep(armed, doer, &clearance, send).await;
                let ended = never_sent(ended, &clearance);
                (effect, sent_report(ended, key_used.load(Ordering::Relaxed)))
            }
            Kind::Look => {
                let look = doer.look.as_ref().expect("checked before the call began");
                let (effect, ended) = self.keep(armed, doer, &clearance, || look(intent)).await;
                clearance.withdraw();
                (effect, looked_report(ended))
            }
            Kind::Assumed => unreachable!("an assumed attempt has no permit"),
        };
        let now = self.store().ground().now;
        let retry_after_ms = effect.delay_ms(&now, self.inner.chance.jitter());
        let fence = effect.last_fence();
        let filed = self.settle_firmly(&effect, &Settle { fence, report, retry_after_ms }).await?;
        trace::filed(filed.state);
        if let Some(began) = began {
            measure::attempt_took(&effect, self.store().ground().now.since(began));
        }
        Ok(filed)
    }

    /// Runs the user's code while the lease is renewed, up to the hard deadline. `Err` says why
    /// there is no answer.
    async fn keep<T>(
        &self,
        armed: Armed,
        doer: &Doer,
        clearance: &Clearance,
        start: impl FnOnce() -> BoxFuture<'static, T>,
    ) -> (Arc<Effect>, Result<T, Cut>) {
        let Armed { permit, mut effect } = armed;
        let (abort, is_away) = (doer.abort, doer.executor.is_away());
        let work = async {
            // The last look at the clock before the call, in the poll that makes it.
            if !is_away && !clearance.begin() {
                return Err(Cut::NeverSent);
            }
            // The call itself is inside, too: it runs user code before there is a future.
            let ended = AssertUnwindSafe(async { start().await }).catch_unwind().await;
            ended.map_err(|_| Cut::Panicked)
        };
        let mut work = std::pin::pin!(work);
        // A little before the deadline, so that the doubt can still be filed under this lease.
        let span_ms = permit.lease_ms.min(self.store().ground().now.until(permit.deadline));
        let grace_ms = limits::MARGIN_MS.min(span_ms / 4) / 2;
        loop {
            let now = self.store().ground().now;
            let deadline_ms = now.until(permit.deadline).saturating_sub(grace_ms);
            let renewal = async {
                self.store().clock().sleep_ms(permit.lease_ms / 3).await;
                self.renew(&effect.address, permit.fence, abort).await
            };
            // A process that was stopped wakes here, and must not send what it had not sent yet.
            let in_time = poll_fn(|context| {
                let is_late = self.store().ground().now.until(permit.deadline) <= grace_ms;
                if is_late && abort == Abort::Possible {
                    return Poll::Ready(Err(Cut::Deadline));
                }
                work.as_mut().poll(context)
            });
            let permit_ms = now.until(permit.valid_until);
            let may_be_late = is_away && clearance.is_waiting();
            // The call goes on while the lease is renewed: a slow store must not hold it up.
            let renewed = tokio::select! {
                biased;
                ended = in_time => return (effect, ended),
                () = self.store().clock().sleep_ms(deadline_ms), if abort == Abort::Possible => {
                    return (effect, Err(Cut::Deadline));
                }
                () = self.store().clock().sleep_ms(permit_ms), if may_be_late => {
                    // Whoever was to run it has not come to it in time, and must not any more.
                    if clearance.withdraw() {
                        return (effect, Err(Cut::NeverSent));
                    }
                    continue;
                }
                renewed = renewal => renewed,
            };
            match renewed {
                Ok(renewed) => effect = Arc::new(renewed),
                Err(error) if error.code() == Code::StaleFence && abort == Abort::Possible => {
                    return (effect, Err(Cut::LeaseLost));
                }
                // The deadline is judged above; a store that does not answer may answer again.
                Err(_) => {}
            }
        }
    }

    /// Files a report, patiently: it is evidence. Whoever waits for it is told after a while that
    /// the store is away; the report is kept and filed when it is back.
    pub(crate) async fn settle_firmly(
        &self,
        effect: &Effect,
        ask: &Settle,
    ) -> Result<Filed, Error> {
        let mut patience = Patience::default();
        for _ in 0..SETTLE_TRIES_MAX {
            match self.file(effect, ask).await {
                Err(error) if is_passing(error.code()) => {
                    patience.wait(self.store().clock(), error).await?;
                }
                filed => return filed,
            }
        }
        let (engine, kept, report) = (self.clone(), effect.clone(), ask.clone());
        tokio::spawn(async move {
            let filed = engine.read_firmly(|| engine.file(&kept, &report)).await;
            if let Err(error) = filed {
                tracing::warn!(effect = %kept.address, %error, "a report was not filed");
            }
        });
        let text = "what became of the attempt is filed when the store is back";
        Err(Error::new(Code::StoreUnavailable, text))
    }

    /// A fence that went stale meanwhile is no error here; the row says what became of the effect.
    async fn file(&self, effect: &Effect, ask: &Settle) -> Result<Filed, Error> {
        match self.settle_on(effect, ask).await {
            Err(error) if error.code() == Code::StaleFence => {
                let effect = self.effect(&effect.address).await?;
                let state = effect.state(&self.store().ground().now);
                Ok(Filed { effect, state, kept_as_evidence: false })
            }
            filed => filed,
        }
    }
}

/// With the delays between them, about twenty seconds.
const SETTLE_TRIES_MAX: usize = 14;

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

/// Why user code gave no answer.
enum Cut {
    NeverSent,
    Deadline,
    LeaseLost,
    Panicked,
}

/// Code that never began has sent nothing, however the wait for it ended.
fn never_sent(ended: Result<Sent, Cut>, clearance: &Clearance) -> Result<Sent, Cut> {
    match ended {
        Ok(Sent::Receipt(receipt)) => Ok(Sent::Receipt(receipt)),
        Ok(
            proof @ (Sent::NotApplied(_) | Sent::Refused(_) | Sent::Faulty(_, Reached::Nothing)),
        ) if !clearance.was_late() => Ok(proof),
        _ if clearance.withdraw() => Err(Cut::NeverSent),
        ended => ended,
    }
}

fn sent_report(ended: Result<Sent, Cut>, key_used: bool) -> Report {
    let unknown =
        |reason: &str| Report::Unknown { reason: reason.to_owned(), key_not_used: !key_used };
    match ended {
        Ok(Sent::Receipt(receipt)) => Report::Receipt(receipt),
        Ok(Sent::NotApplied(reason)) => Report::NotApplied { reason, last: false },
        Ok(Sent::Refused(reason)) => Report::NotApplied { reason, last: true },
        Ok(Sent::Unknown(reason)) => unknown(&reason),
        Ok(Sent::Faulty(reason, reached)) => {
            let landed = match reached {
                Reached::Nothing => Landed::No,
                Reached::Perhaps => Landed::Unknown { key_not_used: !key_used },
            };
            Report::Faulty { reason, landed }
        }
        Err(Cut::NeverSent) => Report::NotApplied {
            reason: "the permit lapsed before anything was sent (permit_lapsed)".to_owned(),
            last: false,
        },
        Err(Cut::Panicked) => Report::Faulty {
            reason: Cut::Panicked.reason().to_owned(),
            landed: Landed::Unknown { key_not_used: !key_used },
        },
        Err(cut) => unknown(cut.reason()),
    }
}

fn looked_report(ended: Result<Looked, Cut>) -> Report {
    let unknown = |reason: &str| Report::Unknown { reason: reason.to_owned(), key_not_used: false };
    let landed = Landed::Unknown { key_not_used: false };
    let faulty = |reason: &str| Report::Faulty { reason: reason.to_owned(), landed };
    match ended {
        Ok(Looked::Found(first, others)) if others.is_empty() => Report::Receipt(first),
        Ok(Looked::Found(first, others)) => Report::Receipts(first, others),
        Ok(Looked::Absent) => {
            Report::NotApplied { reason: "absent at the destination".to_owned(), last: false }
        }
        Ok(Looked::Unknown(reason)) => unknown(&reason),
        Ok(Looked::Faulty(reason)) => faulty(&reason),
        Err(Cut::Panicked) => faulty(Cut::Panicked.reason()),
        Err(cut) => unknown(cut.reason()),
    }
}

impl Cut {
    fn reason(&self) -> &'static str {
        match self {
            Cut::NeverSent => "the permit lapsed before anything was asked",
            Cut::Deadline => "no answer by the deadline; the call was aborted",
            Cut::LeaseLost => "the lease was lost; the call was aborted",
            Cut::Panicked => "the function panicked",
        }
    }
}
