//! Signals, timers, cancels and deadlines.

use std::sync::Arc;
use std::time::{Duration, Instant};

use semel::{Code, Context, RunState};

use crate::common::{Count, Place, entries, reaches};

#[tokio::test(flavor = "multi_thread")]
async fn early_signals_are_kept_and_each_is_taken_once_in_order() {
    let place = Place::new();
    let semel = place.open().await;
    let run = semel.start("two").key("k").input(&()).run().await.unwrap();
    assert_eq!(run.state().await.unwrap(), RunState::Ready);
    run.signal("word", "a", "first").await.unwrap();
    run.signal("other", "b", "not this").await.unwrap();
    run.signal("word", "c", "second").await.unwrap();
    let two = |ctx: Context, ()| async move {
        let first: String = ctx.wait_for_signal("word").await?;
        let second: String = ctx.wait_for_signal("word").await?;
        let third: Option<String> =
            ctx.wait_for_signal_within("word", Duration::from_millis(1)).await?;
        Ok((first, second, third))
    };
    semel.worker().workflow("two", two).start().unwrap();
    let got = run.result::<(String, String, Option<String>)>().await.unwrap();
    assert_eq!(got, ("first".into(), "second".into(), None));
    let late = run.signal("word", "d", "late").await.unwrap_err();
    assert_eq!(late.code(), Code::RunFinished);
    assert!(run.signal("word", "a", "first").await.unwrap().repeated, "the first answer again");
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i13_a_wait_counts_from_when_the_code_asks_for_it() {
    let place = Place::new();
    crate::asked::a_wait_counts_from_when_the_code_asks(&place.open().await).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i13_a_timer_fires_once_and_never_early() {
    let place = Place::new();
    let semel = place.open().await;
    let nap = |ctx: Context, ()| async move {
        let before = ctx.now();
        ctx.sleep(Duration::from_millis(1_500)).await?;
        Ok(ctx.now().duration_since(before).unwrap_or_default().as_millis() as u64)
    };
    semel.worker().workflow("nap", nap).start().unwrap();
    let began = Instant::now();
    let run = semel.start("nap").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    let slept: u64 = run.result().await.unwrap();
    let elapsed = began.elapsed();
    assert!(slept >= 1_500, "{slept} ms");
    assert!(elapsed >= Duration::from_millis(1_500), "{elapsed:?}");
    assert!(elapsed < Duration::from_millis(3_500), "{elapsed:?}");
    let names = entries(&semel, &run).await;
    assert_eq!(names.iter().filter(|name| **name == "fired").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i29_cancel_ends_a_waiting_a_running_and_a_new_run() {
    let place = Place::new();
    let semel = place.open().await;
    let wait = |ctx: Context, ()| async move { ctx.wait_for_signal::<u32>("never").await };
    let work = |ctx: Context, ()| async move {
        let slow = ctx.step("slow", || async {
            tokio::time::sleep(Duration::from_secs(3_600)).await;
            Ok(1_u32)
        });
        slow.await
    };
    semel.worker().workflow("wait", wait).workflow("work", work).start().unwrap();
    let waiting = semel.start("wait").key("k").input(&()).run().await.unwrap();
    reaches(&waiting, RunState::Waiting).await;
    let working = semel.start("work").key("k").input(&()).run().await.unwrap();
    let nobody = semel.start("nobody-offers-this").key("k").input(&()).run().await.unwrap();
    for run in [&waiting, &working, &nobody] {
        run.cancel("ann", "no longer needed").await.unwrap();
        reaches(run, RunState::Cancelled).await;
        run.cancel("bob", "again").await.unwrap();
        let error = run.result::<u32>().await.unwrap_err();
        assert_eq!(error.code(), Code::Cancelled);
        assert!(error.detail().contains("no longer needed"), "the first asker stands: {error}");
        let names = entries(&semel, run).await;
        assert_eq!(names[names.len() - 2..], ["cancelling", "finished"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deadline_ends_a_run_that_waits_for_longer() {
    let place = Place::new();
    let semel = place.open().await;
    let wait = |ctx: Context, ()| async move { ctx.wait_for_signal::<u32>("never").await };
    semel.worker().workflow("wait", wait).start().unwrap();
    let start = semel.start("wait").key("k").input(&()).deadline(Duration::from_millis(300));
    let run = start.run().await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap_err().code(), Code::DeadlinePassed);
    assert_eq!(run.state().await.unwrap(), RunState::Failed);
}

#[tokio::test(flavor = "multi_thread")]
async fn bug_vercel_2848_a_storm_of_wakes_during_a_step_runs_it_once() {
    let (place, ran) = (Place::new(), Count::default());
    let semel = place.open().await;
    let (count, is_over) = (ran.clone(), Arc::new(tokio::sync::Notify::new()));
    let over = is_over.clone();
    let busy = move |ctx: Context, ()| {
        let (count, over) = (count.clone(), over.clone());
        async move {
            let step = ctx.step("busy", move || {
                let (number, over) = (count.up(), over.clone());
                async move {
                    over.notified().await;
                    Ok(number)
                }
            });
            let ran = step.await?;
            let mut taken = 0_u32;
            while ctx.wait_for_signal_within::<u32>("s", Duration::from_millis(1)).await?.is_some()
            {
                taken += 1;
            }
            Ok((ran, taken))
        }
    };
    semel.worker().workflow("busy", busy).start().unwrap();
    let run = semel.start("busy").key("k").input(&()).run().await.unwrap();
    for number in 0..50_u32 {
        run.signal("s", &format!("d-{number}"), &number).await.unwrap();
        run.signal("s", &format!("d-{number}"), &number).await.unwrap();
    }
    is_over.notify_one();
    assert_eq!(run.result::<(u32, u32)>().await.unwrap(), (1, 50));
    assert_eq!(ran.get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_stops_lets_its_runs_go_to_another() {
    let (place, ran) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = ran.clone();
    let steps = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            for _ in 0..5 {
                let count = count.clone();
                ctx.step("slow", move || {
                    let number = count.up();
                    async move {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        Ok(number)
                    }
                })
                .await?;
            }
            Ok(())
        }
    };
    let first = semel.worker().workflow("steps", steps.clone()).start().unwrap();
    let run = semel.start("steps").key("k").input(&()).run().await.unwrap();
    tokio::time::sleep(Duration::from_millis(150)).await;
    first.stop(Duration::from_secs(5)).await;
    assert_eq!(run.state().await.unwrap(), RunState::Ready);
    let so_far = ran.get();
    assert!((1..5).contains(&so_far), "{so_far} steps");

    let other = place.open().await;
    other.worker().workflow("steps", steps).start().unwrap();
    run.result::<()>().await.unwrap();
    assert_eq!(ran.get(), 5, "what was under way was recorded before the run was let go");
}
