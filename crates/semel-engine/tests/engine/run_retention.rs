//! Retention of runs: the start key answers for its window, then "expired"; and what a run did is
//! kept for as long as the run.

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::effect::State;
use semel_core::json::Json;
use semel_core::key::{Action, Key, Namespace};
use semel_core::limits;
use semel_core::run::State as RunState;
use semel_engine::{Body, Offer, OnDoubt, Signal, Start, Started, Work};

use crate::common::{DAY, NATIVE, Script, World, call, idle, world};

const WINDOW: u64 = 30 * DAY;

fn start(key: &str) -> Start {
    Start {
        namespace: Namespace::default(),
        workflow: Action::new("w").expect("a name"),
        key: Some(Key::from_text(key).expect("a key")),
        input: Json::null(),
        window_ms: WINDOW,
        deadline_ms: None,
        release: None,
        parent: None,
    }
}

/// Charges, then waits for `go`.
fn offer(world: &World, script: &Arc<Script>) {
    let script = script.clone();
    let body: Body = Arc::new(move |port, input| {
        let script = script.clone();
        Box::pin(async move {
            let mut call = Box::new(call("k", NATIVE));
            call.run = Some(port.facts().run_id.clone());
            let doer = script.doer();
            let work = Work::Effect { call, doer, on_doubt: OnDoubt::Wait, undo: None };
            port.command(port.next_id("charge"), "effect charge/k".into(), work).await?;
            let wait = Work::Wait { name: "go".into(), timeout_ms: None, note: None };
            port.command(port.next_id("signal go"), "signal go".into(), wait).await?;
            Ok(input)
        })
    });
    world.engine.offer("default", "w", Offer::new(body, "1"));
}

async fn go(world: &World, run: &Started) {
    let signal = Signal {
        namespace: Namespace::default(),
        run: run.run.id.clone(),
        name: "go".into(),
        identity: Some("go".into()),
        payload: Json::null(),
    };
    world.engine.signal(signal).await.expect("it is delivered");
    world.engine.dispatch_once().await.expect("a look");
    idle().await;
}

async fn run_state(world: &World, run: &Started) -> RunState {
    world.engine.run(&Namespace::default(), &run.run.id).await.expect("the run").state()
}

#[tokio::test]
async fn req_e1_a_start_key_answers_for_its_window_then_expired_then_nothing() {
    let (world, script) = (world(), Script::new([]));
    offer(&world, &script);
    let run = world.engine.start_run(start("e")).await.unwrap();
    idle().await;
    go(&world, &run).await;
    assert_eq!(run_state(&world, &run).await, RunState::Done);
    world.clock.advance_ms(WINDOW - 1);
    world.engine.sweep().await.unwrap();
    assert!(world.engine.start_run(start("e")).await.unwrap().attached);
    world.clock.advance_ms(1);
    world.engine.sweep().await.unwrap();
    assert_eq!(run_state(&world, &run).await, RunState::Expired);
    let expired = world.engine.start_run(start("e")).await.err().unwrap();
    assert_eq!(expired.code(), Code::Expired);
    assert_eq!(world.store.journal(run.run.number, 0, 10).await.unwrap(), []);
    world.clock.advance_ms(limits::TOMBSTONE_MS);
    world.engine.sweep().await.unwrap();
    assert!(!world.engine.start_run(start("e")).await.unwrap().attached);
}

#[tokio::test]
async fn an_effect_is_kept_for_its_window_after_the_end_of_its_run() {
    let (world, script) = (world(), Script::new([]));
    offer(&world, &script);
    let run = world.engine.start_run(start("e")).await.unwrap();
    idle().await;
    assert_eq!(world.state("k").await, State::Done);
    for _ in 0..5 {
        world.clock.advance_ms(WINDOW);
        world.engine.sweep().await.unwrap();
        assert_eq!(world.state("k").await, State::Done, "its run still waits");
    }
    go(&world, &run).await;
    assert_eq!(run_state(&world, &run).await, RunState::Done);
    world.clock.advance_ms(WINDOW - 1);
    world.engine.sweep().await.unwrap();
    assert_eq!(world.state("k").await, State::Done);
    world.clock.advance_ms(WINDOW);
    world.engine.sweep().await.unwrap();
    world.engine.sweep().await.unwrap();
    assert_eq!(world.state("k").await, State::Expired);
}
