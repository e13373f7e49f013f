//! What the values of keys tell about how they are made. In Rust a key is an expression, and nobody
//! can read that afterwards; but whoever sees it with its input can say what it equals.

use std::collections::{BTreeMap, BTreeSet};

use super::{KeyShape, Sign};
use crate::looks::{Look, look_of};

/// Where a value that a key may be made of comes from. The first that fits explains it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// The input of the run, or of the call where there is no run.
    Input,
    /// What the run was started under.
    StartKey,
    /// What a plain step returned.
    Step,
    /// What a model said.
    Model,
}

/// The values that were known when a key was made: name and text of each.
#[derive(Clone, Debug, Default)]
pub struct Known(Vec<(Origin, String, String)>);

impl Known {
    /// Adds the members of a JSON value under a name, which may be empty.
    pub fn add(&mut self, origin: Origin, name: &str, json: &str) {
        for (member, text) in members(json) {
            let name = match (name, member.as_str()) {
                ("", member) => member.to_owned(),
                (name, "") => name.to_owned(),
                (name, member) if member.starts_with('[') => format!("{name}{member}"),
                (name, member) => format!("{name}.{member}"),
            };
            if self.0.len() < MEMBERS_MAX {
                self.0.push((origin, name, text));
            }
        }
    }

    /// The top members of an input that have a model's words in them: what a model said, whole or
    /// within a text, unless it was known before it was asked.
    pub fn words_of_model(&self, input: &str) -> Vec<String> {
        let is_said = |text: &str| {
            let mut said = self.0.iter().filter(|(origin, ..)| *origin == Origin::Model);
            said.any(|(.., words)| words.len() >= WORD_BYTES_MIN && text.contains(&**words))
        };
        let is_known = |text: &str| {
            self.0.iter().any(|(origin, _, known)| *origin != Origin::Model && known == text)
        };
        let mut found: Vec<String> = members(input)
            .into_iter()
            .filter(|(_, text)| !is_known(text) && is_said(text))
            .map(|(path, _)| path.split(['.', '[']).next().unwrap_or_default().to_owned())
            .collect();
        found.dedup();
        found
    }

    fn named(&self, name: &str) -> Option<Origin> {
        self.0.iter().find(|(_, known, _)| known == name).map(|(origin, ..)| *origin)
    }
}

/// Members of one input that are looked at: more are not read by anybody who made a key by hand.
const MEMBERS_MAX: usize = 1_000;
/// Shorter words are found in a text by accident.
const WORD_BYTES_MIN: usize = 3;

/// Everything in a JSON value that a key may be made of: path and text of each text and whole
/// number. A value that is one itself has an empty path.
pub fn members(json: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    if let Ok(value) = serde_json::from_str::<serde_json::Value>(json) {
        collect(&value, String::new(), &mut found);
    }
    found
}

fn collect(value: &serde_json::Value, path: String, found: &mut BTreeMap<String, String>) {
    if found.len() >= MEMBERS_MAX {
        return;
    }
    match value {
        serde_json::Value::Object(members) => {
            for (name, member) in members {
                let dot = if path.is_empty() { "" } else { "." };
                collect(member, format!("{path}{dot}{name}"), found);
            }
        }
        serde_json::Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                collect(item, format!("{path}[{number}]"), found);
            }
        }
        serde_json::Value::String(text) if !text.is_empty() => {
            found.insert(path, text.clone());
        }
        serde_json::Value::Number(number) if !number.is_f64() => {
            found.insert(path, number.to_string());
        }
        serde_json::Value::String(_)
        | serde_json::Value::Number(_)
        | serde_json::Value::Bool(_)
        | serde_json::Value::Null => {}
    }
}

/// What was seen of the keys of one place in the code.
#[derive(Clone, Debug, Default)]
pub struct KeySeen {
    parts: Vec<PartSeen>,
    changes: bool,
    /// The number of parts differed between calls.
    is_uneven: bool,
}

#[derive(Clone, Debug)]
struct PartSeen {
    text: String,
    is_constant: bool,
    /// The templates that have explained every value so far, the best first.
    templates: Vec<(Origin, String)>,
    look: Option<Look>,
}

impl KeySeen {
    /// One more key of this place, with what was known when it was made.
    pub fn see(&mut self, key: &[String], known: &Known) {
        if self.parts.is_empty() {
            self.parts = key.iter().map(|part| PartSeen::new(part, known)).collect();
            return;
        }
        if self.parts.len() != key.len() {
            self.is_uneven = true;
            return;
        }
        for (seen, part) in self.parts.iter_mut().zip(key) {
            seen.see(part, known);
        }
    }

    /// The same input has given another key.
    pub fn note_change(&mut self) {
        self.changes = true;
    }

    /// How the key is made, as far as that can be seen.
    pub fn shape(&self) -> KeyShape {
        let mut fields = BTreeSet::new();
        let mut signs = BTreeSet::new();
        let mut parts = Vec::new();
        for part in &self.parts {
            parts.push(part.template());
            match part.templates.first() {
                Some((Origin::Model, _)) => {
                    signs.insert(Sign::ModelOutput);
                }
                Some((Origin::Input | Origin::StartKey | Origin::Step, template)) => {
                    fields.extend(field_of(template).map(ToOwned::to_owned));
                }
                None => signs.extend(part.look.map(sign_of)),
            }
        }
        if self.is_uneven {
            parts.push("{?}".to_owned());
        }
        // What the start key or a step explains may differ between two runs of one input.
        if self.changes && parts.iter().any(|part| part == "{?}") {
            signs.insert(Sign::Changes);
        }
        let (fields, signs) = (fields.into_iter().collect(), signs.into_iter().collect());
        KeyShape { parts, fields, function: None, signs }
    }
}

impl PartSeen {
    fn new(part: &str, known: &Known) -> PartSeen {
        let mut templates: Vec<(Origin, String)> = Vec::new();
        for (origin, name, value) in &known.0 {
            templates.extend(explain(part, name, value).map(|template| (*origin, template)));
        }
        templates.sort_by_key(|(origin, template)| rank(*origin, is_whole(template)));
        PartSeen { text: part.to_owned(), is_constant: true, templates, look: look_of(part) }
    }

    fn see(&mut self, part: &str, known: &Known) {
        self.is_constant &= self.text == part;
        self.look = self.look.and(look_of(part));
        self.templates.retain(|(origin, template)| {
            let Some(name) = field_of(template) else { return false };
            let value = known.0.iter().find(|(_, other, _)| other == name).map(|(.., text)| text);
            known.named(name) == Some(*origin)
                && value.is_some_and(|value| explain(part, name, value).as_ref() == Some(template))
        });
    }

    fn template(&self) -> String {
        match self.templates.first() {
            Some((_, template)) => template.clone(),
            // Always the same: the author wrote it so, such as `v1`.
            None if self.is_constant && self.look.is_none() => self.text.clone(),
            None => "{?}".to_owned(),
        }
    }
}

/// The template by which a value makes a part: `v{version}` for `v2` and 2. A word may stand around
/// it, but no digit: `1` in `order-17` is no version.
fn explain(part: &str, name: &str, value: &str) -> Option<String> {
    if value.is_empty() || name.is_empty() && part != value {
        return None;
    }
    let name = if name.is_empty() { "input" } else { name };
    if part == value {
        return Some(format!("{{{name}}}"));
    }
    let at = part.find(value)?;
    let (before, after) = (&part[..at], &part[at + value.len()..]);
    let is_apart = |neighbour: Option<char>| neighbour.is_none_or(|c| !c.is_ascii_digit());
    // A short text is a piece of many words; a number beside letters is one on purpose.
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let is_word = |c: char| c.is_alphanumeric();
    let stands_alone =
        !before.chars().last().is_some_and(is_word) && !after.chars().next().is_some_and(is_word);
    let fits = is_apart(before.chars().last()) && is_apart(after.chars().next());
    (fits && (is_number || stands_alone)).then(|| format!("{before}{{{name}}}{after}"))
}

/// What explains a part best. A value that is the whole of it is better than one that is a piece;
/// but a start key is itself made of the input, so even a piece of that says more.
fn rank(origin: Origin, is_whole: bool) -> u8 {
    match (origin, is_whole) {
        (Origin::Input, true) => 0,
        (Origin::Step, true) => 1,
        (Origin::Model, true) => 2,
        (Origin::Input, false) => 3,
        (Origin::StartKey, true) => 4,
        (Origin::Step, false) => 5,
        (Origin::StartKey, false) => 6,
        (Origin::Model, false) => 7,
    }
}

fn is_whole(template: &str) -> bool {
    template.starts_with('{') && template.ends_with('}')
}

fn field_of(template: &str) -> Option<&str> {
    template.split_once('{')?.1.split_once('}').map(|(name, _)| name)
}

fn sign_of(look: Look) -> Sign {
    match look {
        Look::Time => Sign::Time,
        Look::Random => Sign::Randomness,
        Look::Attempt => Sign::Attempt,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(calls: &[(&[&str], &str)]) -> KeyShape {
        let mut seen = KeySeen::default();
        for (key, input) in calls {
            let mut known = Known::default();
            known.add(Origin::Input, "", input);
            seen.see(&key.iter().map(|part| (*part).to_owned()).collect::<Vec<_>>(), &known);
        }
        seen.shape()
    }

    fn check(calls: &[(&[&str], &str)], parts: &[&str], signs: &[Sign]) {
        let shape = shape(calls);
        assert_eq!(shape.parts, parts, "{calls:?}");
        assert_eq!(shape.signs, signs, "{calls:?}");
    }

    #[test]
    fn a_part_is_named_after_the_member_that_it_equals() {
        let one = r#"{"request_id":"r-1","sender":"a@b"}"#;
        let two = r#"{"request_id":"r-2","sender":"c@d"}"#;
        check(&[(&["r-1", "a@b", "v1"], one)], &["{request_id}", "{sender}", "v1"], &[]);
        check(&[(&["r-1", "v1"], one), (&["r-2", "v1"], two)], &["{request_id}", "v1"], &[]);
        assert_eq!(shape(&[(&["r-1", "v1"], one)]).fields, ["request_id"]);
        check(&[(&["o", "v2"], r#"{"id":"o","version":2}"#)], &["{id}", "v{version}"], &[]);
        check(&[(&["7"], r#"{"a":{"b":[1,7]}}"#)], &["{a.b[1]}"], &[]);
        check(&[(&["order-7"], r#""order-7""#)], &["{input}"], &[]);
    }

    #[test]
    fn two_calls_tell_apart_what_one_could_not() {
        let (one, two) = (r#"{"a":"x","b":"x"}"#, r#"{"a":"y","b":"x"}"#);
        check(&[(&["x"], one), (&["y"], two)], &["{a}"], &[]);
        // Neither constant nor in the input.
        check(&[(&["p"], one), (&["q"], two)], &["{?}"], &[]);
        check(&[(&["p"], one), (&["p", "q"], two)], &["p", "{?}"], &[]);
    }

    #[test]
    fn a_digit_beside_a_number_is_no_place_of_it() {
        check(&[(&["order-17"], r#"{"version":1}"#)], &["order-17"], &[]);
        check(&[(&["word"], r#"{"a":"or"}"#)], &["word"], &[]);
    }

    #[test]
    fn times_and_random_ids_are_signs_unless_they_are_in_the_input() {
        let id = "0b7a3c1e-59c2-4d0f-9a55-2f6c1f0a9b11";
        check(&[(&[id], "{}")], &["{?}"], &[Sign::Randomness]);
        check(&[(&[id], &format!(r#"{{"order":"{id}"}}"#))], &["{order}"], &[]);
        check(&[(&["1763301600123"], "{}")], &["{?}"], &[Sign::Time]);
        check(&[(&["x", "attempt-2"], r#"{"id":"x"}"#)], &["{id}", "{?}"], &[Sign::Attempt]);
    }

    #[test]
    fn what_a_model_said_is_told_from_what_was_asked() {
        let mut known = Known::default();
        known.add(Origin::Input, "", r#"{"request_id":"r-1"}"#);
        known.add(Origin::Model, "classify", r#"{"category":"fire"}"#);
        let mut seen = KeySeen::default();
        seen.see(&["r-1".to_owned(), "fire".to_owned()], &known);
        let shape = seen.shape();
        assert_eq!(shape.parts, ["{request_id}", "{classify.category}"]);
        assert_eq!(
            (shape.fields, shape.signs),
            (vec!["request_id".into()], vec![Sign::ModelOutput])
        );
    }

    #[test]
    fn a_change_is_kept() {
        let mut seen = KeySeen::default();
        for key in ["a", "b"] {
            seen.see(&[key.to_owned()], &Known::default());
        }
        assert_eq!(seen.shape().signs, []);
        seen.note_change();
        assert_eq!(seen.shape().signs, [Sign::Changes]);
    }

    #[test]
    fn a_change_that_the_start_key_explains_is_none() {
        let mut seen = KeySeen::default();
        for key in ["event-1", "event-2"] {
            let mut known = Known::default();
            known.add(Origin::StartKey, "start key", &format!("{key:?}"));
            seen.see(&[key.to_owned()], &known);
        }
        seen.note_change();
        assert_eq!(seen.shape().parts, ["{start key}"]);
        assert_eq!(seen.shape().signs, []);
    }

    #[test]
    fn the_input_explains_better_than_the_start_key_that_was_made_of_it() {
        let mut known = Known::default();
        known.add(Origin::Input, "", r#"{"order_id":"o-1","version":2}"#);
        known.add(Origin::StartKey, "start key", r#"["o-1","v2","z"]"#);
        let mut seen = KeySeen::default();
        seen.see(&["o-1", "v2", "z"].map(ToOwned::to_owned), &known);
        assert_eq!(seen.shape().parts, ["{order_id}", "v{version}", "{start key[2]}"]);
    }

    #[test]
    fn a_models_words_are_found_in_what_is_sent() {
        let mut known = Known::default();
        known.add(Origin::Input, "", r#"{"request_id":"r-1","subject":"printer"}"#);
        known.add(Origin::Model, "classify", r#"{"category":"fire","id":"r-1","n":1}"#);
        let input = r#"{"request_id":"r-1","subject":"[fire] printer","to":{"n":"1"}}"#;
        assert_eq!(known.words_of_model(input), ["subject"]);
    }
}
