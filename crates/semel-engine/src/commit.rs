//! Committing: a lost answer is resolved, a short loss of the store ridden out, and whoever waits
//! for what was written is told.

use semel_core::code::Code;
use semel_core::effect::{self, Ground};
use semel_core::limits;
use semel_core::record::Effect;
use semel_store::{Batch, CommitError, StoreError, Write};

use crate::call::is_passing;
use crate::{Engine, Error};

/// Why a commit did not happen.
pub(crate) enum Stopped {
    /// Decide again on the row as it is now.
    Stale(Option<Box<Effect>>),
    Error(Error),
}

impl From<Stopped> for Error {
    fn from(stopped: Stopped) -> Error {
        match stopped {
            Stopped::Stale(_) => Error::new(Code::StoreBusy, "the effect has changed meanwhile"),
            Stopped::Error(error) => error,
        }
    }
}

impl Engine {
    /// Writes one effect and tells those who wait for it. Runs that do are woken by the same
    /// commit.
    pub(crate) async fn write(&self, effect: &Effect, ground: &Ground) -> Result<(), Stopped> {
        if effect.waiters.is_empty() {
            self.commit(Write::effect(effect, &ground.now).into()).await?;
            self.inner.flights.publish(effect);
            return Ok(());
        }
        let (effect, waiters) = effect::take_waiters(effect.clone());
        let namespace = effect.address.namespace.as_str();
        let wake = |id: &String| Write::Touch {
            namespace: namespace.to_owned(),
            id: id.clone(),
            at: ground.now.steady,
        };
        let mut writes = vec![Write::effect(&effect, &ground.now)];
        writes.extend(waiters.iter().map(wake));
        self.commit(Batch { writes: writes.into() }).await?;
        self.inner.flights.publish(&effect);
        waiters.iter().for_each(|id| self.touched(id));
        Ok(())
    }

    /// Like [`Engine::commit`], but rides out a store that is busy or unavailable for a while.
    pub(crate) async fn commit_firmly(&self, batch: Batch) -> Result<(), Stopped> {
        let mut delay_ms = 50;
        for _ in 0..COMMIT_DELAYS_MAX {
            match self.commit(batch.clone()).await {
                Err(Stopped::Error(error)) if is_passing(error.code()) => {
                    self.store().clock().sleep_ms(delay_ms).await;
                    delay_ms = (delay_ms * 2).min(2_000);
                }
                committed => return committed,
            }
        }
        self.commit(batch).await
    }

    /// Commits a batch; a lost answer is resolved by repeating the same batch. From then on a
    /// failure of the repeat proves nothing about the first.
    pub(crate) async fn commit(&self, batch: Batch) -> Result<(), Stopped> {
        let mut unknown = false;
        for _ in 0..=limits::COMMIT_TRIES_MAX {
            match self.store().commit(batch.clone()).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Stale(mut rows)) => {
                    return Err(Stopped::Stale(rows.drain(..).next().flatten().map(Box::new)));
                }
                Err(CommitError::Failed(error)) if !unknown => {
                    return Err(Stopped::Error(error.into()));
                }
                Err(CommitError::Unknown | CommitError::Failed(_)) => unknown = true,
            }
            self.store().clock().sleep_ms(10).await;
        }
        let text = "the store does not say whether it committed".into();
        Err(Stopped::Error(StoreError::Unavailable(text).into()))
    }
}

/// With the delays above, about ten seconds: within the lease of a run.
const COMMIT_DELAYS_MAX: usize = 9;
