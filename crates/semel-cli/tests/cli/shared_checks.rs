//! `semel verify` on what runs share: children, entities and gates that were changed behind them.

use semel::Semel;
use semel_core::entity::{Entity, Holder, Place};
use semel_core::gate::Gate;
use semel_core::run::Run;
use semel_core::time::Wall;
use semel_store::{Card, Write};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::common::World;
use crate::family::with_waiters;

fn waiting() -> World {
    let world = World::new();
    world.sdk(async |semel| with_waiters(&semel, &world));
    world
}

/// Rewrites a card by its rules of keeping: only what it says is wrong.
async fn change_card<T: Serialize + DeserializeOwned>(
    semel: &Semel,
    (kind, name): (&str, &str),
    change: impl FnOnce(&mut T),
) {
    let store = semel.engine().store();
    let card = store.card("default", kind, name).await.expect("it").expect("a card");
    let mut content: T = serde_json::from_str(&card.record).expect("a record");
    change(&mut content);
    let record = serde_json::to_string(&content).expect("JSON");
    let next = Card { version: card.version + 1, record, ..card };
    store.commit(Write::Card(next).into()).await.expect("it is written");
}

async fn change_run(semel: &Semel, id: &str, change: impl FnOnce(&mut Run)) {
    let store = semel.engine().store();
    let mut run = store.run("default", id).await.expect("it").expect("a run");
    run.version += 1;
    change(&mut run);
    store.commit(Write::run(&run, &store.ground().now).into()).await.expect("it is written");
}

/// What `verify` says of a store, all of it I14.
fn found(world: &World) -> Vec<String> {
    let verified = world.semel(&["verify", "--json"]).expect(1).json();
    let found = verified["violations"].as_array().expect("a list").iter();
    found
        .map(|one| {
            assert_eq!(one["invariant"], "I14", "{one}");
            one["what"].as_str().expect("words").to_owned()
        })
        .collect()
}

fn id(world: &World, name: &str) -> String {
    world.run(name)["id"].as_str().expect("an id").to_owned()
}

#[test]
fn verify_finds_nothing_in_runs_that_wait_for_each_other() {
    let world = waiting();
    let verified = world.semel(&["verify", "--json"]).expect(0).json();
    assert_eq!((&verified["violations"], &verified["runs"]), (&json!([]), &json!(6)));
    // Woken, and not taken yet: nobody works here.
    for name in ["waits/c", "holder/1", "held/1"] {
        world.semel(&["runs", "cancel", name, "--reason", "x"]).expect(0);
    }
    world.semel(&["verify"]).expect(0);
}

#[test]
fn inv_i14_verify_finds_a_child_that_will_not_wake_its_parent() {
    let world = waiting();
    let child = id(&world, "waits/c");
    world.sdk(async |semel| change_run(&semel, &child, |run| run.watchers.clear()).await);
    assert_eq!(found(&world), [format!("it waits on run {child}, which will not wake it")]);

    let world = waiting();
    let child = id(&world, "waits/c");
    world.sdk(async |semel| {
        let store = semel.engine().store();
        let run = store.run("default", &child).await.expect("it").expect("a run");
        let Run { namespace, id, number, version, .. } = run;
        let drop = Write::DropRun { namespace, id, number, version, row: None };
        store.commit(drop.into()).await.expect("it is gone");
    });
    assert_eq!(found(&world), [format!("it waits on run {child}, which is not there")]);
}

#[test]
fn inv_i14_verify_finds_an_entity_that_forgot_who_waits_and_one_that_the_dead_hold() {
    let entity = ("entity", "ticket:42");
    let world = waiting();
    let forgetful = |entity: &mut Entity| entity.queue.clear();
    world.sdk(async |semel| change_card(&semel, entity, forgetful).await);
    assert_eq!(found(&world), ["it waits on entity ticket:42, whose queue does not have it"]);

    let world = waiting();
    let dead = id(&world, "waits/c");
    world.semel(&["runs", "cancel", &dead, "--reason", "x"]).expect(0);
    let held = |entity: &mut Entity| {
        let place = Place { run: dead.clone(), id: "entity ticket:42#0".to_owned() };
        entity.holder = Some(Holder { place, since: Wall(0) });
    };
    world.sdk(async |semel| change_card(&semel, entity, held).await);
    let want = format!(
        "entity ticket:42 in default: it is held by run {dead}, which has ended: cancelled"
    );
    assert_eq!(found(&world), [want]);
}

#[test]
fn inv_i14_verify_finds_a_gate_with_room_and_one_that_the_dead_fill() {
    let gate = ("gate", "held/acme");
    let world = waiting();
    world.sdk(async |semel| change_card(&semel, gate, |gate: &mut Gate| gate.inside.clear()).await);
    let room = "it waits on slot held/acme, which has room, and nobody will let it in";
    assert_eq!(found(&world), [room]);

    let world = waiting();
    let dead = id(&world, "waits/c");
    world.semel(&["runs", "cancel", &dead, "--reason", "x"]).expect(0);
    let filled = |gate: &mut Gate| gate.inside = vec![dead.clone()];
    world.sdk(async |semel| change_card(&semel, gate, filled).await);
    let want = format!(
        "gate held/acme in default: a slot is held by run {dead}, which has ended: cancelled"
    );
    assert_eq!(found(&world), [want]);
    let text = world.semel(&["verify"]).expect(1).stdout;
    assert!(text.contains("I14 the store: gate held/acme in default: a slot"), "{text}");
}
