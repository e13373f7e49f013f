//! Effects of a run that are in doubt, in progress elsewhere, or abandoned by the code.

use std::time::Duration;

use semel::{Code, Context, Error, Failure, NativeKey, OnDoubt, Retry, RunState, Semel};
use semel_core::effect::{Person, Resolution, State};
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};

use crate::common::{Count, Place, entries, reaches};

fn mail() -> Address {
    Address {
        namespace: Namespace::default(),
        action: Action::new("mail").unwrap(),
        key: Key::from_text("k").unwrap(),
    }
}

async fn resolve(semel: &Semel, resolution: &Resolution) {
    let version = semel.engine().effect(&mail()).await.unwrap().version;
    let person = Person { actor: "ann".into(), reason: "looked".into(), version };
    semel.engine().resolve(&mail(), &person, resolution).await.unwrap();
}

/// Sends a mail whose answer never comes.
async fn cut(ctx: Context, (): ()) -> Result<String, Error> {
    let send = ctx.effect("mail").key(["k"]);
    send.call(|_| async { Err::<String, _>(Failure::unknown("the connection was cut")) }).await
}

#[tokio::test(flavor = "multi_thread")]
async fn req_l11_a_run_waits_for_a_person_and_is_woken_by_the_decision() {
    let place = Place::new();
    let semel = place.open().await;
    semel.worker().workflow("w", cut).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    let status = run.status().await.unwrap();
    assert_eq!(status.waits_on().as_deref(), Some("effect mail/k"));
    assert_eq!(semel.engine().effect(&mail()).await.unwrap().waiters, [run.id()]);

    let receipt = Json::from_text("\"M-7\"").unwrap();
    resolve(&semel, &Resolution::Done(receipt)).await;
    assert_eq!(run.result::<String>().await.unwrap(), "M-7");
    assert!(semel.engine().effect(&mail()).await.unwrap().waiters.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_decision_that_it_failed_reaches_the_code_as_an_error() {
    let place = Place::new();
    let semel = place.open().await;
    semel.worker().workflow("w", cut).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    resolve(&semel, &Resolution::Failed).await;
    assert_eq!(run.result::<String>().await.unwrap_err().code(), Code::EffectFailed);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workflow_may_go_on_with_the_doubt() {
    let place = Place::new();
    let semel = place.open().await;
    let go_on = |ctx: Context, ()| async move {
        let send = ctx.effect("mail").key(["k"]).on_doubt(OnDoubt::Continue);
        let sent = send.call(|_| async { Err::<String, _>(Failure::unknown("cut")) }).await;
        Ok(sent.unwrap_err().code() == Code::InDoubt)
    };
    semel.worker().workflow("w", go_on).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    assert!(run.result::<bool>().await.unwrap());
    let now = semel.engine().store().ground().now;
    let left = semel.engine().effect(&mail()).await.unwrap();
    assert_eq!(left.state(&now), State::InDoubt, "it stays listed");
}

#[tokio::test(flavor = "multi_thread")]
async fn req_s5_a_lost_answer_is_resent_under_the_same_key_and_both_attempts_are_kept() {
    let (place, sent) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = sent.clone();
    let create = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let quick = Retry { delay_ms: 1, ..Retry::default() };
            let effect = ctx.effect("mail").key(["k"]).contract(NativeKey::hours(24)).retry(quick);
            let created = effect.call(move |intent| {
                let key = intent.downstream_key().to_owned();
                let number = count.up();
                async move { if number == 1 { Err(Failure::unknown("cut")) } else { Ok(key) } }
            });
            created.await
        }
    };
    semel.worker().workflow("w", create).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    let key = run.result::<String>().await.unwrap();
    let row = semel.engine().effect(&mail()).await.unwrap();
    assert_eq!(row.plan.unwrap().downstream_key, key);
    assert_eq!((row.attempts.len(), sent.get()), (2, 2));
}

type Boxed<'a> = std::pin::Pin<Box<dyn Future<Output = Result<u32, Error>> + Send + 'a>>;

/// A send that takes a while, and counts when it has landed.
fn slow_mail(ctx: &Context, landed: Count) -> impl Future<Output = Result<u32, Error>> + use<'_> {
    ctx.effect("mail").key(["k"]).call(move |_| {
        let landed = landed.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(400)).await;
            Ok::<_, Failure>(landed.up())
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_race_loses_no_receipt() {
    let (place, landed) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = landed.clone();
    let race = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let send = Box::pin(slow_mail(&ctx, count));
            let patience = Box::pin(async {
                ctx.sleep(Duration::from_millis(50)).await?;
                Ok(0)
            });
            let futures: [Boxed; 2] = [send, patience];
            let (first, _) = ctx.race(futures).await;
            Ok(first)
        }
    };
    semel.worker().workflow("w", race).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    assert_eq!(run.result::<usize>().await.unwrap(), 1, "the timer won");
    assert_eq!(landed.get(), 1, "the run ended only when the send was settled");
    let row = semel.engine().effect(&mail()).await.unwrap();
    assert_eq!(row.receipt().unwrap().text(), "1");
    let names = entries(&semel, &run).await;
    assert_eq!(names, ["started", "taken", "planned", "fired", "effect", "finished"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i29_a_cancel_during_a_send_waits_for_its_receipt() {
    let (place, landed) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = landed.clone();
    let send = move |ctx: Context, ()| {
        let count = count.clone();
        async move { slow_mail(&ctx, count).await }
    };
    semel.worker().workflow("w", send).start().unwrap();
    let run = semel.start("w").key("k").input(&()).run().await.unwrap();
    while semel.find("mail", "k").await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let state = run.cancel("ann", "stop").await.unwrap();
    assert_eq!(state, RunState::Cancelling);
    reaches(&run, RunState::Cancelled).await;
    assert_eq!(landed.get(), 1);
    let row = semel.engine().effect(&mail()).await.unwrap();
    assert_eq!(row.receipt().unwrap().text(), "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn two_runs_that_reach_one_effect_get_one_receipt() {
    let (place, landed) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = landed.clone();
    let send = move |ctx: Context, _: u32| {
        let count = count.clone();
        async move { slow_mail(&ctx, count).await }
    };
    semel.worker().workflow("w", send).start().unwrap();
    let first = semel.start("w").key("a").input(&1).run().await.unwrap();
    let second = semel.start("w").key("b").input(&2).run().await.unwrap();
    assert_eq!(first.result::<u32>().await.unwrap(), 1);
    assert_eq!(second.result::<u32>().await.unwrap(), 1);
    assert_eq!(landed.get(), 1);
}
