//! The engine's own job: lapses become doubt, the dead are closed, handlers attend what is due.

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::contract::Declared;
use semel_core::effect::State;
use semel_core::record::{Contract, Kind};
use semel_core::retry::Retry;
use semel_engine::{Answer, Engine, Handler, Looked};
use semel_store::Query;

use crate::common::{
    DAY, File, NATIVE, PROBE, Script, World, address, ask, call, check, declared, idle, json,
    not_applied, settle_down, single, unknown, world,
};

fn handle(engine: &Engine, script: &Arc<Script>, contract: Contract) {
    let doer = match contract {
        Contract::Probe { .. } => script.looker(),
        _ => script.doer(),
    };
    let handler = Handler::new(doer, declared(contract), Retry::default());
    let address = address("any");
    engine.handle(address.namespace, address.action, handler);
}

/// Begins and never settles, like a worker that was killed.
async fn cut(world: &World, key: &str, contract: Contract) {
    let begun = world.engine.begin(ask(key, contract), 0).await;
    assert!(matches!(begun, Ok(Answer::Attempt(_))), "{begun:?}");
}

async fn turn(world: &World) {
    world.engine.turn().await.unwrap();
    idle().await;
}

#[tokio::test]
async fn a_lapsed_attempt_becomes_a_recorded_doubt() {
    let world = world();
    cut(&world, "k", Contract::AtMostOnce).await;
    let version = world.effect("k").await.version;
    world.pass_ms(29_999).await;
    turn(&world).await;
    assert_eq!(world.effect("k").await.version, version, "the lease still lives");
    world.pass_ms(1).await;
    turn(&world).await;
    let effect = world.effect("k").await;
    assert!(effect.attempts[0].doubt.is_some(), "derived, but not recorded");
    let mut query = Query::everywhere(10);
    query.state = Some(State::InDoubt);
    assert_eq!(world.engine.list(&query).await.unwrap().effects.len(), 1, "not listed");
    // Once is enough.
    turn(&world).await;
    assert_eq!(world.effect("k").await.version, effect.version);
}

#[tokio::test]
async fn a_handler_resends_what_a_native_key_makes_safe() {
    let world = world();
    let script = Script::new([]);
    handle(&world.engine, &script, NATIVE);
    cut(&world, "k", NATIVE).await;
    world.pass_ms(30_000).await;
    turn(&world).await;
    assert_eq!((script.sends(), world.state("k").await), (1, State::Done));
    turn(&world).await;
    assert_eq!(script.sends(), 1);
}

#[tokio::test]
async fn a_handler_looks_only_after_the_settle_window() {
    let world = world();
    let script = Script::looking([], [Looked::Found(json("1"), Vec::new())]);
    handle(&world.engine, &script, PROBE);
    cut(&world, "k", PROBE).await;
    // It may send until its deadline, and what it sent may land for two minutes more.
    for _ in 0..17 {
        world.pass_ms(10_000).await;
        turn(&world).await;
        assert_eq!(script.looks(), 0, "looked before the settle window was over");
    }
    world.pass_ms(10_000).await;
    turn(&world).await;
    assert_eq!((script.looks(), script.sends()), (1, 0));
    assert_eq!(world.state("k").await, State::Done);
}

#[tokio::test]
async fn a_handler_that_looks_and_finds_nothing_sends() {
    let world = world();
    let script = Script::looking([], [Looked::Absent]);
    handle(&world.engine, &script, PROBE);
    cut(&world, "k", PROBE).await;
    world.pass_ms(30_000).await;
    turn(&world).await;
    world.pass_ms(150_000).await;
    turn(&world).await;
    assert_eq!((script.looks(), script.sends()), (1, 1));
    let kinds: Vec<_> = world.effect("k").await.attempts.iter().map(|a| a.kind).collect();
    assert_eq!(kinds, [Kind::Send, Kind::Look, Kind::Send]);
    check(&world.effect("k").await, world.store.as_ref());
}

#[tokio::test]
async fn no_handler_ever_decides_what_needs_a_person() {
    let world = world();
    let script = Script::new([]);
    handle(&world.engine, &script, Contract::AtMostOnce);
    cut(&world, "k", Contract::AtMostOnce).await;
    for _ in 0..100 {
        world.pass_ms(60_000).await;
        turn(&world).await;
    }
    assert_eq!((script.sends(), world.state("k").await), (0, State::InDoubt));
    assert_eq!(world.effect("k").await.attempts.len(), 1);
}

#[tokio::test]
async fn a_handler_stops_at_the_native_key_horizon() {
    let world = world();
    cut(&world, "k", NATIVE).await;
    world.clock.advance_ms(DAY);
    let script = Script::new([]);
    handle(&world.engine, &script, NATIVE);
    turn(&world).await;
    assert_eq!((script.sends(), world.state("k").await), (0, State::InDoubt));
    let error = world.engine.call(call("k", NATIVE), script.doer()).await.unwrap_err();
    assert_eq!(error.code(), Code::InDoubt);
    assert!(error.detail().contains("horizon_passed"), "{error}");
}

#[tokio::test]
async fn what_is_due_and_has_no_code_is_listed_as_unattended() {
    let world = world();
    cut(&world, "native", NATIVE).await;
    cut(&world, "person", Contract::AtMostOnce).await;
    let script = Script::new([not_applied()]);
    assert!(world.engine.call(single("planned", NATIVE), script.doer()).await.is_err());
    assert!(world.engine.unattended(10).await.unwrap().is_empty(), "too soon");
    world.pass_ms(30_000).await;
    turn(&world).await;
    world.pass_ms(10_000).await;
    let found = world.engine.unattended(10).await.unwrap();
    let keys: Vec<_> = found.iter().map(|effect| effect.address.key.as_str()).collect();
    assert_eq!(keys, ["planned", "native"], "longest waiting first; a person's are not due");
    assert_eq!(world.engine.unattended(1).await.unwrap().len(), 1);
    handle(&world.engine, &script, NATIVE);
    turn(&world).await;
    assert!(world.engine.unattended(10).await.unwrap().is_empty());
    assert_eq!(script.sends(), 3);
}

#[tokio::test]
async fn a_full_page_of_due_effects_does_not_hide_the_rest() {
    let world = world();
    for number in 0..600 {
        cut(&world, &format!("k{number}"), Contract::AtMostOnce).await;
    }
    world.pass_ms(30_000).await;
    turn(&world).await;
    let mut query = Query::everywhere(1_000);
    query.state = Some(State::InDoubt);
    assert_eq!(world.engine.list(&query).await.unwrap().effects.len(), 600);
}

/// More due effects than are attended to at once are all attended to, in turns.
#[tokio::test]
async fn handlers_get_to_everything_in_bounded_numbers() {
    let world = world();
    for number in 0..150 {
        cut(&world, &format!("k{number}"), NATIVE).await;
    }
    world.pass_ms(30_000).await;
    let script = Script::gated([]);
    handle(&world.engine, &script, NATIVE);
    turn(&world).await;
    assert_eq!(script.sends(), 64, "attended to at once");
    for _ in 0..150 {
        script.release();
    }
    for _ in 0..3 {
        turn(&world).await;
    }
    assert_eq!(script.sends(), 150);
}

#[tokio::test]
async fn waiters_hear_from_the_job_that_the_holder_is_gone() {
    let world = world();
    cut(&world, "k", NATIVE).await;
    let script = Script::new([]);
    let (engine, doer) = (world.engine.clone(), script.doer());
    let ask = semel_engine::Call { hold_ms: 60_000, ..call("k", NATIVE) };
    let waiter = tokio::spawn(async move { engine.call(ask, doer).await });
    world.pass_ms(29_000).await;
    assert_eq!(script.sends(), 0);
    world.pass_ms(1_000).await;
    turn(&world).await;
    assert!(waiter.await.unwrap().is_ok());
    assert_eq!(script.sends(), 1);
}

#[tokio::test]
async fn the_job_turns_by_itself_and_ends_with_the_engine() {
    let world = world();
    let script = Script::new([]);
    world.engine.start();
    cut(&world, "k", NATIVE).await;
    world.pass_ms(31_000).await;
    handle(&world.engine, &script, NATIVE);
    // A new handler is served without waiting for the next full look.
    world.pass_ms(1_000).await;
    assert_eq!((script.sends(), world.state("k").await), (1, State::Done));
    let World { clock, store, engine } = world;
    drop(engine);
    assert_eq!(Arc::strong_count(&store), 1, "the sleeping job holds the store");
    clock.advance_ms(10_000);
    idle().await;
    assert_eq!(Arc::strong_count(&store), 1, "the job outlives the engine");
}

/// A process is proven dead by its lock: nobody waits for its lease.
#[tokio::test]
async fn a_dead_process_attempts_are_closed_at_once() {
    let file = File::new();
    let dead = file.engine();
    for key in ["one", "two"] {
        assert!(dead.begin(ask(key, Contract::AtMostOnce), 0).await.is_ok());
    }
    let alive = file.engine();
    assert!(alive.begin(ask("three", Contract::AtMostOnce), 0).await.is_ok());
    alive.turn().await.unwrap();
    let state = async |engine: &Engine, key: &str| {
        engine.effect(&address(key)).await.unwrap().state(&engine.store().ground().now)
    };
    assert_eq!(state(&alive, "one").await, State::Pending, "its process lives");
    drop(dead);
    settle_down().await;
    assert_eq!(alive.store().dead_sessions().len(), 1);
    alive.turn().await.unwrap();
    for key in ["one", "two"] {
        assert_eq!(state(&alive, key).await, State::InDoubt, "{key}");
    }
    assert_eq!(state(&alive, "three").await, State::Pending, "only the dead one's");
    assert!(alive.store().dead_sessions().is_empty(), "buried");
    // The settle window runs from the proof, not from the deadline that never came.
    let doubt = alive.effect(&address("one")).await.unwrap().attempts[0].doubt.clone().unwrap();
    assert_eq!(doubt.since, alive.store().ground().now.steady);
}

/// Without the job, too: whoever meets the dead one's attempt closes it.
#[tokio::test]
async fn a_begin_that_meets_a_dead_holder_does_not_wait() {
    let file = File::new();
    let dead = file.engine();
    assert!(dead.begin(ask("k", NATIVE), 0).await.is_ok());
    let alive = file.engine();
    let script = Script::new([]);
    let waiting = semel_engine::Call { hold_ms: 0, ..call("k", NATIVE) };
    let error = alive.call(waiting.clone(), script.doer()).await.unwrap_err();
    assert_eq!(error.code(), Code::InProgress);
    drop(dead);
    settle_down().await;
    assert!(alive.call(waiting, script.doer()).await.is_ok());
    assert_eq!(script.sends(), 1);
    let effect = alive.effect(&address("k")).await.unwrap();
    assert_eq!(effect.attempts.len(), 2);
    check(&effect, alive.store());
}

/// Somebody tidies up beside a live worker: that is no proof of its death, and nothing is resent.
#[tokio::test]
async fn req_o8_a_deleted_folder_of_locks_sends_nothing_again() {
    let file = File::new();
    let holder = file.engine();
    assert!(holder.begin(ask("k", NATIVE), 0).await.is_ok());
    let other = file.engine();
    std::fs::remove_dir_all(file.folder.path().join("semel.db-semel")).unwrap();
    let script = Script::new([]);
    let waiting = semel_engine::Call { hold_ms: 0, ..call("k", NATIVE) };
    for engine in [&other, &file.engine()] {
        engine.turn().await.unwrap();
        let error = engine.call(waiting.clone(), script.doer()).await.unwrap_err();
        assert_eq!((error.code(), script.sends()), (Code::InProgress, 0));
    }
}

#[tokio::test]
async fn a_handler_under_an_undeclared_contract_uses_the_stored_one() {
    let world = world();
    let script = Script::new([unknown()]);
    assert!(world.engine.call(single("k", NATIVE), script.doer()).await.is_err());
    let handler = Handler::new(script.doer(), Declared::default(), Retry::default());
    let address = address("k");
    world.engine.handle(address.namespace, address.action, handler);
    turn(&world).await;
    assert_eq!((script.sends(), world.state("k").await), (2, State::Done));
    assert_eq!(world.effect("k").await.attempts[1].contract, NATIVE);
}
