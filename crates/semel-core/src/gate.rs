//! Concurrency: how many runs of a workflow, or of one of its keys, may be under way at once.
//! Decided when a run is admitted; its slot is its own until it ends.

mod rate;

pub use rate::Take;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::journal::At;
use crate::json::Json;
use crate::limits;

/// The kind of card that a gate is.
pub const CARD: &str = "gate";

/// What an author declares of a workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Runs of the workflow that may be under way at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Runs that touch the same thing, named by members of the input: `{customer}`; an input that
    /// is one text or number itself is `{.}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyPolicy>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyPolicy {
    pub template: String,
    pub mode: Mode,
}

/// What becomes of a run whose key is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It waits for its turn.
    Queue,
    /// It is not started.
    Reject,
    /// Its starter gets the run that is under way.
    Coalesce,
}

impl Mode {
    /// Reads a mode's name.
    pub fn parse(name: &str) -> Option<Mode> {
        match name {
            "queue" => Some(Mode::Queue),
            "reject" => Some(Mode::Reject),
            "coalesce" => Some(Mode::Coalesce),
            _ => None,
        }
    }
}

/// A gate that a run has to pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    pub gate: String,
    pub limit: u32,
    pub mode: Mode,
}

/// A policy that cannot be applied; the text says why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyInvalid(pub String);

impl Policy {
    /// Refuses what nothing could pass.
    pub fn check(&self) -> Result<(), PolicyInvalid> {
        let bounds = 1..=limits::SLOTS_MAX;
        if self.limit.is_some_and(|limit| !bounds.contains(&limit)) {
            let text = format!("a concurrency limit is 1 to {}", limits::SLOTS_MAX);
            return Err(PolicyInvalid(text));
        }
        let members = self.key.as_ref().map(|key| places(&key.template)).transpose()?;
        if members.is_some_and(|members| members.is_empty()) {
            return Err(PolicyInvalid("a concurrency key names members of the input".into()));
        }
        Ok(())
    }

    /// The gates that a run with this input passes, in the order in which it does: that of its key
    /// first, so that no slot of the workflow is held by a run that waits for its key.
    pub fn passes(&self, workflow: &str, input: &Json) -> Result<Vec<Pass>, PolicyInvalid> {
        self.check()?;
        let mut passes = Vec::new();
        if let Some(KeyPolicy { template, mode }) = &self.key {
            let key = fill(template, input)?;
            passes.push(Pass { gate: format!("{workflow}/{key}"), limit: 1, mode: *mode });
        }
        if let Some(limit) = self.limit {
            passes.push(Pass { gate: workflow.to_owned(), limit, mode: Mode::Queue });
        }
        Ok(passes)
    }
}

/// The members that a template names: texts and `{member.of.member}` by turns.
fn places(template: &str) -> Result<Vec<&str>, PolicyInvalid> {
    let broken = || PolicyInvalid(format!("`{template}`: a brace without its other half"));
    let mut found = Vec::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        if before.contains('}') {
            return Err(broken());
        }
        let (name, after) = after.split_once('}').ok_or_else(broken)?;
        if name.is_empty() || name.contains('{') {
            return Err(broken());
        }
        found.push(name);
        rest = after;
    }
    if rest.contains('}') { Err(broken()) } else { Ok(found) }
}

fn fill(template: &str, input: &Json) -> Result<String, PolicyInvalid> {
    let value: Value = serde_json::from_str(input.text())
        .map_err(|error| PolicyInvalid(format!("the input: {error}")))?;
    let mut key = template.to_owned();
    for name in places(template)? {
        let found = match name {
            "." => Some(&value),
            _ => name.split('.').try_fold(&value, |value, member| value.get(member)),
        };
        let text = match found {
            Some(Value::String(text)) if !text.trim().is_empty() => text.clone(),
            Some(Value::Number(number)) => number.to_string(),
            Some(_) | None => {
                let text = format!("the input has no text or number `{name}` for its key");
                return Err(PolicyInvalid(text));
            }
        };
        // A separator or a brace in a value must not make two keys one.
        let escapes = [('%', "%25"), ('/', "%2F"), ('{', "%7B"), ('}', "%7D")];
        let text = escapes.iter().fold(text, |text, (from, to)| text.replace(*from, to));
        key = key.replacen(&format!("{{{name}}}"), &text, 1);
    }
    if key.len() > limits::KEY_BYTES_MAX || key.chars().any(char::is_control) {
        let text = "the concurrency key is over 255 bytes or has control characters";
        return Err(PolicyInvalid(text.into()));
    }
    Ok(key)
}

/// One gate: the runs that are inside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gate {
    pub inside: Vec<String>,
    /// The run that came last and found no room. Written with its place in the queue, so that
    /// whoever leaves at the same moment looks into the queue again.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub turned_away: String,
}

/// What asking for a slot came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Admission {
    /// Inside already: a worker may have died before it could go on.
    Inside,
    /// Write the gate: the run is inside.
    Enter(Gate),
    /// These are inside.
    Full(Vec<String>),
}

/// Asks for a slot.
pub fn enter(gate: &Gate, run: &str, limit: u32) -> Admission {
    if gate.inside.iter().any(|inside| inside == run) {
        return Admission::Inside;
    }
    if gate.inside.len() >= limit as usize {
        return Admission::Full(gate.inside.clone());
    }
    let mut next = gate.clone();
    next.inside.push(run.to_owned());
    Admission::Enter(next)
}

/// Notes that a run found no room and stands in the queue.
pub fn turn_away(gate: &Gate, run: &str) -> Gate {
    Gate { turned_away: run.to_owned(), ..gate.clone() }
}

/// Gives a slot back. `None`: the run was not inside.
pub fn exit(gate: &Gate, run: &str) -> Option<Gate> {
    let mut next = gate.clone();
    next.inside.retain(|inside| inside != run);
    (next != *gate).then_some(next)
}

/// At most `count` sends in any window of `per_ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rate {
    pub count: u32,
    pub per_ms: u64,
}

/// The sends of an action that still count against its rate.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meter {
    /// Who took the last one: two callers at the same moment must not look like one that repeats.
    #[serde(default)]
    pub by: String,
    /// When the sends were last counted; their times are on the steady clock of that boot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    at: Option<At>,
    /// When, and how many, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    sends: Vec<(i64, u32)>,
    /// Of earlier versions, which counted by one time on the wall clock.
    #[serde(default, skip_serializing)]
    until_ms: i64,
}

#[cfg(test)]
mod tests;
