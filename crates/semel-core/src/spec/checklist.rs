//! The questions that every effect answers before it ships.

use super::{Answer, Check, list};
use crate::contract::TermsRefusal;
use crate::declare::{Declaration, KeyShape, Kind, Sign, Tristate};
use crate::record::Contract;
use crate::time::format_duration_ms;

const KEY: &str = "Is there a key of business identifiers?";
const NATIVE: &str = "Does the destination recognise a repeat?";
const LEDGER: &str = "Is it in a ledger before it is sent?";
const CRASH: &str = "Is a crash between action and record survived?";
const RETRY: &str = "Is every retry safe?";
const MODEL: &str = "Are model calls before it cached?";

pub(super) fn answers(one: &Declaration, all: &[Declaration]) -> Vec<Check> {
    [
        (KEY, key(one)),
        (NATIVE, native(one)),
        (LEDGER, ledger(one)),
        (CRASH, crash(one)),
        (RETRY, retry(one)),
        (MODEL, models(one, all)),
    ]
    .into_iter()
    .map(|(question, (answer, why))| Check { question, answer, why })
    .collect()
}

type Told = (Answer, String);

fn yes(why: impl Into<String>) -> Told {
    (Answer::Yes, why.into())
}

fn attention(why: impl Into<String>) -> Told {
    (Answer::Attention, why.into())
}

fn no(why: impl Into<String>) -> Told {
    (Answer::No, why.into())
}

fn key(one: &Declaration) -> Told {
    let Some(key) = &one.key else { return attention("nobody could see how the key is made") };
    if let Some(sign) = key.signs.first() {
        return no(sign_text(*sign));
    }
    if key.fields.is_empty() {
        return no("no member of the input is in it: all calls would be one intent");
    }
    let fields = list(&key.fields);
    if has_unknown_part(key) {
        return attention(format!("{fields}, and a part that nobody could explain"));
    }
    match &key.function {
        Some(function) => yes(format!("the function `{function}` makes it of {fields}")),
        None => yes(fields),
    }
}

fn has_unknown_part(key: &KeyShape) -> bool {
    key.parts.iter().any(|part| part.contains("{?}"))
}

fn sign_text(sign: Sign) -> &'static str {
    match sign {
        Sign::Changes => "the same input was seen with another key",
        Sign::Time => "a part of it is a time",
        Sign::Randomness => "a part of it is random",
        Sign::Attempt => "a part of it counts attempts",
        Sign::ModelOutput => "a part of it is what a model said",
    }
}

fn native(one: &Declaration) -> Told {
    match one.contract_in_force() {
        Contract::Transaction => yes("it is the ledger's own database"),
        Contract::NativeKey { retention_ms } => {
            let retention = format_duration_ms(retention_ms);
            let honours = format!("it honours an idempotency key for {retention}");
            match one.key_passed_on {
                Tristate::Yes => yes(format!("{honours}, and the code passes it on")),
                Tristate::Unknown => {
                    attention(format!("{honours}; whether the code passes it on was not seen"))
                }
                Tristate::No => no(format!("{honours}, but the code never passes it on")),
            }
        }
        Contract::Conditional => yes("it creates only what is absent, or compares a version"),
        Contract::Probe { .. } => yes("it can be asked for our reference"),
        Contract::AtMostOnce if one.contract.is_some() => attention("it offers nothing"),
        Contract::AtMostOnce => attention("no contract is declared, so none is assumed"),
        Contract::Harmless => yes("a repeat does no harm there"),
    }
}

fn ledger(one: &Declaration) -> Told {
    match one.kind {
        Kind::Transaction => yes("row and receipt are in the commit of the rows themselves"),
        _ => yes("the attempt is durable before a byte leaves, and the receipt after it"),
    }
}

fn crash(one: &Declaration) -> Told {
    let contract = one.contract_in_force();
    let rule = contract.after_crash().to_owned();
    match contract {
        Contract::Transaction | Contract::Conditional | Contract::Probe { .. } => yes(rule),
        Contract::NativeKey { .. } if one.key_passed_on == Tristate::No => {
            no("the key is never passed on: it stays in doubt until a person decides")
        }
        Contract::NativeKey { .. } => yes(rule),
        Contract::AtMostOnce | Contract::Harmless => attention(rule),
    }
}

fn retry(one: &Declaration) -> Told {
    if one.kind == Kind::Transaction {
        return yes("rows and receipt are one commit");
    }
    let retry = one.retry();
    let terms = match one.terms() {
        Ok(terms) => terms,
        Err(refusal) => return no(refusal_text(&refusal)),
    };
    if let Err(refusal) = terms.check_retry(&retry) {
        return no(refusal_text(&refusal));
    }
    if retry.attempts_max <= 1 {
        return attention("retries are off: a proven failure ends it");
    }
    let (total, deadline, settle) = (
        format_duration_ms(retry.total_ms),
        format_duration_ms(terms.deadline_ms),
        format_duration_ms(terms.settle_ms),
    );
    let kept = match terms.contract {
        Contract::NativeKey { retention_ms } => {
            format!("retention of {}", format_duration_ms(retention_ms))
        }
        _ => format!("replay window of {}", format_duration_ms(terms.window_ms)),
    };
    yes(format!(
        "{} tries within {total}, deadline {deadline} and settle window {settle} fit into the \
         {kept}; what is in doubt is never sent on a guess",
        retry.attempts_max
    ))
}

fn refusal_text(refusal: &TermsRefusal) -> String {
    match refusal {
        TermsRefusal::Invalid(text) | TermsRefusal::RetryBeyondRetention(text) => text.clone(),
    }
}

fn models(one: &Declaration, all: &[Declaration]) -> Told {
    let flows = all.iter().filter(|other| other.kind == Kind::Workflow).filter(|other| {
        let steps = other.flow.iter().flat_map(|flow| &flow.steps);
        steps.into_iter().any(|step| step == one.title())
    });
    let mut used: Vec<String> = flows
        .flat_map(|flow| flow.flow.iter().flat_map(|flow| &flow.steps))
        .filter(|step| all.iter().any(|one| one.kind == Kind::Model && one.name == **step))
        .cloned()
        .collect();
    used.sort();
    used.dedup();
    if one.is_tool && one.fingerprint.is_none() {
        return no("a model words its input, and the declaration does not say which members count");
    }
    if !one.model_words.is_empty() && counts_words(one) {
        let words = list(&one.model_words);
        return no(format!("a model's words are in {words}, which count: declare a fingerprint"));
    }
    match used.as_slice() {
        [] => yes("no model call is declared before it"),
        used => yes(format!("{}: one recorded answer per run and request", list(used))),
    }
}

fn counts_words(one: &Declaration) -> bool {
    match &one.fingerprint {
        None => true,
        Some(members) => one.model_words.iter().any(|word| members.contains(word)),
    }
}
