//! A receipt is delivered after a person has decided.

use std::time::Duration;

use serde_json::{Value, json};

use crate::common::{World, until};
use crate::pauses::stopped_with_answer;

fn alarms(effect: &Value) -> Vec<&str> {
    let alarms = effect["alarms"].as_array().into_iter().flatten();
    alarms.map(|alarm| alarm["kind"].as_str().expect("a kind")).collect()
}

#[test]
fn inv_i6_a_receipt_after_a_persons_failed_is_a_dispute() {
    let world = World::new();
    let mut zombie = stopped_with_answer(&world, "at_most_once", &["p1"]);
    world.wait_for_state("p1", "in_doubt");
    world.resolve_now("p1", &["--failed"]).expect(0);
    zombie.go_on();
    assert_eq!(zombie.end(), Some(4), "the decision stands: {:?}", zombie.lines());
    let effect = world.show("p1");
    assert_eq!(
        (effect["state"].as_str(), effect["disputed"].as_bool()),
        (Some("failed"), Some(true))
    );
    assert_eq!(alarms(&effect), ["disputed"]);
    let alarmed = world.semel(&["effects", "ls", "--alarmed", "--json"]).expect(0).json();
    assert_eq!(alarmed["items"][0]["key"], "p1", "it is listed: {alarmed}");
    world.verify();
}

#[test]
fn inv_i6_the_same_receipt_after_a_persons_done_alarms_nobody() {
    let world = World::new();
    let mut zombie = stopped_with_answer(&world, "at_most_once", &["p2"]);
    world.wait_for_state("p2", "in_doubt");
    let ticket = world.crm.applied("p2").remove(0);
    world.resolve_now("p2", &["--done", "--receipt", &ticket.receipt()]).expect(0);
    let decided = world.show("p2");
    zombie.go_on();
    assert_eq!(zombie.end(), Some(0));
    let effect = world.show("p2");
    assert_eq!(effect["receipt"], decided["receipt"]);
    assert_eq!(zombie.lines()[0].receipt.as_ref(), Some(&decided["receipt"]));
    assert!(alarms(&effect).is_empty(), "{effect}");
    world.verify();
}

#[test]
fn inv_i6_another_receipt_after_a_persons_done_alarms_and_the_first_stands() {
    let world = World::new();
    let mut zombie = stopped_with_answer(&world, "at_most_once", &["p3"]);
    world.wait_for_state("p3", "in_doubt");
    let told = json!({ "id": "T-99", "reference": "p3" });
    world.resolve_now("p3", &["--done", "--receipt", &told.to_string()]).expect(0);
    zombie.go_on();
    assert_eq!(zombie.end(), Some(0));
    let effect = world.show("p3");
    assert_eq!(effect["receipt"], told, "the first receipt stands for ever");
    assert_eq!(zombie.lines()[0].receipt.as_ref(), Some(&told), "also for the zombie (I10)");
    assert_eq!(alarms(&effect), ["applied_twice"]);
    let evidence = json!({ "id": world.crm.applied("p3")[0].id, "reference": "p3" });
    assert_eq!(effect["alarms"][0]["receipt"], evidence);
    world.verify();
}

/// A person was wrong: at most one more than they authorised, and everybody sees it.
#[test]
fn inv_i7_a_wrong_retry_costs_one_ticket_and_is_alarmed() {
    let world = World::new();
    let times = ["--deadline-ms", "1500", "--settle-ms", "300", "p4"];
    let mut zombie = stopped_with_answer(&world, "at_most_once", &times);
    world.wait_for_state("p4", "in_doubt");
    world.resolve_now("p4", &["--retry"]).expect(4);
    until("the settle window passes", || {
        std::thread::sleep(Duration::from_millis(100));
        (world.resolve_now("p4", &["--retry"]).code == Some(0)).then_some(())
    });
    let (code, second) = world.work("at_most_once", &["p4"]);
    assert_eq!(code, Some(0), "{second}");
    zombie.go_on();
    zombie.end();
    assert_eq!(world.crm.applied("p4").len(), 2, "one, and one that a person authorised");
    let effect = world.show("p4");
    assert_eq!(effect["receipt"], second, "the first receipt on record stands");
    assert_eq!(alarms(&effect), ["applied_twice"]);
    assert_eq!(zombie.lines()[0].receipt.as_ref(), Some(&second), "one outcome (I10)");
    world.verify();
}
