//! What the tests of plan, judge and report share: a triage as it goes when nothing goes wrong.

use std::collections::BTreeMap;

use super::record::{AttemptSeen, Baseline, Case, EffectSeen, Fault, Observation, Place, Request};

pub(super) const MODEL: &str = "POST /classify";
pub(super) const CRM: &str = "POST /tickets";

pub(super) fn baseline() -> Baseline {
    let names = [
        "started",
        "step classify",
        "planned crm-ticket",
        "crm-ticket pending",
        "crm-ticket done",
        "effect crm-ticket",
        "mail pending",
        "mail done",
        "finished",
    ];
    let sides = |name: &&str| [vec![format!("before {name}")], vec![format!("after {name}")]];
    Baseline {
        points: names.iter().flat_map(sides).collect(),
        requests: vec![request(MODEL, None, 2), request(CRM, Some("key-1"), 8)],
        approvals: vec!["mail/42".into()],
        signals: vec!["word".into()],
        callbacks: vec!["agent".into()],
        effects: vec![effect("crm-ticket", "native_key"), effect("mail", "at_most_once")],
        objects: BTreeMap::from([(CRM.into(), 1), ("mail".into(), 1)]),
        model_calls: BTreeMap::from([(MODEL.into(), 1)]),
        state: "done".into(),
        detail: String::new(),
        result: Some("{}".into()),
    }
}

/// What is seen when a case changed nothing.
pub(super) fn as_before(baseline: &Baseline) -> Observation {
    Observation {
        is_met: true,
        state: baseline.state.clone(),
        result: baseline.result.clone(),
        effects: baseline.effects.clone(),
        requests: baseline.requests.clone(),
        objects: baseline.objects.clone(),
        model_calls: baseline.model_calls.clone(),
        replay_requests: Some(0),
        ms: 7,
        ..Observation::default()
    }
}

pub(super) fn request(route: &str, key: Option<&str>, after_points: usize) -> Request {
    let key = key.map(str::to_owned);
    Request { route: route.into(), key, after_points: Some(after_points) }
}

pub(super) fn effect(action: &str, contract: &str) -> EffectSeen {
    EffectSeen {
        action: action.into(),
        key: "42".into(),
        contract: contract.into(),
        state: "done".into(),
        downstream_key: "key-1".into(),
        attempts: vec![attempt("applied")],
        receipt: Some("{}".into()),
        ..EffectSeen::default()
    }
}

pub(super) fn attempt(outcome: &str) -> AttemptSeen {
    AttemptSeen { kind: "send".into(), outcome: outcome.into(), was_doubted: outcome == "unknown" }
}

pub(super) fn at(fault: Fault, point: &str) -> Case {
    Case { fault, place: Place::Point(point.into()), then: None }
}

pub(super) fn at_send(fault: Fault, number: u32, route: &str) -> Case {
    Case { fault, place: Place::Send { number, route: route.into() }, then: None }
}
