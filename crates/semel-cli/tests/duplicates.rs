//! Very many callers ask for one ticket at the same instant, from several processes on one store.

#![expect(clippy::print_stdout, reason = "the figures of each run")]

mod common;

use std::collections::BTreeSet;
use std::fs::File;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use common::{Line, Worker, World, until};

const PROCESSES: usize = 4;
const CALLERS_EACH: usize = 2_500;

/// Starts all processes, lets each open the store, and opens the gate for all at once.
fn start_at_once(world: &World, protection: &str, args: &[&str]) -> Vec<Worker> {
    let gate = world.dir.path().join("gate");
    let callers = CALLERS_EACH.to_string();
    let gated = ["--gate", gate.to_str().expect("a path"), "--callers", &callers];
    let args = [&gated[..], args].concat();
    let workers: Vec<_> = (0..PROCESSES).map(|_| world.worker(protection, &args)).collect();
    let sessions = world.dir.path().join("semel.db-semel/sessions");
    until("every process has opened the store", || {
        let open = std::fs::read_dir(&sessions).map_or(0, |entries| entries.count());
        (open == PROCESSES).then_some(())
    });
    File::create(&gate).expect("the gate opens");
    workers
}

fn receipts(lines: &[Line]) -> BTreeSet<String> {
    lines.iter().filter_map(|line| line.receipt.as_ref()).map(Value::to_string).collect()
}

/// The receipt of the only ticket of this reference, as all must get it.
fn only_receipt(world: &World, reference: &str) -> BTreeSet<String> {
    let tickets = world.crm.applied(reference);
    assert_eq!(tickets.len(), 1, "applied once: {tickets:?}");
    BTreeSet::from([json!({ "id": tickets[0].id, "reference": reference }).to_string()])
}

fn slowest(lines: &[Line]) -> u64 {
    lines.iter().map(|line| line.ms).max().unwrap_or_default()
}

/// 10,000 callers: 1 attempt sent, 1 applied, the winner's receipt and 9,999 equal ones.
fn check_one_key(world: &World, protection: &str, reference: &str) {
    // The winner is at it long enough for all the others to arrive.
    world.crm.script(reference, &["slow:3000"]);
    let started = Instant::now();
    let repeat = CALLERS_EACH.to_string();
    let mut workers = start_at_once(world, protection, &["--repeat", &repeat, reference]);
    let codes: Vec<_> = workers.iter_mut().map(Worker::end).collect();
    assert_eq!(codes, [Some(0); PROCESSES]);
    let answered: Vec<Vec<Line>> = workers.iter().map(Worker::lines).collect();
    for lines in &answered {
        assert_eq!(lines.len(), CALLERS_EACH, "every process gets all its answers");
        assert_eq!(receipts(lines), only_receipt(world, reference));
    }
    let all = answered.concat();
    assert!(all.iter().all(|line| line.error.is_none() && line.receipt.is_some()));
    assert_eq!(all.len(), 10_000);
    assert_eq!(world.crm.did("arrived", reference).len(), 1, "one attempt was sent");
    let effect = world.show(reference);
    assert_eq!(effect["attempts"].as_array().map(Vec::len), Some(1));
    println!(
        "duplicates {protection}: {} callers in {PROCESSES} processes, 1 attempt, 1 applied, {} \
         equal receipts, slowest {} ms of which the CRM took 3000, {:.1} s in all",
        all.len(),
        all.len() - 1,
        slowest(&all),
        started.elapsed().as_secs_f64()
    );
}

#[test]
fn req_c4_ten_thousand_callers_at_once_are_one_effect() {
    let world = World::new();
    check_one_key(&world, "at_most_once", "one");
    assert_eq!(world.semel(&["verify", "--json"]).expect(0).json()["violations"], json!([]));
}

#[test]
fn case_c1_equal_requests_at_once_are_one_effect_and_equal_answers() {
    check_one_key(&World::new(), "native_key", "one");
}

/// No pause at the CRM: the processes race for the row itself, for many rows in turn.
#[test]
fn case_c2_processes_that_race_a_key_have_one_winner() {
    let world = World::new();
    let references: Vec<String> = (0..100).map(|number| format!("race-{number}")).collect();
    let references: Vec<&str> = references.iter().map(String::as_str).collect();
    let mut workers =
        start_at_once(&world, "at_most_once", &[&["--repeat", "2"], &references[..]].concat());
    let codes: Vec<_> = workers.iter_mut().map(Worker::end).collect();
    assert_eq!(codes, [Some(0); PROCESSES]);
    let all: Vec<Line> = workers.iter().flat_map(Worker::lines).collect();
    assert_eq!(all.len(), references.len() * 2 * PROCESSES);
    for reference in references {
        let lines: Vec<_> =
            all.iter().filter(|line| line.reference == reference).cloned().collect();
        assert_eq!(receipts(&lines), only_receipt(&world, reference));
        assert_eq!(world.crm.did("arrived", reference).len(), 1, "{reference} was sent once");
    }
}

/// The winner's process is killed after the CRM wrote the ticket: one of the others takes over.
#[test]
fn ten_thousand_callers_survive_the_winners_death() {
    let world = World::new();
    world.crm.script("orphan", &["hold"]);
    let repeat = CALLERS_EACH.to_string();
    let mut workers = start_at_once(&world, "native_key", &["--repeat", &repeat, "orphan"]);
    let held = until("the CRM holds the request", || world.crm.did("held", "orphan").pop());
    // All the others are waiting for it by now.
    std::thread::sleep(Duration::from_millis(1_000));
    let is_winner = |worker: &Worker| held.worker == Some(worker.pid.to_string());
    let winner = workers.iter().position(is_winner).expect("one of ours");
    workers.remove(winner).kill();
    let codes: Vec<_> = workers.iter_mut().map(Worker::end).collect();
    assert_eq!(codes, [Some(0); PROCESSES - 1]);
    let all: Vec<Line> = workers.iter().flat_map(Worker::lines).collect();
    assert_eq!(all.len(), (PROCESSES - 1) * CALLERS_EACH, "no survivor is left without");
    assert_eq!(receipts(&all), only_receipt(&world, "orphan"));
    let keys: BTreeSet<_> =
        world.crm.did("arrived", "orphan").into_iter().map(|event| event.key).collect();
    assert_eq!(keys.len(), 1, "the resend carries the same key: {keys:?}");
    assert_eq!(world.crm.did("arrived", "orphan").len(), 2, "one resend by one survivor");
    println!("duplicates: {} survivors, slowest {} ms", all.len(), slowest(&all));
}

/// Several processes write all the time: each gets its turn.
#[test]
fn several_processes_and_no_waiter_starves() {
    let world = World::new();
    let gate = world.dir.path().join("gate");
    let gated = ["--gate", gate.to_str().expect("a path"), "--callers", "16"];
    let mut workers: Vec<_> = (0..PROCESSES)
        .map(|process| {
            let own: Vec<String> = (0..150).map(|one| format!("p{process}-{one}")).collect();
            let own: Vec<&str> = own.iter().map(String::as_str).collect();
            world.worker("conditional", &[&gated[..], &own].concat())
        })
        .collect();
    File::create(&gate).expect("the gate opens");
    for worker in &mut workers {
        assert_eq!(worker.end(), Some(0));
        let lines = worker.lines();
        assert_eq!(lines.iter().filter(|line| line.receipt.is_some()).count(), 150);
        println!("starving: slowest call of a process {} ms", slowest(&lines));
        assert!(slowest(&lines) < 10_000, "a caller starved");
    }
}
