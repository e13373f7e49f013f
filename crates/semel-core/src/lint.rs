//! Rules over declarations: what is wrong with an effect as it is declared, or as its keys were
//! seen. Code in Python is also looked at line by line; a rule that both know has one code.

use serde::Serialize;

use crate::contract::TermsRefusal;
use crate::declare::{Declaration, Kind, Registry, Sign, Tristate};
use crate::record::Contract;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// It will repeat an effect, lose one, or take two for one.
    Error,
    /// It may.
    Warning,
    /// Nothing is wrong, and somebody should know.
    Info,
}

/// One rule. Code and name never change their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    pub code: &'static str,
    pub name: &'static str,
    pub level: Level,
    /// What to do instead, where nothing more exact is known.
    pub better: &'static str,
}

const STABLE: &str =
    "use what the business calls this wish: a request, order or event id that came with it";

const KEY_FROM_TIME: Rule = error("SML001", "key-from-time", STABLE);
const KEY_FROM_CHANCE: Rule = error("SML002", "key-from-chance", STABLE);
const KEY_FROM_ATTEMPT: Rule =
    error("SML003", "key-from-attempt", "leave the attempt out: all of them are one wish");
const KEY_FROM_MODEL: Rule =
    error("SML005", "key-from-model", "use the id of what the model was asked about");
const KEY_TOO_BROAD: Rule =
    error("SML009", "key-too-broad", "add the id of the request, order or event");
const KEY_CHANGES: Rule = error("SML012", "key-changes", STABLE);
const RETRIES_OFF: Rule =
    warning("SML020", "retries-off", "leave the retries on: repeats are safe here");
const RETRIES_BEYOND_WINDOW: Rule = error(
    "SML021",
    "retries-beyond-window",
    "let the last retry come before the keys are forgotten",
);
const CONTRACT_UNDECLARED: Rule = Rule {
    code: "SML022",
    name: "contract-undeclared",
    level: Level::Info,
    better: "declare a contract; `at_most_once` if the destination offers nothing",
};
const NATIVE_KEY_NOT_PASSED_ON: Rule = error(
    "SML023",
    "native-key-not-passed-on",
    "send the intent's downstream key to the destination",
);
const FINGERPRINT_NEEDED: Rule =
    warning("SML024", "fingerprint-needed", "name the members of the input that count");
const EMPTY_RECEIPT: Rule =
    warning("SML030", "empty-receipt", "return the id that the destination answered");

/// Every rule over declarations.
pub const RULES: [Rule; 13] = [
    KEY_FROM_TIME,
    KEY_FROM_CHANCE,
    KEY_FROM_ATTEMPT,
    KEY_FROM_MODEL,
    KEY_TOO_BROAD,
    KEY_CHANGES,
    RETRIES_OFF,
    RETRIES_BEYOND_WINDOW,
    CONTRACT_UNDECLARED,
    NATIVE_KEY_NOT_PASSED_ON,
    FINGERPRINT_NEEDED,
    EMPTY_RECEIPT,
    ALLOWED_WITHOUT_REASON,
];

const ALLOWED_WITHOUT_REASON: Rule = error("SML091", "allowed-without-reason", "say why");

const fn error(code: &'static str, name: &'static str, better: &'static str) -> Rule {
    Rule { code, name, level: Level::Error, better }
}

const fn warning(code: &'static str, name: &'static str, better: &'static str) -> Rule {
    Rule { code, name, level: Level::Warning, better }
}

/// Something that a rule found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub code: &'static str,
    pub name: &'static str,
    pub level: Level,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub action: String,
    pub reason: String,
    pub better: String,
}

/// All that is wrong, the worst first, then by place.
pub fn lint(registry: &Registry) -> Vec<Finding> {
    let mut found: Vec<Finding> = registry
        .declarations
        .iter()
        .filter(|one| one.is_effect())
        .filter(|one| !one.approval.is_some_and(|approval| approval.only))
        .flat_map(about)
        .collect();
    found.sort_by(|a, b| {
        (a.level, &a.file, a.line, &a.action, a.code)
            .cmp(&(b.level, &b.file, b.line, &b.action, b.code))
    });
    found
}

fn about(one: &Declaration) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut add = |rule: Rule, reason: String, better: Option<String>| {
        found.push(Finding {
            code: rule.code,
            name: rule.name,
            level: rule.level,
            file: one.file.clone(),
            line: one.line,
            action: one.title().to_owned(),
            reason,
            better: better.unwrap_or_else(|| rule.better.to_owned()),
        });
    };
    for (rule, reason) in key_signs(one) {
        add(rule, reason.to_owned(), better_key(one));
    }
    if let Some((reason, better)) = too_broad(one) {
        add(KEY_TOO_BROAD, reason, better);
    }
    if one.kind != Kind::Transaction {
        if let Some((rule, reason)) = retries(one) {
            add(rule, reason, None);
        }
        if one.contract.is_none() {
            let reason = "nothing says what the destination offers, so a cut send waits for a \
                          person";
            add(CONTRACT_UNDECLARED, reason.to_owned(), None);
        }
    }
    let is_native = matches!(one.contract, Some(Contract::NativeKey { .. }));
    if is_native && one.key_passed_on == Tristate::No {
        let reason = "the contract rests on the destination's own key, and the code never reads it";
        add(NATIVE_KEY_NOT_PASSED_ON, reason.to_owned(), None);
    }
    if let Some(reason) = words_count(one) {
        add(FINGERPRINT_NEEDED, reason, None);
    }
    if let Some(name) = empty_receipt(one) {
        add(EMPTY_RECEIPT, format!("it returns `{name}`: a repeat learns nothing by it"), None);
    }
    if one.allowed.iter().any(|allowed| allowed.reason.trim().is_empty()) {
        add(ALLOWED_WITHOUT_REASON, "a finding is allowed, and nobody says why".to_owned(), None);
    }
    found.retain(|finding| !one.allowed.iter().any(|allowed| allowed.code == finding.code));
    found
}

fn key_signs(one: &Declaration) -> impl Iterator<Item = (Rule, &'static str)> + '_ {
    one.key.iter().flat_map(|key| &key.signs).map(|sign| match sign {
        Sign::Changes => (KEY_CHANGES, "the same input was seen with two keys: a retry would act"),
        Sign::Time => (KEY_FROM_TIME, "a part of the key is a time, and not one of the input"),
        Sign::Randomness => (KEY_FROM_CHANCE, "a part of the key is random"),
        Sign::Attempt => (KEY_FROM_ATTEMPT, "a part of the key counts attempts"),
        Sign::ModelOutput => {
            (KEY_FROM_MODEL, "a part of the key is what a model said: asked again, it says another")
        }
    })
}

/// The key that would do, where a member of the input names the wish.
fn better_key(one: &Declaration) -> Option<String> {
    let id = one.parameters.iter().find(|name| names_event(name))?;
    Some(format!("make the key of `{id}`, which is in the input"))
}

/// Words by which members name one wish, and those by which they name whoever wishes often.
const EVENTS: [&str; 10] = [
    "request", "order", "event", "invoice", "message", "ticket", "case", "intent", "payment",
    "delivery",
];
const SUBJECTS: [&str; 9] = [
    "customer",
    "user",
    "account",
    "tenant",
    "client",
    "email",
    "sender",
    "recipient",
    "organisation",
];

fn last_name(path: &str) -> String {
    path.rsplit('.').next().unwrap_or(path).to_ascii_lowercase()
}

fn names_event(path: &str) -> bool {
    let name = last_name(path);
    let is_id = name.ends_with("id") || name.ends_with("number") || name.ends_with("key");
    is_id && EVENTS.iter().any(|word| name.contains(word))
}

fn names_subject(path: &str) -> bool {
    let name = last_name(path);
    SUBJECTS.iter().any(|word| name.contains(word)) && !names_event(path)
}

/// A key that takes two wishes for one: made of nothing in the input, or only of who wishes while
/// the input also says which wish it is.
fn too_broad(one: &Declaration) -> Option<(String, Option<String>)> {
    let key = one.key.as_ref()?;
    let is_explained = key.parts.iter().all(|part| !part.contains("{?}"));
    if key.fields.is_empty() {
        let is_constant = is_explained && key.signs.is_empty() && key.function.is_none();
        let reason = "the key is always the same: all calls are one wish";
        return is_constant.then(|| (reason.to_owned(), better_key(one)));
    }
    let is_broad = is_explained && key.fields.iter().all(|field| names_subject(field));
    let event = one.parameters.iter().find(|name| names_event(name))?;
    is_broad.then(|| {
        let reason = format!(
            "the key says who ({}) and not which wish: `{event}` is in the input, and a second one \
             would be taken for the first",
            key.fields.join(", ")
        );
        (reason, Some(format!("add `{event}` to the key")))
    })
}

fn retries(one: &Declaration) -> Option<(Rule, String)> {
    let retry = one.retry();
    let kept = one.terms().and_then(|terms| terms.check_retry(&retry));
    match kept {
        Err(TermsRefusal::RetryBeyondRetention(text) | TermsRefusal::Invalid(text)) => {
            Some((RETRIES_BEYOND_WINDOW, text))
        }
        Ok(()) if retry.attempts_max <= 1 => {
            let reason = "retries are off: a destination that is away for a second ends the wish";
            Some((RETRIES_OFF, reason.to_owned()))
        }
        Ok(()) => None,
    }
}

fn words_count(one: &Declaration) -> Option<String> {
    if one.is_tool && one.fingerprint.is_none() {
        return Some(
            "a model calls this tool in words of its own, and all of them count".to_owned(),
        );
    }
    let counts = |word: &&String| match &one.fingerprint {
        None => true,
        Some(members) => members.contains(word),
    };
    let word = one.model_words.iter().find(counts)?;
    Some(format!("a model's words are in `{word}`: in other words the same wish is refused"))
}

/// Receipts that say no more than that there is one.
fn empty_receipt(one: &Declaration) -> Option<&str> {
    let receipt = one.receipt.as_ref()?;
    let is_empty = matches!(receipt.name.as_str(), "bool" | "None" | "NoneType" | "null" | "()");
    is_empty.then_some(receipt.name.as_str())
}

#[cfg(test)]
mod tests;
