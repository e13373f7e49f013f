//! Answers that an operator replaced, because the code could not read them.

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::{Event, Outcome, Value};

/// Puts the value that an operator gave for a command in the place of its recorded answer, where it
/// has one: the run paused on an answer that its code could not read. Returns these commands.
pub fn correct<'a>(events: impl DoubleEndedIterator<Item = &'a mut Event>) -> BTreeSet<String> {
    let mut given: BTreeMap<String, Value> = BTreeMap::new();
    let mut corrected = BTreeSet::new();
    for event in events.rev() {
        if let Event::Skipped { id, value, .. } = event {
            given.entry(id.clone()).or_insert_with(|| value.clone());
            continue;
        }
        let Some(value) = event.id().and_then(|id| given.get(id)).cloned() else { continue };
        match event {
            Event::Step { id, result, .. }
            | Event::Effect { id, result, .. }
            | Event::Child { id, result, .. } => {
                *result = Outcome::Value(value);
                corrected.insert(id.clone());
            }
            Event::Received { id, payload, .. } => {
                *payload = value;
                corrected.insert(id.clone());
            }
            _ => {}
        }
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json::Json;

    fn value(text: &str) -> Value {
        Value::Json(Json::from_text(text).unwrap())
    }

    fn skipped(id: &str, text: &str) -> Event {
        let (actor, reason) = ("ann".to_owned(), "looked".to_owned());
        Event::Skipped { id: id.into(), actor, reason, value: value(text) }
    }

    fn effect(id: &str, text: &str) -> Event {
        let (id, what) = (id.to_owned(), "effect mail/1".to_owned());
        Event::Effect { id, what, result: Outcome::Value(value(text)), repeat: false }
    }

    #[test]
    fn the_last_value_an_operator_gave_replaces_the_recorded_answer() {
        let planned =
            Event::Planned { id: "mail#0".into(), what: "effect mail/1".into(), undo: false };
        let mut events = [
            planned.clone(),
            effect("mail#0", "null"),
            effect("mail#1", "7"),
            skipped("mail#0", "1"),
            skipped("mail#0", "2"),
            skipped("ship#0", "3"),
        ];
        let corrected = correct(events.iter_mut());
        assert_eq!(corrected, BTreeSet::from(["mail#0".to_owned()]), "the others had no answer");
        assert_eq!(events[..3], [planned, effect("mail#0", "2"), effect("mail#1", "7")]);
    }
}
