//! One run from its start to its end.

use std::time::Duration;

use semel::{Code, Context, Error, Failure, NativeKey, RunState};

use crate::common::{AT_ONCE, Count, Place, entries, reaches};

async fn add(ctx: Context, (a, b): (u32, u32)) -> Result<u32, Error> {
    let twice = ctx.step("twice", move || async move { Ok(a * 2) }).await?;
    let more = ctx.step("more", move || async move { Ok(twice + b) }).await?;
    Ok(more)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_goes_through_its_steps_to_its_result() {
    let place = Place::new();
    let semel = place.open().await;
    semel.worker().workflow("add", add).start().unwrap();
    let run = semel.start("add").key("e-1").input(&(20, 2)).run().await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 42);
    assert_eq!(run.state().await.unwrap(), RunState::Done);
    assert_eq!(entries(&semel, &run).await, ["started", "taken", "step", "step", "finished"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_t2_a_second_trigger_gets_the_first_run_and_its_result() {
    let place = Place::new();
    let semel = place.open().await;
    semel.worker().workflow("add", add).start().unwrap();
    let first = semel.start("add").key("e-1").input(&(20, 2)).run().await.unwrap();
    let again = semel.start("add").key("e-1").input(&(20, 2)).run().await.unwrap();
    assert_eq!((first.id(), first.is_attached()), (again.id(), false));
    assert!(again.is_attached());
    assert_eq!(again.result::<u32>().await.unwrap(), 42);
    let other = semel.start("add").key("e-1").input(&(1, 1)).run().await.err().unwrap();
    assert_eq!(other.code(), Code::InputChanged);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_effect_in_a_run_and_one_called_alone_are_the_same_row() {
    let place = Place::new();
    let semel = place.open().await;
    let sent = Count::default();
    let count = sent.clone();
    let ticket = move |ctx: Context, id: String| {
        let count = count.clone();
        async move {
            let effect = ctx.effect("crm-ticket").key([id]).contract(NativeKey::hours(24));
            effect
                .call(move |intent| {
                    let _ = intent.downstream_key();
                    let number = count.up();
                    async move { Ok::<_, Failure>(format!("T-{number}")) }
                })
                .await
        }
    };
    semel.worker().workflow("ticket", ticket).start().unwrap();
    let run = semel.start("ticket").key("e-1").input("42").run().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "T-1");
    let alone = semel.effect("crm-ticket").key(["42"]).contract(NativeKey::hours(24));
    let alone: String = alone.call(|_| async { Ok("T-x".to_owned()) }).await.unwrap();
    assert_eq!((alone.as_str(), sent.get()), ("T-1", 1));
    let row = semel.find("crm-ticket", "42").await.unwrap().unwrap();
    assert_eq!(row.run.as_deref(), Some(run.id()));
    assert_eq!(row.workflow.as_deref(), Some("ticket"));
    assert_eq!(entries(&semel, &run).await, ["started", "taken", "planned", "effect", "finished"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_run_is_woken_by_its_signal_and_by_its_timer() {
    let place = Place::new();
    let semel = place.open().await;
    let wait = |ctx: Context, (): ()| async move {
        let word: String = ctx.wait_for_signal("word").await?;
        ctx.sleep(Duration::from_millis(1_200)).await?;
        let none: Option<String> =
            ctx.wait_for_signal_within("never", Duration::from_millis(20)).await?;
        assert_eq!(none, None);
        Ok(word)
    };
    semel.worker().workflow("wait", wait).start().unwrap();
    let run = semel.start("wait").key("e-1").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    assert!(!run.signal("word", "d-1", "hello").await.unwrap().repeated);
    assert!(run.signal("word", "d-1", "hello").await.unwrap().repeated);
    assert_eq!(run.signal("word", "d-1", "other").await.unwrap_err().code(), Code::InputChanged);
    assert_eq!(run.result::<String>().await.unwrap(), "hello");
    let names = entries(&semel, &run).await;
    let told: Vec<_> = names.into_iter().filter(|name| *name != "taken").collect();
    assert_eq!(told, ["started", "received", "fired", "timed_out", "finished"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_v1_a_failed_attempt_and_its_retry_are_both_in_the_trace() {
    let place = Place::new();
    let semel = place.open().await;
    let tries = Count::default();
    let count = tries.clone();
    let flaky = move |ctx: Context, (): ()| {
        let count = count.clone();
        let step = ctx.step("flaky", move || {
            let attempt = count.up();
            async move { if attempt < 3 { Err(Failure::unknown("no luck")) } else { Ok(attempt) } }
        });
        async move { step.retry(AT_ONCE).await }
    };
    semel.worker().workflow("flaky", flaky).start().unwrap();
    let run = semel.start("flaky").key("e-1").input(&()).run().await.unwrap();
    assert_eq!(run.result::<u32>().await.unwrap(), 3);
    let names = entries(&semel, &run).await;
    assert_eq!(names, ["started", "taken", "step_failed", "step_failed", "step", "finished"]);
}
