//! Duplicates attach: one sends, the others get its receipt.

use std::collections::HashSet;
use std::sync::Arc;

use futures_util::future::join_all;
use semel_core::code::Code;
use semel_core::effect::State;
use semel_core::record::Contract;
use semel_engine::{Answer, Call, Engine, Sent};

use crate::common::{
    File, NATIVE, Script, address, ask, call, check, idle, json, not_applied, receipt, sender,
    settle_down, single, unknown, world,
};

/// Starts a call in a task of its own.
fn spawn(
    engine: &Engine,
    call: Call,
    script: &Arc<Script>,
) -> tokio::task::JoinHandle<Result<String, Code>> {
    let (engine, doer) = (engine.clone(), script.doer());
    tokio::spawn(async move {
        let answer = engine.call(call, doer).await;
        answer.map(|receipt| receipt.text().to_owned()).map_err(|error| error.code())
    })
}

#[tokio::test]
async fn case_c1_ten_thousand_callers_of_one_key_are_one_send() {
    let world = world();
    let script = Script::gated([]);
    let calls: Vec<_> =
        (0..10_000).map(|_| spawn(&world.engine, call("k", NATIVE), &script)).collect();
    script.entered().await;
    idle().await;
    assert_eq!(world.engine.keys_in_flight(), 1);
    script.release();
    let answers: Vec<_> = join_all(calls).await.into_iter().map(|answer| answer.unwrap()).collect();
    assert_eq!(script.sends(), 1);
    assert_eq!(answers.len(), 10_000);
    let different: HashSet<_> = answers.iter().collect();
    assert_eq!(different, HashSet::from([&Ok(r#"{"id":"ch-1"}"#.to_owned())]));
    let effect = world.effect("k").await;
    assert_eq!(effect.attempts.len(), 1);
    check(&effect, world.store.as_ref());
    assert_eq!(world.engine.keys_in_flight(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_c1_callers_on_threads_and_a_real_file_are_one_send() {
    let file = File::new();
    let engine = file.engine();
    let script = Script::new([]);
    let calls = (0..10_000).map(|_| spawn(&engine, call("k", Contract::AtMostOnce), &script));
    let calls: Vec<_> = calls.collect();
    for answer in join_all(calls).await {
        assert_eq!(answer.unwrap(), Ok(r#"{"id":"ch-1"}"#.to_owned()));
    }
    assert_eq!(script.sends(), 1);
    assert_eq!(engine.keys_in_flight(), 0);
}

/// Two seats of a flight that are left at the same moment must not keep it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn case_c6_no_flight_outlives_its_callers_on_threads() {
    let engine = Engine::new(
        Arc::new(semel_store::memory::Memory::new(semel_store::Clock::Real)),
        "worker-1",
    )
    .unwrap();
    let script = Script::new([]);
    for round in 0..2_000 {
        let key = format!("k{round}");
        let calls = [(); 3].map(|()| spawn(&engine, call(&key, NATIVE), &script));
        for answer in join_all(calls).await {
            assert!(answer.unwrap().is_ok());
        }
    }
    assert_eq!(script.sends(), 2_000);
    assert_eq!(engine.keys_in_flight(), 0);
}

#[tokio::test]
async fn case_c7_a_thousand_waiters_are_all_woken_and_others_do_not_wait() {
    let world = world();
    let script = Script::gated([]);
    let calls: Vec<_> =
        (0..1_000).map(|_| spawn(&world.engine, call("busy", NATIVE), &script)).collect();
    script.entered().await;
    idle().await;
    // The key beside it is served while a thousand wait.
    let other = Script::new([]);
    assert!(spawn(&world.engine, call("free", NATIVE), &other).await.unwrap().is_ok());
    // Every waiter is woken by the receipt itself: no time passes.
    script.release();
    for answer in join_all(calls).await {
        assert_eq!(answer.unwrap(), Ok(r#"{"id":"ch-1"}"#.to_owned()));
    }
    assert_eq!(world.engine.keys_in_flight(), 0);
}

#[tokio::test]
async fn case_c9_different_keys_do_not_wait_for_each_other() {
    let world = world();
    let script = Script::gated([]);
    let calls: Vec<_> = (0..100)
        .map(|n| spawn(&world.engine, call(&format!("k{n}"), Contract::AtMostOnce), &script))
        .collect();
    // All hundred are inside their sends at once.
    for _ in 0..100 {
        script.entered().await;
    }
    assert_eq!(script.sends(), 100);
    (0..100).for_each(|_| script.release());
    for answer in join_all(calls).await {
        assert!(answer.unwrap().is_ok());
    }
}

#[tokio::test]
async fn case_c4_a_hold_ends_with_in_progress_and_when_to_come_back() {
    let world = world();
    let script = Script::gated([]);
    let first = spawn(&world.engine, call("k", NATIVE), &script);
    script.entered().await;
    let second = Script::new([]);
    let ask = Call { hold_ms: 5_000, ..call("k", NATIVE) };
    let waiting = world.engine.call(ask.clone(), second.doer());
    let began = world.store.ground().now.steady.ms;
    let error = world.drive(waiting).await.unwrap_err();
    let waited = world.store.ground().now.steady.ms - began;
    assert_eq!(error.code(), Code::InProgress);
    assert!(error.retry_after_ms().is_some_and(|ms| ms > 0 && ms <= 30_000), "{error:?}");
    assert!((5_000..5_100).contains(&waited), "held for {waited} ms");
    // Without patience it is told at once.
    let at_once = Call { hold_ms: 0, ..ask };
    let error = world.engine.call(at_once, second.doer()).await.unwrap_err();
    assert_eq!(error.code(), Code::InProgress);
    assert_eq!(second.sends(), 0);
    script.release();
    assert!(first.await.unwrap().is_ok());
}

#[tokio::test]
async fn case_c6_waiters_that_leave_are_forgotten() {
    let world = world();
    let script = Script::gated([]);
    let first = spawn(&world.engine, call("k", NATIVE), &script);
    script.entered().await;
    let waiters: Vec<_> =
        (0..50).map(|_| spawn(&world.engine, call("k", NATIVE), &script)).collect();
    idle().await;
    assert_eq!(world.engine.keys_in_flight(), 1);
    waiters.iter().for_each(tokio::task::JoinHandle::abort);
    idle().await;
    // The first is in its send, which needs no seat, and nobody waits any more.
    assert_eq!(world.engine.keys_in_flight(), 0);
    script.release();
    assert!(first.await.unwrap().is_ok());
    assert_eq!(script.sends(), 1);
    assert_eq!(world.engine.keys_in_flight(), 0);
}

/// The winner gives up for good; exactly one of those waiting takes over.
async fn promotes_one(contract: Contract, ended: Sent) {
    let world = world();
    let script = Script::gated([ended]);
    let first = spawn(&world.engine, single("k", contract), &script);
    script.entered().await;
    let waiters: Vec<_> =
        (0..20).map(|_| spawn(&world.engine, single("k", contract), &script)).collect();
    idle().await;
    assert_eq!(script.sends(), 1);
    script.release();
    script.entered().await;
    idle().await;
    assert_eq!(script.sends(), 2, "one waiter was promoted");
    script.release();
    assert!(first.await.unwrap().is_err());
    for answer in join_all(waiters).await {
        assert_eq!(answer.unwrap(), Ok(r#"{"id":"ch-2"}"#.to_owned()));
    }
    assert_eq!(script.sends(), 2);
    assert_eq!(world.engine.keys_in_flight(), 0);
}

#[tokio::test]
async fn one_waiter_is_promoted_when_the_winner_is_proven_not_applied() {
    for contract in [NATIVE, Contract::AtMostOnce, Contract::Conditional, Contract::Harmless] {
        promotes_one(contract, not_applied()).await;
    }
}

#[tokio::test]
async fn one_waiter_is_promoted_when_the_winner_ended_unknown_and_may_be_resent() {
    for contract in [NATIVE, Contract::Conditional, Contract::Harmless] {
        promotes_one(contract, unknown()).await;
    }
}

#[tokio::test]
async fn nobody_is_promoted_into_a_doubt_that_needs_a_person() {
    let world = world();
    let script = Script::gated([unknown()]);
    let first = spawn(&world.engine, call("k", Contract::AtMostOnce), &script);
    script.entered().await;
    let waiters: Vec<_> =
        (0..20).map(|_| spawn(&world.engine, call("k", Contract::AtMostOnce), &script)).collect();
    idle().await;
    script.release();
    assert_eq!(first.await.unwrap(), Err(Code::InDoubt));
    for answer in join_all(waiters).await {
        assert_eq!(answer.unwrap(), Err(Code::InDoubt));
    }
    assert_eq!(script.sends(), 1);
    assert_eq!(world.state("k").await, State::InDoubt);
}

#[tokio::test]
async fn nobody_sends_before_the_rows_own_retry_time() {
    let world = world();
    let Ok(Answer::Attempt(armed)) = world.engine.begin(ask("k", NATIVE), 0).await else {
        panic!("an attempt")
    };
    let report = semel_core::effect::Report::NotApplied { reason: "later".into(), last: false };
    let settle = semel_core::effect::Settle {
        fence: armed.permit.fence,
        report,
        retry_after_ms: Some(7_000),
    };
    world.engine.settle(&address("k"), &settle).await.unwrap();
    let script = Script::new([]);
    let waiters: Vec<_> =
        (0..5).map(|_| spawn(&world.engine, call("k", NATIVE), &script)).collect();
    world.pass_ms(6_000).await;
    world.clock.advance_ms(999);
    idle().await;
    assert_eq!(script.sends(), 0, "sent before retry_at");
    world.clock.advance_ms(1);
    for answer in world.drive(join_all(waiters)).await {
        assert!(answer.unwrap().is_ok());
    }
    assert_eq!(script.sends(), 1);
}

/// Another process settles it: no news in this one, only a hint or the poll.
#[tokio::test]
async fn waiters_hear_of_what_another_worker_did() {
    let world = world();
    let other = world.other();
    let script = Script::gated([]);
    let first = spawn(&other, call("k", NATIVE), &script);
    script.entered().await;
    let waiters: Vec<_> =
        (0..10).map(|_| spawn(&world.engine, call("k", NATIVE), &script)).collect();
    idle().await;
    script.release();
    let answers = world.drive(join_all(waiters)).await;
    for answer in answers {
        assert_eq!(answer.unwrap(), Ok(r#"{"id":"ch-1"}"#.to_owned()));
    }
    assert!(first.await.unwrap().is_ok());
    assert_eq!(script.sends(), 1);
}

#[tokio::test]
async fn a_waiter_on_a_real_file_hears_of_another_handle() {
    let file = File::new();
    let (one, two) = (file.engine(), file.engine());
    let script = Script::gated([]);
    let first = spawn(&one, call("k", Contract::AtMostOnce), &script);
    script.entered().await;
    let waiter = spawn(&two, call("k", Contract::AtMostOnce), &script);
    settle_down().await;
    script.release();
    assert!(first.await.unwrap().is_ok());
    // The watcher of the file tells; time stands still, so it is not the poll.
    assert_eq!(waiter.await.unwrap(), Ok(r#"{"id":"ch-1"}"#.to_owned()));
    assert_eq!(script.sends(), 1);
}

#[tokio::test]
async fn another_input_is_refused_while_pending_and_after() {
    let world = world();
    let script = Script::gated([receipt(9)]);
    let first = spawn(&world.engine, call("k", NATIVE), &script);
    script.entered().await;
    let changed = Call { input: json(r#"{"amount":8}"#), ..call("k", NATIVE) };
    let error = world.engine.call(changed.clone(), script.doer()).await.unwrap_err();
    assert_eq!(error.code(), Code::InputChanged);
    script.release();
    assert!(first.await.unwrap().is_ok());
    let error = world.engine.call(changed, script.doer()).await.unwrap_err();
    assert_eq!(error.code(), Code::InputChanged);
    assert!(!error.to_string().contains('7'), "the refusal reveals the stored input: {error}");
    assert_eq!(script.sends(), 1);
}

/// A receipt that comes late into an old generation is evidence there, and no answer here.
#[tokio::test]
async fn waiters_of_a_new_generation_never_get_an_old_ones_receipt() {
    use semel_core::effect::{Person, Report, Resolution, Settle};
    let world = world();
    let Ok(Answer::Attempt(old)) = world.engine.begin(ask("k", Contract::AtMostOnce), 0).await
    else {
        panic!("an attempt")
    };
    world.pass_ms(200_000).await;
    let person = |version| Person { actor: "ada".into(), reason: "checked".into(), version };
    let failed = world.engine.resolve(&address("k"), &person(1), &Resolution::Failed).await;
    let version = failed.unwrap().version;
    world.engine.supersede(&address("k"), &person(version)).await.unwrap();
    let script = Script::gated([receipt(2)]);
    let first = spawn(&world.engine, call("k", Contract::AtMostOnce), &script);
    script.entered().await;
    let waiter = spawn(&world.engine, call("k", Contract::AtMostOnce), &script);
    idle().await;
    let report = Report::Receipt(json(r#"{"id":"old"}"#));
    let late = Settle { fence: old.permit.fence, report, retry_after_ms: None };
    let filed = world.engine.settle(&address("k"), &late).await.unwrap();
    assert!(filed.kept_as_evidence && filed.effect.is_disputed());
    idle().await;
    assert!(!waiter.is_finished(), "answered from the old generation");
    script.release();
    assert_eq!(first.await.unwrap(), Ok(r#"{"id":"ch-2"}"#.to_owned()));
    assert_eq!(waiter.await.unwrap(), Ok(r#"{"id":"ch-2"}"#.to_owned()));
}

#[tokio::test]
async fn the_first_input_is_the_one_that_is_sent() {
    let world = world();
    let members = semel_core::fingerprint::Rule::members(["request"]);
    let of = |words: &str| Call {
        input: json(&format!(r#"{{"request":1,"words":"{words}"}}"#)),
        rule: members.clone(),
        ..call("k", NATIVE)
    };
    let seen = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sent = seen.clone();
    let doer = sender(move |intent| {
        intent.downstream_key();
        let mut sent = sent.lock().unwrap();
        sent.push(intent.input().text().to_owned());
        let answer = if sent.len() == 1 { unknown() } else { receipt(2) };
        async move { answer }
    });
    let one = Call { retry: semel_core::retry::Retry::NONE, ..of("hello") };
    assert_eq!(world.engine.call(one, doer.clone()).await.unwrap_err().code(), Code::InDoubt);
    assert!(world.engine.call(of("good day"), doer).await.is_ok());
    let seen = seen.lock().unwrap();
    assert_eq!(seen[1], r#"{"request":1,"words":"hello"}"#, "a resend carried other words");
}
