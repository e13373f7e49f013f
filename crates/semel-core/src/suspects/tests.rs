use super::*;
use crate::contract::Declared;
use crate::json::Json;
use crate::key::{Action, Address, Key, Namespace};
use crate::record::Plan;

const ID: [&str; 2] =
    ["0b7a3c1e-59c2-4d0f-9a55-2f6c1f0a9b11", "77aa3c1e-59c2-4d0f-9a55-2f6c1f0a9b22"];

fn effect(action: &str, key: &[&str], input: &str, rule: &Rule) -> Effect {
    let plan = Plan {
        derived: None,
        shape: None,
        input: Json::from_text(input).expect("JSON"),
        fingerprint: Fingerprint::of(input.as_bytes(), rule),
        downstream_key: "d".into(),
        terms: Declared::default().terms().expect("defaults"),
    };
    Effect {
        address: Address {
            namespace: Namespace::default(),
            action: Action::new(action).expect("a name"),
            key: Key::from_parts(key).expect("a key"),
        },
        generation: 0,
        version: 1,
        workflow: None,
        run: None,
        created: Wall(1_763_301_600_000),
        fence_floor: 0,
        plan: Some(plan),
        approval: None,
        attempts: Vec::new(),
        decisions: Vec::new(),
        alarms: Vec::new(),
        retry_at: None,
        first_sent: None,
        granted_after: 0,
        spent: None,
        voided: None,
        settled: None,
        kept_until: None,
        waiters: Vec::new(),
        undoes: None,
        undo: None,
        superseded: None,
        expired: None,
    }
}

fn radar(rows: &[(&[&str], &str)]) -> Radar {
    let mut radar = Radar::new();
    for (key, input) in rows {
        assert!(radar.see(&effect("crm-ticket", key, input, &Rule::All)));
    }
    radar
}

fn check(rows: &[(&[&str], &str)], want: &[(&str, Level, usize)]) {
    let report = radar(rows).report(false);
    let found: Vec<_> = report.suspects.iter().map(|one| (one.sign, one.level, one.keys)).collect();
    assert_eq!(found, want, "{rows:?}: {report:?}");
}

#[test]
fn req_k15_the_same_input_under_new_keys_is_reported_worst_first() {
    let (fire, flood) = (r#"{"subject":"fire"}"#, r#"{"subject":"flood"}"#);
    check(
        &[(&["a"], fire), (&["b"], fire), (&["c"], flood), (&["d"], flood), (&["e"], flood)],
        &[("same_input", Level::Likely, 3), ("same_input", Level::Likely, 2)],
    );
    let reason = &radar(&[(&["a"], fire), (&["b"], fire)]).report(false).suspects[0].reason;
    assert_eq!(reason, "the same input came under 2 keys: each was acted on");
}

#[test]
fn one_key_however_often_and_other_inputs_are_no_suspects() {
    let (fire, flood) = (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":3}"#);
    check(&[(&["a"], fire), (&["a"], fire)], &[]);
    check(&[(&["a"], fire), (&["b"], flood)], &[]);
    // Nothing to compare is not the same wish.
    check(&[(&["a"], "null"), (&["b"], "null"), (&["c"], "{}")], &[]);
    assert_eq!(radar(&[(&["a"], "null")]).report(false).without_input, 1);
}

#[test]
fn space_and_member_order_do_not_hide_a_suspect() {
    check(
        &[(&["a"], r#"{"a":1,"b":2}"#), (&["b"], r#"{ "b":2, "a":1 }"#)],
        &[("same_input", Level::Likely, 2)],
    );
}

#[test]
fn another_action_with_the_same_input_is_no_suspect() {
    let mut radar = Radar::new();
    for action in ["crm-ticket", "ack-mail", "semel.notify", "semel.notify"] {
        radar.see(&effect(action, &[action], r#"{"request":"1"}"#, &Rule::All));
    }
    assert_eq!(radar.report(false).suspects, []);
    assert_eq!(radar.report(false).rows, 2, "our own are not looked at");
}

/// Declared prints with few members are equal often; the whole inputs are compared, too.
#[test]
fn a_models_other_words_do_not_hide_a_new_key() {
    let rule = Rule::members(["request_id"]);
    let mut radar = Radar::new();
    for (key, words) in [("r-1-x", "fire"), ("r-1-y", "a fire")] {
        let input = format!(r#"{{"request_id":"r-1","subject":"{words}"}}"#);
        radar.see(&effect("crm-ticket", &[key], &input, &rule));
    }
    let report = radar.report(false);
    assert_eq!(report.suspects.len(), 1, "{report:?}");
    assert_eq!((report.suspects[0].sign, report.suspects[0].keys), ("same_members", 2));

    // With the same whole input there is one report, not two.
    let mut radar = Radar::new();
    for key in ["x", "y"] {
        radar.see(&effect("crm-ticket", &[key], r#"{"request_id":"r-1"}"#, &rule));
    }
    let signs: Vec<_> = radar.report(false).suspects.iter().map(|one| one.sign).collect();
    assert_eq!(signs, ["same_input"]);
}

#[test]
fn keys_that_look_like_times_and_attempts_are_reported() {
    check(
        &[(&["1763301600123"], r#"{"a":1}"#), (&["1763301600456"], r#"{"a":2}"#)],
        &[("time", Level::Likely, 2)],
    );
    check(&[(&["7", "attempt-2"], r#"{"a":1}"#)], &[("attempt", Level::Likely, 1)]);
    check(&[(&[ID[0]], r#"{"a":1}"#)], &[("randomness", Level::Perhaps, 1)]);
    // The business' own ids and times are in the input.
    check(&[(&[ID[0]], &format!(r#"{{"order":"{}"}}"#, ID[0]))], &[]);
    check(&[(&["order:1763301600123"], r#"{"event":{"at":1763301600123}}"#)], &[]);
}

#[test]
fn what_a_run_was_started_with_explains_its_keys() {
    let started = |inputs: [&str; 2]| {
        let mut radar = Radar::new();
        for (id, run) in ID.iter().zip(["run-1", "run-2"]) {
            let mut row = effect("ack-mail", &[id, "v1"], r#"{"template":"thanks"}"#, &Rule::All);
            row.run = Some(run.into());
            radar.see(&row);
        }
        assert_eq!(radar.runs_to_ask(), ["run-1", "run-2"]);
        for (run, input) in ["run-1", "run-2"].iter().zip(inputs) {
            radar.learn(run, RunSeen { key: "event".into(), input: Some(input.to_owned()) });
        }
        let report = radar.report(false);
        report.suspects.iter().map(|one| (one.sign, one.level)).collect::<Vec<_>>()
    };
    let orders = ID.map(|id| format!(r#"{{"order":"{id}"}}"#));
    assert_eq!(started([&orders[0], &orders[1]]), [("same_input", Level::Perhaps)]);
    // Started alike: what differs was drawn inside.
    let want = [("same_input", Level::Likely), ("randomness", Level::Perhaps)];
    assert_eq!(started([r#"{"a":1}"#, r#"{"a":1}"#]), want);
}

#[test]
fn memory_is_bounded_and_a_full_radar_says_so() {
    let mut radar = Radar::new();
    radar.groups = (0..limits::SUSPECT_INPUTS_MAX)
        .map(|at| {
            let group = Group {
                keys: BTreeSet::new(),
                examples: Vec::new(),
                first: Wall(0),
                last: Wall(0),
                input: 0,
                inputs_differ: false,
            };
            ((9, By::Input, at as u128), group)
        })
        .collect();
    assert!(!radar.report(false).is_cut);
    radar.see(&effect("crm-ticket", &["a"], r#"{"a":1}"#, &Rule::All));
    assert_eq!(radar.groups.len(), limits::SUSPECT_INPUTS_MAX);
    assert!(radar.report(false).is_cut);
}

#[test]
fn a_group_keeps_few_examples_and_counts_up_to_its_limit() {
    let mut radar = Radar::new();
    for at in 0..KEYS_MAX + 10 {
        radar.see(&effect("crm-ticket", &[&format!("k{at}")], r#"{"a":1}"#, &Rule::All));
    }
    let suspect = &radar.report(false).suspects[0];
    assert_eq!((suspect.keys, suspect.examples.len()), (KEYS_MAX, EXAMPLES_MAX));
    assert!(suspect.reason.contains("1000 or more keys"), "{}", suspect.reason);
}
