//! Code registered for an action attends what no caller waits for.

use std::time::Duration;

use semel::{Code, Failure, NativeKey, Probe, Retry};
use semel_core::effect::State;

use crate::common::{Ledger, Outside, QUICK, code, state};

/// The job turns once a second of real time, and at once when a handler is registered.
async fn until_done(semel: &semel::Semel, key: &str) {
    for _ in 0..3_000 {
        if state(semel, "ticket", key).await == State::Done {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("{key} was not attended to");
}

#[tokio::test]
async fn a_handler_sends_again_what_its_caller_gave_up() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let effect = semel.effect("ticket").key("42").contract(NativeKey::hours(24));
    let call = effect
        .input(&"printer on fire")
        .retry(Retry::NONE)
        .call(|intent| async move { Err::<String, _>(Failure::unknown(intent.downstream_key())) });
    assert_eq!(code(call.await), Code::InDoubt);
    let outside = Outside::default();
    let counted = outside.clone();
    semel
        .handler("ticket")
        .contract(NativeKey::hours(24))
        .retry(QUICK)
        .register(move |intent| {
            intent.downstream_key();
            let (made, words) = (counted.make(), intent.input_as::<String>());
            async move { Ok(format!("{made}: {}", words.map_err(Failure::unknown)?)) }
        })
        .unwrap();
    until_done(&semel, "42").await;
    assert_eq!(outside.made(), 1);
    let effect = semel.find("ticket", "42").await.unwrap().unwrap();
    assert_eq!(effect.receipt().unwrap().text(), "\"T-1: printer on fire\"");
}

#[tokio::test]
async fn a_handler_that_looks_settles_a_probe_without_sending() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let effect = semel.effect("ticket").key("42").contract(Probe::after_doubt());
    let call = effect
        .settle_window(Duration::from_millis(1))
        .retry(Retry::NONE)
        .look(|_| async { Ok(Vec::<String>::new()) })
        .call(|_| async { Err::<String, _>(Failure::unknown("cut")) });
    assert_eq!(code(call.await), Code::InDoubt);
    let handler = semel.handler("ticket").contract(Probe::after_doubt());
    handler
        .look(|_| async { Ok(vec!["T-7".to_owned()]) })
        .register(|_| async { Err::<String, _>(Failure::refused("must not send")) })
        .unwrap();
    until_done(&semel, "42").await;
    let effect = semel.find("ticket", "42").await.unwrap().unwrap();
    assert_eq!(effect.receipt().unwrap().text(), "\"T-7\"");
}

#[tokio::test]
async fn a_handler_is_for_its_own_namespace_and_has_a_name() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let nameless = semel.handler("").register(|_| async { Ok::<_, Failure>(1) });
    assert_eq!(nameless.unwrap_err().code(), Code::NameInvalid);
    let effect = semel.effect("ticket").key("42").contract(NativeKey::hours(24));
    let call = effect
        .retry(Retry::NONE)
        .call(|intent| async move { Err::<String, _>(Failure::unknown(intent.downstream_key())) });
    assert_eq!(code(call.await), Code::InDoubt);
    let other = semel.namespace("other").unwrap();
    let outside = Outside::default();
    let counted = outside.clone();
    let handler = other.handler("ticket").contract(NativeKey::hours(24));
    handler
        .register(move |_| {
            let made = counted.make();
            async move { Ok::<_, Failure>(made) }
        })
        .unwrap();
    semel.engine().turn().await.unwrap();
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert_eq!((outside.made(), state(&semel, "ticket", "42").await), (0, State::InDoubt));
}
