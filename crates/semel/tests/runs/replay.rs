//! Replaying: the same code goes on where it was, other code is stopped before it does harm.

use std::time::Duration;

use semel::{Code, Context, Error, Failure, RunHandle, RunState, Semel};

use crate::common::{Count, Place, entries, reaches};

/// Starts a run that waits for `go`, and returns it parked.
async fn parked<F, Fut>(semel: &Semel, code: F) -> RunHandle
where
    F: Fn(Context, ()) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<u32, Error>> + Send + 'static,
{
    semel.worker().workflow("w", code).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    run
}

async fn go(run: &RunHandle) {
    run.signal("go", "go", &()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn req_m2_what_was_done_before_a_wait_is_not_done_again_after_it() {
    let (place, done) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = done.clone();
    let run = parked(&semel, move |ctx, ()| {
        let count = count.clone();
        async move {
            let first = ctx.step("first", move || {
                let number = count.up();
                async move { Ok(number) }
            });
            let first = first.await?;
            ctx.wait_for_signal::<()>("go").await?;
            Ok(first)
        }
    })
    .await;
    go(&run).await;
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    assert_eq!(done.get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i12_changed_code_pauses_the_run_with_a_diff_and_sends_nothing() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let original = |ctx: Context, ()| async move {
        let one = ctx.step("one", || async { Ok(1) }).await?;
        ctx.wait_for_signal::<()>("go").await?;
        Ok(one)
    };
    let run = parked(&semel, original).await;
    let count = sent.clone();
    let changed = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let effect = ctx.effect("mail").key(["k"]);
            effect
                .call(move |_| {
                    let number = count.up();
                    async move { Ok::<_, Failure>(number) }
                })
                .await
        }
    };
    semel.worker().workflow("w", changed).start().unwrap();
    go(&run).await;
    reaches(&run, RunState::Paused).await;
    let pause = run.status().await.unwrap().paused.unwrap();
    assert_eq!(pause.code, "diverged");
    assert!(pause.detail.contains("- journal: one#0 (step)"), "{}", pause.detail);
    assert!(pause.detail.contains("+ code:    mail#0 (effect mail/k)"), "{}", pause.detail);
    assert_eq!(sent.get(), 0);
    assert_eq!(run.result::<u32>().await.unwrap_err().code(), Code::RunPaused);

    semel.worker().workflow("w", original).start().unwrap();
    run.retry("ann", "the old code is back").await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
    assert_eq!(sent.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn inserting_an_unrelated_step_before_an_open_wait_does_not_diverge() {
    let place = Place::new();
    let semel = place.open().await;
    let original = |ctx: Context, ()| async move {
        let one = ctx.step("one", || async { Ok(1) }).await?;
        ctx.wait_for_signal::<()>("go").await?;
        Ok(one)
    };
    let run = parked(&semel, original).await;
    let longer = |ctx: Context, ()| async move {
        let one = ctx.step("one", || async { Ok(1) }).await?;
        let ten = ctx.step("ten", || async { Ok(10) }).await?;
        ctx.wait_for_signal::<()>("go").await?;
        Ok(one + ten)
    };
    semel.worker().workflow("w", longer).start().unwrap();
    go(&run).await;
    assert_eq!(run.result::<u32>().await.unwrap(), 11);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_timer_keeps_its_time_when_a_step_is_inserted_before_it() {
    let place = Place::new();
    let semel = place.open().await;
    let nap = |ctx: Context, ()| async move {
        ctx.sleep(Duration::from_secs(3_600)).await?;
        Ok(1)
    };
    let run = parked(&semel, nap).await;
    let due = run.status().await.unwrap().waits[0].due;
    let longer = |ctx: Context, ()| async move {
        ctx.step("new", || async { Ok(()) }).await?;
        ctx.sleep(Duration::from_secs(3_600)).await?;
        Ok(1)
    };
    semel.worker().workflow("w", longer).start().unwrap();
    run.signal("anything", "wakes it", &()).await.unwrap();
    loop {
        if entries(&semel, &run).await.contains(&"step") {
            reaches(&run, RunState::Waiting).await;
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(run.status().await.unwrap().waits[0].due, due);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_k4_a_key_that_changes_between_replays_is_stopped_before_the_send() {
    let (place, sent, keys) = (Place::new(), Count::default(), Count::default());
    let semel = place.open().await;
    let (count, fresh) = (sent.clone(), keys.clone());
    // The first life plans the effect and is cut before it is begun: an approval, say, holds it.
    let unstable = move |ctx: Context, ()| {
        let (count, key) = (count.clone(), format!("k-{}", fresh.up()));
        async move {
            let send = ctx.effect("mail").key([key]).call(move |_| {
                let number = count.up();
                async move {
                    // In doubt: the run parks, and replays when somebody touches it.
                    if number > 0 { Err(Failure::unknown("cut")) } else { Ok(number) }
                }
            });
            send.await
        }
    };
    let run = parked(&semel, unstable).await;
    assert_eq!(sent.get(), 1);
    run.signal("anything", "wakes it", &()).await.unwrap();
    reaches(&run, RunState::Paused).await;
    let pause = run.status().await.unwrap().paused.unwrap();
    assert_eq!(pause.code, "unstable_key");
    assert!(pause.detail.contains("- journal: mail#0 (effect mail/k-1)"), "{}", pause.detail);
    assert!(pause.detail.contains("+ code:    mail#0 (effect mail/k-2)"), "{}", pause.detail);
    assert_eq!((sent.get(), keys.get()), (1, 2));
    assert!(semel.find("mail", "k-2").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn req_r6_a_body_that_reaches_outside_its_steps_is_paused() {
    let place = Place::new();
    let semel = place.open().await;
    let sleepy = |_ctx: Context, ()| async move {
        tokio::time::sleep(Duration::from_millis(5)).await;
        Ok(1_u32)
    };
    semel.worker().workflow("sleepy", sleepy).start().unwrap();
    let run = semel.start("sleepy").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    assert_eq!(run.status().await.unwrap().paused.unwrap().code, "foreign_await");

    // Beside a command of the run, too.
    let mixed = |ctx: Context, ()| async move {
        let slow = ctx.step("slow", || async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(1_u32)
        });
        let near = tokio::time::sleep(Duration::from_millis(20));
        tokio::select! { biased; slow = slow.into_future() => slow, () = near => Ok(2) }
    };
    semel.worker().workflow("mixed", mixed).start().unwrap();
    let run = semel.start("mixed").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    assert_eq!(run.status().await.unwrap().paused.unwrap().code, "foreign_await");
}

#[tokio::test(flavor = "multi_thread")]
async fn req_l13_an_effect_without_its_context_is_refused_in_a_body() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let (count, ledger) = (sent.clone(), semel.clone());
    let around = move |_ctx: Context, ()| {
        let (count, ledger) = (count.clone(), ledger.clone());
        async move {
            let send = ledger.effect("mail").key(["k"]).call(move |_| {
                let number = count.up();
                async move { Ok::<_, Failure>(number) }
            });
            send.await
        }
    };
    semel.worker().workflow("around", around).start().unwrap();
    let run = semel.start("around").key("k").input(&()).run().await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap_err().code(), Code::ForeignAwait);
    assert_eq!(sent.get(), 0);
    assert!(semel.find("mail", "k").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_in_the_body_pauses_and_the_mended_code_goes_on() {
    let place = Place::new();
    let semel = place.open().await;
    let broken = |ctx: Context, ()| async move {
        let one: u32 = ctx.step("one", || async { Ok(1) }).await?;
        assert!(one > 1, "a bug");
        Ok(one)
    };
    semel.worker().workflow("w", broken).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Paused).await;
    let pause = run.status().await.unwrap().paused.unwrap();
    assert_eq!(pause.code, "panicked");
    assert!(pause.detail.contains("tests/runs/replay.rs:"), "{}", pause.detail);
    assert!(pause.detail.ends_with(": a bug"), "{}", pause.detail);
    let mended = |ctx: Context, ()| async move { ctx.step("one", || async { Ok(9_u32) }).await };
    semel.worker().workflow("w", mended).start().unwrap();
    run.retry("ann", "mended").await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 1, "the recorded value stands");
}
