//! The journal of a run at rest: what happened, in order, each entry chained to the one before.
//!
//! Everything the code of a workflow may observe is an entry, so that replaying the entries leads
//! it to the same place. The shape is versioned by [`FORMAT`]; kinds of entries and fields may be
//! added, never reused for something else.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::code::Code;
use crate::json::Json;
use crate::limits;
use crate::time::{Moment, Steady, Wall};

/// The version of this shape. A journal that holds a newer one is refused.
pub const FORMAT: u32 = 1;

/// What a step is that gives the code the token of a callback.
pub const CALLBACK: &str = "callback";

/// One entry. Its place in the order is the row's, not its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    #[serde(rename = "v")]
    pub format: u32,
    pub at: At,
    pub event: Event,
}

/// When something happened, on both clocks: durations are counted on the steady one for as long as
/// the machine is up, and on the wall clock beyond.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct At(pub Wall, pub Steady);

impl At {
    /// The time `ms` later.
    pub fn plus(self, ms: u64) -> At {
        At(self.0.plus(ms), self.1.plus(ms))
    }

    /// Whether this time has come.
    pub fn is_reached(self, now: &Moment) -> bool {
        self.remaining_ms(now) == 0
    }

    /// Milliseconds until this time, zero when it has come. After a reboot the wall clock counts.
    pub fn remaining_ms(self, now: &Moment) -> u64 {
        let left = if self.1.boot == now.steady.boot {
            self.1.ms.saturating_sub(now.steady.ms)
        } else {
            self.0.0.saturating_sub(now.wall.0)
        };
        u64::try_from(left).unwrap_or(0)
    }

    /// Milliseconds since this time. After a reboot the wall clock counts.
    pub fn elapsed_ms(self, now: &Moment) -> u64 {
        if self.1.boot == now.steady.boot {
            return now.since(self.1);
        }
        u64::try_from(now.wall.0.saturating_sub(self.0.0)).unwrap_or(0)
    }

    /// The same time as a point on the steady clock of now.
    pub fn on_steady(self, now: &Moment) -> Steady {
        now.steady.plus(self.remaining_ms(now))
    }
}

impl From<&Moment> for At {
    fn from(now: &Moment) -> At {
        At(now.wall, now.steady)
    }
}

/// What happened. `id` names the command of the code that it answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {
    Started {
        workflow: String,
        input: Value,
    },
    /// A worker got the right to advance the run.
    Taken {
        fence: u64,
        worker: String,
        release: String,
        /// What was written while no worker had the run happens for the code now: its clock stands
        /// here, and waits count from here. `false` in journals of before that was so: their code
        /// saw the time of the entry itself.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        hears: bool,
    },
    /// A step has its value, or its error, for ever.
    Step {
        id: String,
        what: String,
        attempts: u32,
        result: Outcome,
    },
    /// One attempt of a step failed; another follows, at the earliest then.
    StepFailed {
        id: String,
        what: String,
        attempt: u32,
        fault: Fault,
        retry_at: Option<At>,
    },
    /// An effect is about to begin. Its key is fixed from here on.
    Planned {
        id: String,
        what: String,
        /// The code says how to take it back.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        undo: bool,
    },
    /// An effect was settled, as far as this run is concerned.
    Effect {
        id: String,
        what: String,
        result: Outcome,
        /// The receipt was there before: the ledger caught a repeat, and nothing was sent.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repeat: bool,
    },
    /// A run that this one started has ended.
    Child {
        id: String,
        what: String,
        run: String,
        result: Outcome,
    },
    /// The run may act on an entity, under this fence.
    Entered {
        id: String,
        what: String,
        fence: u64,
    },
    /// The run let an entity go.
    Left {
        id: String,
        what: String,
    },
    /// The run has failed, or is cancelled: what it did is taken back, in this order. The code is
    /// not asked any more.
    Undoing {
        ids: Vec<String>,
        fault: Option<Fault>,
    },
    /// The run goes on with another release of its code.
    Moved {
        from: Option<String>,
        to: String,
        actor: String,
        reason: String,
    },
    /// A timer was due.
    Fired {
        id: String,
        what: String,
    },
    /// A signal was taken out of the inbox.
    Received {
        id: String,
        what: String,
        delivery: String,
        payload: Value,
    },
    /// No signal came in time.
    TimedOut {
        id: String,
        what: String,
    },
    /// The run is being cancelled: the code is not asked any more.
    Cancelling {
        actor: String,
        reason: String,
    },
    /// The run stands still until an operator decides.
    Paused {
        id: Option<String>,
        fault: Fault,
        /// The code stopped with this entry before it asked for anything more: it hears the entry
        /// anew with the next take. `None` where earlier code may have asked, and in journals of
        /// before that was so.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        anew: Option<u64>,
    },
    /// An operator let it go on.
    Resumed {
        actor: String,
        reason: String,
    },
    /// An operator gave a step its value.
    Skipped {
        id: String,
        actor: String,
        reason: String,
        value: Value,
    },
    Finished {
        end: Ending,
    },
}

impl Event {
    /// The command that this event answers or concerns.
    pub fn id(&self) -> Option<&str> {
        match self {
            Event::Step { id, .. }
            | Event::StepFailed { id, .. }
            | Event::Planned { id, .. }
            | Event::Effect { id, .. }
            | Event::Child { id, .. }
            | Event::Entered { id, .. }
            | Event::Left { id, .. }
            | Event::Fired { id, .. }
            | Event::Received { id, .. }
            | Event::TimedOut { id, .. }
            | Event::Skipped { id, .. } => Some(id),
            Event::Paused { id, .. } => id.as_deref(),
            Event::Started { .. }
            | Event::Taken { .. }
            | Event::Cancelling { .. }
            | Event::Undoing { .. }
            | Event::Moved { .. }
            | Event::Resumed { .. }
            | Event::Finished { .. } => None,
        }
    }

    /// Whether its value is the token of a callback: whoever has that may answer for the outside.
    pub fn gives_token(&self) -> bool {
        matches!(self, Event::Step { what, .. } if what == CALLBACK)
    }

    /// The value that this event carries, where it carries one.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Event::Started { input: value, .. }
            | Event::Step { result: Outcome::Value(value), .. }
            | Event::Effect { result: Outcome::Value(value), .. }
            | Event::Child { result: Outcome::Value(value), .. }
            | Event::Received { payload: value, .. }
            | Event::Skipped { value, .. }
            | Event::Finished { end: Ending::Done(value) } => Some(value),
            Event::Step { .. }
            | Event::Effect { .. }
            | Event::Child { .. }
            | Event::Entered { .. }
            | Event::Left { .. }
            | Event::Undoing { .. }
            | Event::Moved { .. }
            | Event::Finished { .. }
            | Event::Taken { .. }
            | Event::StepFailed { .. }
            | Event::Planned { .. }
            | Event::Fired { .. }
            | Event::TimedOut { .. }
            | Event::Cancelling { .. }
            | Event::Paused { .. }
            | Event::Resumed { .. } => None,
        }
    }

    /// The error that this event tells of, where it does.
    pub fn fault(&self) -> Option<&Fault> {
        match self {
            Event::StepFailed { fault, .. }
            | Event::Paused { fault, .. }
            | Event::Step { result: Outcome::Fault(fault), .. }
            | Event::Effect { result: Outcome::Fault(fault), .. }
            | Event::Child { result: Outcome::Fault(fault), .. }
            | Event::Undoing { fault: Some(fault), .. }
            | Event::Finished { end: Ending::Failed(fault) } => Some(fault),
            Event::Step { .. }
            | Event::Effect { .. }
            | Event::Child { .. }
            | Event::Entered { .. }
            | Event::Left { .. }
            | Event::Undoing { .. }
            | Event::Moved { .. }
            | Event::Finished { .. }
            | Event::Started { .. }
            | Event::Taken { .. }
            | Event::Planned { .. }
            | Event::Fired { .. }
            | Event::Received { .. }
            | Event::TimedOut { .. }
            | Event::Cancelling { .. }
            | Event::Resumed { .. }
            | Event::Skipped { .. } => None,
        }
    }

    /// The kind, as people read it.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Started { .. } => "started",
            Event::Taken { .. } => "taken",
            Event::Step { .. } => "step",
            Event::StepFailed { .. } => "step_failed",
            Event::Planned { .. } => "planned",
            Event::Effect { .. } => "effect",
            Event::Child { .. } => "child",
            Event::Entered { .. } => "entered",
            Event::Left { .. } => "left",
            Event::Undoing { .. } => "undoing",
            Event::Moved { .. } => "moved",
            Event::Fired { .. } => "fired",
            Event::Received { .. } => "received",
            Event::TimedOut { .. } => "timed_out",
            Event::Cancelling { .. } => "cancelling",
            Event::Paused { .. } => "paused",
            Event::Resumed { .. } => "resumed",
            Event::Skipped { .. } => "skipped",
            Event::Finished { .. } => "finished",
        }
    }
}

/// A value, here or, when it is large, in a blob beside the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    Json(Json),
    Blob { digest: String, bytes: u64 },
}

/// What a command came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Value(Value),
    Fault(Fault),
}

/// An error as it is kept: it must survive a restart, so it is text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    pub code: String,
    pub detail: String,
    /// The exception behind it, where the code is of a language that has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<Box<Raised>>,
    /// Of an effect that was undone: its receipt, and that of its undo.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipts: Option<Box<(Json, Json)>>,
}

impl Fault {
    /// A fault without an exception.
    pub fn new(code: Code, detail: impl Into<String>) -> Fault {
        Fault {
            code: code.as_str().to_owned(),
            detail: detail.into(),
            raised: None,
            receipts: None,
        }
    }

    /// The same fault, with the exception behind it.
    pub fn with(self, raised: Option<Box<Raised>>) -> Fault {
        Fault { raised, ..self }
    }
}

/// An exception of another language, so that the code which waits for it gets the same one after a
/// restart, and people see where it came from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Raised {
    /// Its class, as `module:QualName`.
    pub kind: String,
    /// What it is rebuilt from. `None`: it cannot be rebuilt, only told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub args: Option<Json>,
    /// Where it was raised, for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub trace: String,
}

impl Raised {
    /// The same within the limits. Half of what rebuilds it would rebuild something else, so that
    /// is kept whole or not at all; of a trace the end says most.
    pub fn bounded(mut self) -> Raised {
        let is_large = |args: &Json| args.text().len() > limits::RAISED_ARGS_BYTES_MAX;
        let has_kind = self.kind.len() <= limits::RAISED_KIND_BYTES_MAX;
        self.args = self.args.filter(|args| has_kind && !is_large(args));
        self.kind.truncate(self.kind.floor_char_boundary(limits::RAISED_KIND_BYTES_MAX));
        let over = self.trace.len().saturating_sub(limits::RAISED_TRACE_BYTES_MAX);
        let over = self.trace.ceil_char_boundary(over);
        // Whole lines: half of a secret would not be known as one.
        let line = self.trace[over..].find('\n').filter(|_| over > 0);
        self.trace.drain(..line.map_or(over, |line| over + line + 1));
        self
    }
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ending {
    Done(Value),
    Failed(Fault),
    Cancelled(String),
}

/// What ties an entry to all that came before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Link(pub [u8; 32]);

impl Link {
    /// What the first entry of a run follows: the run itself.
    pub fn of_run(namespace: &str, id: &str) -> Link {
        let mut hash = Sha256::new();
        hash.update(b"semel run 1\0");
        hash.update(namespace);
        hash.update(b"\0");
        hash.update(id);
        Link(hash.finalize().into())
    }

    /// The link of an entry that follows this one.
    pub fn then(&self, text: &str) -> Link {
        let mut hash = Sha256::new();
        hash.update(self.0);
        hash.update(text);
        Link(hash.finalize().into())
    }
}

impl std::fmt::Display for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Writes an entry for its row.
pub fn encode(entry: &Entry) -> String {
    serde_json::to_string(entry).expect("an entry is plain data")
}

/// Reads an entry from its row. Builds data only, never code.
pub fn decode(text: &str) -> Result<Entry, String> {
    let entry: Entry = serde_json::from_str(text).map_err(|error| error.to_string())?;
    if entry.format > FORMAT {
        return Err(format!("an entry of format {}, known up to {FORMAT}", entry.format));
    }
    Ok(entry)
}

/// The name of a large value: what it contains.
pub fn blob_digest(text: &str) -> String {
    Link(Sha256::digest(text.as_bytes()).into()).to_string()
}

/// Checks that links and texts, in order from the first, are one chain. Says where it breaks.
pub fn check_chain<'a>(
    start: Link,
    entries: impl IntoIterator<Item = (u64, Link, &'a str)>,
) -> Result<Link, String> {
    let mut link = start;
    for (place, (seq, stored, text)) in entries.into_iter().enumerate() {
        if seq != place as u64 {
            return Err(format!("entry {place} is missing, {seq} follows"));
        }
        link = link.then(text);
        if link != stored {
            return Err(format!("entry {seq} does not follow from the one before"));
        }
    }
    Ok(link)
}

#[cfg(test)]
mod tests;
