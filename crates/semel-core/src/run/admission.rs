//! Runs that stand in the queue of a gate.

use super::{On, Refusal, Run, Wait, lane, next, open};

/// Others are before it: it stands in the queue of a gate, and nobody's code is asked.
pub fn queue(run: &Run, gate: &str) -> Result<Run, Refusal> {
    open(run)?;
    let wait = Wait { id: String::new(), on: On::Slot(gate.to_owned()), due: None, note: None };
    Ok(Run { lease: None, waits: vec![wait], nudged: false, ..next(run) })
}

/// Its turn has come: it is ready for any worker.
pub fn admit(run: &Run) -> Run {
    Run { waits: Vec::new(), ..next(run) }
}

impl Run {
    /// The queue in which it stands: those who leave a slot ask for the next run by this.
    pub fn queue(&self) -> Option<String> {
        let slot = self.waits.iter().find_map(|wait| match &wait.on {
            On::Slot(gate) => Some(gate),
            On::Timer
            | On::Retry
            | On::Signal(_)
            | On::Child(_)
            | On::Entity(_)
            | On::Effect { .. } => None,
        });
        slot.filter(|_| self.is_parked()).map(|gate| lane(&self.namespace, gate))
    }
}
