//! What authors declare about their effects, steps and workflows, as plain data: what `semel spec`
//! writes down and `semel lint` looks at, whichever language it was declared in.
//!
//! The shape is that of the file `registry.json`. What is not known is left out, and every reader
//! takes it for unknown, never for "no".

mod seen;

pub use seen::{KeySeen, Known, Origin, members};

use serde::{Deserialize, Serialize};

use crate::contract::{Declared, TermsRefusal};
use crate::limits;
use crate::record::{Contract, Terms};
use crate::retry::Retry;

/// The version of the shape. A file that says a newer one is refused.
pub const FORMAT: u32 = 1;

/// All declarations of one application.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registry {
    pub format: u32,
    /// What it was read from, such as `app.py`; never a whole path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The kind of store, such as `sqlite`, where the application itself says it. Never its
    /// address: that has passwords, and differs from place to place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub store: Option<String>,
    /// The name of the release, where a person gave it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub release: Option<String>,
    pub declarations: Vec<Declaration>,
    /// There were more declarations than are kept.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_cut: bool,
}

/// What a declaration is about.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    #[default]
    Effect,
    /// An effect that is rows in the ledger's own database.
    Transaction,
    /// A plain step.
    Function,
    /// A step whose answer is recorded once per run and request.
    Model,
    Workflow,
}

/// Which SDK it was declared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Language {
    #[default]
    Python,
    Rust,
}

/// Something that is so, is not so, or that nobody could see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tristate {
    Yes,
    No,
    #[default]
    Unknown,
}

/// What one author says of one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Declaration {
    pub language: Language,
    pub kind: Kind,
    /// The function, or in Rust the step.
    pub name: String,
    /// Of effects: the name space of their keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Where it is declared; a relative path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// What the business wants by it, in a sentence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<String>,
    /// The members of its input, by name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parameters: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<KeyShape>,
    /// The members of the input that count; all of them where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fingerprint: Option<Vec<String>>,
    /// What the destination offers, where its author says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub contract: Option<Contract>,
    #[serde(default)]
    pub times: Times,
    /// The key to pass on, where it is not the derived one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub downstream_key: Option<String>,
    /// Whether the code hands the downstream key to the destination.
    #[serde(default)]
    pub key_passed_on: Tristate,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<ReceiptShape>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalShape>,
    /// The action that takes it back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub undo: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<RateShape>,
    /// In doubt its run goes on, instead of waiting for evidence or a person.
    #[serde(default, skip_serializing_if = "is_false")]
    pub goes_on_in_doubt: bool,
    /// A model may call it as a tool, in words of its own.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_tool: bool,
    /// Members of its input that have a model's words in them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub model_words: Vec<String>,
    /// Findings of the lint that its author has looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<Allowed>,
    /// Of workflows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<Flow>,
}

/// A code of the lint that is allowed, and why.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allowed {
    pub code: String,
    pub reason: String,
}

/// The times that were declared. What is left out gets its default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Times {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lease_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deadline_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settle_ms: Option<u64>,
    /// The replay window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_ms: Option<u64>,
    /// Sends in all, the first included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// No retry starts later than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_total_ms: Option<u64>,
}

/// How a key is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyShape {
    /// Its parts as templates: `{request_id}`, `v1`. `{?}` is a place that nobody could explain.
    #[serde(default)]
    pub parts: Vec<String>,
    /// The members of the input that it is made of.
    #[serde(default)]
    pub fields: Vec<String>,
    /// The function that makes it, where one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// What was seen of its values and is no good sign.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub signs: Vec<Sign>,
}

/// What the values of a key have shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sign {
    /// Two calls with the same input had different keys.
    Changes,
    /// A part reads like a point in time, and nothing in the input does.
    Time,
    /// A part reads like a random id, and nothing in the input does.
    Randomness,
    /// A part counts attempts.
    Attempt,
    /// A part is what a model said.
    ModelOutput,
}

/// What an effect returns.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceiptShape {
    /// The type, as its author calls it, or the kind of JSON.
    pub name: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<String>,
}

/// What a person is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApprovalShape {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "is_false")]
    pub four_eyes: bool,
    /// There is nothing to send: the answer is all.
    #[serde(default, skip_serializing_if = "is_false")]
    pub only: bool,
}

/// At most so many sends in so long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateShape {
    pub count: u32,
    pub per_ms: u64,
}

/// What a workflow uses, and how it is started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flow {
    /// The actions and steps that its code calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<String>,
    /// The workflows that it starts and waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<String>,
    /// How its start key is made, where that was seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_key: Option<KeyShape>,
    /// Runs under way at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// One run at a time for each of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub one_per: Option<String>,
    /// What becomes of the others: `queue`, `reject` or `coalesce`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// For how long its trigger delivers again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redelivers_ms: Option<u64>,
}

/// Why a registry cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RegistryInvalid(pub String);

impl std::fmt::Display for RegistryInvalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl Registry {
    /// A registry with nothing in it.
    pub fn new() -> Registry {
        Registry { format: FORMAT, ..Registry::default() }
    }

    /// Reads the text of a `registry.json`.
    pub fn parse(text: &str) -> Result<Registry, RegistryInvalid> {
        let registry: Registry = serde_json::from_str(text)
            .map_err(|error| RegistryInvalid(format!("this is no registry: {error}")))?;
        if registry.format > FORMAT {
            let format = registry.format;
            let text = format!("format {format} of a registry is newer than this semel knows");
            return Err(RegistryInvalid(text));
        }
        if registry.declarations.len() > limits::DECLARATIONS_MAX {
            let most = limits::DECLARATIONS_MAX;
            return Err(RegistryInvalid(format!("a registry has at most {most} declarations")));
        }
        Ok(registry)
    }

    /// The text of a `registry.json`: the same declarations give the same text.
    pub fn to_text(&self) -> String {
        let mut text = serde_json::to_string_pretty(&self.sorted()).expect("plain data is JSON");
        text.push('\n');
        text
    }

    /// The same, in an order that does not depend on who came first.
    #[must_use]
    pub fn sorted(&self) -> Registry {
        let mut sorted = self.clone();
        sorted.declarations.sort_by(|a, b| a.order().cmp(&b.order()));
        sorted
    }
}

impl Declaration {
    fn order(&self) -> (Kind, &str, &str, Option<&str>) {
        (self.kind, self.title(), &self.name, self.file.as_deref())
    }

    /// By what people know it: the action of an effect, the name of anything else.
    pub fn title(&self) -> &str {
        self.action.as_deref().unwrap_or(&self.name)
    }

    /// Whether the ledger has rows of it.
    pub fn is_effect(&self) -> bool {
        matches!(self.kind, Kind::Effect | Kind::Transaction)
    }

    /// The contract that holds, declared or not.
    pub fn contract_in_force(&self) -> Contract {
        match (self.kind, self.contract) {
            (Kind::Transaction, _) => Contract::Transaction,
            (_, Some(contract)) => contract,
            (_, None) => Contract::AtMostOnce,
        }
    }

    /// The terms with all defaults, or why they cannot be kept.
    pub fn terms(&self) -> Result<Terms, TermsRefusal> {
        let Times { lease_ms, deadline_ms, settle_ms, window_ms, .. } = self.times;
        let contract = Some(self.contract_in_force());
        let declared = Declared {
            contract,
            lease_ms,
            deadline_ms,
            settle_ms,
            window_ms,
            ..Declared::default()
        };
        declared.terms()
    }

    /// How often and how long it is tried again.
    pub fn retry(&self) -> Retry {
        let usual = Retry::default();
        Retry {
            attempts_max: self.times.attempts.unwrap_or(usual.attempts_max),
            total_ms: self.times.retry_total_ms.unwrap_or(usual.total_ms),
            ..usual
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_registry_is_read_back_as_it_was_written() {
        let effect = Declaration {
            name: "create_ticket".into(),
            action: Some("crm-ticket".into()),
            contract: Some(Contract::NativeKey { retention_ms: 1_000 }),
            ..Declaration::default()
        };
        let model =
            Declaration { kind: Kind::Model, name: "classify".into(), ..Declaration::default() };
        let one = Registry { declarations: vec![model.clone(), effect.clone()], ..Registry::new() };
        let two = Registry { declarations: vec![effect, model], ..Registry::new() };
        assert_eq!(one.to_text(), two.to_text(), "the order of declaring does not show");
        assert_eq!(Registry::parse(&one.to_text()), Ok(two));
    }

    #[test]
    fn what_is_not_said_is_unknown_and_has_defaults() {
        let text =
            r#"{"format":1,"declarations":[{"language":"rust","kind":"effect","name":"a"}]}"#;
        let registry = Registry::parse(text).expect("as little as possible");
        let effect = &registry.declarations[0];
        assert_eq!(effect.key_passed_on, Tristate::Unknown);
        assert_eq!(effect.contract_in_force(), Contract::AtMostOnce);
        assert_eq!(effect.terms().map(|terms| terms.window_ms), Ok(limits::WINDOW_MS));
        assert_eq!(effect.retry(), Retry::default());
    }

    #[test]
    fn a_newer_format_and_what_is_none_are_refused() {
        let newer = Registry::parse(r#"{"format":2,"declarations":[]}"#).expect_err("newer");
        assert!(newer.0.contains("newer"), "{newer}");
        let none = Registry::parse("[]").expect_err("none");
        assert!(none.0.contains("no registry"), "{none}");
    }
}
