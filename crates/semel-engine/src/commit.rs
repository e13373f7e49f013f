//! Committing: a lost answer is resolved, a short loss of the store ridden out, and whoever waits
//! for what was written is told.

use semel_core::audit::Deed;
use semel_core::code::Code;
use semel_core::effect::{self, Ground};
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::time::Steady;
use semel_store::{Batch, Clock, CommitError, StoreError, Write};

use crate::call::is_passing;
use crate::{Engine, Error};

/// Why a commit did not happen.
pub(crate) enum Stopped {
    /// Decide again on the row as it is now.
    Stale(Option<Box<Effect>>),
    Error(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Stopped {
        Stopped::Error(error)
    }
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
        self.write_as(effect, ground, None).await
    }

    /// Like [`Engine::write`], with the entry that says who decided it.
    pub(crate) async fn write_as(
        &self,
        effect: &Effect,
        ground: &Ground,
        deed: Option<&Deed>,
    ) -> Result<(), Stopped> {
        if effect.waiters.is_empty() && deed.is_none() {
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
        match deed {
            Some(deed) => self.commit_audited(writes, namespace, deed, ground.now.wall).await?,
            None => self.commit(Batch { writes: writes.into() }).await?,
        }
        self.inner.flights.publish(&effect);
        waiters.iter().for_each(|id| self.touched(id));
        Ok(())
    }

    /// Like [`Engine::commit`], but rides out a store that is busy or unavailable for a while.
    pub(crate) async fn commit_firmly(&self, batch: Batch) -> Result<(), Stopped> {
        let mut patience = Patience::default();
        loop {
            match self.commit(batch.clone()).await {
                Err(Stopped::Error(error)) if is_passing(error.code()) => {
                    patience.wait(self.store().clock(), error).await?;
                }
                committed => return committed,
            }
        }
    }

    /// Reads, and rides out a store that is busy or unavailable for a while.
    pub(crate) async fn read_firmly<T, E, F>(&self, read: impl Fn() -> F) -> Result<T, Error>
    where
        E: Into<Error>,
        F: Future<Output = Result<T, E>>,
    {
        let mut patience = Patience::default();
        loop {
            match read().await.map_err(E::into) {
                Err(error) if is_passing(error.code()) => {
                    patience.wait(self.store().clock(), error).await?;
                }
                read => return read,
            }
        }
    }

    /// Commits a batch; a lost answer is resolved by repeating the same batch.
    pub(crate) async fn commit(&self, batch: Batch) -> Result<(), Stopped> {
        self.commit_telling(batch, None).await.map_err(|(stopped, _)| stopped)
    }

    /// Like [`Engine::commit`]; of a failure it also tells whether the batch may be there all the
    /// same: once an answer was lost, a failure of the repeat proves nothing about the first. What
    /// is worth nothing after a time is not asked for beyond it.
    pub(crate) async fn commit_telling(
        &self,
        batch: Batch,
        until: Option<Steady>,
    ) -> Result<(), (Stopped, Fate)> {
        let mut fate = Fate::Absent;
        let mut delay_ms = 10;
        for _ in 0..LOST_TRIES_MAX {
            match self.store().commit(batch.clone()).await {
                Ok(()) => return Ok(()),
                Err(CommitError::Stale(mut rows)) => {
                    let row = rows.drain(..).next().flatten().map(Box::new);
                    return Err((Stopped::Stale(row), Fate::Absent));
                }
                Err(CommitError::Failed(error)) if fate == Fate::Absent => {
                    return Err((Stopped::Error(error.into()), fate));
                }
                Err(CommitError::Unknown | CommitError::Failed(_)) => fate = Fate::Unknown,
            }
            self.store().clock().sleep_ms(delay_ms).await;
            delay_ms = (delay_ms * 2).min(250);
            if until.is_some_and(|until| self.store().ground().now.reached(until)) {
                break;
            }
        }
        let text = "the store does not say whether it committed".into();
        Err((Stopped::Error(StoreError::Unavailable(text).into()), fate))
    }
}

/// What is known of a batch that was not answered as committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Absent,
    Unknown,
}

/// With the delays above, about five seconds: a server that restarts can answer by then.
const LOST_TRIES_MAX: usize = 24;

/// How long somebody waits for a store that is away.
pub(crate) struct Patience {
    delay_ms: u64,
    left_ms: u64,
}

impl Default for Patience {
    fn default() -> Patience {
        Patience { delay_ms: 50, left_ms: limits::OUTAGE_MS_MAX }
    }
}

impl Patience {
    /// Waits before another try, each time longer up to two seconds. When there is no patience
    /// left, the error stands.
    pub(crate) async fn wait(&mut self, clock: &Clock, error: Error) -> Result<(), Error> {
        if self.left_ms == 0 {
            return Err(error);
        }
        clock.sleep_ms(self.delay_ms).await;
        self.left_ms = self.left_ms.saturating_sub(self.delay_ms);
        self.delay_ms = (self.delay_ms * 2).min(2_000);
        Ok(())
    }
}
