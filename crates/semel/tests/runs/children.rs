//! Children: runs that a run starts and waits for.

use std::time::Duration;

use semel::{Code, Context, Error, Failure, RunState, Semel};

use crate::common::{Count, Place, entries, reaches};

async fn double(ctx: Context, number: u32) -> Result<u32, Error> {
    ctx.step("double", move || async move { Ok(number * 2) }).await
}

async fn waits(ctx: Context, (): ()) -> Result<String, Error> {
    ctx.wait_for_signal("go").await
}

async fn fails(_: Context, (): ()) -> Result<(), Error> {
    Err(Error::new(Code::RunFailed, "out of paper"))
}

fn work(semel: &Semel) {
    let worker = semel.worker().workflow("double", double).workflow("waits", waits);
    worker.workflow("fails", fails).start().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_gives_its_result_and_a_fan_out_all_of_theirs() {
    let place = Place::new();
    let semel = place.open().await;
    work(&semel);
    let sum = |ctx: Context, numbers: Vec<u32>| async move {
        let each = numbers.iter().map(|number| ctx.child("double").input(number).result::<u32>());
        let all = ctx.gather(each).await;
        all.into_iter().sum::<Result<u32, _>>()
    };
    semel.worker().workflow("sum", sum).start().unwrap();
    let run = semel.start("sum").key("k").input(&[1, 2, 3, 4]).run().await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 20);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_parent_is_woken_by_the_end_of_its_child_over_restarts() {
    let place = Place::new();
    let parent = |ctx: Context, ()| async move {
        ctx.child("waits").key(["c"]).input(&()).result::<String>().await
    };
    let semel = place.open().await;
    work(&semel);
    semel.worker().workflow("parent", parent).start().unwrap();
    let run = semel.start("parent").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    let child = semel.start("waits").key("c").input(&()).run().await.unwrap();
    assert!(child.is_attached());
    assert_eq!(run.status().await.unwrap().waits_on(), Some(format!("run {}", child.id())));
    assert_eq!(child.status().await.unwrap().parent.as_deref(), Some(run.id()));
    let (id, child_id) = (run.id().to_owned(), child.id().to_owned());
    drop((run, child, semel));

    let semel = place.open().await;
    work(&semel);
    semel.worker().workflow("parent", parent).start().unwrap();
    semel.run(&child_id).signal("go", "1", "done").await.unwrap();
    assert_eq!(semel.run(&id).result::<String>().await.unwrap(), "done");
    let kinds = entries(&semel, &semel.run(&id)).await;
    assert_eq!(kinds.iter().filter(|kind| **kind == "child").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_fails_is_an_error_that_names_it() {
    let place = Place::new();
    let semel = place.open().await;
    work(&semel);
    let parent = |ctx: Context, ()| async move {
        let error = ctx.child("fails").key(["c"]).input(&()).result::<()>().await.unwrap_err();
        Ok((error.code().to_string(), error.detail().to_owned()))
    };
    semel.worker().workflow("parent", parent).start().unwrap();
    let run = semel.start("parent").key("k").input(&()).run().await.unwrap();
    let (code, detail) = run.result::<(String, String)>().await.unwrap();
    assert_eq!(code, "child_failed");
    assert!(detail.contains("fails/c") && detail.contains("out of paper"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i29_cancel_flows_down_and_the_parent_ends_last() {
    let place = Place::new();
    let semel = place.open().await;
    work(&semel);
    let parent = |ctx: Context, ()| async move {
        let inner = ctx.child("middle").key(["m"]).input(&());
        inner.result::<String>().await
    };
    let middle = |ctx: Context, ()| async move {
        ctx.child("waits").key(["c"]).input(&()).result::<String>().await
    };
    semel.worker().workflow("parent", parent).workflow("middle", middle).start().unwrap();
    let run = semel.start("parent").key("k").input(&()).run().await.unwrap();
    let leaf = loop {
        let runs = semel.engine().runs(&semel_store::RunQuery::everywhere(10)).await.unwrap().runs;
        if let Some(leaf) = runs.iter().find(|run| run.workflow == "waits")
            && leaf.state() == RunState::Waiting
        {
            break semel.run(&leaf.id);
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    reaches(&run, RunState::Waiting).await;
    run.cancel("ann", "no longer needed").await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap_err().code(), Code::Cancelled);
    assert_eq!(leaf.state().await.unwrap(), RunState::Cancelled);
    let ended = |run: semel::Run| run.ended.unwrap().at;
    assert!(ended(leaf.status().await.unwrap()) <= ended(run.status().await.unwrap()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_ends_before_a_parent_that_failed_without_waiting_for_it() {
    let place = Place::new();
    let semel = place.open().await;
    work(&semel);
    let parent = |ctx: Context, ()| async move {
        let waits = Box::pin(ctx.child("waits").key(["c"]).input(&()).result::<String>());
        let fails = Box::pin(async {
            ctx.sleep(Duration::from_millis(50)).await?;
            Ok::<_, Error>("slept".to_owned())
        });
        let futures: [futures_util::future::BoxFuture<'_, Result<String, Error>>; 2] =
            [waits, fails];
        ctx.race(futures).await.1?;
        Err::<(), _>(Error::new(Code::RunFailed, "no"))
    };
    semel.worker().workflow("parent", parent).start().unwrap();
    let run = semel.start("parent").key("k").input(&()).run().await.unwrap();
    assert_eq!(run.result::<()>().await.unwrap_err().code(), Code::RunFailed);
    let child = semel.start("waits").key("c").input(&()).run().await.unwrap();
    assert_eq!(child.state().await.unwrap(), RunState::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_elses_run_is_waited_for_but_not_cancelled() {
    let place = Place::new();
    let semel = place.open().await;
    work(&semel);
    let theirs = semel.start("waits").key("c").input(&()).run().await.unwrap();
    let parent = |ctx: Context, ()| async move {
        ctx.child("waits").key(["c"]).input(&()).result::<String>().await
    };
    semel.worker().workflow("parent", parent).start().unwrap();
    let run = semel.start("parent").key("k").input(&()).run().await.unwrap();
    let other = semel.start("parent").key("l").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    reaches(&other, RunState::Waiting).await;
    other.cancel("ann", "not needed").await.unwrap();
    assert_eq!(other.result::<String>().await.unwrap_err().code(), Code::Cancelled);
    reaches(&theirs, RunState::Waiting).await;
    theirs.signal("go", "1", "now").await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "now");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_has_no_longer_than_its_parent() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    work(&semel);
    let count = sent.clone();
    let parent = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let step = ctx.step("count", move || {
                count.up();
                async { Ok::<_, Failure>(()) }
            });
            step.await?;
            ctx.child("waits").key(["c"]).input(&()).result::<String>().await
        }
    };
    semel.worker().workflow("parent", parent).start().unwrap();
    let start = semel.start("parent").key("k").input(&()).deadline(Duration::from_millis(300));
    let run = start.run().await.unwrap();
    // Both have the same deadline: the parent may hear of its child's end first.
    let code = run.result::<String>().await.unwrap_err().code();
    assert!([Code::DeadlinePassed, Code::ChildFailed].contains(&code), "{code}");
    let child = semel.start("waits").key("c").input(&()).run().await.unwrap();
    assert!(child.state().await.unwrap().is_final());
    assert_eq!(sent.get(), 1);
}
