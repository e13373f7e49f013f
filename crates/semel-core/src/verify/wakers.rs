//! That whatever a run waits for will wake it, and that nobody waits for the dead.

use super::Violation;
use crate::entity::Entity;
use crate::gate::Gate;
use crate::record::Effect;
use crate::run::{Run, Wait};

/// What would wake a run that waits.
#[derive(Clone, Copy, Debug)]
pub enum Waker<'a> {
    /// The row of the effect that it waits for, where there is one.
    Effect(Option<&'a Effect>),
    /// How many signals of the name that it waits for have come and were not taken.
    Signals(usize),
    /// The run whose end it waits for, where there is one.
    Child(Option<&'a Run>),
    /// The entity that it waits for, where there is one.
    Entity(Option<&'a Entity>),
    /// The gate before which it stands, where there is one.
    Gate(Option<&'a Gate>),
}

/// Checks that what a run waits for exists and will wake it. Not for a run that is due: it was
/// woken, and nobody has taken it yet.
pub fn check_wait(run: &Run, wait: &Wait, waker: &Waker<'_>) -> Option<Violation> {
    let why = match waker {
        Waker::Effect(effect) => effect_is_silent(run, wait, *effect),
        Waker::Signals(0) => None,
        Waker::Signals(_) => {
            return violation(format!("{} has come, but did not wake it", wait.on));
        }
        Waker::Child(child) => child_is_silent(run, *child),
        Waker::Entity(entity) => entity_is_silent(run, wait, *entity),
        Waker::Gate(gate) => gate_is_silent(run, wait, *gate),
    };
    violation(format!("it waits on {}, {}", wait.on, why?))
}

fn violation(what: String) -> Option<Violation> {
    Some(Violation { invariant: "I14", what })
}

fn effect_is_silent(run: &Run, wait: &Wait, effect: Option<&Effect>) -> Option<&'static str> {
    let Some(effect) = effect else { return Some("which the ledger does not have") };
    let wakes = effect.waiters.contains(&run.id) || wait.due.is_some();
    (!wakes).then_some("which will not wake it")
}

fn child_is_silent(run: &Run, child: Option<&Run>) -> Option<&'static str> {
    let Some(child) = child else { return Some("which is not there") };
    if child.state().is_final() {
        return Some("which has ended and did not wake it");
    }
    (!child.watchers.contains(&run.id)).then_some("which will not wake it")
}

fn entity_is_silent(run: &Run, wait: &Wait, entity: Option<&Entity>) -> Option<&'static str> {
    let is_it = |place: &crate::entity::Place| place.run == run.id && place.id == wait.id;
    let Some(entity) = entity else { return Some("which is not there") };
    if entity.holder.as_ref().is_some_and(|holder| is_it(&holder.place)) {
        return Some("which it was given, but that did not wake it");
    }
    match (&entity.holder, entity.queue.iter().any(is_it)) {
        (Some(_), true) => None,
        (None, true) => Some("which nobody holds"),
        (_, false) => Some("whose queue does not have it"),
    }
}

/// Only the end of a run inside lets the next one in: a gate with room lets nobody in by itself.
fn gate_is_silent(run: &Run, wait: &Wait, gate: Option<&Gate>) -> Option<&'static str> {
    let inside = gate.map_or(&[][..], |gate| &gate.inside);
    if inside.contains(&run.id) {
        return Some("which it was given, but that did not wake it");
    }
    let crate::run::On::Slot(name) = &wait.on else { return None };
    let Some(pass) = run.passes.iter().find(|pass| pass.gate == *name) else {
        return Some("which it does not have to pass");
    };
    (inside.len() < pass.limit as usize).then_some("which has room, and nobody will let it in")
}

/// Checks that a gate holds no run that has ended: its slot would be lost for ever. `find` knows
/// the runs; one that it does not know is not there.
pub fn check_gate<'a>(gate: &Gate, find: impl Fn(&str) -> Option<&'a Run>) -> Vec<Violation> {
    let inside = gate.inside.iter();
    let ghosts = inside.filter_map(|id| ghost(id, find(id)));
    ghosts.filter_map(|ghost| violation(format!("a slot is held by {ghost}"))).collect()
}

/// Checks that an entity is neither held nor waited for by a run that has ended: nobody else would
/// ever get it.
pub fn check_entity<'a>(entity: &Entity, find: impl Fn(&str) -> Option<&'a Run>) -> Vec<Violation> {
    let of = |id: &str| ghost(id, find(id));
    let holder = entity.holder.as_ref().and_then(|holder| of(&holder.place.run));
    let held = holder.map(|ghost| format!("it is held by {ghost}"));
    let queued = entity.queue.iter().filter_map(|place| of(&place.run));
    let queued = queued.map(|ghost| format!("its queue has {ghost}"));
    held.into_iter().chain(queued).filter_map(violation).collect()
}

fn ghost(id: &str, run: Option<&Run>) -> Option<String> {
    match run {
        None => Some(format!("run {id}, which is not there")),
        Some(run) => {
            let state = run.state();
            state.is_final().then(|| format!("run {id}, which has ended: {state}"))
        }
    }
}
