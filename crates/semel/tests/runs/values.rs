//! What the code may observe: model answers, time, chance and large values.

use std::time::Duration;

use semel::{Code, Context, Failure, RunState};
use serde_json::json;

use crate::common::{Count, Place, entries, reaches};

#[tokio::test(flavor = "multi_thread")]
async fn req_m1_the_same_request_is_asked_once_in_a_run() {
    let (place, asked) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = asked.clone();
    let ask = move |ctx: Context, ()| {
        let count = count.clone();
        async move {
            let model = |request: serde_json::Value| {
                let count = count.clone();
                let call = ctx.model("classify", &request, move || {
                    let number = count.up();
                    async move { Ok::<_, Failure>(format!("answer {number}")) }
                });
                call.into_future()
            };
            let first = model(json!({ "model": "m", "prompt": "p" })).await?;
            // Other order of members, the same request.
            let same = model(json!({ "prompt": "p", "model": "m" })).await?;
            let both = ctx
                .gather([model(json!({ "prompt": "q" })), model(json!({ "prompt": "q" }))])
                .await;
            ctx.wait_for_signal::<()>("go").await?;
            let after = model(json!({ "prompt": "q" })).await?;
            let mut all = vec![first, same];
            for answer in both {
                all.push(answer?);
            }
            all.push(after);
            Ok(all)
        }
    };
    semel.worker().workflow("ask", ask).start().unwrap();
    let run = semel.start("ask").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    run.signal("go", "go", &()).await.unwrap();
    let answers = run.result::<Vec<String>>().await.unwrap();
    assert_eq!(answers, ["answer 1", "answer 1", "answer 2", "answer 2", "answer 2"]);
    assert_eq!(asked.get(), 2);
    let names = entries(&semel, &run).await;
    assert_eq!(names.iter().filter(|name| **name == "step").count(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn time_and_chance_are_the_same_in_replay() {
    let (place, lives) = (Place::new(), Count::default());
    let semel = place.open().await;
    let count = lives.clone();
    let observe = move |ctx: Context, ()| {
        count.up();
        async move {
            let before = (ctx.now(), ctx.random(), ctx.uuid());
            assert!((0.0..1.0).contains(&before.1), "{}", before.1);
            assert_ne!(ctx.uuid(), before.2);
            let kept = ctx.step("keep", move || async move { Ok::<_, Failure>(before) }).await?;
            ctx.wait_for_signal::<()>("go").await?;
            Ok(kept == before)
        }
    };
    semel.worker().workflow("observe", observe).start().unwrap();
    let run = semel.start("observe").key("k").input(&()).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    run.signal("go", "go", &()).await.unwrap();
    assert!(run.result::<bool>().await.unwrap());
    assert_eq!(lives.get(), 2);
}

/// Nothing else keeps this text: it must reach the store before the code can have it.
#[tokio::test(flavor = "multi_thread")]
async fn req_l21_a_large_value_that_only_a_step_made_comes_back_at_once() {
    let place = Place::new();
    let semel = place.open().await;
    let made = Count::default();
    let count = made.clone();
    let large = move |ctx: Context, (): ()| {
        let count = count.clone();
        let step = ctx.step("make", move || {
            count.up();
            async { Ok::<_, Failure>("x".repeat(600_000)) }
        });
        async move {
            let text: String = step.await?;
            Ok(text.len())
        }
    };
    semel.worker().workflow("large", large).start().unwrap();
    let run = semel.start("large").key("k").input(&()).run().await.unwrap();
    let result = run.result::<usize>();
    let result = tokio::time::timeout(Duration::from_secs(20), result).await;
    assert_eq!(result.expect("without a second try").unwrap(), 600_000);
    assert_eq!(made.get(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn req_l21_large_values_are_kept_beside_the_journal_and_come_back() {
    let place = Place::new();
    let semel = place.open().await;
    let large = |ctx: Context, input: String| async move {
        let copy = input.clone();
        let step = ctx.step("copy", move || {
            let copy = copy.clone();
            async move { Ok::<_, Failure>(copy) }
        });
        let value: String = step.await?;
        let sent: String = ctx.wait_for_signal("go").await?;
        assert_eq!(value, input);
        assert_eq!(value.len(), sent.len());
        Ok(value)
    };
    semel.worker().workflow("large", large).start().unwrap();
    let text = "x".repeat(600_000);
    let run = semel.start("large").key("k").input(&text).run().await.unwrap();
    reaches(&run, RunState::Waiting).await;
    run.signal("go", "go", &"y".repeat(600_000)).await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), text);
    let status = run.status().await.unwrap();
    let journal = semel.engine().journal(&status).await.unwrap();
    assert!(journal.iter().all(|entry| entry.text.len() < 1_000), "entries stay small");
    let beyond = "x".repeat(2_000_000);
    let refused = semel.start("large").key("more").input(&beyond).run().await.err().unwrap();
    assert_eq!(refused.code(), Code::InputInvalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_or_id_that_cannot_be_kept_is_refused() {
    let place = Place::new();
    let semel = place.open().await;
    let named = |ctx: Context, ()| async move {
        let hash = ctx.step("a#b", || async { Ok::<_, Failure>(1) }).await.unwrap_err().code();
        ctx.step("x", || async { Ok::<_, Failure>(1) }).id("mine").await?;
        let again = ctx.step("y", || async { Ok::<_, Failure>(1) }).id("mine").await;
        Ok([hash.as_str(), again.unwrap_err().code().as_str()].join(" "))
    };
    semel.worker().workflow("named", named).start().unwrap();
    let run = semel.start("named").key("k").input(&()).run().await.unwrap();
    assert_eq!(run.result::<String>().await.unwrap(), "name_invalid step_repeated");
}
