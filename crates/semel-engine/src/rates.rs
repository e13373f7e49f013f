//! Rates: how many sends of an action there may be in a time, over all processes. A send is counted
//! in the commit that arms it, so it costs nothing unless it is made, whoever makes it.

use std::collections::HashMap;
use std::sync::Arc;

use semel_core::code::Code;
use semel_core::effect::Permit;
use semel_core::gate::{Meter, Rate, Take};
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::{Effect, Kind};
use semel_core::time::Steady;
use semel_store::{DueCursor, Write};
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::cards::Kept;
use crate::commit::Stopped;
use crate::{Engine, Error, lock};

/// The kind of card that the meter of an action is.
const KIND: &str = "rate";
/// How soon handlers ask again for what their rate had no room for, at the earliest.
const AGAIN_MS_MIN: u64 = 100;

/// An action, with its namespace.
type Name = (String, String);

fn name_of(address: &Address) -> Name {
    (address.namespace.as_str().to_owned(), address.action.as_str().to_owned())
}

/// What a process knows of the rates of its actions.
#[derive(Default)]
pub(crate) struct Rates {
    /// The sends of one action take turns, so that they do not make each other stale.
    turns: std::sync::Mutex<HashMap<Name, Arc<Mutex<()>>>>,
    /// Due effects that are left until their turn: from when, and the place before the first.
    left: std::sync::Mutex<HashMap<Name, (Steady, Option<DueCursor>)>>,
}

/// One send, counted by the rate of its action.
pub(crate) struct Counted {
    pub(crate) write: Write,
    kept: Kept<Meter>,
    _turn: OwnedMutexGuard<()>,
}

/// How many effects of each action one look at what is due may still hand over.
#[derive(Default)]
pub(crate) struct Shares(Mutex<HashMap<Name, (u32, u64)>>);

impl Engine {
    /// Counts the send that is about to be armed. `None`: its action has no rate, or it is a look.
    pub(crate) async fn count_send(
        &self,
        effect: &Effect,
        permit: &Permit,
    ) -> Result<Option<Counted>, Stopped> {
        let rate = effect.plan.as_ref().and_then(|plan| plan.terms.rate);
        let (Some(rate), Kind::Send) = (rate, permit.kind) else { return Ok(None) };
        let name = name_of(&effect.address);
        let turn = lock(&self.inner.rates.turns).entry(name.clone()).or_default().clone();
        let turn = turn.lock_owned().await;
        let by = self.inner.chance.attempt_id();
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let kept = self.kept::<Meter>(&name.0, KIND, &name.1).await?;
            match rate.take(&kept.content, &by, &self.store().ground().now) {
                Take::Sent(next) => {
                    let write = kept.write(&next, None);
                    return Ok(Some(Counted { write, kept, _turn: turn }));
                }
                Take::Wait { ms, corrected: None } => {
                    return Err(Error::rate_limited(&name.1, ms).into());
                }
                Take::Wait { ms, corrected: Some(next) } => {
                    match self.commit(kept.write(&next, None).into()).await {
                        Ok(()) => return Err(Error::rate_limited(&name.1, ms).into()),
                        Err(Stopped::Stale(_)) => {}
                        Err(stopped) => return Err(stopped),
                    }
                }
            }
        }
        Err(Error::new(Code::StoreBusy, "the rate kept changing").into())
    }

    /// Whether somebody else's send was counted meanwhile.
    pub(crate) async fn was_counted_elsewhere(&self, counted: &Counted) -> Result<bool, Error> {
        let Kept { namespace, name, version, .. } = &counted.kept;
        Ok(self.kept::<Meter>(namespace, KIND, name).await?.version != *version)
    }

    /// Whether a handler may take a due effect now. Otherwise it is left, and looked at again from
    /// `before` when its action may have room.
    pub(crate) async fn has_turn(
        &self,
        address: &Address,
        rate: Option<Rate>,
        shares: &Shares,
        before: Option<DueCursor>,
    ) -> bool {
        let Some(rate) = rate else { return true };
        let name = name_of(address);
        let mut shares = shares.0.lock().await;
        if !shares.contains_key(&name) {
            // A store that does not answer is met by whoever sends.
            let Ok(kept) = self.kept::<Meter>(&name.0, KIND, &name.1).await else { return true };
            let now = self.store().ground().now;
            let wait_ms = match rate.take(&kept.content, "", &now) {
                Take::Sent(_) => 0,
                Take::Wait { ms, .. } => ms,
            };
            shares.insert(name.clone(), (rate.room(&kept.content, &now), wait_ms));
        }
        let share = shares.get_mut(&name).expect("it was put there");
        if share.0 > 0 {
            share.0 -= 1;
            return true;
        }
        self.leave_until(address, share.1, before);
        false
    }

    /// Leaves the due effects of an action for a while.
    pub(crate) fn leave_until(&self, address: &Address, ms: u64, before: Option<DueCursor>) {
        let until = self.store().ground().now.steady.plus(ms.max(AGAIN_MS_MIN));
        let mut left = lock(&self.inner.rates.left);
        let entry = left.entry(name_of(address)).or_insert((until, before));
        entry.1 = entry.1.min(before);
    }

    /// How long until due effects that were left may have their turn.
    pub(crate) fn left_for_ms(&self) -> Option<u64> {
        let now = self.store().ground().now;
        lock(&self.inner.rates.left).values().map(|(until, _)| now.until(*until)).min()
    }

    /// The place from which to look at due effects whose time to be left is over. Those are looked
    /// at anew.
    pub(crate) fn take_left(&self) -> Option<Option<DueCursor>> {
        let now = self.store().ground().now;
        let mut left = lock(&self.inner.rates.left);
        let over = left.values().filter(|(until, _)| now.reached(*until));
        let from = over.map(|(_, before)| *before).min()?;
        left.retain(|_, (until, _)| !now.reached(*until));
        Some(from)
    }
}
