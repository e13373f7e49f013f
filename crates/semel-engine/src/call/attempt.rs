//! One attempt: the user's code runs in a task the engine owns, and what it says is filed.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use semel_core::code::Code;
use semel_core::effect::{Abort, Landed, Report, Settle};
use semel_core::limits;
use semel_core::record::{Effect, Kind};
use tracing::{Instrument, Span};

use super::code::{Doer, Intent, Looked, Reached, Sent};
use super::is_passing;
use crate::clearance::{Clearance, Slot, Until};
use crate::commit::Patience;
use crate::effects::{Armed, Filed};
use crate::{Engine, Error, measure, trace};

impl Engine {
    /// Runs an attempt in a task of its own and waits for it.
    pub(super) async fn run_detached(
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
                    // The code did not begin in time, and must not begin any more.
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

    /// Files a report, patiently: it is evidence. The caller is told after a while that
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
        let filed = self.settle_on(effect, ask).await;
        if filed.is_ok() {
            warn_of(effect, ask);
        }
        match filed {
            Err(error) if error.code() == Code::StaleFence => {
                let effect = self.effect(&effect.address).await?;
                let state = effect.state(&self.store().ground().now);
                Ok(Filed { effect, state, kept_as_evidence: false })
            }
            filed => filed,
        }
    }
}

/// One line for each attempt that did not end well. Without its reason, which may hold payload.
fn warn_of(effect: &Effect, ask: &Settle) {
    let attempt = effect.attempts.iter().find(|attempt| attempt.fence == ask.fence);
    let Some(attempt) = attempt else { return };
    let outcome = match &ask.report {
        Report::Receipt(_) | Report::Receipts(..) => return,
        // A look that finds nothing has done its work.
        Report::NotApplied { .. } if attempt.kind == Kind::Look => return,
        Report::NotApplied { .. } => "not applied",
        Report::Unknown { .. } => "unknown",
        Report::Faulty { .. } => "programming error",
    };
    let (run, number) = (effect.run.as_deref().unwrap_or_default(), attempt.number);
    tracing::warn!(effect = %effect.address, run, attempt = number, outcome, "an attempt failed");
}

/// With the delays between them, about twenty seconds.
const SETTLE_TRIES_MAX: usize = 14;

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
