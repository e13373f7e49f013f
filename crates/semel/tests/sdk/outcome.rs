//! How user code reports, and what callers are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::{Code, Contract, Failure, NativeKey, NotApplied, Refused, Retry, classify};
use semel_core::effect::State;

use crate::common::{Ledger, Outside, QUICK, code, state};

#[tokio::test]
async fn each_word_of_user_code_is_its_own_outcome() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let fails = async |key: &str, failure: Failure| {
        let call = semel.effect("a").key(key).retry(Retry::NONE).call(move |_| {
            let failure = failure.clone();
            async move { Err::<(), _>(failure) }
        });
        (code(call.await), state(&semel, "a", key).await)
    };
    assert_eq!(
        fails("proof", NotApplied("down".into()).into()).await,
        (Code::NotApplied, State::Planned)
    );
    assert_eq!(
        fails("final", Refused("no such card".into()).into()).await,
        (Code::EffectFailed, State::Failed)
    );
    assert_eq!(fails("cut", Failure::unknown("reset")).await, (Code::InDoubt, State::InDoubt));
    // Any error of anybody is unknown, unless it is known to be a proof.
    let reset = std::io::Error::from(std::io::ErrorKind::ConnectionReset);
    assert_eq!(fails("reset", reset.into()).await, (Code::InDoubt, State::InDoubt));
    let refused = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
    assert_eq!(fails("refused", refused.into()).await, (Code::NotApplied, State::Planned));
}

#[tokio::test]
async fn a_question_mark_classifies() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let call = semel.effect("a").key("k").retry(Retry::NONE).call(|_| async {
        let number: u32 = "x".parse()?;
        Ok(number)
    });
    assert_eq!(code(call.await), Code::InDoubt);
    // A port that nobody listens on: nothing was sent.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let call = semel.effect("a").key("l").retry(Retry::NONE).call(move |_| async move {
        std::net::TcpStream::connect(free)?;
        Ok(1)
    });
    assert_eq!(code(call.await), Code::InDoubt, "its request was not seen");
    let call = semel.effect("a").key("m").retry(Retry::NONE).call(move |_| async move {
        classify::request_blocking(|| std::net::TcpStream::connect(free))?;
        Ok(1)
    });
    assert_eq!(code(call.await), Code::NotApplied);
}

#[tokio::test]
async fn req_l6_a_duplicate_can_tell_completed_from_failed_from_partly_done() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let ends = async |key: &str, end: Result<u32, Failure>| {
        let call = || {
            let end = end.clone();
            semel.effect("a").key(key).retry(Retry::NONE).call(move |_| {
                let end = end.clone();
                async move { end }
            })
        };
        let _first = call().await;
        call().await.map_err(|error| error.code())
    };
    assert_eq!(ends("completed", Ok(1)).await, Ok(1));
    assert_eq!(ends("failed", Err(Failure::refused("no"))).await, Err(Code::EffectFailed));
    assert_eq!(ends("doubt", Err(Failure::unknown("cut"))).await, Err(Code::InDoubt));
}

#[tokio::test]
async fn retries_are_used_up_and_then_said_so() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let outside = Outside::default();
    let counted = outside.clone();
    let call = semel.effect("a").key("k").retry(QUICK).call(move |_| {
        counted.make();
        async { Err::<(), _>(Failure::not_applied("down")) }
    });
    let error = call.await.unwrap_err();
    assert_eq!((error.code(), outside.made()), (Code::RetriesExhausted, 4));
    assert!(error.to_string().contains("down"), "{error}");
    assert_eq!(state(&semel, "a", "k").await, State::Planned);
}

#[tokio::test]
async fn req_l22_the_first_safe_completion_is_the_outcome_for_ever() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let tries = Arc::new(AtomicU32::new(0));
    let call = || {
        let tries = tries.clone();
        semel.effect("a").key("k").retry(QUICK).call(move |_| {
            let number = tries.fetch_add(1, Ordering::SeqCst) + 1;
            async move { if number < 3 { Err(Failure::not_applied("down")) } else { Ok(number) } }
        })
    };
    assert_eq!(call().await.unwrap(), 3);
    assert_eq!(call().await.unwrap(), 3);
    assert_eq!(tries.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_doubt_under_a_native_key_is_sent_again_and_done() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let tries = Arc::new(AtomicU32::new(0));
    let counted = tries.clone();
    let call = semel.effect("a").key("k").contract(NativeKey::hours(24)).retry(QUICK);
    let answer = call.call(move |intent| {
        let number = counted.fetch_add(1, Ordering::SeqCst) + 1;
        let key = intent.downstream_key().to_owned();
        async move { if number < 3 { Err(Failure::unknown("cut")) } else { Ok(key) } }
    });
    assert_eq!(answer.await.unwrap().len(), 36);
    assert_eq!(tries.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn a_blocking_function_runs_beside_the_runtime_and_may_panic() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let receipt = semel
        .effect("a")
        .key("k")
        .call_blocking(|intent| Ok(format!("{}", intent.attempt())))
        .await
        .unwrap();
    assert_eq!(receipt, "1");
    let panics = semel
        .effect("a")
        .key("l")
        .retry(Retry::NONE)
        .call_blocking(|_| -> Result<(), Failure> { panic!("as planned") });
    assert_eq!(code(panics.await), Code::InDoubt);
    assert_eq!(state(&semel, "a", "l").await, State::InDoubt);
}

#[tokio::test]
async fn a_panicking_function_is_unknown_wherever_it_panics() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let call = semel.effect("a").key("inside").call(|_| async {
        panic!("as planned");
        #[expect(unreachable_code, reason = "gives the block its type")]
        Ok::<(), Failure>(())
    });
    assert_eq!(code(call.await), Code::InDoubt);
    let before = semel.effect("a").key("before").call(|intent| {
        assert!(intent.attempt() > 1, "as planned");
        async { Ok::<_, Failure>(()) }
    });
    assert_eq!(code(before.await), Code::InDoubt);
    for key in ["inside", "before"] {
        assert_eq!(state(&semel, "a", key).await, State::InDoubt);
    }
}

#[tokio::test]
async fn another_contract_after_a_doubt_is_refused() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let call = semel.effect("a").key("k").call(|_| async { Err::<(), _>(Failure::unknown("?")) });
    assert_eq!(code(call.await), Code::InDoubt);
    let other = semel.effect("a").key("k").contract(Contract::Harmless);
    let call = other.call(|_| async { Ok::<_, Failure>(()) });
    assert_eq!(code(call.await), Code::ContractChanged);
}
