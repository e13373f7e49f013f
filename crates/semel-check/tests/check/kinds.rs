//! Workflows of all kinds of commands, and the outcomes that only a broken one has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use semel::{Code, Context, Error, Failure, Intent, Json, NativeKey};
use semel_check::double::{Double, Mode};
use semel_check::{Check, Response, Waiting};
use semel_core::check::{Fault, Outcome};
use serde_json::{Value, json};

/// Sends to a double that honours keys, with the key of the intent.
async fn post(url: String, intent: Intent) -> Result<Value, Failure> {
    let request = reqwest::Client::new().post(url);
    let request = request.header("idempotency-key", intent.downstream_key());
    let answer = request.body(intent.input().text().to_owned()).send().await;
    let answer = answer.map_err(Failure::unknown)?.error_for_status().map_err(Failure::unknown)?;
    answer.json().await.map_err(Failure::unknown)
}

async fn effect(ctx: &Context, action: &str, url: &str) -> Result<Value, Error> {
    let url = format!("{url}/{action}");
    ctx.effect(action)
        .key(["42"])
        .input(&json!({ "for": "42" }))
        .contract(NativeKey::hours(24))
        .call(move |intent| post(url.clone(), intent))
        .await
}

/// The size that the time of a check is promised for.
#[tokio::test]
async fn ten_steps_with_four_effects_are_checked_well_within_a_minute() {
    let double = Arc::new(Double::start(Mode::Keys).expect("a double"));
    let url = double.url();
    let code = move |ctx: Context, _: Value| {
        let url = url.clone();
        async move {
            for action in ["ticket", "invoice", "mail", "record"] {
                ctx.step("think", || async { Ok(1) }).await?;
                effect(&ctx, action, &url).await?;
            }
            ctx.step("count", || async { Ok(1) }).await?;
            ctx.step("tell", || async { Ok(1) }).await
        }
    };
    let report = Check::new("ten", code).double(&double).run().await;
    report.assert_ok();
    assert_eq!(report.sends.len(), 4);
    assert!(report.points.len() >= 36, "{:?}", report.points);
    assert_eq!(report.count(Outcome::InDoubt), 0);
    assert!(report.ms < 60_000, "{} ms", report.ms);
}

/// A run that sleeps, waits for a word, for a person, for an agent and for a child.
async fn of_all_kinds(ctx: Context, url: String) -> Result<String, Error> {
    ctx.sleep(Duration::from_secs(86_400)).await?;
    let word: String = ctx.wait_for_signal("word").await?;
    ctx.approve("go-on", &word).key(["42"]).await?;
    let callback = ctx.callback("agent").await?;
    let told: u32 = callback.answer().await?;
    let child: Value = ctx.child("child").input(&url).result().await?;
    Ok(format!("{word} {told} {child}"))
}

#[tokio::test]
async fn waits_of_all_kinds_are_answered_repeated_and_survive_every_death() {
    let double = Arc::new(Double::start(Mode::Keys).expect("a double"));
    let report = Check::new("kinds", of_all_kinds)
        .also(
            "child",
            |ctx: Context, url: String| async move { effect(&ctx, "ticket", &url).await },
        )
        .input(&double.url())
        .double(&double)
        .respond(|waiting| match waiting {
            Waiting::Signal(_) => Response::Value(Json::of("go").expect("JSON")),
            Waiting::Callback(_) => Response::Value(Json::of(&7).expect("JSON")),
            Waiting::Approval { .. } => Response::Yes,
        })
        .run()
        .await;
    report.assert_ok();
    for fault in [Fault::RepeatSignal, Fault::RepeatApproval, Fault::RepeatCallback] {
        assert!(report.verdicts.iter().any(|one| one.case.fault == fault), "{fault:?}");
    }
    assert_eq!(report.count(Outcome::Once), report.verdicts.len());
}

#[tokio::test]
async fn two_deaths_are_played_when_they_are_asked_for_and_the_budget_bounds_them() {
    let code = |ctx: Context, _: Value| async move { ctx.step("think", || async { Ok(1) }).await };
    let all = Check::new("pairs", code).pairs().run().await;
    all.assert_ok();
    let points = all.points.len();
    assert_eq!(all.kills(), points * 2 + points * (points + 1));
    let few = Check::new("pairs", code).pairs().budget(5).run().await;
    few.assert_ok();
    assert_eq!(few.verdicts.len() + few.left_out, all.verdicts.len());
    assert_eq!(few.verdicts.len(), 5);
}

#[tokio::test]
async fn a_key_that_changes_with_each_life_is_found() {
    let lives = Arc::new(AtomicU64::new(0));
    let code = move |ctx: Context, _: Value| {
        let number = lives.fetch_add(1, Ordering::SeqCst);
        async move {
            ctx.effect("ticket")
                .key([format!("life-{number}")])
                .contract(NativeKey::hours(24))
                .call(|intent| async move {
                    let _key = intent.downstream_key();
                    Ok::<_, Failure>(1)
                })
                .await
        }
    };
    let report = Check::new("unstable", code).run().await;
    assert!(!report.is_ok());
    assert!(report.count(Outcome::KeyChanged) > 0, "{}", report.text());
}

#[tokio::test]
async fn code_that_goes_another_way_after_a_restart_has_diverged() {
    let lives = Arc::new(AtomicU64::new(0));
    let code = move |ctx: Context, _: Value| {
        let name = format!("step-{}", lives.fetch_add(1, Ordering::SeqCst) % 2);
        async move {
            ctx.step(&name, || async { Ok(1) }).await?;
            ctx.step("last", || async { Ok(1) }).await
        }
    };
    let report = Check::new("wanders", code).run().await;
    assert!(report.count(Outcome::Diverged) > 0, "{}", report.text());
}

#[tokio::test]
async fn a_model_whose_answer_is_not_kept_is_paid_twice() {
    let asked = Arc::new(AtomicU64::new(0));
    let counts = asked.clone();
    let code = move |ctx: Context, _: Value| {
        // Asked by the body itself: each replay asks again.
        asked.fetch_add(1, Ordering::SeqCst);
        async move { ctx.step("use", || async { Ok(1) }).await }
    };
    let counter = move || counts.load(Ordering::SeqCst);
    let report = Check::new("careless", code).model("model", counter).run().await;
    assert!(report.count(Outcome::PaidTwice) > 0, "{}", report.text());
}

#[tokio::test]
async fn what_fails_undisturbed_and_what_waits_for_ever_is_told() {
    let late = |ctx: Context, _: Value| async move { ctx.wait_for_signal::<Value>("never").await };
    let waits = Check::new("waits", late).respond(|_| Response::Nothing).run().await;
    // It waits as it does undisturbed, so nothing went wrong.
    waits.assert_ok();
    let named = Check::new("no name", late).run().await;
    assert!(!named.is_ok());
    assert!(named.text().contains(Code::NameInvalid.as_str()), "{}", named.text());
}
