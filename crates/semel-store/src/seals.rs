//! What the seal of each kind of row covers: every column but the number that the database gives
//! it, and on Postgres the two that only hint. The record is covered through its checksum.

use semel_core::seal::{Seal, Value, seal};

use crate::veil::{Place, Veil};
use crate::{Delivery, Return, Row, RunRow, StoreError};

impl Row {
    /// The seal of the row, with its due time as it is written.
    pub(crate) fn seal(&self, due_ms: Option<i64>) -> Seal {
        seal(
            "effect",
            &[
                self.address.namespace.as_str().into(),
                self.address.action.as_str().into(),
                self.address.key.as_str().into(),
                Value::Number(self.generation.into()),
                number(self.version),
                self.state.as_str().into(),
                self.workflow.as_ref().into(),
                self.created.0.into(),
                due_ms.into(),
                self.sweep_at.map(|at| at.0).into(),
                self.alarmed.into(),
                self.held.into(),
                self.sum.into(),
            ],
        )
    }
}

impl RunRow {
    /// The seal of the row, with the time to wake as it is written.
    pub(crate) fn seal(&self, wake_ms: Option<i64>) -> Seal {
        seal(
            "run",
            &[
                self.number.into(),
                (&self.namespace).into(),
                (&self.id).into(),
                number(self.version),
                (&self.workflow).into(),
                (&self.key).into(),
                (&self.lane).into(),
                self.state.as_str().into(),
                self.parked.into(),
                number(self.fence),
                self.created.0.into(),
                wake_ms.into(),
                self.waits_on.as_ref().into(),
                self.queue.as_ref().into(),
                self.sweep_at.map(|at| at.0).into(),
                self.sum.into(),
            ],
        )
    }
}

impl Delivery {
    pub(crate) fn seal(&self) -> Seal {
        seal(
            "delivery",
            &[
                self.run.into(),
                self.number.into(),
                (&self.identity).into(),
                (&self.name).into(),
                (&self.payload).into(),
                self.at.0.into(),
                self.consumed.into(),
            ],
        )
    }

    /// The delivery as it was before it was covered.
    pub(crate) fn revealed(mut self, veil: &Veil) -> Result<Delivery, StoreError> {
        self.payload = veil.reveal_owned(None, Place::Delivery(self.run), self.payload)?;
        Ok(self)
    }

    /// The delivery as it was found beside this seal: a run must not act on a changed payload.
    pub(crate) fn checked(self, found: &[u8]) -> Result<Delivery, StoreError> {
        match check(&self.seal(), found) {
            None => Ok(self),
            Some(what) => Err(StoreError::Corrupt(format!("a delivery: {what}"))),
        }
    }
}

impl Return {
    pub(crate) fn seal(&self) -> Seal {
        let closed = self.closed.as_ref();
        seal(
            "return",
            &[
                number(self.epoch),
                self.opened.0.into(),
                self.recovered.0.into(),
                (&self.evidence).into(),
                closed.map(|closed| closed.at.0).into(),
                closed.map(|closed| &closed.actor).into(),
                closed.map(|closed| &closed.reason).into(),
            ],
        )
    }
}

/// As a column holds it.
pub(crate) fn number(number: u64) -> Value<'static> {
    Value::Number(i64::try_from(number).unwrap_or(i64::MAX))
}

/// What is wrong with the seal that was found beside a row.
pub(crate) fn check(wanted: &Seal, found: &[u8]) -> Option<String> {
    (found != wanted.0).then(|| "it does not match its seal".to_owned())
}
