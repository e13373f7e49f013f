//! Repeats that were caught: how often somebody asked for what was done or begun already, by which
//! door, first and last. The record of a card, one for each effect and each run that met a repeat.
//!
//! Counting is never on the way of a caller: what was counted in memory and not written yet is lost
//! with its process. So every count is a lower bound, and whoever shows it says "at least".

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::derive;
use crate::key::Address;
use crate::time::Wall;

/// The kind of card that a count is.
pub const CARD: &str = "repeats";

/// The way by which a repeat came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Door {
    /// A direct call of the ledger.
    Call,
    /// A command of a run, whose effect or child was there already.
    Run,
    /// The start of a run that attached.
    Start,
    Signal,
    Callback,
    Approval,
    Outbox,
    Schedule,
    Http,
    Webhook,
    Gate,
}

impl Door {
    /// The door's name, as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Door::Call => "call",
            Door::Run => "run",
            Door::Start => "start",
            Door::Signal => "signal",
            Door::Callback => "callback",
            Door::Approval => "approval",
            Door::Outbox => "outbox",
            Door::Schedule => "schedule",
            Door::Http => "http",
            Door::Webhook => "webhook",
            Door::Gate => "gate",
        }
    }
}

/// What was asked for again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    /// An effect, over all its generations.
    Effect(Address),
    /// A run, by namespace and id.
    Run(String, String),
}

impl Subject {
    /// The namespace that its card is in.
    pub fn namespace(&self) -> &str {
        match self {
            Subject::Effect(address) => address.namespace.as_str(),
            Subject::Run(namespace, _) => namespace,
        }
    }

    /// The name of its card: the id of the run, or of the effect's first generation.
    pub fn card(&self) -> String {
        match self {
            Subject::Effect(address) => card_of(address).to_string(),
            Subject::Run(_, id) => id.clone(),
        }
    }
}

/// The name of the card of an effect.
pub fn card_of(address: &Address) -> Uuid {
    derive::effect_id(address, 0)
}

/// What came by one door.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    pub door: Door,
    pub count: u64,
    pub first: Wall,
    pub last: Wall,
}

/// All repeats of one subject, in the order of doors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeats {
    /// Action and key of the effect, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<(String, String)>,
    /// The run, where it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    pub doors: Vec<Count>,
    /// Who wrote this, and which of its writes it was: two processes that count the same must not
    /// take each other's card for their own.
    #[serde(default)]
    pub by: String,
}

impl Repeats {
    /// No repeats of a subject yet.
    pub fn of(subject: &Subject) -> Repeats {
        match subject {
            Subject::Effect(Address { action, key, .. }) => {
                let effect = (action.as_str().to_owned(), key.as_str().to_owned());
                Repeats { effect: Some(effect), ..Repeats::default() }
            }
            Subject::Run(_, id) => Repeats { run: Some(id.clone()), ..Repeats::default() },
        }
    }

    /// Counts one.
    pub fn note(&mut self, door: Door, at: Wall) {
        self.add(&Count { door, count: 1, first: at, last: at });
    }

    /// What is stored, with more of the same subject, as `by` writes it.
    pub fn with(&self, more: &Repeats, by: String) -> Repeats {
        let mut sum = Repeats { by, ..self.clone() };
        sum.effect = sum.effect.or_else(|| more.effect.clone());
        sum.run = sum.run.or_else(|| more.run.clone());
        more.doors.iter().for_each(|count| sum.add(count));
        sum
    }

    /// How many there were, over all doors.
    pub fn total(&self) -> u64 {
        self.doors.iter().fold(0, |sum, count| sum.saturating_add(count.count))
    }

    fn add(&mut self, more: &Count) {
        match self.doors.binary_search_by_key(&more.door, |count| count.door) {
            Ok(place) => {
                let count = &mut self.doors[place];
                count.count = count.count.saturating_add(more.count);
                // Two processes may write in another order than they counted.
                count.first = count.first.min(more.first);
                count.last = count.last.max(more.last);
            }
            Err(place) => self.doors.insert(place, more.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Action, Key, Namespace};

    fn counted(notes: &[(Door, i64)]) -> Repeats {
        let mut repeats = Repeats::of(&Subject::Run("n".into(), "r".into()));
        notes.iter().for_each(|(door, at)| repeats.note(*door, Wall(*at)));
        repeats
    }

    fn shown(repeats: &Repeats) -> Vec<(&'static str, u64, i64, i64)> {
        let line = |one: &Count| (one.door.as_str(), one.count, one.first.0, one.last.0);
        repeats.doors.iter().map(line).collect()
    }

    #[test]
    fn each_door_has_its_count_its_first_and_its_last_time() {
        let repeats = counted(&[(Door::Signal, 5), (Door::Start, 7), (Door::Signal, 9)]);
        assert_eq!(shown(&repeats), [("start", 1, 7, 7), ("signal", 2, 5, 9)]);
        assert_eq!(repeats.total(), 3);
    }

    #[test]
    fn sums_do_not_depend_on_who_writes_first() {
        let early = counted(&[(Door::Call, 1), (Door::Call, 4)]);
        let late = counted(&[(Door::Call, 3), (Door::Run, 8)]);
        let one = early.with(&late, "w".into());
        let other = late.with(&early, "w".into());
        assert_eq!(one, other);
        assert_eq!(shown(&one), [("call", 3, 1, 4), ("run", 1, 8, 8)]);
    }

    #[test]
    fn two_writers_who_count_the_same_write_different_records() {
        let stored = Repeats::default();
        let more = counted(&[(Door::Call, 1)]);
        let text = |by: &str| serde_json::to_string(&stored.with(&more, by.into())).unwrap();
        assert_ne!(text("a 1"), text("b 1"));
    }

    #[test]
    fn a_record_is_read_back_as_it_was_written() {
        let subject = Subject::Effect(Address {
            namespace: Namespace::default(),
            action: Action::new("a").unwrap(),
            key: Key::from_text("k").unwrap(),
        });
        let mut repeats = Repeats::of(&subject);
        repeats.note(Door::Outbox, Wall(3));
        let text = serde_json::to_string(&repeats).unwrap();
        assert_eq!(serde_json::from_str::<Repeats>(&text).unwrap(), repeats);
        assert!(text.contains(r#""door":"outbox""#), "{text}");
    }
}
