//! The journal of a run at rest: what happened, in order, each entry chained to the one before.
//!
//! Everything the code of a workflow may observe is an entry, so that replaying the entries leads
//! it to the same place. The shape is versioned by [`FORMAT`]; kinds of entries and fields may be
//! added, never reused for something else.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::json::Json;
use crate::time::{Moment, Steady, Wall};

/// The version of this shape. A journal that holds a newer one is refused.
pub const FORMAT: u32 = 1;

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
            | Event::Fired { id, .. }
            | Event::Received { id, .. }
            | Event::TimedOut { id, .. }
            | Event::Skipped { id, .. } => Some(id),
            Event::Paused { id, .. } => id.as_deref(),
            Event::Started { .. }
            | Event::Taken { .. }
            | Event::Cancelling { .. }
            | Event::Resumed { .. }
            | Event::Finished { .. } => None,
        }
    }

    /// The value that this event carries, where it carries one.
    pub fn value(&self) -> Option<&Value> {
        match self {
            Event::Started { input: value, .. }
            | Event::Step { result: Outcome::Value(value), .. }
            | Event::Effect { result: Outcome::Value(value), .. }
            | Event::Received { payload: value, .. }
            | Event::Skipped { value, .. }
            | Event::Finished { end: Ending::Done(value) } => Some(value),
            Event::Step { .. }
            | Event::Effect { .. }
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

    /// The kind, as people read it.
    pub fn name(&self) -> &'static str {
        match self {
            Event::Started { .. } => "started",
            Event::Taken { .. } => "taken",
            Event::Step { .. } => "step",
            Event::StepFailed { .. } => "step_failed",
            Event::Planned { .. } => "planned",
            Event::Effect { .. } => "effect",
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
mod tests {
    use super::*;

    fn texts() -> Vec<String> {
        let at = At(Wall(7), Steady { boot: 1, ms: 9 });
        let started = Event::Started {
            workflow: "triage".into(),
            input: Value::Json(Json::from_text("{\"n\": 1.0}").unwrap()),
        };
        let taken = Event::Taken { fence: 1, worker: "w".into(), release: "1".into() };
        let fired = Event::Fired { id: "sleep#0".into(), what: "sleep 1s".into() };
        [started, taken, fired]
            .into_iter()
            .map(|event| encode(&Entry { format: FORMAT, at, event }))
            .collect()
    }

    fn chain() -> Vec<(u64, Link, String)> {
        let mut link = Link::of_run("default", "r");
        let mut chain = Vec::new();
        for (seq, text) in texts().into_iter().enumerate() {
            link = link.then(&text);
            chain.push((seq as u64, link, text));
        }
        chain
    }

    fn check(chain: &[(u64, Link, String)]) -> Result<Link, String> {
        let entries = chain.iter().map(|(seq, link, text)| (*seq, *link, text.as_str()));
        check_chain(Link::of_run("default", "r"), entries)
    }

    #[test]
    fn entries_read_back_byte_for_byte() {
        for text in texts() {
            assert_eq!(decode(&text).map(|entry| encode(&entry)), Ok(text));
        }
        assert!(texts()[0].contains("{\"n\": 1.0}"), "{}", texts()[0]);
    }

    /// The stored form is frozen: an entry of today must be readable for ever.
    #[test]
    fn the_form_at_rest_is_frozen() {
        let head = r#"{"v":1,"at":[7,{"boot":1,"ms":9}],"event":"#;
        let event = r#"{"fired":{"id":"sleep#0","what":"sleep 1s"}}}"#;
        assert_eq!(texts()[2], format!("{head}{event}"));
        let last = check(&chain()).unwrap();
        assert_eq!(format!("{:02x}{:02x}", last.0[0], last.0[1]), "c71c");
    }

    #[test]
    fn a_newer_entry_is_refused() {
        let newer = texts()[2].replacen("\"v\":1", "\"v\":2", 1);
        assert!(decode(&newer).unwrap_err().contains("format 2"));
        assert!(decode("{}").is_err());
    }

    #[test]
    fn inv_i11_editing_dropping_or_swapping_an_entry_breaks_the_chain() {
        assert!(check(&chain()).is_ok());
        for place in 0..3 {
            let mut edited = chain();
            edited[place].2 = edited[place].2.replacen("7", "8", 1);
            assert!(check(&edited).is_err(), "edit {place}");
            let mut dropped = chain();
            dropped.remove(place);
            assert_eq!(check(&dropped).is_err(), place < 2, "drop {place}");
        }
        let mut swapped = chain();
        swapped.swap(1, 2);
        assert!(check(&swapped).is_err());
        let entries = chain();
        let entries = entries.iter().map(|(seq, link, text)| (*seq, *link, text.as_str()));
        assert!(check_chain(Link::of_run("default", "other"), entries).is_err());
    }

    #[test]
    fn a_due_time_counts_on_the_steady_clock_and_after_a_reboot_on_the_wall() {
        let due = At(Wall(1_000), Steady { boot: 1, ms: 50 }).plus(100);
        let now = |wall, boot, ms| Moment {
            wall: Wall(wall),
            steady: Steady { boot, ms },
            wall_is_behind: false,
        };
        assert!(!due.is_reached(&now(9_999, 1, 149)), "a wall clock that jumps fires nothing");
        assert!(due.is_reached(&now(0, 1, 150)));
        assert!(!due.is_reached(&now(1_099, 2, 9_999)));
        assert!(due.is_reached(&now(1_100, 2, 0)));
        assert_eq!(due.on_steady(&now(1_000, 2, 7)), Steady { boot: 2, ms: 107 });
        assert_eq!(due.elapsed_ms(&now(9_999, 1, 151)), 1);
        assert_eq!(due.elapsed_ms(&now(1_102, 2, 9_999)), 2);
        assert_eq!(due.elapsed_ms(&now(0, 2, 0)), 0);
    }
}
