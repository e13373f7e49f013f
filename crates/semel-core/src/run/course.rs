//! The course of a run: which commands its code has issued, and which entry of the journal answers
//! which. Live and in replay alike; what differs is only where the entries come from.
//!
//! Commands are matched by identity: the name and how many of that name came before, or an id of
//! the author's own. So an unrelated step that is inserted does not shift the others.

use std::collections::{BTreeMap, BTreeSet};

use crate::code::Code;
use crate::journal::{At, Event, Fault, Outcome, Value};
use crate::json::Json;
use crate::key::NameInvalid;
use crate::limits;

/// Gives commands their identity, in the order in which the code asks.
#[derive(Debug, Default)]
pub struct Ordinals {
    by_name: BTreeMap<String, u32>,
}

impl Ordinals {
    /// The id of the next command of this name.
    pub fn next(&mut self, name: &str) -> String {
        let ordinal = match self.by_name.get_mut(name) {
            Some(ordinal) => {
                *ordinal += 1;
                *ordinal
            }
            None => {
                self.by_name.insert(name.to_owned(), 0);
                0
            }
        };
        format!("{name}#{ordinal}")
    }
}

/// Checks the name of a step, or an id of the author's own. `#` is left to ordinals.
pub fn check_step_name(name: &str) -> Result<(), NameInvalid> {
    let is_fit = !name.contains('#') && has_size(name, limits::NAME_BYTES_MAX);
    let why = "has 1 to 100 bytes, no `#` and no control characters";
    if is_fit { Ok(()) } else { Err(NameInvalid { what: "the name of a step", why }) }
}

/// Checks the name of a signal or the identity of a delivery. Others choose them, so all is allowed
/// that a row can hold.
pub fn check_delivery_name(name: &str) -> Result<(), NameInvalid> {
    let is_fit = has_size(name, limits::KEY_BYTES_MAX);
    let why = "has 1 to 255 bytes and no control characters";
    if is_fit { Ok(()) } else { Err(NameInvalid { what: "the name of a delivery", why }) }
}

fn has_size(name: &str, bytes_max: usize) -> bool {
    !name.is_empty() && name.len() <= bytes_max && !name.chars().any(char::is_control)
}

/// Commands that were issued and not answered yet.
#[derive(Debug, Default)]
pub struct Course {
    open: BTreeMap<String, Issued>,
    /// Ids of the author's own that were used: each names one command.
    named: BTreeSet<String>,
    /// Commands whose recorded answer an operator replaced: see [`super::correct`].
    pub corrected: BTreeSet<String>,
}

/// An open command, with what the journal knows of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issued {
    /// Its digest: what it asks for, as people read it.
    pub what: String,
    /// Failed attempts so far, since an operator last let it go on.
    pub failed: u32,
    /// When the first of them failed.
    pub first_failed: Option<At>,
    /// No attempt before this.
    pub retry_at: Option<At>,
    /// An effect whose key is on record.
    pub planned: bool,
}

/// What an entry means for the code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Delivered {
    /// A command has its answer.
    Answer { id: String, answer: Answer },
    /// Nothing that the code could observe.
    Noted,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Value(Value),
    Fault(Fault),
    /// A timer fired, or nothing came in time.
    Nothing,
}

/// The code asks for something else than the journal says it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Divergence {
    pub seq: u64,
    pub id: String,
    /// What the journal says.
    pub journal: String,
    /// What the code asked for under that id; `None`: nothing, so far.
    pub code: Option<String>,
    /// What the code waits for instead.
    pub open: Vec<String>,
    pub code_kind: Code,
}

impl Course {
    /// Notes a command. Refused when the author's own id was used before, or too many are open.
    pub fn issue(&mut self, id: &str, what: &str) -> Result<(), Fault> {
        if self.open.len() >= limits::COMMANDS_OPEN_MAX {
            let text = format!("more than {} commands are open", limits::COMMANDS_OPEN_MAX);
            return Err(Fault::new(Code::TooMany, text));
        }
        let is_named = !id.contains('#');
        if is_named && !self.named.insert(id.to_owned()) {
            let text = format!("the id `{id}` was used before");
            return Err(Fault::new(Code::StepRepeated, text));
        }
        let issued = Issued {
            what: what.to_owned(),
            failed: 0,
            first_failed: None,
            retry_at: None,
            planned: false,
        };
        let before = self.open.insert(id.to_owned(), issued);
        assert!(before.is_none(), "an ordinal was given twice: {id}");
        Ok(())
    }

    /// What is known of an open command.
    pub fn open(&self, id: &str) -> Option<&Issued> {
        self.open.get(id)
    }

    /// How many commands are open.
    pub fn open_count(&self) -> usize {
        self.open.len()
    }

    /// Takes in one entry. Its command must have been issued, and must be the same.
    pub fn deliver(&mut self, seq: u64, at: At, event: &Event) -> Result<Delivered, Divergence> {
        match event {
            Event::Step { id, what, result, .. }
            | Event::Effect { id, what, result, .. }
            | Event::Child { id, what, result, .. } => {
                let answer = match result {
                    Outcome::Value(value) => Answer::Value(value.clone()),
                    Outcome::Fault(fault) => Answer::Fault(fault.clone()),
                };
                self.answer(seq, id, what, answer)
            }
            Event::Received { id, what, payload, .. } => {
                self.answer(seq, id, what, Answer::Value(payload.clone()))
            }
            Event::Entered { id, what, fence } => {
                let fence = Json::from_text(fence.to_string()).expect("a number is JSON");
                self.answer(seq, id, what, Answer::Value(Value::Json(fence)))
            }
            Event::Fired { id, what } | Event::TimedOut { id, what } | Event::Left { id, what } => {
                self.answer(seq, id, what, Answer::Nothing)
            }
            Event::StepFailed { id, what, retry_at, .. } => {
                let issued = self.find(seq, id, what)?;
                issued.failed += 1;
                issued.first_failed.get_or_insert(at);
                issued.retry_at = *retry_at;
                Ok(Delivered::Noted)
            }
            Event::Planned { id, what, .. } => {
                self.find(seq, id, what)?.planned = true;
                Ok(Delivered::Noted)
            }
            Event::Skipped { id, .. } if self.corrected.contains(id) => Ok(Delivered::Noted),
            Event::Skipped { id, value, .. } => {
                let what = self.open.get(id).map(|issued| issued.what.clone());
                let what = what.unwrap_or_else(|| "skipped".to_owned());
                self.answer(seq, id, &what, Answer::Value(value.clone()))
            }
            // What an operator let go on starts anew.
            Event::Resumed { .. } => {
                for issued in self.open.values_mut() {
                    (issued.failed, issued.first_failed, issued.retry_at) = (0, None, None);
                }
                Ok(Delivered::Noted)
            }
            Event::Cancelling { .. }
            | Event::Undoing { .. }
            | Event::Moved { .. }
            | Event::Started { .. }
            | Event::Taken { .. }
            | Event::Paused { .. }
            | Event::Finished { .. } => Ok(Delivered::Noted),
        }
    }

    fn answer(
        &mut self,
        seq: u64,
        id: &str,
        what: &str,
        answer: Answer,
    ) -> Result<Delivered, Divergence> {
        self.find(seq, id, what)?;
        self.open.remove(id);
        Ok(Delivered::Answer { id: id.to_owned(), answer })
    }

    fn find(&mut self, seq: u64, id: &str, what: &str) -> Result<&mut Issued, Divergence> {
        let asked = self.open.get(id).map(|issued| issued.what.clone());
        if asked.as_deref() == Some(what) {
            return Ok(self.open.get_mut(id).expect("it was found"));
        }
        let mut open: Vec<String> =
            self.open.iter().map(|(id, issued)| format!("{id} ({})", issued.what)).collect();
        open.sort();
        let is_effect = |what: &str| what.starts_with("effect ");
        let both = is_effect(what) && asked.as_deref().is_some_and(is_effect);
        let code_kind = if both { Code::UnstableKey } else { Code::Diverged };
        let (id, journal) = (id.to_owned(), what.to_owned());
        Err(Divergence { seq, id, journal, code: asked, open, code_kind })
    }
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Divergence { seq, id, journal, .. } = self;
        writeln!(f, "the code asks for something else than entry {seq} of the journal says")?;
        writeln!(f, "- journal: {id} ({journal})")?;
        match &self.code {
            Some(what) => write!(f, "+ code:    {id} ({what})"),
            None if self.open.is_empty() => write!(f, "+ code:    nothing more"),
            None => write!(f, "+ code:    {}", self.open.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;
    use crate::time::{Steady, Wall};

    const AT: At = At(Wall(5), Steady { boot: 0, ms: 5 });

    fn value(text: &str) -> Value {
        Value::Json(Json::from_text(text).unwrap())
    }

    fn step(id: &str, what: &str) -> Event {
        let result = Outcome::Value(value("1"));
        Event::Step { id: id.into(), what: what.into(), attempts: 1, result }
    }

    fn issued(commands: &[(&str, &str)]) -> Course {
        let mut course = Course::default();
        commands.iter().for_each(|(id, what)| course.issue(id, what).unwrap());
        course
    }

    #[test]
    fn ordinals_count_per_name() {
        let mut ordinals = Ordinals::default();
        let ids: Vec<_> = ["a", "b", "a", "a"].iter().map(|name| ordinals.next(name)).collect();
        assert_eq!(ids, ["a#0", "b#0", "a#1", "a#2"]);
    }

    #[test]
    fn req_s4_an_entry_answers_the_command_of_its_identity() {
        let mut course = issued(&[("a#0", "step"), ("b#0", "step")]);
        let got = course.deliver(3, AT, &step("b#0", "step"));
        let answer = Answer::Value(value("1"));
        assert_eq!(got, Ok(Delivered::Answer { id: "b#0".into(), answer }));
        assert!(course.open("b#0").is_none() && course.open("a#0").is_some());
    }

    #[test]
    fn inv_i12_a_missing_or_other_command_is_a_divergence_that_reads_well() {
        let mut course = issued(&[("b#0", "step")]);
        let missing = course.deliver(3, AT, &step("a#0", "step")).unwrap_err();
        assert_eq!(missing.code_kind, Code::Diverged);
        let text = "the code asks for something else than entry 3 of the journal says\n\
                    - journal: a#0 (step)\n+ code:    b#0 (step)";
        assert_eq!(missing.to_string(), text);
        let other = course.deliver(4, AT, &step("b#0", "sleep 1s")).unwrap_err();
        assert!(other.to_string().ends_with("- journal: b#0 (sleep 1s)\n+ code:    b#0 (step)"));
        let nothing = Course::default().deliver(4, AT, &step("b#0", "step")).unwrap_err();
        assert!(nothing.to_string().ends_with("+ code:    nothing more"));
    }

    #[test]
    fn req_k15_another_key_for_the_same_step_is_unstable() {
        let mut course = issued(&[("crm-ticket#0", "effect crm-ticket/43")]);
        let planned = Event::Planned {
            id: "crm-ticket#0".into(),
            what: "effect crm-ticket/42".into(),
            undo: false,
        };
        let found = course.deliver(2, AT, &planned).unwrap_err();
        assert_eq!(found.code_kind, Code::UnstableKey);
    }

    #[test]
    fn failed_attempts_are_counted_until_an_operator_lets_the_run_go_on() {
        let mut course = issued(&[("a#0", "step")]);
        let fault = Fault::new(Code::StepFailed, "no");
        let failed = |attempt, retry_at| Event::StepFailed {
            id: "a#0".into(),
            what: "step".into(),
            attempt,
            fault: fault.clone(),
            retry_at,
        };
        course.deliver(1, AT, &failed(1, Some(AT.plus(9)))).unwrap();
        course.deliver(2, AT.plus(10), &failed(2, None)).unwrap();
        let known = course.open("a#0").unwrap();
        assert_eq!((known.failed, known.first_failed, known.retry_at), (2, Some(AT), None));
        let resumed = Event::Resumed { actor: "ann".into(), reason: "fixed".into() };
        course.deliver(3, AT, &resumed).unwrap();
        assert_eq!(course.open("a#0").unwrap().failed, 0);
    }

    #[test]
    fn names_are_short_plain_and_leave_the_mark_of_ordinals_alone() {
        for (name, step, delivery) in [
            ("classify", true, true),
            ("a b/c", true, true),
            ("a#1", false, true),
            ("", false, false),
            ("a\nb", false, false),
            (&"x".repeat(100), true, true),
            (&"x".repeat(101), false, true),
            (&"x".repeat(255), false, true),
            (&"x".repeat(256), false, false),
        ] {
            assert_eq!(check_step_name(name).is_ok(), step, "{name}");
            assert_eq!(check_delivery_name(name).is_ok(), delivery, "{name}");
        }
    }

    #[test]
    fn an_id_of_the_authors_own_names_one_command() {
        let mut course = issued(&[("mine", "step")]);
        course.deliver(1, AT, &step("mine", "step")).unwrap();
        assert_eq!(course.issue("mine", "step").unwrap_err().code, "step_repeated");
    }

    #[test]
    fn the_number_of_open_commands_is_bounded() {
        let mut course = Course::default();
        for number in 0..limits::COMMANDS_OPEN_MAX {
            course.issue(&format!("a#{number}"), "step").unwrap();
        }
        assert_eq!(course.issue("b#0", "step").unwrap_err().code, "too_many");
    }
}
