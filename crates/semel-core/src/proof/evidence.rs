//! What a proof rests on: the records as the store keeps them, word for word, and the moment at
//! which they were read. Whoever has these can build the statement again.

use serde::{Deserialize, Serialize};

use crate::effect::{Ground, Quarantine};
use crate::time::{Moment, Steady, Wall};

/// The version of the rules that make a statement of evidence. Another statement of the same
/// evidence is another version.
pub const RULES: u32 = 2;

/// All that was read for one proof.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    pub rules: u32,
    pub subject: Subject,
    pub standing: Standing,
    /// The records of effects: all generations of each.
    pub effects: Vec<String>,
    pub runs: Vec<RunEvidence>,
    /// Counts of repeats, as their cards say.
    pub repeats: Vec<Card>,
    /// What the store has and cannot read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<Lost>,
}

/// A record that is damaged, or whose key is not here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lost {
    pub name: String,
    pub why: String,
}

/// What is asked about.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Subject {
    Effect { namespace: String, action: String, key: String },
    Run { namespace: String, id: String },
}

/// When it was read, on both clocks, and what was known of the store then.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    pub wall: Wall,
    pub steady: Steady,
    pub wall_is_behind: bool,
    pub epoch: u64,
    /// When it was opened, and the newest time that the restored store remembers.
    pub quarantine: Option<(Wall, Wall)>,
    /// Sessions of processes that were proven dead.
    pub dead: Vec<String>,
}

/// One run. One that is only named, such as a child, comes without its journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunEvidence {
    pub record: String,
    pub version: u64,
    pub entries: Vec<EntryEvidence>,
}

/// One entry of a journal: its text is what the chain is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EntryEvidence {
    pub seq: u64,
    pub link: String,
    pub text: String,
}

/// A card, as far as a proof needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    pub name: String,
    pub record: String,
}

impl Standing {
    /// The standing of a store.
    pub fn of(ground: &Ground) -> Standing {
        let Moment { wall, steady, wall_is_behind } = ground.now;
        let span = |quarantine: Quarantine| (quarantine.opened, quarantine.recovered);
        let quarantine = ground.quarantine.map(span);
        let (epoch, dead) = (ground.epoch, Vec::new());
        Standing { wall, steady, wall_is_behind, epoch, quarantine, dead }
    }

    /// The moment by which everything is judged.
    pub fn now(&self) -> Moment {
        Moment { wall: self.wall, steady: self.steady, wall_is_behind: self.wall_is_behind }
    }
}
