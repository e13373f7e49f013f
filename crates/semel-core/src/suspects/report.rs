//! What the radar has to say, the worst first.

use serde::Serialize;

use super::{By, Group, Looks, Radar, Seen};
use crate::looks::Look;
use crate::wire::rfc3339;

/// How sure it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Nothing that was seen explains it otherwise.
    Likely,
    /// What the runs were started with may explain it.
    Perhaps,
}

/// A group of keys that may be one wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Suspect {
    pub action: String,
    /// `same_input`, `same_members`, `time`, `randomness` or `attempt`.
    pub sign: &'static str,
    pub level: Level,
    /// How many keys.
    pub keys: usize,
    /// Some of them.
    pub examples: Vec<String>,
    pub first_at: String,
    pub last_at: String,
    pub reason: String,
    pub better: String,
}

/// All suspects, and how far the look went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Report {
    pub suspects: Vec<Suspect>,
    /// Rows that were looked at.
    pub rows: usize,
    /// Of them without an input: with nothing to compare, only their keys were looked at.
    pub without_input: usize,
    /// A limit was reached: what is older was not compared.
    pub is_cut: bool,
}

impl Report {
    /// Whether something is to be done.
    pub fn has_likely(&self) -> bool {
        self.suspects.iter().any(|one| one.level == Level::Likely)
    }
}

const STABLE: &str = "make the key of business identifiers that came with the wish, and run \
                      `semel lint` over the code";

impl Radar {
    /// What was found, the worst first.
    pub fn report(&self, is_cut: bool) -> Report {
        let groups = self.suspicious();
        let mut suspects: Vec<Suspect> =
            groups.iter().map(|(name, group)| self.of_group(name.0, name.1, group)).collect();
        suspects.extend(self.looks.iter().filter_map(|((action, look), looks)| {
            self.of_looks(&self.actions[*action as usize], *look, looks)
        }));
        suspects.sort_by(|a, b| {
            a.level.cmp(&b.level).then(b.keys.cmp(&a.keys)).then_with(|| {
                (&a.action, a.sign, &a.examples).cmp(&(&b.action, b.sign, &b.examples))
            })
        });
        let (rows, without_input) = (self.rows, self.without_input);
        Report { suspects, rows, without_input, is_cut: is_cut || self.is_full }
    }

    fn of_group(&self, action: u32, by: By, group: &Group) -> Suspect {
        // Where each key is in what its run was started with, the wishes differ although the
        // inputs of the effects do not.
        let is_explained = group.examples.iter().all(|seen| self.has_parts_of_its_own(seen, group));
        let same = match by {
            By::Input => "the same input",
            By::Members => "the same members that count, in other words,",
        };
        let level = if is_explained { Level::Perhaps } else { Level::Likely };
        let reason = match level {
            Level::Likely => format!("{same} came under {} keys: each was acted on", many(group)),
            Level::Perhaps => format!(
                "{same} came under {} keys; their runs were started with what tells them apart, \
                 but the input does not say it",
                many(group)
            ),
        };
        let better = match level {
            Level::Likely => STABLE,
            Level::Perhaps => "put what the key is made of into the input, too",
        };
        Suspect {
            action: self.actions[action as usize].clone(),
            sign: if by == By::Input { "same_input" } else { "same_members" },
            level,
            keys: group.keys.len(),
            examples: group.examples.iter().map(|seen| seen.key.clone()).collect(),
            first_at: rfc3339(group.first),
            last_at: rfc3339(group.last),
            reason,
            better: better.to_owned(),
        }
    }

    /// Whether every part in which the key differs from another of its group is explained.
    fn has_parts_of_its_own(&self, seen: &Seen, group: &Group) -> bool {
        let others = group.examples.iter().filter(|other| other.key != seen.key);
        let is_shared = |part: &String| others.clone().all(|other| other.parts.contains(part));
        seen.parts.iter().filter(|part| !is_shared(part)).all(|part| self.explains(seen, part))
    }

    fn of_looks(&self, action: &str, look: Look, looks: &Looks) -> Option<Suspect> {
        let odd: Vec<&Seen> = looks
            .samples
            .iter()
            .filter(|(seen, part)| !self.explains(seen, part))
            .map(|(seen, _)| seen)
            .collect();
        if odd.is_empty() {
            return None;
        }
        let reason = match look {
            Look::Time => "the keys have a time in them that is nowhere in the input",
            Look::Random => "the keys have a random id in them that is nowhere in the input",
            Look::Attempt => "the keys count attempts: each would be a wish of its own",
        };
        // A random key may be the id of something that nobody wrote into the input; one that is
        // drawn anew for the same input is found by that.
        let is_likely = look == Look::Attempt || look == Look::Time && odd.len() > 1;
        let level = if is_likely { Level::Likely } else { Level::Perhaps };
        Some(Suspect {
            action: action.to_owned(),
            sign: look.name(),
            level,
            keys: if odd.len() == looks.samples.len() { looks.count } else { odd.len() },
            examples: odd.iter().take(super::EXAMPLES_MAX).map(|seen| seen.key.clone()).collect(),
            first_at: rfc3339(looks.first),
            last_at: rfc3339(looks.last),
            reason: reason.to_owned(),
            better: STABLE.to_owned(),
        })
    }
}

fn many(group: &Group) -> String {
    match group.keys.len() {
        super::KEYS_MAX => format!("{} or more", super::KEYS_MAX),
        count => count.to_string(),
    }
}
