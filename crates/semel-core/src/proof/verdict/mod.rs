//! Verdicts: which promise holds, on what evidence, and what nobody can conclude from it.

mod limits_of;
mod run;

pub(super) use limits_of::of_the_store;
pub(super) use run::of_run;

use std::collections::BTreeSet;

use super::effect::downstream_key;
use super::sentence::{Fact, Headline, Sentence};
use super::statement::{Claim, Mention, RepeatStatement, Verdict};
use super::{Finding, Read};
use crate::effect::{EPOCH_SHIFT, State};
use crate::record::{AlarmKind, Answer, Attempt, By, Contract, Effect, Kind, Outcome};
use crate::run::input_digest;
use crate::time::Moment;
use crate::verify;
use crate::wire::rfc3339;

pub(super) fn claim(says: impl Into<Sentence>, evidence: impl Into<String>) -> Claim {
    Claim { says: says.into(), evidence: evidence.into() }
}

fn broken_rule(what: impl Into<String>, evidence: impl Into<String>) -> Claim {
    claim(Sentence::Broken(what.into()), evidence)
}

/// What follows for one effect. `rows` are its generations, the oldest first.
pub(super) fn of_effect(
    rows: &[Effect],
    repeats: &[RepeatStatement],
    mentions: &[Mention],
    read: &Read<'_>,
) -> Verdict {
    let now = &read.now;
    let newest = rows.last().expect("an effect has a generation");
    let mut broken = Vec::new();
    for row in rows {
        let whose = format!("generation {}", row.generation);
        let found = verify::check(row, now).into_iter();
        broken.extend(
            found.map(|one| broken_rule(one.what, format!("{} of {whose}", one.invariant))),
        );
    }
    broken.extend(broken_chains(mentions, newest, read));
    let finding = if broken.is_empty() { finding(newest, read) } else { Finding::Broken };
    let mut proven = identity(newest);
    proven.extend(outcome(newest, read));
    proven.extend(promise(newest, now));
    proven.extend(persons(newest));
    proven.extend(history(rows, repeats, mentions, read));
    Verdict {
        finding: finding.as_str(),
        says: sentence(finding, newest, read).into(),
        proven,
        not_proven: limits_of::of_effect(newest, repeats, read),
        broken,
    }
}

/// Journals that speak of the effect, or should, and do not hold together.
fn broken_chains(mentions: &[Mention], effect: &Effect, read: &Read<'_>) -> Vec<Claim> {
    let is_about = |id: &str| {
        effect.run.as_deref() == Some(id)
            || mentions.iter().any(|mention| mention.run == id)
            || effect.attempts.iter().any(|attempt| attempt.run.as_deref() == Some(id))
    };
    let runs = read.runs.iter().filter(|one| is_about(&one.run.id));
    let broken = runs.filter_map(|one| Some((one, one.chain.broken.as_ref()?)));
    broken.map(|(one, what)| broken_rule(what, format!("journal of run {}", one.run.id))).collect()
}

/// Whether the store went back in time, and may have lost an attempt of this effect with its tail.
fn may_be_forgotten(effect: &Effect, read: &Read<'_>) -> bool {
    let standing = &read.evidence.standing;
    let begun_since = |attempt: &Attempt| attempt.fence > standing.epoch << EPOCH_SHIFT;
    standing.quarantine.is_some() && !effect.attempts.iter().any(begun_since)
}

fn finding(effect: &Effect, read: &Read<'_>) -> Finding {
    let now = &read.now;
    if effect.alarms.iter().any(|alarm| alarm.kind == AlarmKind::AppliedTwice) {
        return Finding::Twice;
    }
    if effect.is_disputed() {
        return Finding::Disputed;
    }
    match effect.state(now) {
        State::Expired => Finding::Expired,
        State::Pending => Finding::InProgress,
        State::InDoubt => Finding::InDoubt,
        State::Planned | State::Void | State::Failed if may_be_forgotten(effect, read) => {
            Finding::InDoubt
        }
        State::Planned | State::Void | State::Failed => Finding::NotDone,
        State::Done if effect.undo.is_some() => Finding::Undone,
        State::Done => match ended_by(effect) {
            Some(By::Person | By::Import) => Finding::Told,
            Some(By::Worker | By::Late | By::Look) | None => Finding::Done,
        },
    }
}

/// Who said that it was applied.
fn ended_by(effect: &Effect) -> Option<By> {
    effect.applied().and_then(|attempt| attempt.end.as_ref()).map(|end| end.by)
}

fn sentence(finding: Finding, effect: &Effect, read: &Read<'_>) -> Headline {
    let now = &read.now;
    match finding {
        Finding::Done if may_be_forgotten(effect, read) => Headline::PerhapsMore,
        Finding::Done => how_often(effect, now),
        Finding::InDoubt if effect.state(now) != State::InDoubt => Headline::Forgotten,
        Finding::NotDone => match effect.state(now) {
            State::Failed if rests_on_a_person(effect) => Headline::ToldNotAndWillNot,
            State::Planned if rests_on_a_person(effect) => Headline::ToldNothing,
            State::Failed => Headline::NotAndWillNot,
            State::Void => Headline::Cancelled,
            State::Planned if effect.is_held(now) && effect.attempts.is_empty() => Headline::Held,
            State::Planned if effect.is_held(now) => Headline::HeldAgain,
            State::Planned | State::Pending | State::Done | State::InDoubt | State::Expired => {
                Headline::NothingSoFar
            }
        },
        Finding::Undone if effect.undo.as_ref().is_some_and(|undo| undo.receipt.is_some()) => {
            Headline::Undone
        }
        Finding::Undone => Headline::BeingUndone,
        Finding::Told => Headline::Told,
        Finding::Expired => Headline::Expired,
        Finding::InProgress => Headline::InProgress,
        Finding::InDoubt => Headline::InDoubt,
        Finding::Disputed => Headline::Disputed,
        Finding::Twice => Headline::Twice,
        Finding::Broken => Headline::Broken,
    }
}

/// What a receipt says of how often it happened, with all that may have been sent beside it.
fn how_often(effect: &Effect, now: &Moment) -> Headline {
    let contract = effect.plan.as_ref().map(|plan| plan.terms.contract);
    if contract == Some(Contract::Transaction) {
        return Headline::ExactlyOnce;
    }
    let sends = sends(effect);
    let is_assumed = effect.attempts.iter().any(|attempt| attempt.kind == Kind::Assumed);
    if sends == 1 && !is_assumed {
        return Headline::SentOnce;
    }
    let applied = effect.applied().map(|attempt| attempt.number);
    let others = effect.attempts.iter().filter(|attempt| Some(attempt.number) != applied);
    let mut others = others.filter(|attempt| attempt.kind != Kind::Look);
    if sends > 1 && others.all(|attempt| is_refuted(attempt) && !attempt.is_unknown(now)) {
        return Headline::OneOfSends { sends };
    }
    let is_unread = effect.attempts.iter().any(has_not_used_key);
    match contract {
        Some(Contract::NativeKey { .. }) if is_unread => Headline::KeyUnread { sends },
        Some(Contract::NativeKey { .. }) if !is_assumed => Headline::UnderOneKey { sends },
        Some(Contract::Conditional) if !is_assumed => Headline::UnderOneCondition { sends },
        Some(_) | None => Headline::PerhapsMore,
    }
}

/// Whether only a person or an import says that an attempt was not applied.
fn rests_on_a_person(effect: &Effect) -> bool {
    let ends = effect.attempts.iter().filter_map(|attempt| attempt.end.as_ref());
    ends.into_iter().any(|end| matches!(end.by, By::Person | By::Import))
}

fn is_refuted(attempt: &Attempt) -> bool {
    let end = attempt.end.as_ref().map(|end| &end.outcome);
    matches!(end, Some(Outcome::NotApplied { .. }))
}

fn has_not_used_key(attempt: &Attempt) -> bool {
    attempt.doubt.as_ref().is_some_and(|doubt| doubt.key_not_used)
}

pub(super) fn sends(effect: &Effect) -> usize {
    effect.attempts.iter().filter(|attempt| attempt.kind == Kind::Send).count()
}

/// One intent, one row, one key for the destination, one input.
fn identity(effect: &Effect) -> Vec<Claim> {
    let address = &effect.address;
    let mut proven = vec![claim(
        Fact::OneIntent {
            action: address.action.as_str().to_owned(),
            key: address.key.as_str().to_owned(),
            namespace: address.namespace.as_str().to_owned(),
        },
        format!("generation {} at version {}", effect.generation, effect.version),
    )];
    let Some(plan) = &effect.plan else { return proven };
    if plan.fingerprint.matches(plan.input.text().as_bytes()) {
        proven.push(claim(Fact::OneInput, "the fingerprint, computed again from the input"));
    }
    let key = downstream_key(effect, plan);
    let how = if key.derived {
        "derived again from namespace, action, key and generation"
    } else {
        "as its author declared it"
    };
    proven.push(claim(Fact::KeyHanded { sends: key.sends, key: key.key }, how));
    proven
}

fn outcome(effect: &Effect, read: &Read<'_>) -> Vec<Claim> {
    let now = &read.now;
    let mut proven = Vec::new();
    if let Some((applied, receipt)) = effect.applied().and_then(|one| Some((one, one.receipt()?))) {
        let end = applied.end.as_ref().expect("applied is an end");
        let attempt = applied.number;
        let (says, by) = match end.by {
            By::Worker => (Fact::Receipt { attempt }, "from its worker"),
            By::Late => (Fact::Receipt { attempt }, "from its worker, after its lease had ended"),
            By::Look => (Fact::Found { attempt }, "from a look at the destination"),
            By::Person => (Fact::CountsAsDone { attempt }, "by a person's decision"),
            By::Import => (Fact::CountsAsDone { attempt }, "by an import"),
        };
        let digest = input_digest(receipt);
        let evidence = format!("receipt {} of {}: {by}", short(&digest), rfc3339(end.at));
        proven.push(claim(says, evidence));
    }
    let refuted = effect.attempts.iter().filter_map(|attempt| Some((attempt, refuted(attempt)?)));
    proven.extend(refuted.map(|(attempt, (by, reason))| {
        claim(Fact::NotApplied { attempt: attempt.number }, format!("{by}: {reason}"))
    }));
    let is_silent = effect.attempts.is_empty() && effect.expired.is_none();
    if is_silent && !may_be_forgotten(effect, read) {
        proven
            .push(claim(Fact::NothingSent, "no attempt is on record, and each is before it sends"));
    }
    if effect.state(now) == State::Failed && !effect.attempts.iter().any(|a| a.is_unknown(now)) {
        let reason = effect.failure().unwrap_or("nobody answered in time").to_owned();
        proven.push(claim(Fact::NotSentAgain, reason));
    }
    proven
}

/// Who reported that an attempt was not applied, and why.
fn refuted(attempt: &Attempt) -> Option<(&'static str, &str)> {
    if attempt.kind == Kind::Look {
        return None;
    }
    let end = attempt.end.as_ref()?;
    let Outcome::NotApplied { reason, .. } = &end.outcome else { return None };
    let by = match end.by {
        By::Worker | By::Late => "by its worker",
        By::Look => "by a look at the destination",
        By::Person => "by a person's decision",
        By::Import => "by an import",
    };
    Some((by, reason))
}

/// The contract, and what was begun under it.
fn promise(effect: &Effect, now: &Moment) -> Option<Claim> {
    let plan = effect.plan.as_ref()?;
    let contract = plan.terms.contract;
    if effect.attempts.is_empty() || effect.state(now) == State::Pending {
        return None;
    }
    let mut evidence = counted(sends(effect), "send");
    match contract {
        Contract::NativeKey { .. } => {
            let first = effect.first_sent?;
            let horizon = contract.horizon(first, plan.terms.settle_ms)?;
            let mut sent = effect.attempts.iter().filter(|one| one.kind == Kind::Send);
            if sent.all(|one| one.began < horizon) {
                evidence.push_str(&format!(", all begun before the horizon {}", rfc3339(horizon)));
            }
        }
        Contract::Probe { .. } => {
            let looks = effect.attempts.iter().filter(|one| one.kind == Kind::Look).count();
            evidence.push_str(&format!(" and {}", counted(looks, "look")));
        }
        Contract::Transaction => "rows and receipt are one commit".clone_into(&mut evidence),
        Contract::Conditional | Contract::AtMostOnce | Contract::Harmless => {}
    }
    let (name, promise) = (contract.name(), contract.promise());
    Some(claim(Fact::Contract { name, promise }, evidence))
}

fn persons(effect: &Effect) -> Vec<Claim> {
    let mut proven = Vec::new();
    let judged = effect.approval.as_ref().and_then(|one| Some((one, one.judgement.as_ref()?)));
    if let Some((approval, given)) = judged {
        let actor = given.actor.clone();
        let says = match given.answer {
            Answer::Approved => Fact::Approved { actor },
            Answer::Denied => Fact::Denied { actor },
            Answer::Returned => Fact::Returned { actor },
            Answer::Expired => Fact::NoAnswer,
        };
        let evidence = format!("digest {} at {}", short(&approval.digest), rfc3339(given.at));
        proven.push(claim(says, evidence));
    }
    for decision in &effect.decisions {
        proven.push(claim(
            Fact::Decided { actor: decision.actor.clone(), verdict: decision.verdict.as_str() },
            format!(
                "upon version {} at {}: {}",
                decision.version,
                rfc3339(decision.at),
                decision.reason
            ),
        ));
    }
    if let Some(undo) = &effect.undo {
        let by = format!("{}/{}", undo.by.action, undo.by.key);
        proven.push(match &undo.receipt {
            Some(receipt) => {
                let evidence = format!("receipt {}", short(&input_digest(receipt)));
                claim(Fact::UndoneBy { by }, evidence)
            }
            None => claim(Fact::UndoBegun { by }, "its receipt is not there yet"),
        });
    }
    proven
}

/// What stands beside the newest generation: older ones, repeats, journals.
fn history(
    rows: &[Effect],
    repeats: &[RepeatStatement],
    mentions: &[Mention],
    read: &Read<'_>,
) -> Vec<Claim> {
    let mut proven = Vec::new();
    let keys = rows.iter().filter_map(|row| row.plan.as_ref()).map(|plan| &plan.downstream_key);
    let keys: BTreeSet<&String> = keys.collect();
    if rows.len() > 1 && keys.len() == rows.len() {
        proven.push(claim(Fact::Generations { count: rows.len() }, "the records of all of them"));
    }
    let total: u64 = repeats.iter().fold(0, |sum, one| sum.saturating_add(one.at_least));
    if total > 0 {
        let doors: Vec<_> =
            repeats.iter().map(|one| format!("{} by {}", one.at_least, one.door)).collect();
        proven.push(claim(Fact::Repeats { total }, doors.join(", ")));
    }
    for one in read.runs.iter().filter(|one| one.chain.verified) {
        let named = mentions.iter().filter(|mention| mention.run == one.run.id);
        let places: Vec<_> = named.map(|mention| mention.seq.to_string()).collect();
        if !places.is_empty() {
            let (entries, head) = (one.chain.entries, short(&one.chain.head));
            let places = places.join(", ");
            proven.push(claim(
                Fact::Named { run: one.run.id.clone() },
                format!("entries {places} of {entries}, hash chain followed up to {head}"),
            ));
        }
    }
    proven
}

/// So many of something.
pub(super) fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Enough of a digest to compare two by eye.
pub(super) fn short(digest: &str) -> &str {
    digest.get(..16).unwrap_or(digest)
}
