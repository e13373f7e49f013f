//! What people decide about runs and effects: a click that comes twice acts once.

use std::time::{Duration, Instant};

use semel::{Code, Context, Error, Failure, NativeKey, Retry, Semel};
use serde_json::{Value, json};

use crate::approvals::hold;
use crate::door::{Answer, Door, on_both};

/// A worker of a release: runs that wait, that fall, and that take back what they did.
async fn work(door: &Door, release: &'static str) {
    let semel = Semel::on(door.app.engine().clone());
    let worker = semel.worker().release(release);
    let worker = worker
        .workflow("wait", |ctx: Context, (): ()| async move {
            ctx.wait_for_signal::<Value>("go").await?;
            Ok::<_, Error>(())
        })
        .workflow("fall", |ctx: Context, (): ()| async move {
            let fall = || async { Err::<u32, _>(Failure::unknown("broken")) };
            let once = Retry { attempts_max: 1, ..Retry::default() };
            ctx.step("fall", fall).retry(once).await
        })
        .workflow("order", |ctx: Context, (): ()| async move { order(&ctx).await });
    drop(worker.start().unwrap());
    door.app.engine().announce().await.unwrap();
}

/// Charges, then fails, so that the charge is taken back.
async fn order(ctx: &Context) -> Result<(), Error> {
    let undo = ctx.undo("refund").key(["7"]).contract(NativeKey::hours(24));
    let charge = ctx.effect("charge").key(["7"]).input(&json!({ "cents": 700 }));
    let charge =
        charge.contract(NativeKey::hours(24)).compensate_with(undo, |intent, receipt: String| {
            let refund = format!("{receipt} back as {}", intent.downstream_key().len());
            async move { Ok::<_, Failure>(refund) }
        });
    let charged = charge.call(|intent| {
        let _key = intent.downstream_key();
        async { Ok::<_, Failure>("ch_1".to_owned()) }
    });
    charged.await?;
    Err(Error::new(Code::RunFailed, "nothing left to ship"))
}

fn why(reason: &str) -> Value {
    json!({ "reason": reason })
}

/// A body with one member more.
fn with(mut body: Value, name: &str, value: impl Into<Value>) -> Value {
    body[name] = value.into();
    body
}

/// Clicks for the first time.
async fn clicks(door: &Door, path: &str, body: &Value) -> Answer {
    let first = door.keyed(path, "click", body).await.is(200);
    assert_eq!(first.header("idempotent-replayed"), None, "{}", first.text);
    first
}

/// The same click again is answered and does nothing; its key does not carry another one.
async fn clicks_again(door: &Door, path: &str, body: &Value, verb: &str) -> Answer {
    let before = door.decided(verb).await;
    let again = door.keyed(path, "click", body).await.is(200);
    assert_eq!(again.header("idempotent-replayed"), Some("true"), "{}", again.text);
    let other = with(body.clone(), "reason", "another");
    door.keyed(path, "click", &other).await.refused(422, "input_changed");
    assert_eq!(door.decided(verb).await, before, "{verb}");
    again
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_cancelled_twice_is_cancelled_once() {
    on_both(async |door| {
        work(&door, "r1").await;
        let run = door.start("wait", "c", json!(null)).await;
        door.reaches(&run, "waiting").await;
        let path = format!("{run}/cancel");
        clicks(&door, &path, &why("stuck")).await;
        clicks_again(&door, &path, &why("stuck"), "cancel_run").await;
        assert_eq!(door.result(&run).await["state"], "cancelled");
        let late = clicks_again(&door, &path, &why("stuck"), "cancel_run").await;
        assert_eq!(late.json()["state"], "cancelled");
        assert_eq!(door.entries(&run, "cancelling").await, 1);
        // Without its key it is another wish, for what is so already.
        door.post(&path, &why("stuck")).await.is(200);
        assert_eq!(door.decided("cancel_run").await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_run_is_retried_and_failed_once_each() {
    on_both(async |door| {
        work(&door, "r1").await;
        let run = door.start("fall", "f", json!(null)).await;
        door.reaches(&run, "paused").await;
        let retry = format!("{run}/retry");
        clicks(&door, &retry, &why("mended")).await;
        door.reaches(&run, "paused").await;
        // It is paused again, and could be retried: the old click must not.
        clicks_again(&door, &retry, &why("mended"), "retry_run").await;
        assert_eq!(door.entries(&run, "resumed").await, 1);
        let fail = format!("{run}/fail");
        clicks(&door, &fail, &why("hopeless")).await;
        let ended = door.result(&run).await;
        assert_eq!(ended["state"], "failed", "{ended}");
        clicks_again(&door, &fail, &why("hopeless"), "fail_run").await;
        clicks_again(&door, &retry, &why("mended"), "retry_run").await;
        assert_eq!((door.decided("retry_run").await, door.decided("fail_run").await), (1, 1));
        assert_eq!(door.entries(&run, "finished").await, 1);
        door.post(&fail, &why("hopeless")).await.refused(409, "run_finished");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_step_is_skipped_once() {
    on_both(async |door| {
        work(&door, "r1").await;
        let run = door.start("fall", "s", json!(null)).await;
        door.reaches(&run, "paused").await;
        let step = door.get(&run).await.is(200).json()["paused"]["id"].clone();
        let skip = json!({ "step": step, "value": 7, "reason": "known" });
        let path = format!("{run}/skip");
        clicks(&door, &path, &skip).await;
        clicks_again(&door, &path, &skip, "skip_step").await;
        let other = with(skip.clone(), "value", 8);
        door.keyed(&path, "click", &other).await.refused(422, "input_changed");
        assert_eq!(door.result(&run).await["result"], 7);
        clicks_again(&door, &path, &skip, "skip_step").await;
        assert_eq!((door.decided("skip_step").await, door.entries(&run, "skipped").await), (1, 1));
    })
    .await;
}

/// Waits until a worker has taken a run so often, and has let it go to wait.
async fn taken(door: &Door, run: &str, times: usize) {
    let patience = Instant::now();
    while door.entries(run, "taken").await < times {
        assert!(patience.elapsed() < Duration::from_secs(10), "nobody takes it");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    door.reaches(run, "waiting").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_moved_once_and_an_old_click_does_not_move_it_again() {
    on_both(async |door| {
        work(&door, "r1").await;
        let run = door.start("wait", "m", json!(null)).await;
        door.reaches(&run, "waiting").await;
        work(&door, "r2").await;
        let path = format!("{run}/move");
        let to = |release: &str| json!({ "release": release, "reason": "mended there" });
        door.keyed(&path, "x", &to("r9")).await.refused(404, "release_unknown");
        let moved = clicks(&door, &path, &to("r2")).await;
        assert_eq!(moved.json()["release"], "r2");
        clicks_again(&door, &path, &to("r2"), "move_run").await;
        taken(&door, &run, 2).await;
        door.keyed(&path, "back", &to("r1")).await.is(200);
        let stale = clicks_again(&door, &path, &to("r2"), "move_run").await;
        assert_eq!(stale.json()["release"], "r1", "it stays where the last decision put it");
        assert_eq!((door.decided("move_run").await, door.entries(&run, "moved").await), (2, 2));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_click_that_found_nothing_to_do_does_nothing_later() {
    on_both(async |door| {
        work(&door, "r1").await;
        let run = door.start("wait", "n", json!(null)).await;
        door.reaches(&run, "waiting").await;
        work(&door, "r2").await;
        let path = format!("{run}/move");
        let to = |release: &str| json!({ "release": release, "reason": "mended there" });
        // It is there already. The answer is lost, somebody moves it on, and the click comes again.
        clicks(&door, &path, &to("r1")).await;
        door.keyed(&path, "on", &to("r2")).await.is(200);
        taken(&door, &run, 2).await;
        let stale = clicks_again(&door, &path, &to("r1"), "move_run").await;
        assert_eq!(stale.json()["release"], "r2", "it stays where the last decision put it");
    })
    .await;
}

/// Begins an effect and ends its attempt in these words; what it is now.
async fn ended(door: &Door, key: &str, result: Value) -> Value {
    let body = json!({ "action": "mail", "key": key, "input": 1, "settle": "2s" });
    let begun = door.begin(body).await.is(200).json();
    door.settle(key, &begun["fence"], result).await.is(200);
    door.get(&format!("/v1/effects/{}", begun["id"].as_str().unwrap())).await.is(200).json()
}

#[tokio::test]
async fn case_o10_an_effect_is_voided_once_and_an_old_click_spares_what_came_later() {
    on_both(async |door| {
        hold(&door).await;
        let held = door.get("/v1/approvals").await.is(200).json()["items"][0].clone();
        let path = format!("/v1/effects/{}/void", held["id"].as_str().unwrap());
        let word = with(why("not needed"), "version", held["version"].clone());
        assert_eq!(clicks(&door, &path, &word).await.json()["state"], "void");
        clicks_again(&door, &path, &word, "void").await;
        // Asked for again, it could be voided again.
        hold(&door).await;
        let stale = clicks_again(&door, &path, &word, "void").await.json();
        assert_eq!(
            (&stale["state"], &stale["approval"]["held"]),
            (&json!("planned"), &json!(true))
        );
        assert_eq!(door.decided("void").await, 1);
    })
    .await;
}

#[tokio::test]
async fn an_effect_is_superseded_once() {
    on_both(async |door| {
        let effect = ended(&door, "s", json!({ "receipt": "first" })).await;
        let path = format!("/v1/effects/{}/supersede", effect["id"].as_str().unwrap());
        let word = with(why("once more"), "version", effect["version"].clone());
        assert_eq!(clicks(&door, &path, &word).await.json()["generation"], 1);
        clicks_again(&door, &path, &word, "supersede").await;
        assert_eq!(ended(&door, "s", json!({ "receipt": "second" })).await["generation"], 1);
        let stale = clicks_again(&door, &path, &word, "supersede").await.json();
        assert_eq!((&stale["generation"], &stale["receipt"]), (&json!(1), &json!("second")));
        assert_eq!(door.decided("supersede").await, 1);
    })
    .await;
}

#[tokio::test]
async fn a_doubt_is_not_retried_before_a_late_send_could_have_landed() {
    on_both(async |door| {
        let doubt = ended(&door, "d", json!({ "unknown": true, "reason": "timeout" })).await;
        let path = format!("/v1/effects/{}", doubt["id"].as_str().unwrap());
        let word = json!({ "decision": "retry", "reason": "not seen there",
                           "version": doubt["version"] });
        let resolve = format!("{path}/resolve");
        let early = door.keyed(&resolve, "click", &word).await.refused(409, "too_early");
        let seconds: u64 = early.header("retry-after").unwrap().parse().unwrap();
        assert!((1..=2).contains(&seconds), "{seconds}");
        assert_eq!(door.get(&path).await.is(200).json()["state"], "in_doubt");
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        // What was refused has not used up its key.
        let resolved = clicks(&door, &resolve, &word).await.json();
        assert_eq!(resolved["state"], "planned", "{resolved}");
        clicks_again(&door, &resolve, &word, "resolve_retry").await;
        let body = json!({ "action": "mail", "key": "d", "input": 1 });
        assert_eq!(door.begin(body).await.is(200).json()["attempt"], 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_took_back_answers_undone_with_both_receipts() {
    on_both(async |door| {
        work(&door, "r1").await;
        let run = door.start("order", "7", json!(null)).await;
        assert_eq!(door.result(&run).await["state"], "failed");
        let body = json!({ "action": "charge", "key": "7", "input": { "cents": 700 } });
        for _ in 0..2 {
            let undone = door.begin(body.clone()).await.is(200);
            assert_eq!(undone.header("idempotent-replayed"), None, "no plain replay");
            let undone = undone.json();
            assert_eq!(
                (&undone["outcome"], &undone["receipt"], &undone["undo_receipt"]),
                (&json!("undone"), &json!("ch_1"), &json!("ch_1 back as 36"))
            );
        }
        let other = with(body, "input", json!({ "cents": 800 }));
        door.begin(other).await.refused(422, "input_changed");
    })
    .await;
}

/// Begins and gates over HTTP draw from the budget on record, and a grant opens another one.
#[tokio::test]
async fn req_r10_a_budget_that_is_used_up_is_refused_over_http_until_it_is_granted() {
    on_both(async |door| {
        let semel = Semel::on(door.app.engine().clone());
        let retry = Retry { attempts_max: 2, total_ms: 60_000, delay_ms: 1, delay_ms_max: 1 };
        let effect = semel.effect("mail").key("k").input(&1).retry(retry);
        let sent = effect.call(|_| async { Err::<u32, _>(Failure::not_applied("down")) });
        assert_eq!(sent.await.unwrap_err().code(), Code::RetriesExhausted);
        let body = json!({ "action": "mail", "key": "k", "input": 1, "hold": "0s" });
        door.begin(body.clone()).await.refused(409, "retries_exhausted");
        let gate =
            door.post("/v1/gate", &json!({ "action": "mail", "key": "k", "input": 1 })).await;
        let gate = gate.is(200).json();
        assert_eq!(
            (&gate["decision"], &gate["code"]),
            (&json!("failed"), &json!("retries_exhausted"))
        );
        let found = door.get("/v1/effects?action=mail&key=k").await.is(200).json();
        let found = &found["items"][0];
        assert_eq!((&found["state"], &found["exhausted"]), (&json!("planned"), &json!(true)));
        let path = format!("/v1/effects/{}/grant", found["id"].as_str().unwrap());
        let word = with(why("the relay is back"), "version", found["version"].clone());
        door.post(&path, &with(word.clone(), "version", 99)).await.refused(409, "version_changed");
        let granted = clicks(&door, &path, &word).await.json();
        assert_eq!(granted["decisions"][0]["verdict"], "grant");
        assert_eq!(granted["downstream_key"], found["downstream_key"]);
        clicks_again(&door, &path, &word, "grant").await;
        let next = with(why("once more"), "version", granted["version"].clone());
        door.post(&path, &next).await.refused(409, "not_exhausted");
        for _ in 0..2 {
            let begun = door.begin(body.clone()).await.is(200).json();
            assert_eq!(begun["downstream_key"], found["downstream_key"]);
            let failed = json!({ "not_applied": true, "reason": "down" });
            door.settle("k", &begun["fence"], failed).await.is(200);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        door.begin(body).await.refused(409, "retries_exhausted");
    })
    .await;
}

#[tokio::test]
async fn req_r10_a_begin_over_http_keeps_to_the_rate_on_record() {
    on_both(async |door| {
        let semel = Semel::on(door.app.engine().clone());
        let rate = |key: &'static str| {
            let effect = semel.effect("mail").key(key).input(&1).retry(Retry::NONE);
            effect.rate(2, Duration::from_secs(3_600))
        };
        let refuse = |_| async { Err::<u32, _>(Failure::not_applied("down")) };
        for key in ["a", "b"] {
            assert_eq!(rate(key).call(refuse).await.unwrap_err().code(), Code::NotApplied);
        }
        let body = json!({ "action": "mail", "key": "a", "input": 1, "hold": "0s" });
        door.begin(body).await.refused(429, "rate_limited");
        let gate =
            door.post("/v1/gate", &json!({ "action": "mail", "key": "b", "input": 1 })).await;
        assert_eq!(gate.is(200).json()["decision"], "wait");
    })
    .await;
}

/// A charge, then a mail that nobody knows of. The person's word is true, its receipt is not.
#[tokio::test(flavor = "multi_thread")]
async fn req_o8_a_receipt_that_does_not_fit_is_refused_over_http_and_the_run_keeps_its_charge() {
    on_both(async |door| {
        let refunds = std::sync::Arc::new(std::sync::atomic::AtomicU32::new(0));
        let semel = Semel::on(door.app.engine().clone());
        let count = refunds.clone();
        let code = move |ctx: Context, (): ()| {
            let count = count.clone();
            async move {
                let undo = ctx.undo("refund").key(["7"]);
                let charge = ctx.effect("charge").key(["7"]);
                let charge = charge.compensate_with(undo, move |_, _: String| {
                    count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                    async { Ok::<_, Failure>("back") }
                });
                charge.call(|_| async { Ok::<_, Failure>("ch_1".to_owned()) }).await?;
                let shape = json!({ "type": "object", "required": ["id"] });
                let mail = ctx.effect("mail").key(["7"]).receipt_shape(&shape);
                mail.call(|_| async { Err::<Value, _>(Failure::unknown("cut")) }).await
            }
        };
        drop(semel.worker().workflow("mails", code).start().unwrap());
        let run = door.start("mails", "7", json!(null)).await;
        door.reaches(&run, "waiting").await;
        let found = door.get("/v1/effects?action=mail&key=7").await.is(200).json();
        let found = &found["items"][0];
        let path = format!("/v1/effects/{}/resolve", found["id"].as_str().unwrap());
        let word = json!({ "decision": "done", "reason": "seen", "version": found["version"] });
        for wrong in [word.clone(), with(word.clone(), "receipt", json!("m-7"))] {
            let refused = door.post(&path, &wrong).await.refused(422, "receipt_invalid");
            assert!(refused.text.contains("what fits"), "{}", refused.text);
        }
        assert_eq!(door.get(&run).await.is(200).json()["state"], "waiting");
        assert_eq!(door.decided("resolve_done").await, 0, "nothing was recorded");
        let right = with(word, "receipt", json!({ "id": "m-7" }));
        door.post(&path, &right).await.is(200);
        assert_eq!(door.result(&run).await["result"], json!({ "id": "m-7" }));
        assert_eq!(refunds.load(std::sync::atomic::Ordering::SeqCst), 0);
    })
    .await;
}
