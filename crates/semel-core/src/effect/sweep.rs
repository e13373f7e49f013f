//! Retention: receipts are kept for their window, then a tombstone answers for much longer.

use super::State;
use crate::limits;
use crate::record::{Approval, Effect};
use crate::time::{Moment, Wall};

/// What retention asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sweep {
    Keep,
    /// Write this small row: from now on the key answers "expired".
    Tombstone(Box<Effect>),
    /// Remove all rows of the key.
    Remove,
}

/// Keeps an effect for as long after its run's end as after its own. `None`: its own window is
/// enough. A run that is not finished is asked for again later.
pub fn keep_for_run(effect: &Effect, run_ended: Option<Wall>, now: &Moment) -> Option<Effect> {
    let window_ms = effect.plan.as_ref().map_or(limits::WINDOW_MS, |plan| plan.terms.window_ms);
    let until = run_ended.unwrap_or(now.wall).plus(window_ms);
    (effect.expired.is_none() && until > now.wall)
        .then(|| Effect { kept_until: Some(until), ..effect.next() })
}

/// Decides what retention means for an effect now. Pending, planned and in-doubt ones are kept,
/// and nothing is judged by a clock that is behind.
pub fn sweep(effect: &Effect, now: &Moment) -> Sweep {
    let is_due = effect.sweep_at().is_some_and(|at| now.wall >= at);
    if !is_due || now.wall_is_behind {
        return Sweep::Keep;
    }
    match effect.state(now) {
        State::Planned | State::Pending | State::InDoubt => Sweep::Keep,
        State::Expired => Sweep::Remove,
        State::Done | State::Failed | State::Void => Sweep::Tombstone(Box::new(Effect {
            generation: effect.generation,
            version: effect.version + 1,
            workflow: effect.workflow.clone(),
            run: effect.run.clone(),
            created: effect.created,
            // Fences must still grow, should somebody supersede the tombstone.
            fence_floor: effect.last_fence(),
            // Should somebody supersede it, a person is asked again.
            approval: effect.approval.as_ref().map(Approval::unasked),
            superseded: effect.superseded,
            expired: Some(now.wall),
            ..Effect::new(&effect.address, now)
        })),
    }
}
