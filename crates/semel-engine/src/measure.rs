//! What is counted for whoever watches. Costs next to nothing while nobody has installed a
//! recorder. Labels are words of ours, of which there are few: never a key, a name or a payload.

use std::time::Duration;

use metrics::{counter, histogram};
use semel_core::effect::State;
use semel_core::record::Effect;
use semel_core::repeats::Door;

use crate::loops::Loop;

/// Effects that came to something, by contract and outcome.
pub const EFFECTS: &str = "semel_effects_total";
/// How long attempts took, from permit to record.
pub const EFFECT_SECONDS: &str = "semel_effect_duration_seconds";
/// Repeats that were answered with what was there.
pub const DUPLICATES: &str = "semel_duplicates_suppressed_total";
/// Requests to models that were made.
pub const MODEL_CALLS: &str = "semel_model_calls_total";
/// Requests to models that were answered from the journal.
pub const MODEL_REPLAYS: &str = "semel_model_replays_total";
/// Turns of the engine's loops.
pub const LOOP_TURNS: &str = "semel_loop_turns_total";

/// Work that could not be taken up and is tried again later, by what it is.
pub const SET_ASIDE: &str = "semel_set_aside_total";

pub(crate) fn set_aside(what: &'static str) {
    counter!(SET_ASIDE, "what" => what).increment(1);
}

/// An effect has moved on. Nothing is counted where it stays what it was.
pub(crate) fn moved(before: State, after: State, effect: &Effect) {
    if before != after {
        came_to(after, effect);
    }
}

/// An effect has come to something.
pub(crate) fn came_to(state: State, effect: &Effect) {
    let outcome = match state {
        State::Done | State::Failed | State::InDoubt | State::Void => state.as_str(),
        // Proven not to have happened; it may be tried again.
        State::Planned => "not_applied",
        State::Pending | State::Expired => return,
    };
    counter!(EFFECTS, "kind" => contract(effect), "outcome" => outcome).increment(1);
}

pub(crate) fn attempt_took(effect: &Effect, ms: u64) {
    histogram!(EFFECT_SECONDS, "kind" => contract(effect))
        .record(Duration::from_millis(ms).as_secs_f64());
}

pub(crate) fn suppressed(door: Door) {
    counter!(DUPLICATES, "door" => door.as_str()).increment(1);
}

pub(crate) fn model_called() {
    counter!(MODEL_CALLS).increment(1);
}

pub(crate) fn model_replayed() {
    counter!(MODEL_REPLAYS).increment(1);
}

pub(crate) fn loop_turned(of: Loop) {
    counter!(LOOP_TURNS, "loop" => of.as_str()).increment(1);
}

fn contract(effect: &Effect) -> &'static str {
    effect.plan.as_ref().map_or("unknown", |plan| plan.terms.contract.name())
}
