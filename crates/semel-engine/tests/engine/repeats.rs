//! Repeats are counted by door, off the way of their callers, and forgotten with their subject.

use std::sync::Arc;

use semel_core::effect::Person;
use semel_core::effect::approve::Ask;
use semel_core::json::Json;
use semel_core::key::{Action, Key, Namespace};
use semel_core::limits;
use semel_core::record::Answer;
use semel_core::repeats::{CARD, Count, Door, Repeats, Subject};
use semel_engine::{Call, Engine, Signal, Start};
use semel_store::memory::Memory;
use semel_store::{CardQuery, Store};

use crate::common::{
    Fault, Flaky, NATIVE, Script, World, address, call, idle, not_applied, world, world_on,
};

async fn counted(store: &dyn Store, subject: &Subject) -> Vec<(&'static str, u64)> {
    let card = store.card(subject.namespace(), CARD, &subject.card()).await.expect("a look");
    let Some(card) = card else { return Vec::new() };
    let repeats: Repeats = serde_json::from_str(&card.record).expect("a count");
    repeats.doors.iter().map(|Count { door, count, .. }| (door.as_str(), *count)).collect()
}

fn effect(key: &str) -> Subject {
    Subject::Effect(address(key))
}

fn start(key: &str) -> Start {
    Start {
        namespace: Namespace::default(),
        workflow: Action::new("w").expect("a name"),
        key: Some(Key::from_text(key).expect("a key")),
        input: Json::null(),
        window_ms: limits::WINDOW_MS,
        deadline_ms: None,
        release: None,
        parent: None,
    }
}

fn run_of(id: &str) -> Subject {
    Subject::Run("default".into(), id.into())
}

async fn ask(engine: &Engine, key: &str, script: &Arc<Script>) {
    engine.call(call(key, NATIVE), script.doer()).await.expect("a receipt");
}

#[tokio::test]
async fn req_v4_direct_repeats_are_counted_and_first_calls_are_not() {
    let (world, script) = (world(), Script::new([not_applied()]));
    world.drive(ask(&world.engine, "k", &script)).await;
    world.engine.write_repeats().await;
    assert_eq!(counted(world.store.as_ref(), &effect("k")).await, [], "a retry is no repeat");
    for _ in 0..3 {
        ask(&world.engine, "k", &script).await;
    }
    assert_eq!(counted(world.store.as_ref(), &effect("k")).await, [], "written by the job");
    world.engine.turn().await.expect("a turn");
    assert_eq!(counted(world.store.as_ref(), &effect("k")).await, [("call", 3)]);
    assert_eq!(script.sends(), 2);
}

#[tokio::test]
async fn counts_of_several_processes_add_up() {
    let (world, script) = (world(), Script::new([]));
    ask(&world.engine, "k", &script).await;
    let other = world.other();
    for _ in 0..2 {
        ask(&world.engine, "k", &script).await;
        ask(&other, "k", &script).await;
    }
    // Both read the card before either writes: the guard makes one of them read again.
    tokio::join!(world.engine.write_repeats(), other.write_repeats());
    assert_eq!(counted(world.store.as_ref(), &effect("k")).await, [("call", 4)]);
}

#[tokio::test]
async fn starts_and_signals_that_came_before_are_counted_with_their_run() {
    let world = world();
    let id = world.engine.start_run(start("e")).await.expect("a run").run.id;
    for _ in 0..2 {
        assert!(world.engine.start_run(start("e")).await.expect("the run").attached);
    }
    let signal = Signal {
        namespace: Namespace::default(),
        run: id.clone(),
        name: "go".into(),
        identity: Some("one".into()),
        payload: Json::null(),
    };
    for _ in 0..2 {
        world.engine.signal(signal.clone()).await.expect("it is delivered");
    }
    world.engine.write_repeats().await;
    let seen = counted(world.store.as_ref(), &run_of(&id)).await;
    assert_eq!(seen, [("start", 2), ("signal", 1)]);
}

#[tokio::test]
async fn an_approval_that_was_given_before_is_counted_with_its_effect() {
    let (world, script) = (world(), Script::new([]));
    let held = Call { approval: Some(Ask::default()), ..call("k", NATIVE) };
    world.engine.call(held, script.doer()).await.expect_err("held");
    let digest = world.effect("k").await.approval.expect("a question").digest;
    for actor in ["ann", "bob", "bob"] {
        let person = Person { actor: actor.into(), reason: "fine".into(), version: 0 };
        let answer = world.engine.judge(&address("k"), &person, Answer::Approved, &digest).await;
        assert_eq!(answer.expect("an answer").is_new, actor == "ann");
    }
    world.engine.write_repeats().await;
    assert_eq!(counted(world.store.as_ref(), &effect("k")).await, [("approval", 2)]);
}

#[tokio::test]
async fn a_closing_engine_writes_what_it_has_counted() {
    let (world, script) = (world(), Script::new([]));
    let other = world.other();
    ask(&other, "k", &script).await;
    ask(&other, "k", &script).await;
    drop(other);
    idle().await;
    assert_eq!(counted(world.store.as_ref(), &effect("k")).await, [("call", 1)]);
}

#[tokio::test]
async fn what_is_counted_in_memory_is_bounded() {
    let world = world();
    let subjects = 3 * limits::REPEATS_SUBJECTS_MAX;
    for number in 0..subjects {
        world.engine.note_repeat(run_of(&number.to_string()), Door::Start);
    }
    // One that is in memory is counted for as long as it is there.
    world.engine.note_repeat(run_of("7"), Door::Start);
    world.engine.write_repeats().await;
    idle().await;
    let query = CardQuery { namespace: None, kind: CARD.into(), after: None, limit: subjects };
    let cards = world.store.cards(&query).await.expect("cards").cards;
    assert_eq!(cards.len(), 2 * limits::REPEATS_SUBJECTS_MAX);
    assert_eq!(counted(world.store.as_ref(), &run_of("7")).await, [("start", 2)]);
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_counted_once() {
    let mut flaky = None;
    let world = world_on(|clock| {
        let store = Flaky::new(Arc::new(Memory::new(clock)));
        flaky = Some(store.clone());
        store
    });
    let (flaky, script) = (flaky.expect("a store"), Script::new([]));
    ask(&world.engine, "k", &script).await;
    ask(&world.engine, "k", &script).await;
    flaky.plan([Fault::AnswerLost]);
    world.drive(world.engine.write_repeats()).await;
    assert_eq!(counted(world.store.as_ref(), &effect("k")).await, [("call", 1)]);
}

#[tokio::test]
async fn a_count_goes_with_its_effect() {
    let (world, script) = (world(), Script::new([]));
    ask(&world.engine, "k", &script).await;
    ask(&world.engine, "k", &script).await;
    world.engine.turn().await.expect("a turn");
    let is_counted = async |world: &World| {
        world.engine.sweep().await.expect("a sweep");
        !counted(world.store.as_ref(), &effect("k")).await.is_empty()
    };
    world.clock.advance_ms(limits::REPEATS_MS);
    assert!(is_counted(&world).await, "its tombstone is there");
    world.clock.advance_ms(limits::TOMBSTONE_MS);
    is_counted(&world).await;
    world.clock.advance_ms(limits::REPEATS_MS);
    assert!(!is_counted(&world).await);
}
