//! A caller may leave while its attempt is being armed: the store then holds a permit that nobody
//! will use. Nothing was sent under it, and this is the only place that knows.

use std::sync::Arc;

use semel_core::effect::{Report, Settle};
use semel_core::record::{Effect, Kind};
use semel_store::Batch;
use tokio::runtime::Handle;

use crate::call::is_passing;
use crate::commit::{Patience, Stopped};
use crate::{Engine, Error};

/// Whether the caller can come back for its attempt.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Returns {
    /// It brought the attempt id, and resumes by it.
    ById,
    Never,
}

/// Takes an attempt back when its caller leaves before the store has answered, or the store does
/// not answer.
pub(crate) struct Recall<'a> {
    engine: &'a Engine,
    returns: Returns,
    arming: Option<(Arc<Effect>, Batch)>,
}

impl<'a> Recall<'a> {
    pub(crate) fn new(engine: &'a Engine, returns: Returns) -> Recall<'a> {
        Recall { engine, returns, arming: None }
    }

    /// From here on the attempt may be durable.
    pub(crate) fn arm(&mut self, effect: &Arc<Effect>, batch: &Batch) {
        if self.returns == Returns::Never {
            self.arming = Some((effect.clone(), batch.clone()));
        }
    }

    /// The store has answered, and the caller has heard it.
    pub(crate) fn answered(&mut self) {
        self.arming = None;
    }
}

impl Drop for Recall<'_> {
    fn drop(&mut self) {
        let Some((effect, batch)) = self.arming.take() else { return };
        // Without a runtime the lease lapses, and the attempt is in doubt like any cut one.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(take_back(self.engine.clone(), effect, batch));
        }
    }
}

async fn take_back(engine: Engine, effect: Arc<Effect>, batch: Batch) {
    let address = effect.address.clone();
    if let Err(error) = try_take_back(&engine, &effect, batch).await {
        tracing::warn!(effect = %address, %error, "an attempt whose caller left was not closed");
    }
}

/// The same batch again, its guards included: now it is certain whether the attempt exists, and it
/// can be closed.
async fn try_take_back(engine: &Engine, effect: &Effect, batch: Batch) -> Result<(), Error> {
    let Some(lapses) = effect.attempts.last().map(|attempt| attempt.lease_until) else {
        return Ok(());
    };
    let mut patience = Patience::default();
    loop {
        // Armed only now it would be a doubt without a send. If it was armed before, it is one
        // already: a fence that is gone proves nothing.
        if engine.store().ground().now.reached(lapses) {
            return Ok(());
        }
        match engine.commit(batch.clone()).await {
            Ok(()) => break,
            // Never armed, and now it cannot be any more.
            Err(Stopped::Stale(_)) => return Ok(()),
            Err(Stopped::Error(error)) if is_passing(error.code()) => {
                patience.wait(engine.store().clock(), error).await?;
            }
            Err(Stopped::Error(error)) => return Err(error),
        }
    }
    let reason = "the caller left before anything was done".to_owned();
    let report = match effect.attempts.last().map(|attempt| attempt.kind) {
        Some(Kind::Send) => Report::NotApplied { reason, last: false },
        // Of a look it would mean that nothing was found.
        _ => Report::Unknown { reason, key_not_used: false },
    };
    let fence = effect.last_fence();
    // Nothing was tried, so nobody has to wait.
    let ask = Settle { fence, report, retry_after_ms: Some(0) };
    engine.settle_firmly(effect, &ask).await.map(|_| ())
}
