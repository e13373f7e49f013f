//! Many workers on one Postgres under every fault: restarts, kills, pauses, cut wires, a server
//! without a free connection, and a promoted standby that has lost its tail. The destination's own
//! file says what happened outside, the store's rows and journals what we say of it.
//!
//! A worker is this very program, asked to run the ignored test `a_worker`. `SEMEL_SEED` repeats a
//! run, `SEMEL_CHAOS_TIMES` multiplies the faults of each test for a campaign.

#![expect(clippy::print_stdout, reason = "each test prints its seed and its figures")]

mod chance;
#[path = "../common/mod.rs"]
mod common;
mod doubts;
mod faults;
mod load;
mod oracle;
mod promotion;
mod stage;
mod wire;
mod worker;

use chance::{Chance, times};
use common::{run, semel};
use load::Load;
use semel_lab::Cluster;
use stage::Stage;

/// Not a test: what the other tests start as a process of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "started by the other tests as a process of its own"]
async fn a_worker() {
    if let Ok(url) = std::env::var(worker::STORE) {
        worker::work(&url).await;
    }
}

/// Plays faults under load, lets everything finish, and asks the oracle.
fn check(name: &str, cluster: Cluster, play: impl FnOnce(&mut Stage, &mut Chance) -> String) {
    let mut chance = Chance::new(name);
    let mut stage = Stage::new(cluster);
    let load = Load::start(&stage);
    let faults = play(&mut stage, &mut chance);
    let figures = load.finish();
    stage.end_workers();
    let mut violations = oracle::violations(&stage, &figures);
    // What an operator would ask, on the same store.
    let verified = run(semel().args(["--store", &stage.cluster.url(), "verify"]));
    if verified.code != Some(0) {
        violations.push(format!("semel verify: {verified:?}"));
    }
    println!("{name}: {faults}; {figures}; {} violations", violations.len());
    if !violations.is_empty() && std::env::var("SEMEL_CHAOS_KEEP").is_ok() {
        println!("{name}: kept in {}", stage.keep().display());
    }
    assert!(violations.is_empty(), "seed {}:\n{}", chance.seed, violations.join("\n"));
}

#[test]
fn inv_i9_forty_crashes_of_postgres_lose_nothing_and_repeat_nothing() {
    check("restarts", Cluster::durable(), |stage, chance| {
        let restarts = faults::restart(stage, chance, 40 * times());
        assert_eq!(stage.returns(), "", "a crash loses nothing: no quarantine");
        format!("{restarts} restarts")
    });
}

#[test]
fn inv_i7_two_hundred_kills_and_twenty_pauses_repeat_nothing() {
    check("kills", Cluster::durable(), |stage, chance| {
        let (kills, pauses) = faults::kill_and_pause(stage, chance, 200 * times(), 20 * times());
        assert!(kills >= 200 && pauses >= 20, "{kills} kills, {pauses} pauses");
        format!("{kills} kills, {pauses} pauses, {} workers on a skewed clock", stage.skewed())
    });
}

#[test]
fn bug_inngest_2385_cut_commits_ended_backends_and_a_full_server_repeat_nothing() {
    let settings = [("fsync", "on"), ("full_page_writes", "on"), ("max_connections", "60")];
    check("cuts", Cluster::with(&settings), |stage, chance| {
        let cuts = faults::cut_commits(stage, chance, 45 * times() as u64);
        let ended = faults::end_backends(stage, chance, 40 * times());
        let refused = faults::exhaust(stage, 2 * times());
        assert!(cuts >= 40 && ended >= 40 && refused > 0, "{cuts} cuts, {ended} ended, {refused}");
        format!("{cuts} answers cut, {ended} backends ended, {refused} connections refused")
    });
}
