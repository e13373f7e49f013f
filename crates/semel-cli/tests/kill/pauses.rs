//! A worker is stopped inside user code for longer than its lease, and then goes on: a zombie. Its
//! receipt is evidence, its failure is not.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cases::told;
use crate::common::{Worker, World, until};

/// Short enough to lapse while a test waits, long enough for a busy machine to send in.
const LEASE: [&str; 2] = ["--lease-ms", "1200"];

/// A worker that has its answer and is stopped before it can report it.
pub(crate) fn stopped_with_answer(world: &World, contract: &str, args: &[&str]) -> Worker {
    let reference = args.last().expect("a reference");
    let args = [&[LEASE[0], LEASE[1], "--think-ms", "1000"], args].concat();
    let worker = world.worker(contract, &args);
    worker.wait_until_it_says(&format!("answered {reference}"));
    worker.stop();
    worker
}

fn by(effect: &Value, attempt: usize) -> &Value {
    &effect["attempts"][attempt]["by"]
}

fn only_line(worker: &Worker) -> Value {
    let line = worker.lines().pop().expect("a line");
    line.receipt.or(line.error.map(Value::from)).expect("an outcome")
}

#[test]
fn inv_i5_a_zombies_late_receipt_is_evidence_and_the_same_receipt() {
    let world = World::new();
    let mut zombie = stopped_with_answer(&world, "native_key", &["z1"]);
    // Takes over when the lease is over, under the same key.
    let (code, receipt) = world.work("native_key", &["z1"]);
    assert_eq!(code, Some(0), "{receipt}");
    zombie.go_on();
    assert_eq!(zombie.end(), Some(0));
    assert_eq!(only_line(&zombie), receipt, "one outcome for all (I10)");
    let effect = world.show("z1");
    assert_eq!(told(&effect), "send applied, send applied");
    assert_eq!((by(&effect, 0), by(&effect, 1)), (&json!("late"), &json!("worker")));
    assert_eq!(effect["alarms"], Value::Null, "the same receipt alarms nobody");
    assert_eq!(world.crm.applied("z1").len(), 1);
    world.verify();
}

#[test]
fn inv_i5_a_zombies_late_failure_changes_nothing() {
    let world = World::new();
    world.crm.script("z2", &["status:422"]);
    let mut zombie = stopped_with_answer(&world, "native_key", &["z2"]);
    let (code, receipt) = world.work("native_key", &["z2"]);
    assert_eq!(code, Some(0), "{receipt}");
    let before = world.show("z2");
    zombie.go_on();
    assert_eq!(zombie.end(), Some(0));
    assert_eq!(only_line(&zombie), receipt, "it is told the other's receipt");
    assert_eq!(world.show("z2"), before, "nothing of the row has changed");
    assert_eq!(told(&before), "send unknown, send applied");
    assert_eq!(world.crm.applied("z2").len(), 1);
    world.verify();
}

#[test]
fn at_most_once_nobody_takes_over_from_a_stopped_worker_and_its_receipt_ends_the_doubt() {
    let world = World::new();
    let mut zombie = stopped_with_answer(&world, "at_most_once", &["z3"]);
    let (code, error) = world.work("at_most_once", &["z3"]);
    assert_eq!((code, error), (Some(5), json!("in_doubt")));
    zombie.go_on();
    assert_eq!(zombie.end(), Some(0));
    let effect = world.show("z3");
    assert_eq!((effect["state"].as_str(), by(&effect, 0)), (Some("done"), &json!("late")));
    let (code, receipt) = world.work("at_most_once", &["z3"]);
    assert_eq!((code, receipt), (Some(0), only_line(&zombie)));
    assert_eq!(world.crm.did("arrived", "z3").len(), 1);
    world.verify();
}

#[test]
fn at_most_once_a_late_failure_leaves_the_doubt() {
    let world = World::new();
    world.crm.script("z4", &["status:422"]);
    let mut zombie = stopped_with_answer(&world, "at_most_once", &["z4"]);
    world.wait_for_state("z4", "in_doubt");
    zombie.go_on();
    assert_eq!(zombie.end(), Some(5), "{:?}", zombie.lines());
    let effect = world.show("z4");
    assert_eq!(
        (effect["state"].as_str(), told(&effect).as_str()),
        (Some("in_doubt"), "send unknown")
    );
    world.resolve_now("z4", &["--failed"]).expect(0);
    let (code, error) = world.work("at_most_once", &["z4"]);
    assert_eq!((code, error), (Some(4), json!("effect_failed")));
    assert_eq!(world.crm.applied("z4").len(), 0, "failed, and not applied (I8)");
    world.verify();
}

/// Stopped after its attempt was armed and before the request left, and woken after its deadline:
/// it must not send any more, because others may soon look and find nothing.
#[test]
fn case_x9_a_stopped_worker_that_wakes_after_its_deadline_sends_nothing() {
    let world = World::new();
    let times = ["--lease-ms", "1000", "--deadline-ms", "1500", "--settle-ms", "1500"];
    let args = [&times[..], &["--before-send-ms", "500", "x9"]].concat();
    let mut zombie = world.worker("at_most_once", &args);
    zombie.wait_until_it_says("armed x9");
    zombie.stop();
    let stopped = Instant::now();
    let (code, error) = world.work("at_most_once", &["x9"]);
    assert_eq!((code, error), (Some(5), json!("in_doubt")), "the lease is over, the key not free");
    until("the deadline passes", || {
        (stopped.elapsed() > Duration::from_millis(1_600)).then_some(())
    });
    zombie.go_on();
    assert_eq!(zombie.end(), Some(5), "{:?}", zombie.lines());
    assert_eq!(world.crm.did("arrived", "x9").len(), 0, "it sent after its deadline");
    let early = world.resolve_now("x9", &["--retry"]).expect(4);
    assert!(early.stderr.contains("too_early"), "{early:?}");
    until("the settle window passes", || {
        (world.resolve_now("x9", &["--retry"]).code == Some(0)).then_some(())
    });
    let (code, receipt) = world.work("at_most_once", &["x9"]);
    assert_eq!(code, Some(0), "{receipt}");
    assert_eq!(world.crm.applied("x9").len(), 1);
    assert_eq!(told(&world.show("x9")), "send not_applied, send applied");
    world.verify();
}
