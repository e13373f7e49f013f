//! The states of a run.

/// Where a run stands. Derived from its record, never set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum State {
    Ready,
    Running,
    Waiting,
    Paused,
    Cancelling,
    Done,
    Failed,
    Cancelled,
    Expired,
}

impl State {
    /// All states, in the order of a run's life.
    pub const ALL: [State; 9] = [
        State::Ready,
        State::Running,
        State::Waiting,
        State::Paused,
        State::Cancelling,
        State::Done,
        State::Failed,
        State::Cancelled,
        State::Expired,
    ];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            State::Ready => "ready",
            State::Running => "running",
            State::Waiting => "waiting",
            State::Paused => "paused",
            State::Cancelling => "cancelling",
            State::Done => "done",
            State::Failed => "failed",
            State::Cancelled => "cancelled",
            State::Expired => "expired",
        }
    }

    /// Reads a name back.
    pub fn parse(name: &str) -> Option<State> {
        State::ALL.into_iter().find(|state| state.as_str() == name)
    }

    /// Whether nothing will happen any more.
    pub fn is_final(self) -> bool {
        match self {
            State::Done | State::Failed | State::Cancelled | State::Expired => true,
            State::Ready | State::Running | State::Waiting | State::Paused | State::Cancelling => {
                false
            }
        }
    }
}

impl std::fmt::Display for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}
