//! What follows an attempt: try again, look first, or stop, as contract and policy say.

use std::sync::Arc;

use semel_core::code::Code;
use semel_core::contract::Declared;
use semel_core::effect::State;
use semel_core::record::{Contract, Kind};
use semel_core::retry::Retry;
use semel_engine::{Call, Handler, Looked, Sent};

use crate::common::{
    NATIVE, PROBE, PROBE_FIRST, Script, address, call, check, drive, idle, json, not_applied,
    receipt, single, unknown, world,
};

const FOUR: Retry = Retry { attempts_max: 4, total_ms: 600_000, delay_ms: 100, delay_ms_max: 400 };

fn cannot_tell() -> Looked {
    Looked::Unknown("the search is down".into())
}

#[tokio::test]
async fn proofs_are_tried_again_until_the_policy_is_used_up() {
    for contract in [NATIVE, Contract::AtMostOnce, Contract::Conditional, PROBE] {
        let world = world();
        let script = Script::new(vec![not_applied(); 9]);
        let ask = Call { retry: FOUR, ..call("k", contract) };
        let error = world.drive(world.engine.call(ask, script.looker())).await.unwrap_err();
        assert_eq!((error.code(), script.sends()), (Code::RetriesExhausted, 4), "{contract:?}");
        assert!(error.detail().contains("refused to connect"), "{error}");
        assert_eq!(world.state("k").await, State::Planned, "a later call may send");
    }
}

#[tokio::test]
async fn retries_end_with_the_total_time_too() {
    let world = world();
    let script = Script::new(vec![not_applied(); 90]);
    let retry = Retry { attempts_max: 90, total_ms: 5_000, delay_ms: 1_000, delay_ms_max: 1_000 };
    let began = world.store.ground().now.steady.ms;
    let ask = Call { retry, ..call("k", Contract::AtMostOnce) };
    let error = world.drive(world.engine.call(ask, script.doer())).await.unwrap_err();
    assert_eq!(error.code(), Code::RetriesExhausted);
    let took = world.store.ground().now.steady.ms - began;
    assert!(took <= 5_100, "{took} ms");
    assert!(script.sends() < 60, "{} sends in five seconds", script.sends());
}

/// The delay is the row's, not the caller's: nobody else sends meanwhile.
#[tokio::test]
async fn the_delay_before_a_retry_holds_for_every_caller() {
    for ended in [not_applied(), unknown()] {
        let world = world();
        let script = Script::new([ended]);
        let retry = Retry { delay_ms: 20_000, delay_ms_max: 20_000, ..FOUR };
        let ask = Call { retry, ..call("k", NATIVE) };
        let (engine, doer, first) = (world.engine.clone(), script.doer(), ask.clone());
        let first = tokio::spawn(async move { engine.call(first, doer).await });
        idle().await;
        assert!(world.effect("k").await.retry_at.is_some());
        let at_once = Call { hold_ms: 0, ..ask };
        let error = world.engine.call(at_once, script.doer()).await.unwrap_err();
        assert_eq!((error.code(), script.sends()), (Code::InProgress, 1));
        assert!(world.drive(first).await.unwrap().is_ok());
        assert_eq!(script.sends(), 2);
    }
}

#[tokio::test]
async fn a_refusal_is_final_for_every_caller() {
    let world = world();
    let script = Script::new([Sent::Refused("card expired".into())]);
    for _ in 0..3 {
        let error = world.engine.call(call("k", NATIVE), script.doer()).await.unwrap_err();
        assert_eq!((error.code(), error.detail()), (Code::EffectFailed, "card expired"));
    }
    assert_eq!((script.sends(), world.state("k").await), (1, State::Failed));
}

#[tokio::test]
async fn a_proof_after_a_doubt_leaves_the_doubt() {
    let world = world();
    let answers = [unknown(), Sent::Refused("already exists".into())];
    let script = Script::new(answers);
    let ask = Call { retry: FOUR, ..call("k", Contract::Conditional) };
    let error = world.drive(world.engine.call(ask, script.doer())).await;
    assert_eq!(world.effect("k").await.attempts[1].not_applied_reason(), Some("already exists"));
    // The third send gets a receipt; until then it was in doubt, never failed.
    assert!(error.is_ok(), "{error:?}");
    assert_eq!(script.sends(), 3);
}

#[tokio::test]
async fn a_doubt_under_a_native_key_is_resent_under_the_same_key() {
    let world = world();
    let keys = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = keys.clone();
    let doer = crate::common::sender(move |intent| {
        let mut seen = seen.lock().unwrap();
        seen.push((intent.downstream_key().to_owned(), intent.attempt(), intent.fence()));
        let answer = if seen.len() < 3 { unknown() } else { receipt(3) };
        async move { answer }
    });
    assert!(world.drive(world.engine.call(call("k", NATIVE), doer)).await.is_ok());
    let keys = keys.lock().unwrap();
    assert_eq!(keys.iter().map(|(_, attempt, _)| *attempt).collect::<Vec<_>>(), [1, 2, 3]);
    assert!(keys.iter().all(|(key, ..)| *key == keys[0].0), "{keys:?}");
    assert!(keys.windows(2).all(|pair| pair[0].2 < pair[1].2), "fences rise: {keys:?}");
}

#[tokio::test]
async fn case_x4_a_look_that_finds_the_effect_is_its_receipt() {
    let world = world();
    let found = Looked::Found(json(r#"{"id":"found"}"#), Vec::new());
    let script = Script::looking([unknown()], [found]);
    let began = world.store.ground().now.steady.ms;
    let answer = drive(&world.clock, 500, world.engine.call(call("k", PROBE), script.looker()));
    assert_eq!(answer.await.unwrap().text(), r#"{"id":"found"}"#);
    assert_eq!((script.sends(), script.looks()), (1, 1));
    let waited = world.store.ground().now.steady.ms - began;
    assert!(waited >= 120_000, "looked after {waited} ms, before the settle window was over");
}

#[tokio::test]
async fn case_x5_a_look_that_proves_absence_is_followed_by_a_send_under_a_higher_fence() {
    let world = world();
    let script = Script::looking([unknown()], [Looked::Absent]);
    let answer = drive(&world.clock, 500, world.engine.call(call("k", PROBE), script.looker()));
    assert!(answer.await.is_ok());
    let attempts = world.effect("k").await.attempts;
    let kinds: Vec<_> = attempts.iter().map(|attempt| attempt.kind).collect();
    assert_eq!(kinds, [Kind::Send, Kind::Look, Kind::Send]);
    assert!(attempts.windows(2).all(|pair| pair[0].fence < pair[1].fence));
    assert_eq!(attempts[0].not_applied_reason(), Some("absent at the destination"));
    check(&world.effect("k").await, world.store.as_ref());
}

#[tokio::test]
async fn a_look_with_two_hits_raises_the_alarm() {
    let world = world();
    let found = Looked::Found(json("1"), vec![json("2")]);
    let script = Script::looking([], [found]);
    let answer = world.engine.call(call("k", PROBE_FIRST), script.looker()).await.unwrap();
    assert_eq!((answer.text(), script.sends()), ("1", 0));
    assert_eq!(world.effect("k").await.alarms.len(), 1);
}

/// A look before the first send, with nobody to wait for: found nothing, so send at once.
#[tokio::test]
async fn a_first_look_that_finds_nothing_is_followed_by_the_send_at_once() {
    for retry in [Retry::NONE, FOUR] {
        let world = world();
        let script = Script::looking([], [Looked::Absent]);
        let ask = Call { hold_ms: 0, retry, ..call("k", PROBE_FIRST) };
        // No time passes here.
        assert!(world.engine.call(ask, script.looker()).await.is_ok());
        assert_eq!((script.looks(), script.sends()), (1, 1));
    }
}

#[tokio::test]
async fn a_first_look_that_cannot_tell_is_not_asked_for_ever() {
    for (retry, looks) in [(Retry::NONE, 1), (FOUR, 4)] {
        let world = world();
        let script = Script::looking([], vec![cannot_tell(); 200]);
        let ask = Call { retry, ..call("k", PROBE_FIRST) };
        let error = world.drive(world.engine.call(ask, script.looker())).await.unwrap_err();
        assert!(error.detail().contains("the search is down"), "{error}");
        assert_eq!((script.looks(), script.sends()), (looks, 0), "{error}");
        assert_eq!(world.state("k").await, State::Planned);
    }
}

#[tokio::test]
async fn a_look_after_a_doubt_that_cannot_tell_is_not_asked_for_ever() {
    let world = world();
    let script = Script::looking([unknown()], vec![cannot_tell(); 200]);
    let ask = Call { retry: FOUR, ..call("k", PROBE) };
    let answer = drive(&world.clock, 500, world.engine.call(ask, script.looker())).await;
    assert_eq!(answer.unwrap_err().code(), Code::InDoubt);
    assert!(script.looks() <= 4, "{} looks", script.looks());
    assert_eq!(script.sends(), 1);
}

/// A caller that declares nothing meets a stored probe, and has no code to look with.
#[tokio::test]
async fn a_caller_that_cannot_look_is_told_so_and_cuts_nothing() {
    let world = world();
    let script = Script::new([unknown()]);
    let asks = single("k", PROBE);
    assert!(world.engine.call(asks, script.looker()).await.is_err());
    world.pass_ms(180_000).await;
    let undeclared = Call { declared: Declared::default(), ..call("k", PROBE) };
    let error = world.engine.call(undeclared.clone(), script.doer()).await.unwrap_err();
    assert_eq!(error.code(), Code::ContractNeedsLook);
    assert_eq!((world.state("k").await, script.sends()), (State::InDoubt, 1));
    // The next caller with code goes on at once.
    let found = Script::looking([], [Looked::Found(json("7"), Vec::new())]);
    let answer = world.drive(world.engine.call(call("k", PROBE), found.looker())).await;
    assert_eq!(answer.unwrap().text(), "7");
    check(&world.effect("k").await, world.store.as_ref());
}

#[tokio::test]
async fn a_handler_that_cannot_look_leaves_the_effect_unattended() {
    let world = world();
    let script = Script::new([unknown()]);
    assert!(world.engine.call(single("k", PROBE), script.looker()).await.is_err());
    let handler = Handler::new(script.doer(), Declared::default(), Retry::default());
    let address = address("k");
    world.engine.handle(address.namespace.clone(), address.action.clone(), handler);
    let attempts = world.effect("k").await.attempts.len();
    world.pass_ms(200_000).await;
    for _ in 0..3 {
        world.engine.turn().await.unwrap();
        idle().await;
    }
    assert_eq!(world.effect("k").await.attempts.len(), attempts, "it was begun in vain");
    assert_eq!(world.engine.unattended(10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_probe_without_code_to_look_is_refused_before_anything_is_stored() {
    let world = world();
    let script = Script::new([]);
    let error = world.engine.call(call("k", PROBE), script.doer()).await.unwrap_err();
    assert_eq!(error.code(), Code::ContractNeedsLook);
    assert!(world.store.load(&address("k")).await.unwrap().is_none());
}
