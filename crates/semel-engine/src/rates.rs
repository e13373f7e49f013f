//! Rates: how many sends of an action there may be in a time, over all processes.

use semel_core::code::Code;
use semel_core::effect::State;
use semel_core::gate::{Meter, Rate, Take};
use semel_core::limits;

use crate::commit::Stopped;
use crate::{Call, Engine, Error};

/// The kind of card that the meter of an action is.
const KIND: &str = "rate";

impl Engine {
    /// Takes one send of the rate, waiting for as long as the call would wait for another's answer.
    /// What needs no send needs none of the rate.
    pub(crate) async fn wait_for_rate(&self, call: &Call, rate: &Rate) -> Result<(), Error> {
        let effect = self.store().load(&call.address).await?;
        let now = self.store().ground().now;
        let is_settled = effect.is_some_and(|effect| match effect.state(&now) {
            State::Done | State::Failed | State::Expired | State::Pending => true,
            State::Planned => effect.is_held(&now),
            State::InDoubt | State::Void => false,
        });
        if is_settled {
            return Ok(());
        }
        let hold_until = now.steady.plus(call.hold_ms);
        loop {
            let Some(wait_ms) = self.take_of_rate(call, rate).await? else { return Ok(()) };
            let now = self.store().ground().now;
            // A run is parked meanwhile: nothing waits in memory for it.
            if call.guard.is_some() || now.until(hold_until) < wait_ms {
                return Err(Error::rate_limited(call.address.action.as_str(), wait_ms));
            }
            self.store().clock().sleep_ms(wait_ms).await;
        }
    }

    async fn take_of_rate(&self, call: &Call, rate: &Rate) -> Result<Option<u64>, Error> {
        let (namespace, action) = (call.address.namespace.as_str(), call.address.action.as_str());
        let by = self.inner.chance.attempt_id();
        for _ in 0..limits::COMMIT_TRIES_MAX {
            let kept = self.kept::<Meter>(namespace, KIND, action).await?;
            let (next, told) = match rate.take(&kept.content, &by, &self.store().ground().now) {
                Take::Sent(next) => (next, None),
                Take::Wait { ms, corrected: Some(next) } => (next, Some(ms)),
                Take::Wait { ms, corrected: None } => return Ok(Some(ms)),
            };
            match self.commit(kept.write(&next, None).into()).await {
                Ok(()) => return Ok(told),
                Err(Stopped::Stale(_)) => {}
                Err(Stopped::Error(error)) => return Err(error),
            }
        }
        Err(Error::new(Code::StoreBusy, "the rate kept changing"))
    }
}
