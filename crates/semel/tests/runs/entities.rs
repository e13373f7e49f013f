//! Entities and callbacks: who may act, and who may answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use semel::{Code, Context, Error, Failure, RunState, Semel};

use crate::common::{Count, Place, entries, reaches};

/// Notes how many act at once, and under which fence.
#[derive(Clone, Default)]
struct Room {
    inside: Arc<AtomicI32>,
    most: Arc<AtomicI32>,
    last_fence: Arc<AtomicU64>,
}

impl Room {
    async fn act(self, fence: u64) {
        let inside = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(inside, Ordering::SeqCst);
        let before = self.last_fence.fetch_max(fence, Ordering::SeqCst);
        assert!(fence >= before, "fences grow");
        tokio::time::sleep(Duration::from_millis(5)).await;
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

fn work(semel: &Semel, room: &Room) {
    let room = room.clone();
    let code = move |ctx: Context, leaves: bool| {
        let room = room.clone();
        async move {
            let entity = ctx.entity("ticket:42").await?;
            let fence = entity.fence();
            let step = ctx.step("act", move || {
                let room = room.clone();
                async move {
                    room.act(fence).await;
                    Ok::<_, Failure>(())
                }
            });
            step.await?;
            if leaves {
                entity.leave().await?;
            }
            Ok::<_, Error>(fence)
        }
    };
    semel.worker().workflow("update", code).start().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn req_c5_beside_the_key_stands_a_rule_of_who_may_act() {
    let (place, room) = (Place::new(), Room::default());
    let semel = place.open().await;
    work(&semel, &room);
    let mut runs = Vec::new();
    for number in 0..20 {
        let start = semel.start("update").key(format!("{number}")).input(&(number % 2 == 0));
        runs.push(start.run().await.unwrap());
    }
    let mut fences = Vec::new();
    for run in &runs {
        fences.push(run.result::<u64>().await.unwrap());
    }
    assert_eq!(room.most.load(Ordering::SeqCst), 1, "one at a time");
    fences.sort_unstable();
    assert_eq!(fences, (1..=20).collect::<Vec<_>>(), "each grant has a fence of its own");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entity_is_held_over_a_restart_and_let_go_by_the_end() {
    let place = Place::new();
    let code = |ctx: Context, ()| async move {
        let entity = ctx.entity("ticket:42").await?;
        ctx.wait_for_signal::<()>("go").await?;
        Ok::<_, Error>(entity.fence())
    };
    let semel = place.open().await;
    semel.worker().workflow("hold", code).start().unwrap();
    let first = semel.start("hold").key("1").input(&()).run().await.unwrap();
    reaches(&first, RunState::Waiting).await;
    let second = semel.start("hold").key("2").input(&()).run().await.unwrap();
    reaches(&second, RunState::Waiting).await;
    let third = semel.start("hold").key("3").input(&()).run().await.unwrap();
    reaches(&third, RunState::Waiting).await;
    assert_eq!(second.status().await.unwrap().waits_on().as_deref(), Some("entity ticket:42"));
    let ids = [&first, &second, &third].map(|run| run.id().to_owned());
    drop((first, second, third, semel));

    let semel = place.open().await;
    semel.worker().workflow("hold", code).start().unwrap();
    let [first, second, third] = ids.map(|id| semel.run(&id));
    // The one that waits first is cancelled: the next in line gets it, not a gap.
    second.cancel("ann", "not needed").await.unwrap();
    first.signal("go", "1", &()).await.unwrap();
    third.signal("go", "3", &()).await.unwrap();
    assert_eq!(first.result::<u64>().await.unwrap(), 1);
    assert_eq!(third.result::<u64>().await.unwrap(), 2);
    assert_eq!(second.result::<u64>().await.unwrap_err().code(), Code::Cancelled);
    let kinds = entries(&semel, &third).await;
    assert_eq!(kinds.iter().filter(|kind| **kind == "entered").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_holder_lets_the_next_one_in() {
    let place = Place::new();
    let semel = place.open().await;
    let code = |ctx: Context, ()| async move {
        ctx.entity("ticket:42").await?;
        ctx.wait_for_signal::<()>("go").await
    };
    semel.worker().workflow("hold", code).start().unwrap();
    let first = semel.start("hold").key("1").input(&()).run().await.unwrap();
    reaches(&first, RunState::Waiting).await;
    let second = semel.start("hold").key("2").input(&()).run().await.unwrap();
    reaches(&second, RunState::Waiting).await;
    second.signal("go", "1", &()).await.unwrap();
    first.cancel("ann", "stuck").await.unwrap();
    second.result::<()>().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn req_a7_an_outside_agent_that_reports_twice_is_applied_once() {
    let (place, applied) = (Place::new(), Count::default());
    let (tell, mut told) = tokio::sync::mpsc::unbounded_channel::<String>();
    let code = {
        let applied = applied.clone();
        move |ctx: Context, ()| {
            let (applied, tell) = (applied.clone(), tell.clone());
            async move {
                let callback = ctx.callback("research").await?;
                let token = callback.token().to_owned();
                let send = ctx.effect("agent").key(["7"]).call(move |_| {
                    tell.send(token.clone()).unwrap();
                    async { Ok::<_, Failure>(()) }
                });
                send.await?;
                let report: String = callback.answer().await?;
                let step = ctx.step("apply", move || {
                    applied.up();
                    async { Ok::<_, Failure>(()) }
                });
                step.await?;
                Ok::<_, Error>(report)
            }
        }
    };
    let semel = place.open().await;
    semel.worker().workflow("agent", code.clone()).start().unwrap();
    let run = semel.start("agent").key("7").input(&()).run().await.unwrap();
    let token = told.recv().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    let id = run.id().to_owned();
    drop((run, semel));

    // Days later, in another process that knows the token only.
    let semel = place.open().await;
    assert!(!semel.call_back(&token, "found it").await.unwrap().repeated);
    assert!(semel.call_back(&token, "found it").await.unwrap().repeated);
    let other = semel.call_back(&token, "something else").await.unwrap_err();
    assert_eq!(other.code(), Code::InputChanged, "the first stands, the second is told");
    semel.worker().workflow("agent", code).start().unwrap();
    let run = semel.run(&id);
    assert_eq!(run.result::<String>().await.unwrap(), "found it");
    assert_eq!(applied.get(), 1);
    assert!(semel.call_back(&token, "found it").await.unwrap().repeated, "also after the end");
    assert_eq!(told.try_recv().ok(), None, "the agent was asked once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_nobody_gave_out_is_not_found() {
    let place = Place::new();
    let semel = place.open().await;
    for token in ["", "x", "default.", "default.0000", "other.1234", "~draft.1", "a.b.c\n"] {
        let error = semel.call_back(token, "x").await.unwrap_err();
        assert_eq!((error.code(), error.detail()), (Code::NotFound, "there is no such callback"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_does_not_come_in_time_is_none() {
    let place = Place::new();
    let semel = place.open().await;
    let code = |ctx: Context, ()| async move {
        let callback = ctx.callback("agent").await?;
        callback.answer_within::<String>(Duration::from_millis(30)).await
    };
    semel.worker().workflow("agent", code).start().unwrap();
    let run = semel.start("agent").key("7").input(&()).run().await.unwrap();
    assert_eq!(run.result::<Option<String>>().await.unwrap(), None);
}
