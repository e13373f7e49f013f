//! Runs that wait for an effect: noted in its row, so that whoever settles it can wake them in the
//! same commit.

use crate::limits;
use crate::record::Effect;

/// Notes that a run waits. `None`: too many do already, and the run must look for itself.
pub fn wait(effect: &Effect, run: &str) -> Option<Effect> {
    let mut waiters = effect.waiters.clone();
    if !waiters.iter().any(|waiting| waiting == run) {
        if waiters.len() >= limits::WAITERS_MAX {
            return None;
        }
        waiters.push(run.to_owned());
    }
    Some(Effect { waiters, ..effect.next() })
}

/// Takes out the runs to wake with the write of an effect that has changed.
pub fn take_waiters(mut effect: Effect) -> (Effect, Vec<String>) {
    let waiters = std::mem::take(&mut effect.waiters);
    (effect, waiters)
}
