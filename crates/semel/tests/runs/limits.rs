//! How many may be under way at once, and how fast.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use semel::{Code, Context, Error, Failure, Mode, NativeKey, RunState, Semel};
use serde_json::json;

use crate::common::{Count, Place, reaches};

#[derive(Clone, Default)]
struct Crowd {
    inside: Arc<AtomicI32>,
    most: Arc<AtomicI32>,
}

async fn busy(ctx: Context, crowd: Crowd) -> Result<(), Error> {
    let step = ctx.step("work", move || {
        let crowd = crowd.clone();
        async move {
            let inside = crowd.inside.fetch_add(1, Ordering::SeqCst) + 1;
            crowd.most.fetch_max(inside, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            crowd.inside.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, Failure>(())
        }
    });
    step.await
}

async fn held(ctx: Context, _: serde_json::Value) -> Result<(), Error> {
    ctx.wait_for_signal("go").await
}

#[tokio::test(flavor = "multi_thread")]
async fn req_c6_at_most_so_many_runs_of_a_workflow_are_under_way() {
    let (place, crowd) = (Place::new(), Crowd::default());
    let semel = place.open().await;
    let inside = crowd.clone();
    let code = move |ctx: Context, ()| busy(ctx, inside.clone());
    semel.worker().workflow("busy", code).limit(3).start().unwrap();
    let mut runs = Vec::new();
    for number in 0..30 {
        runs.push(semel.start("busy").key(format!("{number}")).input(&()).run().await.unwrap());
    }
    for run in &runs {
        run.result::<()>().await.unwrap();
    }
    assert!((1..=3).contains(&crowd.most.load(Ordering::SeqCst)), "{crowd:?}", crowd = crowd.most);
}

async fn keyed(mode: Mode) -> (Place, Semel) {
    let place = Place::new();
    let semel = place.open().await;
    let worker = semel.worker().workflow("held", held).one_per("{customer}", mode);
    worker.start().unwrap();
    (place, semel)
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_one_key_queue_in_the_order_in_which_they_came() {
    let (_place, semel) = keyed(Mode::Queue).await;
    let input = json!({"customer": "acme"});
    let mut runs = Vec::new();
    for number in 0..4 {
        let start = semel.start("held").key(format!("{number}")).input(&input);
        runs.push(start.run().await.unwrap());
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    let other = semel.start("held").key("other").input(&json!({"customer": "b"})).run();
    let other = other.await.unwrap();
    reaches(&other, RunState::Waiting).await;
    assert_eq!(other.status().await.unwrap().waits_on().as_deref(), Some("signal go"));
    for (place, run) in runs.iter().enumerate() {
        let waits = || async { run.status().await.unwrap().waits_on() };
        for later in &runs[place + 1..] {
            let on = later.status().await.unwrap().waits_on();
            assert_eq!(on.as_deref(), Some("slot held/acme"));
        }
        run.signal("go", "1", &()).await.unwrap();
        run.result::<()>().await.unwrap();
        assert_eq!(waits().await, None);
        if let Some(next) = runs.get(place + 1) {
            for _ in 0..200 {
                let on = next.status().await.unwrap().waits_on();
                if on.as_deref() == Some("signal go") {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let on = next.status().await.unwrap().waits_on();
            assert_eq!(on.as_deref(), Some("signal go"));
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_key_is_taken_is_rejected_or_coalesced_at_its_start() {
    let (_place, semel) = keyed(Mode::Reject).await;
    let input = json!({"customer": "acme"});
    let first = semel.start("held").key("1").input(&input).run().await.unwrap();
    let refused = semel.start("held").key("2").input(&input).run().await.err().unwrap();
    assert_eq!(refused.code(), Code::ConcurrencyRejected);
    let again = semel.start("held").key("1").input(&input).run().await.unwrap();
    assert!(again.is_attached() && again.id() == first.id(), "the same start is no other run");
    first.signal("go", "1", &()).await.unwrap();
    first.result::<()>().await.unwrap();
    let second = semel.start("held").key("2").input(&input).run().await.unwrap();
    assert!(!second.is_attached());

    let (_place, semel) = keyed(Mode::Coalesce).await;
    let first = semel.start("held").key("1").input(&input).run().await.unwrap();
    let second = semel.start("held").key("2").input(&input).run().await.unwrap();
    assert!(second.is_attached());
    assert_eq!(first.id(), second.id());
    let missing = semel.start("held").key("3").input(&json!({"x": 1})).run().await.err().unwrap();
    assert_eq!(missing.code(), Code::InputInvalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_run_may_be_cancelled_and_a_slot_outlasts_a_restart() {
    let (place, semel) = keyed(Mode::Queue).await;
    let input = json!({"customer": "acme"});
    let mut ids = Vec::new();
    for number in 0..3 {
        let run = semel.start("held").key(format!("{number}")).input(&input).run().await.unwrap();
        ids.push(run.id().to_owned());
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
    drop(semel);
    let semel = place.open().await;
    let worker = semel.worker().workflow("held", held).one_per("{customer}", Mode::Queue);
    worker.start().unwrap();
    let [first, second, third] = [0, 1, 2].map(|place| semel.run(&ids[place]));
    second.cancel("ann", "no").await.unwrap();
    assert_eq!(second.result::<()>().await.unwrap_err().code(), Code::Cancelled);
    assert_eq!(third.status().await.unwrap().waits_on().as_deref(), Some("slot held/acme"));
    first.cancel("ann", "no").await.unwrap();
    third.signal("go", "1", &()).await.unwrap();
    third.result::<()>().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sends_of_an_action_keep_to_its_rate_and_repeats_do_not_count() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let call = |key: String| {
        let (semel, sent) = (semel.clone(), sent.clone());
        async move {
            let effect = semel.effect("mail").key(key).contract(NativeKey::hours(1));
            let effect = effect.rate(5, Duration::from_millis(500));
            let receipt = effect.call(move |intent| {
                let _key = intent.downstream_key();
                let number = sent.up();
                async move { Ok::<_, Failure>(number) }
            });
            receipt.await
        }
    };
    let began = Instant::now();
    let calls = (0..15).map(|number| call(format!("{number}")));
    let all = futures_util::future::join_all(calls).await;
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!(sent.get(), 15);
    assert!(began.elapsed() >= Duration::from_millis(900), "{:?}", began.elapsed());
    let began = Instant::now();
    for _ in 0..50 {
        call("3".to_owned()).await.unwrap();
    }
    assert_eq!(sent.get(), 15, "repeats send nothing, and wait for nothing");
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_over_the_rate_is_parked_and_goes_on() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = sent.clone();
    let code = move |ctx: Context, number: u32| {
        let count = count.clone();
        async move {
            let effect = ctx.effect("mail").key(number.to_string());
            effect
                .rate(1, Duration::from_millis(300))
                .call(move |_| {
                    let number = count.up();
                    async move { Ok::<_, Failure>(number) }
                })
                .await
        }
    };
    semel.worker().workflow("mail", code).start().unwrap();
    let mut runs = Vec::new();
    for number in 0..4_u32 {
        runs.push(semel.start("mail").key(number.to_string()).input(&number).run().await.unwrap());
    }
    for run in &runs {
        run.result::<u32>().await.unwrap();
    }
    assert_eq!(sent.get(), 4);
    let mut began = Vec::new();
    for number in 0..4 {
        let effect = semel.find("mail", number.to_string()).await.unwrap().unwrap();
        began.extend(effect.attempts.iter().map(|attempt| attempt.began_at.ms));
    }
    began.sort_unstable();
    assert!(began.windows(2).all(|pair| pair[1] - pair[0] >= 300), "{began:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i14_who_leaves_at_the_moment_somebody_queues_lets_them_in() {
    let place = Place::new();
    let semel = place.open().await;
    let code = |ctx: Context, ()| async move { ctx.step("s", || async { Ok(1) }).await };
    semel.worker().workflow("quick", code).limit(1).start().unwrap();
    for round in 0..60 {
        let starts = (0..3).map(|number| {
            let start = semel.start("quick").key(format!("{round}-{number}")).input(&());
            start.run()
        });
        for run in futures_util::future::join_all(starts).await {
            let run = run.unwrap();
            let ended = tokio::time::timeout(Duration::from_secs(10), run.result::<i32>()).await;
            let waits_on = run.status().await.unwrap().waits_on();
            assert!(ended.is_ok(), "round {round}: {waits_on:?}");
        }
    }
}
