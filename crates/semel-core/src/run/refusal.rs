//! What a run answers to a wish that it cannot grant.

use super::State;
use crate::code::Code;
use crate::time::Steady;

/// Why a wish about a run was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound,
    /// The key was used with another input.
    InputChanged,
    /// The run is past its retention: it ran, and is not started again.
    Expired,
    /// Somebody else holds it.
    Held {
        until: Steady,
    },
    /// The fence is not the one that holds it.
    StaleFence,
    /// It has ended.
    Finished(State),
    /// It is not paused, so there is nothing to decide.
    NotPaused(State),
    /// It is not paused on that step.
    NotPausedOn {
        asked: String,
        paused_on: Option<String>,
    },
    /// Nothing is due: it waits for something that has not come.
    NotDue,
    /// A delivery of this identity came before with another content.
    DeliveryChanged,
    InboxFull,
    /// Too many wait for its end.
    WatchersFull,
    /// A run with the same concurrency key is under way.
    Rejected(String),
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Refusal::NotFound => Code::NotFound,
            Refusal::InputChanged | Refusal::DeliveryChanged => Code::InputChanged,
            Refusal::InboxFull | Refusal::WatchersFull => Code::TooMany,
            Refusal::Rejected(_) => Code::ConcurrencyRejected,
            Refusal::Expired => Code::Expired,
            Refusal::Held { .. } | Refusal::NotDue => Code::InProgress,
            Refusal::StaleFence => Code::StaleFence,
            Refusal::Finished(_) => Code::RunFinished,
            Refusal::NotPaused(_) | Refusal::NotPausedOn { .. } => Code::NotPaused,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::NotFound => f.write_str("there is no such run"),
            Refusal::InputChanged => {
                f.write_str("a run with this key was started with another input")
            }
            Refusal::Expired => f.write_str("the run with this key is past its retention"),
            Refusal::Held { .. } => f.write_str("another worker holds the run"),
            Refusal::StaleFence => f.write_str("the run was taken by another worker"),
            Refusal::Finished(state) => write!(f, "the run has ended: {state}"),
            Refusal::NotPaused(state) => write!(f, "the run is {state}, not paused"),
            Refusal::NotPausedOn { asked, paused_on: Some(id) } => {
                write!(f, "the run is paused on `{id}`, not on `{asked}`")
            }
            Refusal::NotPausedOn { asked, paused_on: None } => {
                write!(f, "the run is paused, but not on a step, so `{asked}` cannot be skipped")
            }
            Refusal::DeliveryChanged => {
                f.write_str("this delivery came before with another content; the first stands")
            }
            Refusal::InboxFull => f.write_str("the inbox of the run is full"),
            Refusal::WatchersFull => f.write_str("too many runs wait for the end of this one"),
            Refusal::Rejected(run) => write!(f, "run {run} has the same concurrency key"),
            Refusal::NotDue => f.write_str("the run waits for something that has not come yet"),
        }
    }
}

impl std::error::Error for Refusal {}
