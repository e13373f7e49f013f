//! What an observer remembers, within bounds.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use semel_core::declare::{
    Declaration, Flow, KeySeen, Kind, Known, Language, Origin, ReceiptShape, Registry, Tristate,
    members,
};
use semel_core::fingerprint::{Fingerprint, Rule};
use semel_core::json::Json;
use semel_core::key::Key;
use semel_core::limits;
use semel_engine::Facts;

/// One call of an effect, as it was asked for.
pub(crate) struct Called<'a> {
    /// The run that calls it.
    pub(crate) facts: Option<&'a Facts>,
    /// Its place in the run.
    pub(crate) id: &'a str,
    pub(crate) key: &'a Key,
    pub(crate) input: &'a Json,
    /// The type of its receipt.
    pub(crate) receipt: String,
}

#[derive(Default)]
pub(super) struct Seen {
    declared: BTreeMap<(Kind, String), Declared>,
    /// Workflows, by name.
    flows: BTreeMap<String, (Flow, BTreeSet<String>, KeySeen)>,
    runs: HashMap<String, RunNote>,
    /// The first key of each place and input.
    keys: HashMap<(String, String, [u8; 32]), String>,
    is_cut: bool,
}

#[derive(Default)]
struct Declared {
    declaration: Declaration,
    key: KeySeen,
    parameters: BTreeSet<String>,
    words: BTreeSet<String>,
    fields: BTreeSet<String>,
}

/// What a run knew when it called its effects.
struct RunNote {
    input: String,
    key: String,
    answers: Vec<(Origin, String, String)>,
}

/// Answers of one run that are remembered.
const ANSWERS_MAX: usize = 100;
/// Members of an input that are listed.
const PARAMETERS_MAX: usize = 100;
const START_KEY: &str = "start key";

impl Seen {
    pub(super) fn flow(&mut self, name: &str) -> Option<&mut Flow> {
        self.flow_of(name).map(|(flow, ..)| flow)
    }

    fn flow_of(&mut self, name: &str) -> Option<&mut (Flow, BTreeSet<String>, KeySeen)> {
        if self.flows.len() >= limits::DECLARATIONS_MAX && !self.flows.contains_key(name) {
            self.is_cut = true;
            return None;
        }
        Some(self.flows.entry(name.to_owned()).or_default())
    }

    fn uses(&mut self, workflow: &str, step: &str) {
        if let Some((_, steps, _)) = self.flow_of(workflow)
            && steps.len() < limits::DECLARATIONS_MAX
        {
            steps.insert(step.to_owned());
        }
    }

    fn declared(&mut self, one: Declaration) -> Option<&mut Declared> {
        let name = (one.kind, one.title().to_owned());
        if self.declared.len() >= limits::DECLARATIONS_MAX && !self.declared.contains_key(&name) {
            self.is_cut = true;
            return None;
        }
        let entry = self.declared.entry(name).or_default();
        // What was learnt by sending outlives the next call.
        let passed_on = entry.declaration.key_passed_on;
        entry.declaration = Declaration { key_passed_on: passed_on, ..one };
        Some(entry)
    }

    pub(super) fn run(&mut self, facts: &Facts, input: &str) {
        if self.runs.contains_key(&facts.run_id) {
            return; // replayed
        }
        let mut known = Known::default();
        known.add(Origin::Input, "", input);
        let parts = Key::parse(&facts.key).map(|key| key.parts()).unwrap_or_default();
        if let Some((_, _, key)) = self.flow_of(&facts.workflow) {
            key.see(&parts, &known);
        }
        if self.runs.len() >= limits::OBSERVED_MAX {
            self.is_cut = true;
            return;
        }
        let (input, key) = (input.to_owned(), facts.key.clone());
        self.runs.insert(facts.run_id.clone(), RunNote { input, key, answers: Vec::new() });
    }

    pub(super) fn step(&mut self, run: &str, workflow: &str, one: Declaration, value: &str) {
        let (name, kind) = (one.name.clone(), one.kind);
        self.uses(workflow, &name);
        self.declared(one);
        let origin = if kind == Kind::Model { Origin::Model } else { Origin::Step };
        if let Some(note) = self.runs.get_mut(run)
            && note.answers.len() < ANSWERS_MAX
            && value.len() <= limits::NOTE_BYTES_MAX
        {
            note.answers.push((origin, name, value.to_owned()));
        }
    }

    pub(super) fn effect(&mut self, called: &Called<'_>, one: Declaration) {
        let action = one.title().to_owned();
        if let Some(facts) = called.facts {
            self.uses(&facts.workflow, &action);
        }
        let changes = self.changes(called, &action);
        let known = self.known(called);
        let input = called.input.text();
        let run_input = called.facts.and_then(|facts| self.runs.get(&facts.run_id));
        let asked = run_input.map(|note| members(&note.input)).unwrap_or_default();
        let Some(entry) = self.declared(one) else { return };
        entry.key.see(&called.key.parts(), &known);
        if changes {
            entry.key.note_change();
        }
        entry.words.extend(known.words_of_model(input));
        for path in asked.into_keys().chain(members(input).into_keys()) {
            if entry.parameters.len() < PARAMETERS_MAX && !path.is_empty() {
                entry.parameters.insert(path);
            }
        }
        entry.declaration.receipt.get_or_insert_with(ReceiptShape::default).name =
            called.receipt.clone();
    }

    /// Whether the same input was seen under another key in the same place of the code. A run
    /// that is replayed with another key is stopped before that, as `unstable_key`.
    fn changes(&mut self, called: &Called<'_>, action: &str) -> bool {
        let text = match called.facts.map(|facts| self.runs.get(&facts.run_id)) {
            Some(Some(note)) => note.input.as_str(),
            Some(None) => return false,
            None => called.input.text(),
        };
        if called.facts.is_none() && matches!(text, "null" | "{}" | "[]") {
            return false; // nothing to tell two wishes apart by
        }
        let digest = Fingerprint::of(text.as_bytes(), &Rule::All).digest;
        let place = (action.to_owned(), called.id.to_owned(), digest);
        let has_room = self.keys.len() < limits::OBSERVED_MAX;
        match self.keys.get(&place) {
            Some(first) => first != called.key.as_str(),
            None if has_room => {
                self.keys.insert(place, called.key.as_str().to_owned());
                false
            }
            None => false,
        }
    }

    fn known(&self, called: &Called<'_>) -> Known {
        let mut known = Known::default();
        let Some(facts) = called.facts else {
            known.add(Origin::Input, "", called.input.text());
            return known;
        };
        if let Some(note) = self.runs.get(&facts.run_id) {
            known.add(Origin::Input, "", &note.input);
            let start = Key::parse(&note.key).map(|key| key.parts()).unwrap_or_default();
            if let [one] = start.as_slice() {
                known.add(Origin::StartKey, START_KEY, &serde_json::json!(one).to_string());
            } else {
                known.add(Origin::StartKey, START_KEY, &serde_json::json!(start).to_string());
            }
            for (origin, step, value) in &note.answers {
                known.add(*origin, step, value);
            }
        }
        known
    }

    pub(super) fn sent(&mut self, action: &str, has_used_key: bool, receipt: &str) {
        let Some(entry) = self.declared.get_mut(&(Kind::Effect, action.to_owned())) else {
            return;
        };
        let passed_on = &mut entry.declaration.key_passed_on;
        *passed_on = match (*passed_on, has_used_key) {
            (Tristate::Yes, _) | (_, true) => Tristate::Yes,
            (Tristate::No | Tristate::Unknown, false) => Tristate::No,
        };
        if let Ok(serde_json::Value::Object(found)) = serde_json::from_str(receipt) {
            entry.fields.extend(found.into_iter().map(|(name, _)| name).take(PARAMETERS_MAX));
        }
    }

    pub(super) fn registry(&self) -> Registry {
        let effects = self.declared.values().map(Declared::told);
        let flows = self.flows.iter().map(|(name, (flow, steps, key))| {
            let shape = key.shape();
            let is_known = !shape.fields.is_empty() && !shape.parts.contains(&"{?}".to_owned());
            Declaration {
                language: Language::Rust,
                kind: Kind::Workflow,
                name: name.clone(),
                flow: Some(Flow {
                    steps: steps.iter().cloned().collect(),
                    start_key: is_known.then_some(shape),
                    ..flow.clone()
                }),
                ..Declaration::default()
            }
        });
        let declarations = effects.chain(flows).collect();
        Registry { declarations, is_cut: self.is_cut, ..Registry::new() }.sorted()
    }
}

impl Declared {
    fn told(&self) -> Declaration {
        let list = |names: &BTreeSet<String>| names.iter().cloned().collect();
        let mut told = self.declaration.clone();
        if told.is_effect() {
            told.key = Some(self.key.shape());
        }
        told.parameters = list(&self.parameters);
        told.model_words = list(&self.words);
        if let Some(receipt) = &mut told.receipt {
            receipt.fields = list(&self.fields);
        }
        told
    }
}
