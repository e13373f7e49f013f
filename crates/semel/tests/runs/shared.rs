//! Where two features meet: deadlines and undos, drafts and plain starts, children and gates.

use std::time::Duration;

use semel::{Approval, Code, Context, Error, Failure, Mode, NativeKey, RunState};
use serde_json::json;

use crate::common::{Count, Place, entries, reaches};

#[tokio::test(flavor = "multi_thread")]
async fn an_undo_that_waits_longer_than_the_deadline_does_not_wake_its_run_for_ever() {
    let place = Place::new();
    let semel = place.open().await;
    let code = |ctx: Context, ()| async move {
        let undo = ctx.undo("refund").key(["7"]).approval(Approval::required());
        ctx.effect("charge")
            .key(["7"])
            .compensate_with(undo, |_, (): ()| async { Ok::<_, Failure>(()) })
            .call(|_| async { Ok::<_, Failure>(()) })
            .await?;
        Err::<(), _>(Error::new(Code::RunFailed, "no"))
    };
    semel.worker().workflow("w", code).start().unwrap();
    let start = semel.start("w").key("7").input(&()).deadline(Duration::from_millis(300));
    let run = start.run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let taken = entries(&semel, &run).await.iter().filter(|kind| **kind == "taken").count();
    assert!(taken <= 2, "taken {taken} times");
    let asked = semel.approvals().find("refund", ["7"]).await.unwrap();
    asked.approve("ann", "yes").await.unwrap();
    assert_eq!(run.result::<()>().await.unwrap_err().code(), Code::RunFailed);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_commands_on_one_held_effect_park_their_run() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = sent.clone();
    let code = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let both = (0..2).map(|_| {
                let count = count.clone();
                ctx.effect("mail").key(["7"]).approval(Approval::required()).call(move |_| {
                    let number = count.up();
                    async move { Ok::<_, Failure>(number) }
                })
            });
            ctx.gather(both.collect::<Vec<_>>()).await.into_iter().sum::<Result<u32, _>>()
        }
    };
    semel.worker().workflow("w", code).start().unwrap();
    let run = semel.start("w").key("7").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    let asked = semel.approvals().find("mail", ["7"]).await.unwrap();
    asked.approve("ann", "yes").await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 2, "one receipt, twice");
    assert_eq!(sent.get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_coalesced_child_is_answered_by_the_run_it_was_coalesced_with() {
    let place = Place::new();
    let semel = place.open().await;
    let waits = |ctx: Context, _: serde_json::Value| async move {
        ctx.wait_for_signal::<String>("go").await
    };
    let parent = |ctx: Context, ()| async move {
        let input = json!({ "customer": "acme" });
        ctx.child("waits").key(["c"]).input(&input).result::<String>().await
    };
    let worker = semel.worker().workflow("waits", waits).one_per("{customer}", Mode::Coalesce);
    worker.workflow("parent", parent).start().unwrap();
    let input = json!({ "customer": "acme" });
    let other = semel.start("waits").key("other").input(&input).run().await.unwrap();
    reaches(&other, RunState::Waiting).await;
    let run = semel.start("parent").key("1").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    other.signal("go", "1", "found").await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "found");
    let runs = semel.engine().runs(&semel_store::RunQuery::everywhere(10)).await.unwrap().runs;
    assert_eq!(runs.len(), 2, "no second run was started: {runs:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_draft_takes_no_live_run_even_where_nothing_is_live() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = sent.clone();
    let code = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let effect = ctx.effect("mail").key(["7"]);
            effect
                .call(move |_| {
                    let number = count.up();
                    async move { Ok::<_, Failure>(number) }
                })
                .await
        }
    };
    semel.worker().release("r1").draft().workflow("w", code).start().unwrap();
    let run = semel.start("w").key("7").input(&()).run().await.unwrap();
    semel.engine().turn().await.unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert_eq!(run.state().await.unwrap(), RunState::Ready, "nobody offers it yet");
    assert_eq!(sent.get(), 0);
    let namespace = semel_core::key::Namespace::default();
    semel.engine().promote(&namespace, "w", "r1", ("ann", "tried")).await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_does_not_take_back_what_somebody_elses_call_has_done() {
    let (place, undone) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = undone.clone();
    let code = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let effect = ctx.effect("charge").key(["7"]).contract(NativeKey::hours(1));
            effect
                .approval(Approval::required())
                .compensate_with(ctx.undo("refund").key(["7"]), move |_, _: String| {
                    count.up();
                    async { Ok::<_, Failure>(()) }
                })
                .call(|intent| {
                    let _key = intent.downstream_key();
                    async { Err::<String, _>(Failure::refused("never sent by this run")) }
                })
                .await?;
            Err::<(), _>(Error::new(Code::RunFailed, "no"))
        }
    };
    let working = semel.worker().workflow("w", code.clone()).start().unwrap();
    let run = semel.start("w").key("7").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    working.stop(Duration::from_secs(5)).await;
    let asked = semel.approvals().find("charge", ["7"]).await.unwrap();
    asked.approve("ann", "yes").await.unwrap();
    let theirs = semel.effect("charge").key(["7"]).contract(NativeKey::hours(1));
    let theirs = theirs.call(|intent| {
        let _key = intent.downstream_key();
        async { Ok::<_, Failure>("ch_1".to_owned()) }
    });
    assert_eq!(theirs.await.unwrap(), "ch_1");
    semel.worker().workflow("w", code).start().unwrap();
    assert_eq!(run.result::<()>().await.unwrap_err().code(), Code::RunFailed);
    assert_eq!(undone.get(), 0, "it was not this run's to take back");
}
