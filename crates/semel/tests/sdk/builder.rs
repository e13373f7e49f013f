//! The builder's whole surface, and what it refuses before anything is stored.

use std::time::Duration;

use semel::{Code, Contract, Failure, Json, NativeKey, Probe, Retry, Semel};
use semel_store::Query;

use crate::common::{Ledger, code, view};

async fn is_empty(semel: &Semel) -> bool {
    semel.engine().list(&Query::everywhere(1)).await.unwrap().effects.is_empty()
}

async fn never(_: semel::Intent) -> Result<String, Failure> {
    panic!("nothing may be sent")
}

#[tokio::test]
async fn everything_that_is_declared_is_on_record() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let answer: String = semel
        .effect("crm-ticket")
        .key(["request", "42"])
        .input(&serde_json::json!({"request": 42, "words": "hello"}))
        .fingerprint(["request"])
        .contract(NativeKey::hours(24))
        .lease(Duration::from_secs(20))
        .deadline(Duration::from_secs(40))
        .settle_window(Duration::from_secs(90))
        .replay_window(Duration::from_secs(7 * 86_400))
        .retry(Retry::NONE)
        .hold(Duration::from_secs(1))
        .downstream_key("ticket:42")
        .workflow("triage")
        .call(|intent| async move {
            assert_eq!(intent.downstream_key(), "ticket:42");
            assert_eq!(intent.attempt(), 1);
            assert!(intent.fence() > 0);
            assert_eq!(intent.address().to_string(), "crm-ticket/request,42");
            let input: serde_json::Value = intent.input_as().map_err(Failure::unknown)?;
            Ok(input["words"].as_str().unwrap_or_default().to_owned())
        })
        .await
        .unwrap();
    assert_eq!(answer, "hello");
    let effect = semel.find("crm-ticket", ["request", "42"]).await.unwrap().unwrap();
    let plan = effect.plan.as_ref().unwrap();
    let terms = plan.terms;
    assert_eq!(terms.contract, Contract::NativeKey { retention_ms: 86_400_000 });
    assert_eq!((terms.lease_ms, terms.deadline_ms, terms.settle_ms), (20_000, 40_000, 90_000));
    assert_eq!((terms.window_ms, plan.downstream_key.as_str()), (604_800_000, "ticket:42"));
    assert_eq!(effect.workflow.as_deref(), Some("triage"));
    assert!(effect.attempts[0].worker.contains(&std::process::id().to_string()));
}

#[tokio::test]
async fn a_short_deadline_still_leaves_time_to_send() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let effect = semel.effect("crm-ticket").key("42").deadline(Duration::from_millis(1_500));
    let sent = effect.retry(Retry::NONE).call(|_| async { Ok("sent".to_owned()) }).await;
    assert_eq!(sent, Ok("sent".to_owned()));
}

#[test]
fn contracts_are_named_by_what_the_destination_offers() {
    assert_eq!(NativeKey::minutes(30), Contract::NativeKey { retention_ms: 1_800_000 });
    assert_eq!(
        NativeKey::retention(Duration::from_millis(5)),
        Contract::NativeKey { retention_ms: 5 }
    );
    assert_eq!(NativeKey::hours(u64::MAX).name(), "native_key");
    assert_eq!(Probe::after_doubt(), Contract::Probe { first: false });
    assert_eq!(Probe::first(), Contract::Probe { first: true });
}

#[tokio::test]
async fn bad_keys_names_and_inputs_are_refused_before_anything_is_stored() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let long = "x".repeat(256);
    for key in ["", " ", "a\nb", long.as_str()] {
        assert_eq!(code(semel.effect("a").key(key).call(never).await), Code::KeyInvalid, "{key}");
    }
    assert_eq!(code(semel.effect("a").call(never).await), Code::KeyInvalid, "no key at all");
    let empty: [&str; 0] = [];
    assert_eq!(code(semel.effect("a").key(empty).call(never).await), Code::KeyInvalid);
    assert_eq!(code(semel.effect("").key("k").call(never).await), Code::NameInvalid);
    assert_eq!(code(semel.namespace("a~draft").map(|_| ())), Code::NameInvalid);
    let large = "x".repeat(1024 * 1024);
    let refused = semel.effect("a").key("k").input(&large).call(never).await;
    assert_eq!(code(refused), Code::InputInvalid);
    let keyed: std::collections::BTreeMap<Vec<u8>, u8> = [(vec![1], 1)].into();
    let refused = semel.effect("a").key("k").input(&keyed).call(never).await;
    assert_eq!(code(refused), Code::InputInvalid);
    assert!(is_empty(&semel).await);
}

#[tokio::test]
async fn terms_that_cannot_be_kept_are_refused_before_anything_is_stored() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let effect = || semel.effect("a").key("k");
    let ms = Duration::from_millis;
    assert_eq!(code(effect().lease(ms(99)).call(never).await), Code::TermsInvalid);
    assert_eq!(code(effect().deadline(ms(0)).call(never).await), Code::TermsInvalid);
    assert_eq!(code(effect().deadline(Duration::MAX).call(never).await), Code::TermsInvalid);
    let long = "k".repeat(256);
    assert_eq!(code(effect().downstream_key(long).call(never).await), Code::TermsInvalid);
    assert_eq!(code(effect().downstream_key("").call(never).await), Code::TermsInvalid);
    let refused = effect().contract(Contract::Transaction).call(never).await;
    assert_eq!(code(refused), Code::TermsInvalid);
    let refused = effect().contract(Probe::first()).call(never).await;
    assert_eq!(code(refused), Code::ContractNeedsLook);
    let day = Retry { total_ms: 86_400_000, ..Retry::default() };
    let refused = effect().contract(NativeKey::hours(24)).retry(day).call(never).await;
    assert_eq!(code(refused), Code::RetryBeyondRetention);
    let refused = effect().replay_window(Duration::from_secs(60)).call(never).await;
    assert_eq!(code(refused), Code::RetryBeyondRetention);
    assert!(is_empty(&semel).await);
}

#[tokio::test]
async fn stores_are_opened_by_address() {
    for url in
        ["", "semel.db", "sqlite:", "memory:x", "http://", "sqlite:///x.db", "sqlite::memory:"]
    {
        assert_eq!(code(Semel::open(url).await.map(|_| ())), Code::StoreUrlInvalid, "{url}");
    }
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}/semel.db", folder.path().display());
    let semel = Semel::open(&url).await.unwrap();
    assert!(semel.find("a", "k").await.unwrap().is_none());
    let memory = Semel::open("memory:").await.unwrap();
    let answer = memory.effect("a").key("k").call(|_| async { Ok::<_, Failure>(1) }).await;
    assert_eq!(answer.unwrap(), 1);
}

#[tokio::test]
async fn req_e3_each_route_states_its_replay_window() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    for (key, days, want) in [("default", None, "30d"), ("short", Some(7), "7d")] {
        let mut effect = semel.effect("a").key(key);
        if let Some(days) = days {
            effect = effect.replay_window(Duration::from_secs(days * 86_400));
        }
        effect.call(|_| async { Ok::<_, Failure>(1) }).await.unwrap();
        let view = view(&semel, "a", key).await;
        assert_eq!(view.replay_window.as_deref(), Some(want));
        assert!(view.replays_until.is_some_and(|until| until > view.created_at));
    }
}

#[tokio::test]
async fn an_input_is_kept_byte_for_byte() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let text = r#"{"amount": 9007199254740993,  "b": 1.0}"#;
    let input = Json::from_text(text).unwrap();
    let call = semel
        .effect("a")
        .key("k")
        .input(&input)
        .call(|intent| async move { Ok::<_, Failure>(intent.input().text().to_owned()) });
    assert_eq!(call.await.unwrap(), text);
    // The same value in other spaces is the same wish; the next number is not.
    let same = Json::from_text(r#"{"b":1,"amount":9007199254740993}"#).unwrap();
    let again: String = semel.effect("a").key("k").input(&same).call(never).await.unwrap();
    assert_eq!(again, text);
    let near = Json::from_text(r#"{"b":1,"amount":9007199254740992}"#).unwrap();
    let refused = semel.effect("a").key("k").input(&near).call(never).await;
    assert_eq!(code(refused), Code::InputChanged);
}
