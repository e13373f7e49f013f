//! Verdicts: which promise holds, on what evidence, and what nobody can conclude from it.

mod limits_of;
mod run;

pub(super) use limits_of::of_the_store;
pub(super) use run::of_run;

use super::effect::downstream_key;
use super::statement::{Claim, Mention, RepeatStatement, Verdict};
use super::{Finding, Read};
use crate::effect::State;
use crate::record::{AlarmKind, Answer, Attempt, By, Contract, Effect, Kind, Outcome};
use crate::run::input_digest;
use crate::time::Moment;
use crate::verify;
use crate::wire::rfc3339;

pub(super) fn claim(says: impl Into<String>, evidence: impl Into<String>) -> Claim {
    Claim { says: says.into(), evidence: evidence.into() }
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
        broken.extend(found.map(|one| claim(one.what, format!("{} of {whose}", one.invariant))));
    }
    broken.extend(broken_chains(mentions, newest, read));
    let finding = if broken.is_empty() { finding(newest, now) } else { Finding::Broken };
    let mut proven = identity(newest);
    proven.extend(outcome(newest, now));
    proven.extend(promise(newest, now));
    proven.extend(persons(newest));
    proven.extend(history(rows, repeats, mentions, read));
    Verdict {
        finding: finding.as_str(),
        says: sentence(finding, newest, now),
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
    broken
        .map(|(one, what)| claim(what.clone(), format!("journal of run {}", one.run.id)))
        .collect()
}

fn finding(effect: &Effect, now: &Moment) -> Finding {
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

fn sentence(finding: Finding, effect: &Effect, now: &Moment) -> String {
    let contract = effect.plan.as_ref().map(|plan| plan.terms.contract);
    match finding {
        Finding::Done => match contract {
            Some(Contract::Transaction) => "it happened exactly once".into(),
            Some(Contract::Harmless) => "it happened, perhaps more than once".into(),
            Some(Contract::AtMostOnce) if sends(effect) == 1 => {
                "it was sent once, and a receipt proves that it happened".into()
            }
            Some(_) | None => "it happened, and the contract makes it count once".into(),
        },
        Finding::NotDone => match effect.state(now) {
            State::Failed => "it did not happen, and will not".into(),
            State::Void => "it was cancelled before anything was sent".into(),
            State::Planned if effect.is_held(now) => "nothing was sent: a person is asked".into(),
            State::Planned | State::Pending | State::Done | State::InDoubt | State::Expired => {
                "nothing was done so far".into()
            }
        },
        Finding::Undone if effect.undo.as_ref().is_some_and(|undo| undo.receipt.is_some()) => {
            "it happened, and was taken back".into()
        }
        Finding::Undone => "it happened, and is being taken back".into(),
        Finding::Told => "it happened, as somebody says who is on record".into(),
        Finding::Expired => "it was settled, and its records are past their retention".into(),
        Finding::InProgress => "it is under way: nobody knows yet".into(),
        Finding::InDoubt => "it is in doubt: an attempt was cut between send and answer".into(),
        Finding::Disputed => "it is disputed: a person says failed, a receipt says done".into(),
        Finding::Twice => "it happened twice: there are two different receipts".into(),
        Finding::Broken => "these records break the rules: they prove nothing".into(),
    }
}

pub(super) fn sends(effect: &Effect) -> usize {
    effect.attempts.iter().filter(|attempt| attempt.kind == Kind::Send).count()
}

/// One intent, one row, one key for the destination, one input.
fn identity(effect: &Effect) -> Vec<Claim> {
    let address = &effect.address;
    let names = [address.namespace.as_str(), address.action.as_str(), address.key.as_str()];
    let [namespace, action, key] = names;
    let mut proven = vec![claim(
        format!("one intent is meant: {action}/{key} in the namespace {namespace}"),
        format!("generation {} at version {}", effect.generation, effect.version),
    )];
    let Some(plan) = &effect.plan else { return proven };
    let print = &plan.fingerprint;
    if print.matches(plan.input.text().as_bytes()) {
        proven.push(claim(
            "all attempts carry the first input; the same key with another one is refused",
            "the fingerprint, computed again from the stored input",
        ));
    }
    let key = downstream_key(effect, plan);
    let how = if key.derived {
        "derived again from namespace, action, key and generation"
    } else {
        "as its author declared it"
    };
    let says = match key.sends {
        0 => format!("every send would carry the downstream key {}", key.key),
        1 => format!("the one send carried the downstream key {}", key.key),
        sends => format!("all {sends} sends carried the same downstream key {}", key.key),
    };
    proven.push(claim(says, how));
    proven
}

fn outcome(effect: &Effect, now: &Moment) -> Vec<Claim> {
    let mut proven = Vec::new();
    if let Some((attempt, receipt)) = effect.applied().and_then(|one| Some((one, one.receipt()?))) {
        let end = attempt.end.as_ref().expect("applied is an end");
        let by = match end.by {
            By::Worker => "its worker brought the receipt",
            By::Late => "its worker brought the receipt after its lease was gone: evidence",
            By::Look => "a look found it at the destination",
            By::Person => "a person's decision",
            By::Import => "an import",
        };
        let is_told = matches!(end.by, By::Person | By::Import);
        let how = if is_told { "counts as done" } else { "happened" };
        proven.push(claim(
            format!("attempt {} {how}, and its receipt stands for ever", attempt.number),
            format!("receipt {} of {}: {by}", short(&input_digest(receipt)), rfc3339(end.at)),
        ));
    }
    let refuted = effect.attempts.iter().filter_map(|attempt| Some((attempt, refuted(attempt)?)));
    proven.extend(refuted.map(|(attempt, (by, reason))| {
        claim(format!("attempt {} changed nothing", attempt.number), format!("{by}: {reason}"))
    }));
    if effect.attempts.is_empty() && effect.expired.is_none() {
        proven.push(claim("nothing was sent", "no attempt is on record, and none is sent before"));
    }
    if effect.state(now) == State::Failed && !effect.attempts.iter().any(|a| a.is_unknown(now)) {
        let reason = effect.failure().unwrap_or("nobody answered in time").to_owned();
        proven.push(claim("it will not be sent again under this key", reason));
    }
    proven
}

/// Who proved that an attempt was not applied, and how.
fn refuted(attempt: &Attempt) -> Option<(&'static str, &str)> {
    if attempt.kind == Kind::Look {
        return None;
    }
    let end = attempt.end.as_ref()?;
    let Outcome::NotApplied { reason, .. } = &end.outcome else { return None };
    let by = match end.by {
        By::Worker | By::Late => "proof of its worker",
        By::Look => "a look at the destination",
        By::Person => "a person's word",
        By::Import => "an import",
    };
    Some((by, reason))
}

/// The promise of the contract, and what shows that its conditions were kept.
fn promise(effect: &Effect, now: &Moment) -> Option<Claim> {
    let plan = effect.plan.as_ref()?;
    let contract = plan.terms.contract;
    if effect.attempts.is_empty() || effect.state(now) == State::Pending {
        return None;
    }
    let sends = counted(sends(effect), "send");
    let evidence = match contract {
        Contract::Transaction => "receipt and rows are one commit of one database".to_owned(),
        Contract::NativeKey { .. } => {
            let first = effect.first_sent?;
            let horizon = contract.horizon(first, plan.terms.settle_ms)?;
            format!("{sends}, all before the horizon {}", rfc3339(horizon))
        }
        Contract::Conditional => format!("{sends} under one condition"),
        Contract::Probe { .. } => {
            let looks = effect.attempts.iter().filter(|one| one.kind == Kind::Look).count();
            let looks = counted(looks, "look");
            format!("{sends} and {looks}, each resend after a look that found nothing")
        }
        Contract::AtMostOnce => format!("{sends}, none of them after a doubt by itself"),
        Contract::Harmless => sends,
    };
    Some(claim(format!("{}: {}", contract.name(), contract.promise()), evidence))
}

fn persons(effect: &Effect) -> Vec<Claim> {
    let mut proven = Vec::new();
    let judged = effect.approval.as_ref().and_then(|one| Some((one, one.judgement.as_ref()?)));
    if let Some((approval, given)) = judged {
        let says = match given.answer {
            Answer::Approved => format!("{} approved exactly what is sent", given.actor),
            Answer::Denied => format!("{} denied it", given.actor),
            Answer::Returned => format!("{} gave it back to its author", given.actor),
            Answer::Expired => "nobody answered in time, which is a no".to_owned(),
        };
        let evidence = format!("digest {} at {}", short(&approval.digest), rfc3339(given.at));
        proven.push(claim(says, evidence));
    }
    for decision in &effect.decisions {
        proven.push(claim(
            format!("{} decided: {}", decision.actor, decision.verdict.as_str()),
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
            Some(receipt) => claim(
                format!("it was taken back by {by}"),
                format!("receipt {}", short(&input_digest(receipt))),
            ),
            None => claim(format!("{by} may be taking it back"), "an undo was begun"),
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
    if rows.len() > 1 {
        proven.push(claim(
            format!(
                "it was opened anew by people's decisions: {}",
                counted(rows.len(), "generation")
            ),
            "each generation has its own downstream key, and fences rise over all of them",
        ));
    }
    let total: u64 = repeats.iter().fold(0, |sum, one| sum.saturating_add(one.at_least));
    if total > 0 {
        let doors: Vec<_> =
            repeats.iter().map(|one| format!("{} by {}", one.at_least, one.door)).collect();
        proven.push(claim(
            format!("repeats were answered without a send: at least {total}"),
            doors.join(", "),
        ));
    }
    for one in read.runs.iter().filter(|one| one.chain.verified) {
        let named = mentions.iter().filter(|mention| mention.run == one.run.id);
        let places: Vec<_> = named.map(|mention| mention.seq.to_string()).collect();
        if !places.is_empty() {
            proven.push(claim(
                format!("run {} planned it before it was begun", one.run.id),
                format!(
                    "entries {} of {}, hash chain followed up to {}",
                    places.join(", "),
                    one.chain.entries,
                    short(&one.chain.head)
                ),
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
