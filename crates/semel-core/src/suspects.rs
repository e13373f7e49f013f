//! The radar over a ledger: the same wish under a new key each time, which no single row can show.
//!
//! It is fed row by row and keeps digests and a few examples, so its memory is bounded however
//! large the ledger is. What it finds is a suspicion: whoever reads it looks at the code.

mod report;

pub use report::{Level, Report, Suspect};

use std::collections::{BTreeMap, BTreeSet};

use crate::declare::members;
use crate::fingerprint::{Fingerprint, Rule};
use crate::limits;
use crate::looks::{Look, look_of};
use crate::record::Effect;
use crate::time::Wall;

/// Keys of one group that are kept as examples.
const EXAMPLES_MAX: usize = 5;
/// Keys with a look that are kept, to be held against their runs.
const LOOKS_MAX: usize = 50;
/// Keys of one group that are told apart; beyond them there are "more".
const KEYS_MAX: usize = 1_000;
/// Groups that are looked at more closely, the largest first.
const GROUPS_MAX: usize = 200;
/// Our own actions: what they are called with is not the user's affair.
const OWN: &str = "semel.";

/// One key that was seen, and the run that asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seen {
    key: String,
    parts: Vec<String>,
    run: Option<String>,
}

/// What a run was started with: that may explain a key that its effect's own input does not.
#[derive(Clone, Debug, Default)]
pub struct RunSeen {
    /// The key that it was started under.
    pub key: String,
    /// Its input as JSON, where that is still there.
    pub input: Option<String>,
}

/// What equal inputs of one action were seen with.
#[derive(Debug)]
struct Group {
    keys: BTreeSet<u64>,
    examples: Vec<Seen>,
    first: Wall,
    last: Wall,
    /// The first whole input, and whether there was another: a declared fingerprint may leave most
    /// of it out.
    input: u64,
    inputs_differ: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum By {
    /// The whole input.
    Input,
    /// The members that count.
    Members,
}

#[derive(Debug)]
struct Looks {
    count: usize,
    samples: Vec<(Seen, String)>,
    first: Wall,
    last: Wall,
}

/// Rows in, suspects out.
#[derive(Debug, Default)]
pub struct Radar {
    actions: Vec<String>,
    groups: BTreeMap<(u32, By, u128), Group>,
    looks: BTreeMap<(u32, Look), Looks>,
    runs: BTreeMap<String, RunSeen>,
    rows: usize,
    without_input: usize,
    is_full: bool,
}

impl Radar {
    /// A radar that has seen nothing.
    pub fn new() -> Radar {
        Radar::default()
    }

    /// One more row of the ledger. Says whether there is room for more.
    pub fn see(&mut self, effect: &Effect) -> bool {
        let action = effect.address.action.as_str();
        if action.starts_with(OWN) {
            return true;
        }
        self.rows += 1;
        // A tombstone has forgotten what it was asked for.
        let Some(plan) = &effect.plan else { return true };
        let action = self.action(action);
        let seen = Seen {
            key: effect.address.key.as_str().to_owned(),
            parts: effect.address.key.parts(),
            run: effect.run.clone(),
        };
        let text = plan.input.text();
        self.note_look(action, &seen, text, effect.created);
        if is_nothing(text) {
            self.without_input += 1;
            return self.rows < limits::SUSPECT_ROWS_MAX;
        }
        let whole = short(&Fingerprint::of(text.as_bytes(), &Rule::All).digest);
        self.group((action, By::Input, whole), &seen, effect.created, whole);
        if let Rule::Members(_) = plan.fingerprint.rule {
            let counted = short(&plan.fingerprint.digest);
            self.group((action, By::Members, counted), &seen, effect.created, whole);
        }
        self.rows < limits::SUSPECT_ROWS_MAX
    }

    fn action(&mut self, name: &str) -> u32 {
        let at = self.actions.iter().position(|known| known == name).unwrap_or_else(|| {
            self.actions.push(name.to_owned());
            self.actions.len() - 1
        });
        u32::try_from(at).expect("fewer actions than rows")
    }

    fn group(&mut self, name: (u32, By, u128), seen: &Seen, at: Wall, whole: u128) {
        let has_room = self.groups.len() < limits::SUSPECT_INPUTS_MAX;
        if !has_room && !self.groups.contains_key(&name) {
            self.is_full = true;
            return;
        }
        let input = fold(whole);
        let group = self.groups.entry(name).or_insert_with(|| Group {
            keys: BTreeSet::new(),
            examples: Vec::new(),
            first: at,
            last: at,
            input,
            inputs_differ: false,
        });
        group.first = group.first.min(at);
        group.last = group.last.max(at);
        group.inputs_differ |= group.input != input;
        if group.keys.len() < KEYS_MAX && group.keys.insert(hash(&seen.key)) {
            // Newest first; the oldest seen last are as good an example as any.
            if group.examples.len() < EXAMPLES_MAX {
                group.examples.push(seen.clone());
            }
        }
    }

    fn note_look(&mut self, action: u32, seen: &Seen, input: &str, at: Wall) {
        let Some((part, look)) = looking(&seen.parts) else { return };
        if is_in(&members(input), &part) {
            return;
        }
        let looks = self.looks.entry((action, look)).or_insert_with(|| Looks {
            count: 0,
            samples: Vec::new(),
            first: at,
            last: at,
        });
        looks.count += 1;
        looks.first = looks.first.min(at);
        looks.last = looks.last.max(at);
        if looks.samples.len() < LOOKS_MAX {
            looks.samples.push((seen.clone(), part));
        }
    }

    /// The runs whose start would explain or confirm a suspicion: a bounded number.
    pub fn runs_to_ask(&self) -> Vec<String> {
        let from_groups = self.suspicious().into_iter().flat_map(|(_, group)| &group.examples);
        let from_looks = self.looks.values().flat_map(|looks| &looks.samples).map(|(seen, _)| seen);
        let mut runs: Vec<String> =
            from_groups.chain(from_looks).filter_map(|seen| seen.run.clone()).collect();
        runs.sort();
        runs.dedup();
        runs
    }

    /// What one of them was started with.
    pub fn learn(&mut self, run: &str, seen: RunSeen) {
        self.runs.insert(run.to_owned(), seen);
    }

    /// The groups with more than one key, the largest first.
    fn suspicious(&self) -> Vec<(&(u32, By, u128), &Group)> {
        let is_told_by_input = |name: &(u32, By, u128), group: &Group| {
            // With one whole input the group of that says the same.
            name.1 == By::Members && !group.inputs_differ
        };
        let mut groups: Vec<_> = self
            .groups
            .iter()
            .filter(|(name, group)| group.keys.len() > 1 && !is_told_by_input(name, group))
            .collect();
        groups.sort_by(|(a, one), (b, two)| {
            two.keys.len().cmp(&one.keys.len()).then(two.last.cmp(&one.last)).then(a.cmp(b))
        });
        groups.truncate(GROUPS_MAX);
        groups
    }

    /// Whether what its run was started with has a part of the key in it.
    fn explains(&self, seen: &Seen, part: &str) -> bool {
        let Some(run) = seen.run.as_ref().and_then(|id| self.runs.get(id)) else { return false };
        let is_in_input = run.input.as_ref().is_some_and(|input| is_in(&members(input), part));
        is_in_input || run.key.contains(part)
    }
}

/// The first part that looks like no business identifier.
fn looking(parts: &[String]) -> Option<(String, Look)> {
    parts.iter().find_map(|part| look_of(part).map(|look| (part.clone(), look)))
}

/// Whether a part, or the piece of it that counts, is a value of the input.
fn is_in(members: &BTreeMap<String, String>, part: &str) -> bool {
    members
        .values()
        .any(|value| value == part || look_of(value).is_some() && part.contains(&**value))
}

fn is_nothing(input: &str) -> bool {
    matches!(input.trim(), "null" | "{}" | "[]" | "\"\"")
}

fn short(digest: &[u8; 32]) -> u128 {
    u128::from_be_bytes(digest[..16].try_into().expect("sixteen bytes"))
}

fn fold(digest: u128) -> u64 {
    u64::try_from(digest >> 64).expect("the upper half")
}

fn hash(text: &str) -> u64 {
    fold(short(&Fingerprint::of(text.as_bytes(), &Rule::All).digest))
}

#[cfg(test)]
mod tests;
