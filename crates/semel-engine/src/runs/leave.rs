//! Letting a run go: it has ended, stands still, waits, or is to be cancelled.

mod ending;
mod park;

use semel_core::code::Code;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::run::{self, Run};
use semel_store::{Inked, Write};

use super::drive::{Driver, Halt};
use super::held::Left;
use crate::call::is_passing;
use crate::commit::{Patience, Stopped};
use crate::{Engine, Error};

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
            // It cannot be read: the next one who takes it meets the same.
            Err(Halt::Failed(error)) if is_unreadable(error.code()) => {
                self.engine.set_aside(&self.run, self.fence, &error).await;
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
            } else if self.is_ending() {
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
            Ok(()) => self.know(renewed),
            // Touched meanwhile: the next look sees it.
            Err(Stopped::Stale(_)) => self.held.touch(),
            Err(Stopped::Error(error)) if is_passing(error.code()) => {}
            Err(Stopped::Error(error)) => return Err(error.into()),
        }
        Ok(())
    }

    /// Renews a lease that is over, unless somebody else has the run by now.
    pub(crate) async fn renew_firmly(&mut self) -> Result<(), Halt> {
        self.ink.flush().await?;
        let mut patience = Patience::default();
        loop {
            self.reload_firmly().await?;
            let now = self.engine.store().ground().now;
            let renewed = run::renew(&self.run, self.fence, self.engine.run_lease_ms(), &now);
            let renewed = renewed.map_err(|_| Halt::Lost)?;
            match self.engine.commit(Write::run(&renewed, &now).into()).await {
                Ok(()) => {
                    self.know(renewed);
                    return Ok(());
                }
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) if is_passing(error.code()) => {
                    patience.wait(self.engine.store().clock(), error).await?;
                }
                Err(Stopped::Error(error)) => return Err(error.into()),
            }
        }
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
        self.know(run);
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
}

fn is_unreadable(code: Code) -> bool {
    matches!(code, Code::StoreCorrupt | Code::EncryptionKeyMissing)
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
