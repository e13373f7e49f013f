//! What is not proven: what a promise assumes, and what nobody can have seen.

use super::super::Read;
use super::super::statement::{Claim, QuarantineStatement, RepeatStatement};
use super::{claim, counted, sends};
use crate::effect::State;
use crate::record::{Attempt, By, Contract, Effect, Kind, Plan};
use crate::time::format_duration_ms;
use crate::wire::rfc3339;

pub(crate) fn of_effect(
    effect: &Effect,
    repeats: &[RepeatStatement],
    read: &Read<'_>,
) -> Vec<Claim> {
    let mut open = Vec::new();
    for attempt in effect.attempts.iter().filter(|attempt| attempt.is_unknown(&read.now)) {
        open.push(unknown(attempt));
    }
    if effect.state(&read.now) == State::Expired {
        open.push(claim("what it came to", "only a tombstone is kept, its records are gone"));
    }
    open.extend(words(effect));
    if let Some(plan) = effect.plan.as_ref().filter(|_| sends(effect) > 0) {
        open.extend(assumed(effect, plan));
    }
    for attempt in effect.attempts.iter().filter(|attempt| has_not_used_key(attempt)) {
        open.push(claim(
            format!("that attempt {} passed the downstream key on", attempt.number),
            "its code never read the key",
        ));
    }
    if !repeats.is_empty() {
        open.push(claim(
            "how many repeats there were in all",
            "a count is a lower bound: a crash takes with it what was not written yet",
        ));
    }
    let runs = effect.attempts.iter().filter_map(|attempt| attempt.run.as_ref());
    let mut runs: Vec<&String> = runs.chain(&effect.run).collect();
    runs.sort_unstable();
    runs.dedup();
    for id in runs {
        if !read.runs.iter().any(|one| one.run.id == *id && !one.entries.is_empty()) {
            open.push(claim(format!("what run {id} made of it"), "its journal is not there"));
        }
    }
    open
}

fn unknown(attempt: &Attempt) -> Claim {
    let says = format!("whether attempt {} changed the world", attempt.number);
    let what = match (attempt.kind, &attempt.doubt) {
        (Kind::Assumed, _) => "nobody here made it: it is assumed".to_owned(),
        (_, Some(doubt)) => format!("cut at {}: {}", rfc3339(doubt.at), doubt.reason),
        (_, None) => "its lease has lapsed without a word from its worker".to_owned(),
    };
    claim(says, what)
}

/// What rests on somebody's word.
fn words(effect: &Effect) -> Vec<Claim> {
    let mut open = Vec::new();
    let ends = effect.attempts.iter().filter_map(|attempt| attempt.end.as_ref());
    let mut by: Vec<By> = ends.map(|end| end.by).collect();
    by.dedup();
    if by.contains(&By::Person) {
        open.push(claim("that the person's word is true", "nobody but them has looked"));
    }
    if by.contains(&By::Import) {
        open.push(claim("that the imported row is true", "the ledger was not there"));
    }
    let is_receipt = |by: &By| matches!(by, By::Worker | By::Late | By::Look);
    if by.iter().any(is_receipt) && effect.receipt().is_some() {
        open.push(claim(
            "that the destination did what its answer says",
            "the receipt is the answer as the code returned it",
        ));
    }
    open
}

/// What the contract takes for granted.
fn assumed(effect: &Effect, plan: &Plan) -> Option<Claim> {
    let settle = format_duration_ms(plan.terms.settle_ms);
    Some(match plan.terms.contract {
        Contract::Transaction => return None,
        Contract::NativeKey { retention_ms } => claim(
            format!("that the destination honours keys for {}", format_duration_ms(retention_ms)),
            "native_key relies on it; `semel check destination` tries it",
        ),
        Contract::Conditional => claim(
            "that the destination refuses a second write under the same condition",
            "conditional relies on it",
        ),
        Contract::Probe { .. } | Contract::AtMostOnce => claim(
            format!("that no stopped process sends later than {settle} after its end"),
            format!("{} assumes it", plan.terms.contract.name()),
        ),
        Contract::Harmless => claim(
            "that it happened only once",
            format!("{}, and harmless allows duplicates", counted(sends(effect), "send")),
        ),
    })
}

fn has_not_used_key(attempt: &Attempt) -> bool {
    attempt.doubt.as_ref().is_some_and(|doubt| doubt.key_not_used)
}

/// What no proof can say about the store that it was taken from.
pub(crate) fn of_the_store(quarantine: Option<&QuarantineStatement>) -> Vec<Claim> {
    let mut open = vec![claim(
        "that nobody rewrote the store as a whole before this proof was made",
        "compare it with proofs that were signed and kept elsewhere",
    )];
    if let Some(span) = quarantine {
        open.push(claim(
            "what the store has forgotten since it went back in time",
            format!("a quarantine is open: {} to {}", span.recovered_at, span.opened_at),
        ));
    }
    open
}
