//! Several commands at once: gather, map and race.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use semel::{Context, Failure, RunState};

use crate::common::{Place, reaches};

#[tokio::test(flavor = "multi_thread")]
async fn gather_runs_all_at_once_and_keeps_their_order() {
    let place = Place::new();
    let semel = place.open().await;
    let all = |ctx: Context, count: u64| async move {
        let step = |number: u64| {
            ctx.step("s", move || async move {
                tokio::time::sleep(Duration::from_millis(50 - number)).await;
                Ok::<_, Failure>(number)
            })
        };
        let steps: Vec<_> = (0..count).map(|number| step(number).into_future()).collect();
        let values = ctx.gather(steps).await;
        ctx.wait_for_signal::<()>("go").await?;
        values.into_iter().collect::<Result<Vec<_>, _>>()
    };
    semel.worker().workflow("all", all).start().unwrap();
    let run = semel.start("all").key("k").input(&40).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    run.signal("go", "go", &()).await.unwrap();
    let got = run.result::<Vec<u64>>().await.unwrap();
    assert_eq!(got, (0..40).collect::<Vec<_>>(), "in replay, too");
}

#[tokio::test(flavor = "multi_thread")]
async fn map_keeps_its_bound() {
    let place = Place::new();
    let semel = place.open().await;
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let bounded = move |ctx: Context, count: u32| {
        let (open, most) = (open.clone(), most.clone());
        async move {
            let each = |number: u32| {
                let (open, most) = (open.clone(), most.clone());
                let step = ctx.step("s", move || {
                    let (open, most) = (open.clone(), most.clone());
                    async move {
                        most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        tokio::time::sleep(Duration::from_millis(5)).await;
                        open.fetch_sub(1, Ordering::SeqCst);
                        Ok::<_, Failure>(number * 2)
                    }
                });
                step.into_future()
            };
            ctx.map(0..count, 3, each).await.into_iter().collect::<Result<Vec<_>, _>>()
        }
    };
    semel.worker().workflow("bounded", bounded).start().unwrap();
    let run = semel.start("bounded").key("k").input(&20).run().await.unwrap();
    let got = run.result::<Vec<u32>>().await.unwrap();
    assert_eq!(got, (0..20).map(|number| number * 2).collect::<Vec<_>>());
    assert_eq!(seen.load(Ordering::SeqCst), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_s4_the_winner_of_a_race_is_the_same_in_replay() {
    let place = Place::new();
    let semel = place.open().await;
    let quick_second = Arc::new(AtomicUsize::new(0));
    let lives = quick_second.clone();
    let race = move |ctx: Context, ()| {
        let lives = lives.clone();
        async move {
            // In the second life the other step would be the quicker one.
            let life = lives.fetch_add(1, Ordering::SeqCst);
            let step = |number: usize| {
                ctx.step("s", move || async move {
                    let ms = if number == (life + 1) % 2 { 5 } else { 100 };
                    tokio::time::sleep(Duration::from_millis(ms)).await;
                    Ok::<_, Failure>(number)
                })
            };
            let steps: Vec<_> = (0..2).map(|number| step(number).into_future()).collect();
            let (winner, _) = ctx.race(steps).await;
            ctx.wait_for_signal::<()>("go").await?;
            Ok(winner)
        }
    };
    semel.worker().workflow("race", race).start().unwrap();
    let run = semel.start("race").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    run.signal("go", "go", &()).await.unwrap();
    assert_eq!(run.result::<usize>().await.unwrap(), 1);
    assert!(quick_second.load(Ordering::SeqCst) >= 2, "it was replayed");
}
