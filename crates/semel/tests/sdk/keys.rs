//! Keys: one intent, one key, wherever and however often it is asked for.

use std::sync::{Arc, Mutex};

use semel::{Code, Failure, NativeKey, Retry, keys};
use semel_core::effect::State;

use crate::common::{Ledger, Outside, code, state};

#[tokio::test]
async fn req_k1_retry_restart_refresh_and_redelivery_present_the_identical_key() {
    let ledger = Ledger::new();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mut answers = Vec::new();
    // Four processes fail, two are cut, the next gets through; then the browser refreshes and the
    // queue redelivers. None of them retries by itself, so there is no budget to use up.
    for process in 0..9 {
        let semel = ledger.open().await;
        let seen = seen.clone();
        let effect = semel.effect("charge").key(["order", "7"]).contract(NativeKey::hours(24));
        let call = effect.retry(Retry::NONE).call(move |intent| {
            let mut seen = seen.lock().unwrap();
            seen.push((intent.address().clone(), intent.downstream_key().to_owned()));
            let number = seen.len();
            async move {
                match number {
                    0..=4 => Err(Failure::not_applied("down")),
                    5 | 6 => Err(Failure::unknown("cut")),
                    _ => Ok(format!("charge by try {number}")),
                }
            }
        });
        let answer = call.await;
        answers.push(answer.is_ok());
        assert_eq!(answer.is_ok(), process >= 6, "{answer:?}");
        assert_eq!(ledger.read(&semel, "charge", "order,7").await, None, "a text is one part");
    }
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 7, "sent once more after it was done");
    assert!(seen.iter().all(|key| *key == seen[0]), "{seen:?}");
}

#[tokio::test]
async fn req_k5_a_key_is_durable_before_the_send_and_survives_the_process() {
    let ledger = Ledger::new();
    let key = {
        let semel = ledger.open().await;
        let (reader, file) = (semel.clone(), Arc::new(ledger.path()));
        let call = semel.effect("charge").key("order-7").call(move |intent| {
            let (reader, file) = (reader.clone(), file.clone());
            async move {
                let effect = reader.find("charge", "order-7").await.map_err(Failure::unknown)?;
                assert!(effect.is_some() && file.exists());
                Err::<(), _>(Failure::unknown(intent.downstream_key()))
            }
        });
        assert_eq!(code(call.await), Code::InDoubt);
        let effect = semel.find("charge", "order-7").await.unwrap().unwrap();
        effect.plan.unwrap().downstream_key
    };
    // The process is gone; its memory with it.
    let semel = ledger.open().await;
    let effect = semel.find("charge", "order-7").await.unwrap().unwrap();
    assert_eq!(effect.plan.unwrap().downstream_key, key);
    assert_eq!(state(&semel, "charge", "order-7").await, State::InDoubt);
}

#[tokio::test]
async fn req_k8_two_wordings_of_one_input_are_one_effect() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let outside = Outside::default();
    let mail = |request: u32, model_says: &str| {
        let outside = outside.clone();
        let input = serde_json::json!({"request": request, "text": model_says});
        let effect = semel.effect("mail").key(request.to_string()).input(&input);
        effect.fingerprint(["request"]).call(move |intent| {
            outside.make();
            async move { Ok::<_, Failure>(intent.input().text().to_owned()) }
        })
    };
    let first = mail(7, "Dear Ada").await.unwrap();
    assert_eq!(mail(7, "Hello Ada!").await.unwrap(), first, "the model was asked twice");
    assert!(first.contains("Dear Ada"));
    assert_eq!(outside.made(), 1);
    // Were the wording to count, the second would be refused, and not sent either.
    let strict = |words: &str| {
        let call = semel.effect("strict").key("7").input(&words.to_owned());
        call.call(|_| async { Ok::<_, Failure>(1) })
    };
    strict("Dear Ada").await.unwrap();
    assert_eq!(code(strict("Hello Ada!").await), Code::InputChanged);
}

#[tokio::test]
async fn req_k14_a_caller_may_bring_the_key() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let outside = Outside::default();
    // As it comes in the header of a write request, whatever its form.
    for header in ["8e03978e-40d5-43e8-bc93-6894a57f9324", "order 7/ü, second", "%2C"] {
        let first = outside.call(&semel, header).await.unwrap();
        assert_eq!(outside.call(&semel, header).await.unwrap(), first);
        let found = semel.find("ticket", header).await.unwrap().unwrap();
        assert_eq!(found.address.key.parts(), [header], "the key is kept as it came");
    }
    assert_eq!(outside.made(), 3);
}

#[tokio::test]
async fn recipes_make_keys_for_common_actions() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let outside = Outside::default();
    let call = async |key: semel::Key| {
        let outside = outside.clone();
        let call = semel.effect("a").key(&key).call(move |_| {
            let made = outside.make();
            async move { Ok::<_, Failure>(made) }
        });
        call.await.unwrap()
    };
    let message = |version: &str| keys::message("intent-1", "ada@example.org", version).unwrap();
    assert_eq!(call(message("1")).await, call(message("1")).await);
    assert_ne!(call(message("1")).await, call(message("2")).await);
    assert_eq!(outside.made(), 2);
}
