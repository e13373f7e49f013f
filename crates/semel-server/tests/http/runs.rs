//! Runs over HTTP: start, follow, steer, signals, callbacks, approvals, schedules.

use semel::{Context, Error, Semel};
use serde_json::{Value, json};

use crate::door::{Door, on_both};

const START: &str = "/v1/workflows/greet/runs";

/// A worker beside the server, on its engine.
fn work(door: &Door) {
    let semel = Semel::on(door.app.engine().clone());
    let worker = semel.worker();
    let worker = worker
        .workflow("greet", |_: Context, name: String| async move {
            Ok::<_, Error>(format!("Salve, {name}!"))
        })
        .workflow("wait", |ctx: Context, (): ()| async move {
            let payload: Value = ctx.wait_for_signal("go").await?;
            Ok::<_, Error>(payload)
        })
        .workflow("fall", |ctx: Context, (): ()| async move {
            let fall =
                || async { Err::<u32, _>(semel::Failure::from(std::io::Error::other("broken"))) };
            ctx.step("fall", fall)
                .retry(semel::Retry { attempts_max: 1, ..semel::Retry::default() })
                .await
        });
    drop(worker.start().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn req_t1_req_t2_a_start_is_safe_to_repeat() {
    on_both(async |door| {
        work(&door);
        let started = door.keyed(START, "event-7", &json!({ "input": "Ada" })).await.is(201).json();
        let id = started["id"].as_str().unwrap().to_owned();
        let again = door.keyed(START, "event-7", &json!({ "input": "Ada" })).await.is(200);
        assert_eq!(again.json()["id"], started["id"]);
        door.keyed(START, "event-7", &json!({ "input": "Bea" }))
            .await
            .refused(422, "input_changed");
        let result = door.get(&format!("/v1/runs/{id}/result?wait=20s")).await.is(200).json();
        assert_eq!((&result["state"], &result["result"]), (&json!("done"), &json!("Salve, Ada!")));
        let journal = door.get(&format!("/v1/runs/{id}/journal")).await.is(200).json();
        assert_eq!(journal["items"][0]["kind"], "started");
        let proof = door.get(&format!("/v1/runs/{id}/proof")).await.is(200).json();
        assert!(proof["proof"]["statement"].is_object());
        let made = door.post(START, &json!({ "input": "Cy" })).await.is(201).json();
        assert!(!made["key"].as_str().unwrap().is_empty(), "a key was made and returned");
        let listed = door.get("/v1/runs?workflow=greet&key=event-7").await.is(200).json();
        assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_is_delivered_once_by_its_identity() {
    on_both(async |door| {
        work(&door);
        let started = door.keyed("/v1/workflows/wait/runs", "w", &json!({})).await.is(201).json();
        let run = format!("/v1/runs/{}", started["id"].as_str().unwrap());
        let open = door.get(&format!("{run}/result")).await.is(202).json();
        assert!(open["state"] != "done");
        let signal = format!("{run}/signals/go");
        let first = door.keyed(&signal, "s-1", &json!({ "ok": 1 })).await.is(200);
        assert_eq!(
            (first.json()["repeated"].clone(), first.header("idempotent-replayed")),
            (json!(false), None)
        );
        let again = door.keyed(&signal, "s-1", &json!({ "ok": 1 })).await.is(200);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        door.keyed(&signal, "s-1", &json!({ "ok": 2 })).await.refused(422, "input_changed");
        let result = door.get(&format!("{run}/result?wait=20s")).await.is(200).json();
        assert_eq!(result["result"], json!({ "ok": 1 }));
        door.keyed(&signal, "s-2", &json!(1)).await.refused(409, "run_finished");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_steer_and_may_repeat_themselves() {
    on_both(async |door| {
        work(&door);
        let started = door.keyed("/v1/workflows/fall/runs", "f", &json!({})).await.is(201).json();
        let run = format!("/v1/runs/{}", started["id"].as_str().unwrap());
        door.reaches(&run, "paused").await;
        let why = json!({ "reason": "mended" });
        let first = door.keyed(&format!("{run}/retry"), "r-1", &why).await.is(200);
        assert_eq!(first.header("idempotent-replayed"), None);
        door.reaches(&run, "paused").await;
        // It is paused again: the same click must not retry it once more.
        let again = door.keyed(&format!("{run}/retry"), "r-1", &why).await.is(200);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(door.entries(&run, "resumed").await, 1);
        let other = json!({ "reason": "another" });
        door.keyed(&format!("{run}/retry"), "r-1", &other).await.refused(422, "input_changed");
        let step = door.get(&run).await.is(200).json()["paused"]["id"].clone();
        let skip = json!({ "step": step, "value": 7, "reason": "known" });
        door.keyed(&format!("{run}/skip"), "k-1", &skip).await.is(200);
        let result = door.get(&format!("{run}/result?wait=20s")).await.is(200).json();
        assert_eq!(result["result"], 7);
        let skipped = door.keyed(&format!("{run}/skip"), "k-1", &skip).await.is(200);
        assert_eq!(skipped.header("idempotent-replayed"), Some("true"));
        door.keyed(&format!("{run}/skip"), "k-2", &skip).await.refused(409, "run_finished");
        let waiting = door.keyed("/v1/workflows/wait/runs", "c", &json!({})).await.is(201).json();
        let run = format!("/v1/runs/{}", waiting["id"].as_str().unwrap());
        for _ in 0..2 {
            door.keyed(&format!("{run}/cancel"), "c-1", &why).await.is(200);
        }
        let result = door.get(&format!("{run}/result?wait=20s")).await.is(200).json();
        assert_eq!(
            (&result["state"], &result["error"]["code"]),
            (&json!("cancelled"), &json!("cancelled"))
        );
    })
    .await;
}

#[tokio::test]
async fn schedules_and_releases_are_managed() {
    on_both(async |door| {
        work(&door);
        let body = json!({ "workflow": "greet", "cron": "0 8 * * *",
                           "zone": "Europe/Rome", "input": "x" });
        let put = || crate::door::send(door.request("PUT", "/v1/schedules/morning").json(&body));
        put().await.is(201);
        put().await.is(200);
        let shown = door.get("/v1/schedules/morning").await.is(200).json();
        assert_eq!(shown["state"], "active");
        let wrong = json!({ "workflow": "greet", "cron": "every day" });
        let wrong = door.request("PUT", "/v1/schedules/x").json(&wrong);
        crate::door::send(wrong).await.refused(400, "schedule_invalid");
        door.post("/v1/schedules/morning/pause", &json!({ "reason": "holiday" })).await.is(200);
        crate::door::send(door.request("POST", "/v1/schedules/morning/resume")).await.is(200);
        crate::door::send(door.request("DELETE", "/v1/schedules/morning")).await.is(204);
        door.get("/v1/schedules/morning").await.refused(404, "not_found");
        door.app.engine().announce().await.unwrap();
        let releases = door.get("/v1/releases/greet").await.is(200).json();
        let live = releases["live"].as_str().unwrap();
        let promote = json!({ "release": live, "reason": "still" });
        door.post("/v1/releases/greet/promote", &promote).await.is(200);
        let promote = json!({ "release": "none", "reason": "no" });
        door.post("/v1/releases/greet/promote", &promote).await.refused(404, "release_unknown");
    })
    .await;
}
