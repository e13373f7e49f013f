//! What is not proven: what a promise assumes, and what nobody can have seen.

use super::super::Read;
use super::super::sentence::Open;
use super::super::statement::{Claim, QuarantineStatement, RepeatStatement};
use super::{claim, counted, has_not_used_key, sends};
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
        open.push(claim(Open::WhatItCameTo, "only a tombstone is kept, its records are gone"));
    }
    open.extend(words(effect));
    if let Some(plan) = effect.plan.as_ref().filter(|_| sends(effect) > 0) {
        open.extend(assumed(effect, plan));
    }
    for attempt in effect.attempts.iter().filter(|attempt| has_not_used_key(attempt)) {
        open.push(claim(
            Open::KeyReadBy { attempt: attempt.number },
            "its code never read the key",
        ));
    }
    if !repeats.is_empty() {
        open.push(claim(
            Open::AllRepeats,
            "a count is a lower bound: a crash takes with it what was not written yet",
        ));
    }
    let runs = effect.attempts.iter().filter_map(|attempt| attempt.run.as_ref());
    let mut runs: Vec<&String> = runs.chain(&effect.run).collect();
    runs.sort_unstable();
    runs.dedup();
    for id in runs {
        if !read.runs.iter().any(|one| one.run.id == *id && !one.entries.is_empty()) {
            let run = id.clone();
            open.push(claim(Open::RunJournal { run }, "its journal is not there"));
        }
    }
    open
}

fn unknown(attempt: &Attempt) -> Claim {
    let what = match (attempt.kind, &attempt.doubt) {
        (Kind::Assumed, _) => {
            "it was not made here: an import or a restored store assumes it".to_owned()
        }
        (_, Some(doubt)) => format!("cut at {}: {}", rfc3339(doubt.at), doubt.reason),
        (_, None) => "its lease ended without an answer from its worker".to_owned(),
    };
    claim(Open::Changed { attempt: attempt.number }, what)
}

/// What rests on what a person, an import or the destination said.
fn words(effect: &Effect) -> Vec<Claim> {
    let mut open = Vec::new();
    let ends = effect.attempts.iter().filter_map(|attempt| attempt.end.as_ref());
    let mut by: Vec<By> = ends.map(|end| end.by).collect();
    by.dedup();
    if by.contains(&By::Person) {
        open.push(claim(Open::PersonIsRight, "the ledger did not see what they saw"));
    }
    if by.contains(&By::Import) {
        open.push(claim(Open::ImportIsRight, "it happened outside of this ledger"));
    }
    let is_receipt = |by: &By| matches!(by, By::Worker | By::Late | By::Look);
    if by.iter().any(is_receipt) && effect.receipt().is_some() {
        open.push(claim(
            Open::DestinationDidIt,
            "the receipt is the answer as the code returned it",
        ));
    }
    open
}

/// What the contract takes for granted.
fn assumed(effect: &Effect, plan: &Plan) -> Vec<Claim> {
    let settle = format_duration_ms(plan.terms.settle_ms);
    match plan.terms.contract {
        Contract::Transaction => Vec::new(),
        Contract::NativeKey { retention_ms } => {
            let retention = format_duration_ms(retention_ms);
            vec![
                claim(
                    Open::KeyPassedOn,
                    "the code is handed the key; what it puts on the wire is not seen",
                ),
                claim(
                    Open::KeysHonoured { retention },
                    "native_key relies on it; `semel check destination` tries it",
                ),
            ]
        }
        Contract::Conditional => {
            vec![claim(Open::ConditionHonoured, "conditional relies on it")]
        }
        Contract::Probe { .. } | Contract::AtMostOnce => {
            let evidence = format!("{} assumes it", plan.terms.contract.name());
            vec![claim(Open::NoLateSend { settle }, evidence)]
        }
        Contract::Harmless => {
            let sends = counted(sends(effect), "send");
            vec![claim(Open::OnlyOnce, format!("{sends}, and harmless allows duplicates"))]
        }
    }
}

/// What no proof can say about the store that it was taken from.
pub(crate) fn of_the_store(quarantine: Option<&QuarantineStatement>) -> Vec<Claim> {
    let mut open =
        vec![claim(Open::Rewritten, "compare it with proofs that were signed and kept elsewhere")];
    if let Some(span) = quarantine {
        open.push(claim(
            Open::Forgotten,
            format!("a quarantine is open: {} to {}", span.recovered_at, span.opened_at),
        ));
    }
    open
}
