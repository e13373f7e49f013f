//! Many callers, one effect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semel::{Code, Failure, NativeKey, Retry};
use semel_core::effect::State;

use crate::common::{Ledger, Outside, QUICK, state};

#[tokio::test]
async fn req_c1_a_lease_on_the_key_is_held_before_and_during_the_effect() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let asked = semel.clone();
    let effect = semel.effect("ticket").key("42").lease(Duration::from_millis(300));
    let call = effect.deadline(Duration::from_secs(30)).call(move |intent| {
        let asked = asked.clone();
        async move {
            let holds = async || {
                let row = asked.find("ticket", "42").await.map_err(Failure::unknown)?;
                let now = asked.engine().store().ground().now;
                let holder = row.as_ref().and_then(|row| row.holder(&now));
                Ok::<_, Failure>(holder.map(|holder| holder.fence))
            };
            let at_first = holds().await?;
            // Longer than the lease: it is renewed.
            tokio::time::sleep(Duration::from_millis(600)).await;
            Ok::<_, Failure>((at_first, holds().await?, intent.fence()))
        }
    });
    let (at_first, later, fence) = call.await.unwrap();
    assert_eq!((at_first, later), (Some(fence), Some(fence)));
}

#[tokio::test]
async fn req_c2_who_does_not_get_the_lease_does_nothing_and_comes_back_later() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let go = Arc::new(AtomicBool::new(false));
    let (first, open) = (semel.clone(), go.clone());
    let running = tokio::spawn(async move {
        let call = first.effect("ticket").key("42").call(move |_| {
            let open = open.clone();
            async move {
                while !open.load(Ordering::SeqCst) {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                Ok::<_, Failure>("T-1".to_owned())
            }
        });
        call.await
    });
    while semel.find("ticket", "42").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let outside = Outside::default();
    let counted = outside.clone();
    let effect = semel.effect("ticket").key("42").hold(Duration::from_millis(5));
    let error = effect
        .call(move |_| {
            let made = counted.make();
            async move { Ok::<_, Failure>(made) }
        })
        .await
        .unwrap_err();
    assert_eq!(error.code(), Code::InProgress);
    assert!(error.retry_after_ms().is_some_and(|ms| ms > 0));
    go.store(true, Ordering::SeqCst);
    assert_eq!(running.await.unwrap().unwrap(), "T-1");
    assert_eq!(outside.call(&semel, "42").await.unwrap(), "T-1");
    assert_eq!(outside.made(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_c4_of_two_simultaneous_triggers_exactly_one_acts() {
    let ledger = Ledger::new();
    // Two handles share nothing but the file, like two processes.
    let (one, two) = (ledger.open().await, ledger.open().await);
    let outside = Outside::default();
    for round in 0..50 {
        let key = format!("event-{round}");
        let (first, second) = tokio::join!(outside.call(&one, &key), outside.call(&two, &key));
        assert_eq!(first.unwrap(), second.unwrap());
        assert_eq!(outside.made(), round + 1);
    }
}

/// A client library, a platform and a webhook sender each retry on their own.
#[tokio::test]
async fn req_r8_stacked_retries_are_one_effect() {
    let ledger = Ledger::new();
    let outside = Outside::default();
    let (mut answers, mut sends) = (Vec::new(), 0);
    for _redelivery in 0..3 {
        let semel = ledger.open().await;
        for _platform in 0..3 {
            let flaky = outside.clone();
            let effect = semel.effect("charge").key("order-7").contract(NativeKey::hours(24));
            let call = effect.retry(QUICK).call(move |intent| {
                let (flaky, first) = (flaky.clone(), intent.attempt() < 3);
                intent.downstream_key();
                async move {
                    // The client library retries, too, and the provider honours the key.
                    let made = if flaky.made() == 0 { flaky.make() } else { "T-1".into() };
                    if first { Err(Failure::unknown("cut")) } else { Ok(made) }
                }
            });
            answers.push(call.await.unwrap());
            sends = semel.find("charge", "order-7").await.unwrap().unwrap().attempts.len();
        }
    }
    assert!(answers.iter().all(|answer| answer == "T-1"));
    assert_eq!((answers.len(), sends, outside.made()), (9, 3, 1));
}

#[tokio::test]
async fn a_caller_with_a_timeout_detaches_and_cuts_nothing() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let outside = Outside::default();
    let counted = outside.clone();
    let call = semel.effect("ticket").key("42").retry(Retry::NONE).call(move |_| {
        let counted = counted.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(30)).await;
            Ok::<_, Failure>(counted.make())
        }
    });
    assert!(tokio::time::timeout(Duration::from_millis(10), call).await.is_err());
    assert_eq!(outside.call(&semel, "42").await.unwrap(), "T-1");
    assert_eq!(outside.made(), 1);
}

/// Whenever the caller leaves, the ledger is never left with a doubt about nothing.
#[tokio::test]
async fn a_caller_that_leaves_at_any_moment_leaves_a_clean_row() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    for micros in (0..3_000).step_by(60) {
        let (key, outside) = (format!("k{micros}"), Outside::default());
        let call = outside.call(&semel, &key);
        let _gone = tokio::time::timeout(Duration::from_micros(micros), call).await;
        assert_eq!(outside.call(&semel, &key).await.unwrap(), "T-1", "after {micros} us");
        assert_eq!(state(&semel, "ticket", &key).await, State::Done);
    }
}
