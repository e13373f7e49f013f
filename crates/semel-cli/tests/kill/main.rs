//! Real workers, killed and stopped at the worst moments, with the destination's file as oracle.
//!
//! The load kills workers by the dozen under each contract; the other files are single stories: one
//! fault, one moment, one outcome.

#![expect(clippy::print_stdout, reason = "each run of the load prints its seed and its figures")]

mod cases;
#[path = "../common/mod.rs"]
mod common;
mod load;
mod oracle;
mod pauses;
mod people;
mod resends;
mod stage;

use load::Load;

/// Kills of one run. All five runs together: well over 300.
const KILLS: usize = 100;
/// Of these, between the destination's write and our record.
const BETWEEN: usize = 50;
/// A busy machine may let a transaction commit before the kill; so many must be proven not to have.
const PROVEN: usize = 40;
const _: () = assert!(KILLS * 5 >= 300 && BETWEEN >= PROVEN && PROVEN >= 30);

fn check(contract: &'static str) {
    let mut load = Load::new(contract);
    load.run(KILLS, BETWEEN);
    oracle::forget_unproven(&mut load);
    let figures = load.figures();
    let violations = oracle::violations(&load);
    println!("kill {contract}: {figures}, {} violations", violations.len());
    assert!(violations.is_empty(), "seed {}:\n{}", load.seed, violations.join("\n"));
    assert!(load.proven() >= PROVEN, "too few kills between write and record: {figures}");
}

#[test]
fn kill_native_key_gives_one_ticket_and_one_receipt() {
    check("native_key");
}

#[test]
fn kill_probe_gives_one_ticket_and_one_receipt() {
    check("probe");
}

#[test]
fn kill_conditional_gives_one_ticket_and_one_receipt() {
    check("conditional");
}

#[test]
fn kill_at_most_once_gives_one_ticket_or_a_doubt_that_a_person_settles() {
    check("at_most_once");
}

#[test]
fn kill_transaction_leaves_rows_and_receipt_or_neither() {
    check("transaction");
}
