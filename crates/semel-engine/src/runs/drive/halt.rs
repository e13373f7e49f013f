//! Why a run goes no further with this worker.

use semel_core::code::Code;
use semel_core::journal::Fault;
use semel_core::run::course::Divergence;

use crate::Error;
use crate::commit::Stopped;

/// Why a driver stops before the run has ended.
pub(crate) enum Halt {
    /// Another worker has the run: nothing of ours may be written any more.
    Lost,
    /// It cannot even be ended without its code.
    NeedsCode,
    /// The store does not work: the lease will lapse, and somebody takes the run again.
    Failed(Error),
    /// The run cannot go on without an operator.
    Pause { id: Option<String>, fault: Fault },
}

impl From<Stopped> for Halt {
    fn from(stopped: Stopped) -> Halt {
        match stopped {
            Stopped::Stale(_) => Halt::Lost,
            Stopped::Error(error) => Halt::Failed(error),
        }
    }
}

impl From<Error> for Halt {
    fn from(error: Error) -> Halt {
        Halt::Failed(error)
    }
}

pub(crate) fn pause(id: Option<String>, code: Code, detail: impl Into<String>) -> Halt {
    Halt::Pause { id, fault: Fault::new(code, detail) }
}

pub(crate) fn foreign() -> Halt {
    let text = "the body waits for something that is no command of the run";
    pause(None, Code::ForeignAwait, text)
}

pub(super) fn diverged(divergence: &Divergence) -> Halt {
    let id = Some(divergence.id.clone());
    pause(id, divergence.code_kind, divergence.to_string())
}
