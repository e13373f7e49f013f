//! A promoted standby that has lost its tail: what it has forgotten is not done again without
//! evidence, and it is listed.

use std::collections::BTreeSet;

use semel::{Action, Address, IntoKey, Namespace, Semel};
use semel_core::effect::Imported;
use semel_core::time::Wall;
use semel_lab::{Cluster, Proxy};

use crate::chance::Chance;
use crate::doubts::receipt;
use crate::load::{Load, Store};
use crate::oracle;
use crate::stage::Stage;
use crate::worker::reference;

const CLOSE: &str = "UPDATE semel.returns SET closed_at = opened_at + 1, closed_by = 'ada', \
     close_reason = 'the doubts are settled' WHERE closed_at IS NULL";

#[test]
fn inv_i27_a_promoted_standby_that_lost_its_tail_repeats_nothing() {
    let mut chance = Chance::new("promotion");
    let mut stage = Stage::new(Cluster::durable());
    let standby = stage.cluster.standby();
    let door = Proxy::start(stage.cluster.port());
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(2).enable_all().build().expect("a runtime");
    let semel = runtime.block_on(Semel::open(&door.url())).expect("the store opens");
    let load = Load::on(runtime, semel, &stage, Store::MayForget);
    chance.nap(3_000, 4_000);
    standby.wait_until_caught_up();
    standby.stop_receiving();
    chance.nap(1_500, 2_500);
    stage.cluster.stop_immediately();

    standby.promote();
    // As the new server knows it, before anybody has spoken to it.
    let forgotten = forgotten(&stage, &standby);
    assert!(!forgotten.is_empty(), "nothing was lost: no test");
    for proxy in stage.proxies.iter().chain([&door]) {
        proxy.lead_to(standby.port());
        proxy.cut_all();
    }
    let _lost_primary = std::mem::replace(&mut stage.cluster, standby);
    chance.nap(8_000, 9_000);

    let lost = lost(&stage);
    // What somebody else has begun again meanwhile, under the same key, has its row: it is known.
    let known = known(&stage.cluster);
    let unlisted = forgotten.difference(&lost).filter(|reference| !known.contains(*reference));
    let unlisted: Vec<&String> = unlisted.collect();
    assert!(unlisted.is_empty(), "done outside, forgotten and not listed: {unlisted:?}");
    assert!(stage.returns().contains("server"), "a quarantine is open: {}", stage.returns());
    for (reference, there) in oracle::tickets(&stage) {
        assert_eq!(there.len(), 1, "{reference} was applied again while the quarantine is open");
    }
    let imported = import(&load, &stage, &lost);
    stage.cluster.psql(CLOSE);
    chance.nap(2_000, 3_000);
    let figures = load.finish();
    stage.end_workers();
    let violations = oracle::violations_after_loss(&stage, &figures, &lost);
    println!(
        "promotion: {} effects were done and forgotten, {} rows listed as lost, {imported} taken \
         over by an operator; {figures}; {} violations",
        forgotten.len(),
        lost.len(),
        violations.len()
    );
    if !violations.is_empty() && std::env::var("SEMEL_CHAOS_KEEP").is_ok() {
        println!("promotion: kept in {}", stage.keep().display());
    }
    assert!(violations.is_empty(), "seed {}:\n{}", chance.seed, violations.join("\n"));
}

/// What the destination has done and the new server has no row of.
fn forgotten(stage: &Stage, standby: &Cluster) -> BTreeSet<String> {
    let known = known(standby);
    oracle::tickets(stage).into_keys().filter(|reference| !known.contains(reference)).collect()
}

/// What a server has rows of.
fn known(cluster: &Cluster) -> BTreeSet<String> {
    names(&cluster.psql("SELECT action, key FROM semel.effects"))
}

/// What an operator does with the list before the quarantine is closed: what is at the destination
/// and has no row gets one. From then on nothing looks first any more.
fn import(load: &Load, stage: &Stage, lost: &BTreeSet<String>) -> usize {
    let tickets = oracle::tickets(stage);
    let mut imported = 0;
    for reference in lost {
        let (action, number) = reference.split_once('-').expect("an action and a number");
        let Some(ticket) = tickets.get(reference).and_then(|there| there.first()) else { continue };
        let row = Imported {
            address: Address {
                namespace: Namespace::default(),
                action: Action::new(action).expect("a name"),
                key: [number].into_key().expect("a key"),
            },
            workflow: None,
            created: Wall(0),
            receipt: Some(receipt(ticket)),
        };
        imported += usize::from(load.import(&row));
    }
    imported
}

/// What workers have listed as written and gone.
fn lost(stage: &Stage) -> BTreeSet<String> {
    names(&stage.cluster.psql("SELECT action, name FROM semel.lost WHERE action IS NOT NULL"))
}

fn names(rows: &str) -> BTreeSet<String> {
    let name = |row: &str| {
        let (action, key) = row.split_once('|').expect("two columns");
        let number = key.trim_matches(|c: char| !c.is_ascii_digit());
        reference(action, number.parse().expect("a number"))
    };
    rows.lines().map(name).collect()
}
