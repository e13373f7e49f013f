//! Receipts: stored before the call returns, and given back unchanged to every repeat.

use semel::{Code, Failure, Json};
use semel_core::effect::State;
use serde::{Deserialize, Serialize};

use crate::common::{Ledger, Outside, code, state, view};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Ticket {
    id: String,
    tags: Vec<String>,
    priority: Priority,
    parent: Option<Box<Ticket>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Priority {
    Low,
    High { until: u64 },
}

fn ticket() -> Ticket {
    let parent = Ticket { id: "T-0".into(), tags: vec![], priority: Priority::Low, parent: None };
    Ticket {
        id: "T-1".into(),
        tags: vec!["ü".into(), "\"quoted\"".into()],
        priority: Priority::High { until: u64::MAX },
        parent: Some(Box::new(parent)),
    }
}

#[tokio::test]
async fn a_typed_receipt_comes_back_typed_after_a_restart() {
    let ledger = Ledger::new();
    let first: Ticket = {
        let semel = ledger.open().await;
        let call = semel.effect("ticket").key("42").call(|_| async { Ok::<_, Failure>(ticket()) });
        call.await.unwrap()
    };
    let semel = ledger.open().await;
    let call = semel
        .effect("ticket")
        .key("42")
        .call(|_| async { Err::<Ticket, _>(Failure::unknown("must not be sent")) });
    assert_eq!((first, call.await.unwrap()), (ticket(), ticket()));
}

#[tokio::test]
async fn req_l1_an_effect_returns_a_receipt_and_a_bare_true_is_warned_of() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let call = semel.effect("ticket").key("42").call(|_| async { Ok::<_, Failure>(ticket()) });
    call.await.unwrap();
    let good = view(&semel, "ticket", "42").await;
    let receipt: Ticket = good.receipt.unwrap().read().unwrap();
    assert_eq!((receipt.id.as_str(), good.key.as_str()), ("T-1", "42"));
    assert!(good.created_at.starts_with("20") && good.warnings.is_empty());
    let call = semel.effect("ticket").key("43").call(|_| async { Ok::<_, Failure>(true) });
    assert!(call.await.unwrap());
    assert_eq!(view(&semel, "ticket", "43").await.warnings.len(), 1);
    let call = semel.effect("ticket").key("44").call(|_| async { Ok::<_, Failure>(()) });
    call.await.unwrap();
    assert_eq!(view(&semel, "ticket", "44").await.warnings.len(), 1);
}

#[tokio::test]
async fn req_l5_a_duplicate_gets_the_first_result_unchanged() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let text = r#"{"id":  "T-1", "amount":1.10, "n":9007199254740993, "id2":null}"#;
    for round in 0..5 {
        let call = semel.effect("ticket").key("42").call(move |_| {
            let text = if round == 0 { text.to_owned() } else { format!("{round}") };
            async move { Json::from_text(text).map_err(Failure::unknown) }
        });
        assert_eq!(call.await.unwrap().text(), text);
    }
}

#[tokio::test]
async fn req_l10_a_retry_that_finds_done_is_skipped_and_gets_the_stored_result() {
    let ledger = Ledger::new();
    let outside = Outside::default();
    for _ in 0..3 {
        // Each time a new process.
        let semel = ledger.open().await;
        assert_eq!(outside.call(&semel, "42").await.unwrap(), "T-1");
        assert_eq!(state(&semel, "ticket", "42").await, State::Done);
    }
    assert_eq!(outside.made(), 1);
}

#[tokio::test]
async fn req_l18_the_receipt_is_in_the_ledger_before_the_step_returns() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let outside = Outside::default();
    outside.call(&semel, "42").await.unwrap();
    // Nothing is flushed later: a stranger reads it in the file right away.
    let read = ledger.read(&semel, "ticket", "42").await.unwrap();
    assert_eq!(read.receipt().map(|receipt| receipt.text()), Some("\"T-1\""));
    assert_eq!(read.attempts[0].contract.name(), "at_most_once");
}

#[tokio::test]
async fn req_l20_a_third_party_without_memory_is_wrapped_with_key_and_result() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let outside = Outside::default();
    for _ in 0..10 {
        assert_eq!(outside.call(&semel, "42").await.unwrap(), "T-1");
    }
    assert_eq!(outside.call(&semel, "43").await.unwrap(), "T-2", "another intent is another");
    assert_eq!(outside.made(), 2);
}

#[tokio::test]
async fn req_l21_a_large_result_is_kept_by_reference_and_the_reference_comes_back() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let store = |body: usize| {
        semel.effect("report").key(format!("of {body}")).call(move |_| async move {
            // The body goes to a blob store; what is kept is where it is.
            Ok::<_, Failure>(serde_json::json!({"blob": "s3://reports/7", "bytes": body}))
        })
    };
    let first = store(50_000_000).await.unwrap();
    assert_eq!(store(50_000_000).await.unwrap(), first);
    assert_eq!(first["blob"], "s3://reports/7");
    // The body itself is over the limit: it happened, and cannot be kept, so it is in doubt.
    let large = semel
        .effect("report")
        .key("inline")
        .call(|_| async { Ok::<_, Failure>("x".repeat(2 * 1024 * 1024)) });
    assert_eq!(code(large.await), Code::InDoubt);
    assert_eq!(state(&semel, "report", "inline").await, State::InDoubt);
}

#[tokio::test]
async fn a_receipt_of_another_shape_is_said_to_be_so() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    Outside::default().call(&semel, "42").await.unwrap();
    let call = semel.effect("ticket").key("42").call(|_| async { Ok::<_, Failure>(7_u32) });
    let error = call.await.unwrap_err();
    assert_eq!(error.code(), Code::ReceiptMismatch);
    assert_eq!(state(&semel, "ticket", "42").await, State::Done, "and nothing was lost");
}
