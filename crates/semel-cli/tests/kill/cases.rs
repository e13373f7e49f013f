//! One kill, one restart: what each contract makes of it.

use serde_json::{Value, json};

use crate::common::{World, until};

/// The settle window of these stories.
const SETTLE: [&str; 2] = ["--settle-ms", "600"];

/// `send unknown, look found`: kinds and outcomes of all attempts.
pub(crate) fn told(effect: &Value) -> String {
    let attempts = effect["attempts"].as_array().expect("attempts").iter();
    let word = |one: &Value, name: &str| one[name].as_str().expect("a word").to_owned();
    let told = attempts.map(|one| format!("{} {}", word(one, "kind"), word(one, "outcome")));
    told.collect::<Vec<_>>().join(", ")
}

fn fences(effect: &Value) -> Vec<u64> {
    let attempts = effect["attempts"].as_array().expect("attempts").iter();
    attempts.map(|one| one["fence"].as_u64().expect("a fence")).collect()
}

/// The receipt of the only ticket.
fn receipt_of(world: &World, reference: &str) -> Value {
    let tickets = world.crm.applied(reference);
    assert_eq!(tickets.len(), 1, "one ticket: {tickets:?}");
    json!({ "id": tickets[0].id, "reference": reference })
}

/// Claim and mark are one commit here: what is claimed and not marked is between two attempts.
#[test]
fn case_x1_a_kill_before_the_effect_is_armed_executes_once() {
    let world = World::new();
    world.crm.script("x1", &["status:401"]);
    world.crm.script("other", &["hold"]);
    let args = ["--attempts", "1", "--callers", "2", "x1", "other"];
    let mut worker = world.worker("at_most_once", &args);
    until("the CRM holds the other", || world.crm.did("held", "other").pop());
    until("the CRM refuses", || world.crm.did("refused", "x1").pop());
    let planned = world.wait_for_state("x1", "planned");
    worker.kill();
    assert_eq!(told(&planned), "send not_applied");
    let (code, receipt) = world.work("at_most_once", &["x1"]);
    assert_eq!((code, &receipt), (Some(0), &receipt_of(&world, "x1")));
    assert_eq!(told(&world.show("x1")), "send not_applied, send applied");
    world.verify();
}

#[test]
fn case_x2_without_a_probe_a_retry_is_told_in_doubt_and_calls_nobody() {
    let world = World::new();
    world.crm.script("x2", &["hold"]);
    world.kill_at_held("at_most_once", &["x2"]);
    for _ in 0..3 {
        let (code, error) = world.work("at_most_once", &["x2"]);
        assert_eq!((code, error), (Some(5), json!("in_doubt")));
    }
    assert_eq!(world.crm.did("arrived", "x2").len(), 1, "no second call");
    assert_eq!(world.crm.applied("x2").len(), 1);
    assert_eq!(told(&world.show("x2")), "send unknown");
    world.verify();
}

#[test]
fn req_l12_a_crash_between_action_and_record_asks_for_a_decision() {
    let world = World::new();
    world.crm.script("l12", &["hold"]);
    world.kill_at_held("at_most_once", &["l12"]);
    assert_eq!(world.work("at_most_once", &["l12"]).0, Some(5));
    let doubts = world.doubts();
    assert_eq!(doubts.len(), 1, "listed: {doubts:?}");
    let ticket = world.crm.applied("l12").remove(0);
    world.resolve_now("l12", &["--done", "--receipt", &ticket.receipt()]).expect(0);
    let (code, receipt) = world.work("at_most_once", &["l12"]);
    assert_eq!((code, receipt), (Some(0), receipt_of(&world, "l12")));
    assert_eq!(world.crm.did("arrived", "l12").len(), 1, "the person's word is the outcome");
    world.verify();
}

#[test]
fn case_x3_with_a_native_key_the_resend_carries_the_same_key() {
    let world = World::new();
    world.crm.script("x3", &["hold"]);
    world.kill_at_held("native_key", &["x3"]);
    let (code, receipt) = world.work("native_key", &["x3"]);
    assert_eq!((code, receipt), (Some(0), receipt_of(&world, "x3")));
    let keys: Vec<_> = world.crm.did("arrived", "x3").into_iter().map(|one| one.key).collect();
    let effect = world.show("x3");
    let derived = effect["downstream_key"].as_str().map(str::to_owned);
    assert!(derived.is_some());
    assert_eq!(keys, [derived.clone(), derived]);
    assert_eq!(told(&effect), "send unknown, send applied");
    world.verify();
}

#[test]
fn case_x4_a_probe_that_finds_the_effect_recovers_its_receipt() {
    let world = World::new();
    world.crm.script("x4", &["hold"]);
    world.kill_at_held("probe", &[SETTLE[0], SETTLE[1], "x4"]);
    let (code, receipt) = world.work("probe", &[SETTLE[0], SETTLE[1], "x4"]);
    assert_eq!((code, receipt), (Some(0), receipt_of(&world, "x4")));
    assert_eq!(told(&world.show("x4")), "send unknown, look found");
    assert_eq!(world.crm.did("arrived", "x4").len(), 1, "found, so not sent again");
    world.verify();
}

#[test]
fn case_x5_a_probe_that_proves_absence_sends_under_a_higher_fence() {
    let world = World::new();
    world.crm.script("x5", &["hold_before"]);
    world.kill_at_held("probe", &[SETTLE[0], SETTLE[1], "x5"]);
    assert_eq!(world.crm.applied("x5").len(), 0, "nothing was written");
    // Nobody looks before the window is over.
    let (code, error) = world.work("probe", &[SETTLE[0], SETTLE[1], "--attempts", "1", "x5"]);
    assert_eq!((code, error), (Some(5), json!("in_doubt")));
    assert_eq!(world.crm.did("looked", "x5").len(), 0);
    let (code, receipt) = world.work("probe", &[SETTLE[0], SETTLE[1], "x5"]);
    assert_eq!((code, receipt), (Some(0), receipt_of(&world, "x5")));
    let effect = world.show("x5");
    assert_eq!(told(&effect), "send not_applied, look absent, send applied");
    let fences = fences(&effect);
    assert!(fences.is_sorted_by(|one, next| one < next), "{fences:?}");
    assert_eq!(world.crm.did("looked", "x5").len(), 1);
    world.verify();
}

/// A request that lands within its window, after its worker's death, is found by the look.
#[test]
fn a_request_that_lands_late_is_found_because_the_look_waits() {
    let world = World::new();
    world.crm.script("late", &["delay:700"]);
    let mut worker = world.worker("probe", &["--settle-ms", "2000", "late"]);
    until("the request arrives", || world.crm.did("arrived", "late").pop());
    worker.kill();
    assert_eq!(world.crm.applied("late").len(), 0, "not yet");
    let (code, receipt) = world.work("probe", &["--settle-ms", "2000", "late"]);
    assert_eq!((code, receipt), (Some(0), receipt_of(&world, "late")));
    assert_eq!(told(&world.show("late")), "send unknown, look found");
}

/// The answer has reached the worker and nothing is recorded yet.
#[test]
fn case_x6_a_kill_after_the_answer_and_before_the_record_is_never_a_blind_rerun() {
    let world = World::new();
    let want = [
        ("native_key", Some(0), "send unknown, send applied"),
        ("conditional", Some(0), "send unknown, send applied"),
        ("probe", Some(0), "send unknown, look found"),
        ("at_most_once", Some(5), "send unknown"),
    ];
    for (contract, code, story) in want {
        let mut worker = world.worker(contract, &["--think-ms", "20000", contract]);
        worker.wait_until_it_says(&format!("answered {contract}"));
        worker.kill();
        let (got, answer) = world.work(contract, &[SETTLE[0], SETTLE[1], contract]);
        assert_eq!(got, code, "{contract}: {answer}");
        let receipt = receipt_of(&world, contract);
        assert_eq!(answer, if code == Some(0) { receipt } else { json!("in_doubt") });
        assert_eq!(told(&world.show(contract)), story, "{contract}");
    }
    world.verify();
}
