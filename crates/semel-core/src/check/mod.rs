//! Trying a workflow: which faults are worth trying, and what to make of what was seen afterwards.
//!
//! One undisturbed run is the [`Baseline`]. [`plan()`] makes cases of it, each one fault at one
//! place; whoever carries a case out (a test in this process, or the command with real processes
//! and real signals) hands back an [`Observation`], and [`judge()`] says whether the promise held.

mod ends;
mod judge;
mod junit;
mod plan;
mod record;
mod report;

pub use ends::wrong_end;
pub use judge::judge;
pub use plan::{Budget, Plan, find, name_points, plan};
pub use record::{
    AttemptSeen, Baseline, Case, EffectSeen, Fault, Line, LineState, Observation, Outcome, Place,
    Report, Request, Verdict,
};

/// How many starts of one key come at once: a provider that redelivers in a storm.
pub const DUPLICATES: u32 = 20;

#[cfg(test)]
mod testing;
