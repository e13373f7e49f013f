//! What a run looks like at rest: one row. Its journal is the history; this is where it stands.

use serde::{Deserialize, Serialize};

use crate::gate::Pass;
use crate::journal::{At, Fault, Raised};
use crate::json::Json;
use crate::time::{Steady, Wall};

/// One run of a workflow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub namespace: String,
    /// Derived from namespace, workflow and key.
    pub id: String,
    /// Names its journal. Grows with time, so that the journals of young runs lie side by side.
    pub number: i64,
    /// Grows with each write of the row and with each delivery from outside; kept beside the
    /// record, because a delivery does not rewrite it.
    #[serde(skip)]
    pub version: u64,
    pub workflow: String,
    pub key: String,
    pub created: Wall,
    /// A digest of the input: the same key with another input is refused.
    pub input: String,
    pub window_ms: u64,
    /// The release of the code that it stays with. Runs of before there were releases have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    /// It never moves to another release by itself.
    #[serde(default, skip_serializing_if = "is_false")]
    pub strict: bool,
    /// The gates that it passes before it is under way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub passes: Vec<Pass>,
    /// The run whose code started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// Runs that wait for its end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub watchers: Vec<String>,
    /// Its code is needed even to cancel it: it says how to take effects back.
    #[serde(default, skip_serializing_if = "is_false")]
    pub needs_code: bool,
    /// Why it waits for its release, where nobody offers that and it cannot move.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stranded: Option<String>,
    /// The highest fence that was granted.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub fence: u64,
    /// Who may advance the run, until when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease: Option<Lease>,
    /// What it waits for while nobody holds it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waits: Vec<Wait>,
    /// Something may have come while it was parked: somebody looks at it now. Kept, because a write
    /// of the row would undo the touch of a delivery that nobody has seen yet.
    #[serde(default, skip_serializing_if = "is_false")]
    pub nudged: bool,
    /// It could not be taken up: it is tried again later, and later each time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub set_aside: Option<SetAside>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Cancel>,
    /// When it is cancelled by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline: Option<At>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<Ended>,
    /// Since when this row is only a tombstone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expired: Option<Wall>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub fence: u64,
    pub worker: String,
    /// The process that holds it, where a lock can prove it alive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    pub until: Steady,
}

/// One thing a run waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// The command that waits.
    pub id: String,
    pub on: On,
    /// When it goes on by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<At>,
    /// What the code says of it to whoever decides. It changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<Json>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum On {
    Timer,
    /// The next attempt of a step.
    Retry,
    Signal(String),
    /// A place among those that may run at once.
    Slot(String),
    /// The end of another run.
    Child(String),
    /// An entity that another run holds.
    Entity(String),
    /// Somebody else's attempt, a look that is not due yet, or a person's decision.
    Effect {
        action: String,
        key: String,
    },
}

/// Why a run is left alone for a while, such as a journal that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAside {
    /// Tries that failed in a row.
    pub tries: u32,
    /// When the next try is due.
    pub until: At,
    pub why: String,
}

/// Why a run stands still until an operator decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    /// The command that cannot go on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    pub code: String,
    pub detail: String,
    /// The exception behind it: whoever asks for the result gets it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raised: Option<Box<Raised>>,
    pub at: Wall,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cancel {
    pub actor: String,
    pub reason: String,
    pub at: Wall,
    /// It ends as failed, by this; otherwise as cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fault: Option<Box<Fault>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    pub how: How,
    pub at: Wall,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    Done,
    Failed,
    Cancelled,
}

/// Writes a run for its row.
pub fn encode(run: &Run) -> String {
    serde_json::to_string(run).expect("a run is plain data")
}

/// Reads a run from its row. Builds data only, never code.
pub fn decode(text: &str, version: u64) -> Result<Run, String> {
    let run: Run = serde_json::from_str(text).map_err(|error| error.to_string())?;
    Ok(Run { version, ..run })
}

fn is_false(value: &bool) -> bool {
    !*value
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}
