//! The statement of one effect: what was asked, every attempt, every word of a person.

use super::key::key_parts;
use super::statement::{
    AttemptStatement, ContractStatement, DownstreamKey, EffectStatement, FingerprintStatement,
    GenerationStatement, Mention,
};
use super::{Read, effect_named, repeat_statements, verdict};
use crate::derive;
use crate::effect;
use crate::fingerprint::Rule;
use crate::journal::{Event, Link};
use crate::record::{Attempt, Contract, Effect, Kind, Plan};
use crate::repeats;
use crate::run::input_digest;
use crate::time::{Moment, Steady, format_duration_ms};
use crate::wire::{AttemptView, effect_view, rfc3339};

pub(super) fn state(rows: &[Effect], read: &Read<'_>) -> EffectStatement {
    let now = &read.now;
    let dead = &read.evidence.standing.dead;
    let rows: Vec<Effect> = rows.iter().map(|effect| judged(effect, dead, now)).collect();
    let newest = rows.last().expect("an effect has a generation");
    let address = &newest.address;
    let card = repeats::card_of(address).to_string();
    let repeats = repeat_statements(read.repeats.get(card.as_str()));
    let mentions = mentions(&address.to_string(), read);
    let plan = newest.plan.as_ref();
    EffectStatement {
        id: derive::effect_ref(address, newest.generation),
        action: address.action.as_str().to_owned(),
        key: address.key.as_str().to_owned(),
        derived: plan.and_then(|plan| plan.derived.clone()),
        key_parts: key_parts(&address.key, plan.map(|plan| &plan.input)),
        state: newest.state(now).as_str(),
        workflow: newest.workflow.clone(),
        run: newest.run.clone(),
        verdict: verdict::of_effect(&rows, &repeats, &mentions, read),
        generations: rows.iter().map(|effect| generation(effect, now)).collect(),
        repeats,
        mentions,
    }
}

/// The effect as it is now: an attempt whose process is proven dead is unknown, whether or not
/// anybody has recorded that.
fn judged(effect: &Effect, dead: &[String], now: &Moment) -> Effect {
    let holder = effect.holder(now).and_then(|attempt| attempt.session.as_ref());
    let Some(session) = holder.filter(|session| dead.contains(session)) else {
        return effect.clone();
    };
    let version = effect.version;
    let died = effect::died(effect, session, now);
    died.map_or_else(|| effect.clone(), |died| Effect { version, ..died })
}

fn mentions(name: &str, read: &Read<'_>) -> Vec<Mention> {
    let mut found = Vec::new();
    for one in &read.runs {
        for (seq, entry) in &one.entries {
            if effect_named(&entry.event) != Some(name) {
                continue;
            }
            found.push(Mention {
                run: one.run.id.clone(),
                seq: *seq,
                at: rfc3339(entry.at.0),
                kind: entry.event.name(),
                command: entry.event.id().unwrap_or_default().to_owned(),
                repeat: matches!(&entry.event, Event::Effect { repeat: true, .. }),
            });
        }
    }
    found
}

fn generation(effect: &Effect, now: &Moment) -> GenerationStatement {
    let view = effect_view(effect, now);
    let plan = effect.plan.as_ref();
    let attempts = effect.attempts.iter().zip(view.attempts);
    GenerationStatement {
        generation: effect.generation,
        id: view.id,
        state: view.state,
        version: view.version,
        created_at: view.created_at,
        settled_at: view.settled_at,
        superseded_at: effect.superseded.map(rfc3339),
        expired_at: effect.expired.map(rfc3339),
        contract: plan.map(contract),
        fingerprint: plan.map(fingerprint),
        downstream_key: plan.map(|plan| downstream_key(effect, plan)),
        receipt_digest: view.receipt.as_ref().map(input_digest),
        receipt: view.receipt,
        failure: view.failure,
        attempts: attempts.map(|(attempt, view)| attempt_statement(attempt, view)).collect(),
        approval: view.approval,
        decisions: view.decisions,
        undoes: view.undoes,
        undo: view.undo,
        alarms: view.alarms,
    }
}

fn contract(plan: &Plan) -> ContractStatement {
    let terms = &plan.terms;
    let retention = match terms.contract {
        Contract::NativeKey { retention_ms } => Some(format_duration_ms(retention_ms)),
        Contract::Transaction
        | Contract::Conditional
        | Contract::Probe { .. }
        | Contract::AtMostOnce
        | Contract::Harmless => None,
    };
    ContractStatement {
        name: terms.contract.name(),
        promise: terms.contract.promise(),
        retention,
        lease: format_duration_ms(terms.lease_ms),
        deadline: format_duration_ms(terms.deadline_ms),
        settle_window: format_duration_ms(terms.settle_ms),
        replay_window: format_duration_ms(terms.window_ms),
    }
}

fn fingerprint(plan: &Plan) -> FingerprintStatement {
    let print = &plan.fingerprint;
    FingerprintStatement {
        digest: Link(print.digest).to_string(),
        form: print.form,
        members: match &print.rule {
            Rule::All => None,
            Rule::Members(names) => Some(names.clone()),
        },
        matches_input: print.matches(plan.input.text().as_bytes()),
    }
}

pub(super) fn downstream_key(effect: &Effect, plan: &Plan) -> DownstreamKey {
    let again = derive::downstream_key(&effect.address, effect.generation, None);
    DownstreamKey {
        derived: again == plan.downstream_key,
        key: plan.downstream_key.clone(),
        sends: effect.attempts.iter().filter(|attempt| attempt.kind == Kind::Send).count(),
    }
}

fn attempt_statement(attempt: &Attempt, view: AttemptView) -> AttemptStatement {
    AttemptStatement {
        view,
        session: attempt.session.clone(),
        run: attempt.run.clone(),
        lease_ms: span(attempt.began_at, attempt.lease_until),
        deadline_ms: span(attempt.began_at, attempt.deadline),
        renewed: attempt.renewed,
        doubt: attempt.doubt.as_ref().map(|doubt| doubt.reason.clone()),
        receipt_digest: attempt.receipt().map(input_digest),
        began_ms: attempt.began.0,
        ended_ms: attempt.end.as_ref().map(|end| end.at.0),
    }
}

fn span(from: Steady, to: Steady) -> i64 {
    to.ms.saturating_sub(from.ms)
}
