//! Whether the engine's own loops still turn. A process that lives while its engine is dead is the
//! worst of both: nothing moves, and nobody is told.

use std::sync::Mutex;

use semel_core::limits;
use semel_core::time::Steady;

use crate::{Engine, lock};

/// A loop that an engine runs for as long as it lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Looks at due effects and ticks, dead processes and retention.
    Job,
    /// Takes runs.
    Dispatch,
}

impl Loop {
    pub const ALL: [Loop; 2] = [Loop::Job, Loop::Dispatch];

    /// The name of the loop, as health and metrics show it.
    pub fn as_str(self) -> &'static str {
        match self {
            Loop::Job => "job",
            Loop::Dispatch => "dispatch",
        }
    }
}

/// How a loop is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulse {
    pub of: Loop,
    /// Since it last got anywhere, by the store's clock. `None`: it was never started.
    pub silent_ms: Option<u64>,
}

impl Pulse {
    /// Whether it gets anywhere.
    pub fn is_turning(&self) -> bool {
        self.silent_ms.is_some_and(|ms| ms <= limits::LOOP_SILENT_MS_MAX)
    }
}

/// When each loop last got anywhere.
#[derive(Default)]
pub(crate) struct Turns([Mutex<Option<Steady>>; 2]);

impl Engine {
    /// How the engine's loops are doing.
    pub fn pulses(&self) -> [Pulse; 2] {
        let now = self.store().ground().now;
        Loop::ALL.map(|of| {
            let last = *lock(&self.inner.turns.0[of as usize]);
            Pulse { of, silent_ms: last.map(|last| now.since(last)) }
        })
    }

    /// Notes that a loop got a step further. A turn notes it several times, so that one with much
    /// to do is not taken for one that hangs.
    pub(crate) fn got_on(&self, of: Loop) {
        *lock(&self.inner.turns.0[of as usize]) = Some(self.store().ground().now.steady);
    }

    /// Notes that a loop begins another turn.
    pub(crate) fn turned(&self, of: Loop) {
        self.got_on(of);
        crate::measure::loop_turned(of);
    }
}
