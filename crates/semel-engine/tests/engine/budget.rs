//! Limits that hold on every path: one retry budget per effect, one rate per action, whoever sends.

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::effect::approve::Ask;
use semel_core::effect::{Person, State};
use semel_core::gate::Rate;
use semel_core::record::{Answer, Contract, Verdict};
use semel_core::retry::Retry;
use semel_engine::{Call, Engine, Handler, Sent};
use semel_store::{Card, Write};

use crate::common::{
    File, HOUR, NATIVE, PROBE_FIRST, Script, World, address, call, declared, idle, not_applied,
    settle_down, single, unknown, world,
};

const THREE: Retry = Retry { attempts_max: 3, total_ms: 5_000, delay_ms: 100, delay_ms_max: 300 };
const SLOW: Rate = Rate { count: 1, per_ms: 2_000 };

fn handle(engine: &Engine, script: &Arc<Script>, contract: Contract, retry: Retry) {
    handle_at(engine, script, contract, retry, None);
}

fn handle_at(
    engine: &Engine,
    script: &Arc<Script>,
    contract: Contract,
    retry: Retry,
    rate: Option<Rate>,
) {
    let mut declared = declared(contract);
    declared.rate = rate;
    let handler = Handler::new(script.looker(), declared, retry);
    engine.handle(address("any").namespace, address("any").action, handler);
}

/// Turns the job as time passes.
async fn turns(world: &World, count: u32, ms: u64) {
    for _ in 0..count {
        world.engine.turn().await.unwrap();
        idle().await;
        world.pass_ms(ms).await;
    }
}

fn person(version: u64) -> Person {
    Person { actor: "ann".into(), reason: "the server is back".into(), version }
}

/// Effects that a person approved, and that nobody but a handler waits for.
async fn approved(engine: &Engine, count: u32, ask: impl Fn(String) -> Call) {
    let nobody = Script::new([]);
    for number in 0..count {
        let key = format!("k{number}");
        let held = Call { approval: Some(Ask::default()), ..ask(key.clone()) };
        engine.call(held, nobody.looker()).await.expect_err("held");
        let effect = engine.effect(&address(&key)).await.unwrap();
        let digest = effect.approval.as_ref().unwrap().digest.clone();
        let person = person(effect.version);
        engine.judge(&effect.address, &person, Answer::Approved, &digest).await.unwrap();
    }
    assert_eq!(nobody.sends(), 0);
}

#[tokio::test]
async fn req_r10_a_caller_who_was_told_exhausted_has_nothing_sent_behind_its_back() {
    let world = world();
    let script = Script::new(vec![not_applied(); 99]);
    handle(&world.engine, &script, NATIVE, Retry::default());
    let ask = Call { retry: THREE, ..call("k", NATIVE) };
    let error = world.drive(world.engine.call(ask.clone(), script.doer())).await.unwrap_err();
    assert_eq!((error.code(), script.sends()), (Code::RetriesExhausted, 3));
    turns(&world, 100, 1_000).await;
    assert_eq!(script.sends(), 3, "a handler sent it again");
    for retry in [THREE, Retry::default(), Retry::NONE] {
        let again = Call { retry, ..ask.clone() };
        let error = world.drive(world.engine.call(again, script.doer())).await.unwrap_err();
        assert_eq!(error.code(), Code::RetriesExhausted);
    }
    assert_eq!(script.sends(), 3, "exhausted stays exhausted");
    assert_eq!(world.state("k").await, State::Planned);
}

#[tokio::test]
async fn req_r10_a_handler_keeps_budget_and_backoff_of_the_effect() {
    let world = world();
    let script = Script::new(vec![not_applied(); 99]);
    let slow = Retry { total_ms: HOUR, delay_ms: 60_000, delay_ms_max: 60_000, ..THREE };
    handle(&world.engine, &script, NATIVE, Retry::default());
    approved(&world.engine, 1, |key| Call { retry: slow, ..call(&key, NATIVE) }).await;
    world.engine.turn().await.unwrap();
    idle().await;
    assert_eq!(script.sends(), 1);
    let due = world.effect("k0").await.retry_at.expect("a delay on record");
    // Another process' handler and a direct caller meet the same delay.
    let other = world.other();
    handle(&other, &script, NATIVE, Retry::default());
    other.turn().await.unwrap();
    idle().await;
    let at_once = Call { hold_ms: 0, ..call("k0", NATIVE) };
    let met = world.engine.call(at_once, script.doer()).await.unwrap_err();
    assert!(matches!(met.code(), Code::InProgress), "{met}");
    assert!(world.store.ground().now.reached(due) || script.sends() == 1);
    turns(&world, 600, 1_000).await;
    assert_eq!(script.sends(), 3);
    assert!(world.effect("k0").await.is_exhausted(None, &world.store.ground().now));
}

#[tokio::test]
async fn req_r10_total_time_ends_what_handlers_send() {
    let world = world();
    let script = Script::new(vec![not_applied(); 99]);
    let retry = Retry { attempts_max: 90, total_ms: 10_000, delay_ms: 1, delay_ms_max: 1 };
    handle(&world.engine, &script, NATIVE, Retry::default());
    approved(&world.engine, 1, |key| Call { retry, ..call(&key, NATIVE) }).await;
    turns(&world, 12, 1_000).await;
    let sends = script.sends();
    assert!(sends > 3, "{sends}");
    turns(&world, 60, 1_000).await;
    assert_eq!(script.sends(), sends);
}

#[tokio::test]
async fn req_r10_a_grant_lets_a_handler_go_on_under_the_same_key() {
    let world = world();
    let script = Script::new(vec![not_applied(); 5]);
    handle(&world.engine, &script, NATIVE, Retry::default());
    let ask = Call { retry: THREE, ..call("k", NATIVE) };
    world.drive(world.engine.call(ask, script.doer())).await.unwrap_err();
    let before = world.effect("k").await;
    let granted = world.engine.grant(&address("k"), &person(before.version)).await.unwrap();
    let decision = granted.decisions.last().unwrap();
    assert_eq!((decision.verdict, decision.actor.as_str()), (Verdict::Grant, "ann"));
    turns(&world, 20, 1_000).await;
    assert_eq!((script.sends(), world.state("k").await), (6, State::Done));
    let key = |effect: &semel_core::record::Effect| effect.plan.clone().unwrap().downstream_key;
    assert_eq!(key(&world.effect("k").await), key(&before));
    let entries = world.engine.audit_entries(&address("k").namespace, None, 9).await.unwrap();
    assert_eq!(entries.entries[0].verb.as_str(), "grant");
}

#[tokio::test]
async fn req_r10_a_handler_without_retries_sends_once() {
    let world = world();
    let script = Script::new(vec![not_applied(); 99]);
    handle(&world.engine, &script, NATIVE, Retry::NONE);
    approved(&world.engine, 1, |key| single(&key, NATIVE)).await;
    turns(&world, 30, 1_000).await;
    assert_eq!(script.sends(), 1);
    // A caller that retries by itself is not held to it before the handler declared it.
    assert!(world.engine.call(single("other", NATIVE), script.doer()).await.is_err());
    turns(&world, 30, 1_000).await;
    assert_eq!(script.sends(), 2);
    assert!(world.engine.call(single("other", NATIVE), script.doer()).await.is_err());
    assert_eq!(script.sends(), 3);
}

#[tokio::test]
async fn req_r10_doubts_that_are_resent_use_the_budget_up() {
    let world = world();
    let script = Script::new(vec![unknown(); 99]);
    handle(&world.engine, &script, NATIVE, Retry::default());
    let ask = Call { retry: THREE, ..call("k", NATIVE) };
    let error = world.drive(world.engine.call(ask, script.doer())).await.unwrap_err();
    assert_eq!((error.code(), script.sends()), (Code::InDoubt, 3));
    turns(&world, 60, 1_000).await;
    assert_eq!((script.sends(), world.state("k").await), (3, State::InDoubt));
}

#[tokio::test]
async fn req_r10_a_rate_holds_for_what_handlers_send() {
    for declares in ["handler", "caller"] {
        let world = world();
        let script = Script::new([]);
        let of_handler = (declares == "handler").then_some(SLOW);
        handle_at(&world.engine, &script, NATIVE, Retry::default(), of_handler);
        let asks = |key: String| {
            let mut ask = call(&key, NATIVE);
            ask.declared.rate = (declares == "caller").then_some(SLOW);
            ask
        };
        approved(&world.engine, 10, asks).await;
        for sent in 1..=10 {
            for _ in 0..3 {
                world.engine.turn().await.unwrap();
                idle().await;
            }
            assert_eq!(script.sends(), sent, "{declares}");
            world.pass_ms(1_900).await;
            world.engine.turn().await.unwrap();
            idle().await;
            assert_eq!(script.sends(), sent, "{declares}: too early");
            world.pass_ms(100).await;
        }
    }
}

/// The job wakes for the rate by itself, also when it allows more than one send a second.
#[tokio::test]
async fn req_r10_the_job_sends_at_the_rate_and_in_order() {
    let world = world();
    let script = Script::new([]);
    let rate = Rate { count: 1, per_ms: 200 };
    approved(&world.engine, 10, |key| call(&key, NATIVE)).await;
    world.engine.start();
    handle_at(&world.engine, &script, NATIVE, Retry::default(), Some(rate));
    idle().await;
    for _ in 0..30 {
        world.clock.advance_ms(100);
        idle().await;
    }
    assert_eq!(script.sends(), 10, "in three seconds");
    let mut began = Vec::new();
    for number in 0..10 {
        began.push(world.effect(&format!("k{number}")).await.attempts[0].began_at.ms);
    }
    assert!(began.is_sorted(), "{began:?}");
    assert!(began.windows(2).all(|pair| pair[1] - pair[0] >= 200), "{began:?}");
}

#[tokio::test]
async fn req_r10_looks_replays_and_questions_cost_nothing_of_the_rate() {
    let world = world();
    let script = Script::new([]);
    let rated = |key: &str, contract| {
        let mut ask = Call { hold_ms: 0, ..call(key, contract) };
        ask.declared.rate = Some(Rate { count: 2, per_ms: HOUR });
        ask
    };
    let held = Call { approval: Some(Ask::default()), ..rated("held", NATIVE) };
    for _ in 0..5 {
        let error = world.engine.call(held.clone(), script.looker()).await.unwrap_err();
        assert_eq!(error.code(), Code::Held);
    }
    assert!(world.engine.call(rated("one", PROBE_FIRST), script.looker()).await.is_ok());
    for _ in 0..5 {
        assert!(world.engine.call(rated("one", PROBE_FIRST), script.looker()).await.is_ok());
    }
    assert!(world.engine.call(rated("two", PROBE_FIRST), script.looker()).await.is_ok());
    let error = world.engine.call(rated("three", NATIVE), script.looker()).await.unwrap_err();
    assert_eq!((error.code(), error.retry_after_ms()), (Code::RateLimited, Some(HOUR)));
    assert_eq!((script.sends(), script.looks()), (2, 2));
}

/// On a file and in memory: a meter from a clock that was ahead is corrected once, then counts.
#[tokio::test]
async fn req_r10_a_clock_that_was_ahead_delays_a_rated_action_by_one_window() {
    let file = File::new();
    let memory = world();
    for (engine, clock) in [(file.engine(), &file.clock), (memory.engine.clone(), &memory.clock)] {
        let now = engine.store().ground().now;
        let (boot, ahead) = (now.steady.boot, now.steady.ms + 9_000_000);
        let record = format!(
            r#"{{"by":"x","at":[{},{{"boot":{boot},"ms":{ahead}}}],"sends":[[{ahead},1]]}}"#,
            now.wall.0 + 9_000_000
        );
        let (kind, name) = ("rate".to_owned(), "charge".to_owned());
        let namespace = "default".to_owned();
        let card = Card { namespace, kind, name, version: 1, due: None, record };
        engine.store().commit(Write::Card(card).into()).await.unwrap();
        let script = Script::new([]);
        let mut ask = Call { hold_ms: 0, ..call("k", NATIVE) };
        ask.declared.rate = Some(SLOW);
        for passed in [0, 1_000, 999] {
            clock.advance_ms(passed);
            let error = engine.call(ask.clone(), script.doer()).await.unwrap_err();
            assert_eq!(error.code(), Code::RateLimited, "{error}");
        }
        clock.advance_ms(1);
        engine.call(ask, script.doer()).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn req_r10_two_processes_on_one_file_share_budget_and_rate() {
    let file = File::new();
    let (one, two) = (file.engine(), file.engine());
    let script = Script::new(vec![Sent::NotApplied("down".into()); 99]);
    let quick = Retry { attempts_max: 3, total_ms: HOUR, delay_ms: 0, delay_ms_max: 0 };
    for engine in [&one, &two] {
        handle(engine, &script, NATIVE, quick);
    }
    approved(&one, 1, |key| Call { retry: quick, ..call(&key, NATIVE) }).await;
    for _ in 0..10 {
        one.turn().await.unwrap();
        two.turn().await.unwrap();
        settle_down().await;
    }
    let ask = Call { retry: quick, hold_ms: 0, ..call("k0", NATIVE) };
    assert_eq!(two.call(ask, script.doer()).await.unwrap_err().code(), Code::RetriesExhausted);
    assert_eq!(script.sends(), 3);
    let rated = |key: String| {
        let mut ask = Call { hold_ms: 0, ..call(&key, NATIVE) };
        ask.declared.rate = Some(Rate { count: 5, per_ms: HOUR });
        ask
    };
    let done = Script::new([]);
    let mut calls = Vec::new();
    for number in 0..20 {
        let engine = if number % 2 == 0 { one.clone() } else { two.clone() };
        let (ask, doer) = (rated(format!("r{number}")), done.doer());
        calls.push(tokio::spawn(async move { engine.call(ask, doer).await }));
    }
    for call in calls {
        if let Err(error) = call.await.unwrap() {
            assert_eq!(error.code(), Code::RateLimited, "{error}");
        }
    }
    assert_eq!(done.sends(), 5);
}
