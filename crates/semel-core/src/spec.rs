//! The spec of an application, made of what its authors declare: per effect the seven things that
//! whoever reviews it must know, and the questions to ask before it ships.
//!
//! It is made to be committed and read in reviews: no times of making, no absolute paths, no line
//! numbers, and everything in an order of its own. The same declarations give the same bytes.

mod checklist;
mod diff;
mod markdown;

pub use diff::diff;
pub use markdown::markdown;

use serde::Serialize;

use crate::declare::{ApprovalShape, Declaration, KeyShape, Kind, Registry};
use crate::limits;
use crate::record::Contract;
use crate::time::format_duration_ms;

/// What an application does to the outside world, and how it is kept to once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Spec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    pub effects: Vec<EffectSpec>,
    pub workflows: Vec<WorkflowSpec>,
    /// Plain steps: they may run again before their value is recorded.
    pub functions: Vec<StepSpec>,
    pub models: Vec<StepSpec>,
}

/// One effect: seven fields, its terms, and the answers to the checklist.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EffectSpec {
    pub action: String,
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    pub action_protected: String,
    pub business_intent: String,
    pub key_fields: String,
    pub storage_location: String,
    pub replay_window: String,
    pub result_record: String,
    pub resume_rule: String,
    pub contract: String,
    pub promise: String,
    /// Approval, undo, rate and the like, where there are any.
    pub more: Vec<String>,
    pub checklist: Vec<Check>,
}

/// One question that is asked before an effect ships.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Check {
    pub question: &'static str,
    pub answer: Answer,
    pub why: String,
}

/// How a question is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Yes,
    /// Not wrong, but somebody should know.
    Attention,
    No,
}

/// One workflow: how it is started, and what it uses.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WorkflowSpec {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    pub start_key: String,
    pub concurrency: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub redelivery: Option<String>,
    pub effects: Vec<String>,
    pub models: Vec<String>,
    pub functions: Vec<String>,
    pub children: Vec<String>,
}

/// One plain step or model call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct StepSpec {
    pub name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub about: Option<String>,
    pub retries: String,
    /// Of models: how the answer is kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached: Option<&'static str>,
}

const CACHED: &str = "one recorded answer per run and request; a replay asks nobody";

const UNSAID: &str = "not said; say it where it is declared";

/// The spec of all that is declared.
pub fn spec(registry: &Registry) -> Spec {
    let registry = registry.sorted();
    let all = &registry.declarations;
    let of = |kind: Kind| all.iter().filter(move |one| one.kind == kind);
    let effects = all.iter().filter(|one| one.is_effect());
    Spec {
        source: registry.source.clone(),
        effects: effects.map(|one| effect_spec(one, &registry)).collect(),
        workflows: of(Kind::Workflow).map(|one| workflow_spec(one, all)).collect(),
        functions: of(Kind::Function).map(step_spec).collect(),
        models: of(Kind::Model).map(step_spec).collect(),
    }
}

fn effect_spec(one: &Declaration, registry: &Registry) -> EffectSpec {
    let contract = one.contract_in_force();
    let window_ms = one.times.window_ms.unwrap_or(limits::WINDOW_MS);
    EffectSpec {
        action: one.title().to_owned(),
        name: one.name.clone(),
        file: one.file.clone(),
        action_protected: protected(one),
        business_intent: one.intent.clone().unwrap_or_else(|| UNSAID.to_owned()),
        key_fields: key_fields(one),
        storage_location: storage(one, registry.store.as_deref()),
        replay_window: format!(
            "{} from its end or its run's end, the later; then `expired` for {}, never a fresh \
             execution",
            format_duration_ms(window_ms),
            format_duration_ms(limits::TOMBSTONE_MS)
        ),
        result_record: result_record(one),
        resume_rule: contract.after_crash().to_owned(),
        contract: contract_text(one, contract),
        promise: contract.promise().to_owned(),
        more: more(one),
        checklist: checklist::answers(one, &registry.declarations),
    }
}

fn protected(one: &Declaration) -> String {
    if one.approval.is_some_and(|approval| approval.only) {
        return format!("`{}`: a question to a person; nothing is sent", one.title());
    }
    match one.title() == one.name {
        true => format!("`{}`", one.title()),
        false => format!("`{}`, done by `{}`", one.title(), one.name),
    }
}

fn key_fields(one: &Declaration) -> String {
    let Some(key) = &one.key else { return "not known".to_owned() };
    let counted = match &one.fingerprint {
        None => "all of the input must be the same in a repeat".to_owned(),
        Some(members) => format!("of the input, {} must be the same in a repeat", list(members)),
    };
    format!("{}; {counted}", key_text(key))
}

/// A key, as its author would explain it.
fn key_text(key: &KeyShape) -> String {
    let fields = match key.fields.as_slice() {
        [] => "none".to_owned(),
        fields => list(fields),
    };
    match (&key.function, key.parts.as_slice()) {
        (Some(function), _) => format!("{fields}, by the function `{function}`"),
        (None, [one]) => format!("{fields}, as `{one}`"),
        (None, parts) => format!("{fields}, as `[{}]`", parts.join(", ")),
    }
}

fn storage(one: &Declaration, store: Option<&str>) -> String {
    let action = one.title();
    let row = format!("one row of the ledger: (namespace, `{action}`, key, generation)");
    match store {
        None => format!("{row}, in the store that the application is given"),
        Some(store) => format!("{row}, in its {store} store"),
    }
}

fn result_record(one: &Declaration) -> String {
    match &one.receipt {
        None => "a receipt of unknown shape, kept word for word".to_owned(),
        Some(receipt) if receipt.fields.is_empty() => {
            format!("`{}`, kept word for word", receipt.name)
        }
        Some(receipt) => format!("`{}` with {}", receipt.name, list(&receipt.fields)),
    }
}

fn contract_text(one: &Declaration, contract: Contract) -> String {
    let terms = match contract {
        Contract::NativeKey { retention_ms } => {
            format!(" (retention {})", format_duration_ms(retention_ms))
        }
        Contract::Probe { first: true } => " (looks before the first send, too)".to_owned(),
        Contract::Probe { first: false }
        | Contract::Transaction
        | Contract::Conditional
        | Contract::AtMostOnce
        | Contract::Harmless => String::new(),
    };
    let is_said = one.contract.is_some() || one.kind == Kind::Transaction;
    let default = if is_said { "" } else { ", by default" };
    format!("`{}`{terms}{default}", contract.name())
}

fn more(one: &Declaration) -> Vec<String> {
    let mut lines = Vec::new();
    if let Some(approval) = &one.approval {
        lines.push(approval_text(approval));
    }
    if let Some(undo) = &one.undo {
        lines.push(format!("taken back by `{undo}` when its run fails or is cancelled"));
    }
    if let Some(rate) = &one.rate {
        let per = format_duration_ms(rate.per_ms);
        lines.push(format!("at most {} sends in {per}, over all processes", rate.count));
    }
    if let Some(key) = &one.downstream_key {
        lines.push(format!("downstream key `{key}`"));
    }
    if one.goes_on_in_doubt {
        lines.push("in doubt its run goes on, and the doubt stays listed".to_owned());
    }
    if one.is_tool {
        lines.push("a tool: a model calls it in words of its own".to_owned());
    }
    lines
}

fn approval_text(approval: &ApprovalShape) -> String {
    let mut text = "a person approves exactly this input first".to_owned();
    if let Some(expires_ms) = approval.expires_ms {
        text.push_str(&format!("; silence for {} is a no", format_duration_ms(expires_ms)));
    }
    if approval.four_eyes {
        text.push_str("; whoever asks may not decide");
    }
    text
}

fn workflow_spec(one: &Declaration, all: &[Declaration]) -> WorkflowSpec {
    let flow = one.flow.clone().unwrap_or_default();
    let used = |wanted: &[Kind]| -> Vec<String> {
        let is_wanted = |name: &&String| {
            all.iter().any(|other| other.title() == **name && wanted.contains(&other.kind))
        };
        sorted(flow.steps.iter().filter(is_wanted))
    };
    WorkflowSpec {
        name: one.name.clone(),
        file: one.file.clone(),
        about: one.intent.clone(),
        start_key: flow.start_key.as_ref().map_or_else(
            || "given by whoever starts it; the same key is the same run".to_owned(),
            |key| format!("{}; the same key is the same run", key_text(key)),
        ),
        concurrency: concurrency(flow.limit, flow.one_per.as_deref(), flow.mode.as_deref()),
        redelivery: flow.redelivers_ms.map(format_duration_ms),
        effects: used(&[Kind::Effect, Kind::Transaction]),
        models: used(&[Kind::Model]),
        functions: used(&[Kind::Function]),
        children: sorted(flow.children.iter()),
    }
}

fn sorted<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = names.cloned().collect();
    names.sort();
    names.dedup();
    names
}

fn concurrency(limit: Option<u32>, one_per: Option<&str>, mode: Option<&str>) -> String {
    let limit = limit.map(|limit| format!("at most {limit} runs at once"));
    let one_per = one_per
        .map(|key| format!("one run at a time for each `{key}`, the others {}", mode_text(mode)));
    match (limit, one_per) {
        (None, None) => "any number of runs at once".to_owned(),
        (limit, one_per) => [limit, one_per].into_iter().flatten().collect::<Vec<_>>().join("; "),
    }
}

fn mode_text(mode: Option<&str>) -> &'static str {
    match mode {
        Some("reject") => "are refused",
        Some("coalesce") => "attach to it",
        _ => "wait",
    }
}

fn step_spec(one: &Declaration) -> StepSpec {
    let retry = one.retry();
    StepSpec {
        name: one.name.clone(),
        file: one.file.clone(),
        about: one.intent.clone(),
        retries: format!(
            "{} tries within {}",
            retry.attempts_max,
            format_duration_ms(retry.total_ms)
        ),
        cached: (one.kind == Kind::Model).then_some(CACHED),
    }
}

/// Names in a sentence, as code.
fn list(names: &[String]) -> String {
    match names {
        [] => "nothing".to_owned(),
        [one] => format!("`{one}`"),
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(|name| format!("`{name}`")).collect();
            format!("{} and `{last}`", first.join(", "))
        }
    }
}

#[cfg(test)]
mod tests;
