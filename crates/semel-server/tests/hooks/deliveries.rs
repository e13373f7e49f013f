//! Deliveries and redeliveries.

use serde_json::{Value, json};

use crate::kit::{SECRET, Stage, hex, hmac, now, on_both, standard, stripe};

#[tokio::test(flavor = "multi_thread")]
async fn case_w1_and_req_t3_five_deliveries_of_one_id_are_one_run_and_all_get_2xx() {
    on_both(|stage| async move {
        stage.put_new("orders", json!({ "scheme": "standard" })).await;
        let first = stage.deliver("orders", "msg_1", r#"{"n":1}"#).await;
        let id = first.run(202);
        assert!(!first.replayed);
        for later in 1..5 {
            // Each redelivery is signed anew, at its own time.
            let body = r#"{"n":1}"#;
            let headers = standard("msg_1", now() - later, body);
            let again = stage.post("/hooks/orders", &headers, body).await;
            assert_eq!((again.run(200), again.replayed), (id.clone(), true));
        }
        let other = stage.deliver("orders", "msg_2", r#"{"n":1}"#).await.run(202);
        assert_ne!(other, id);
        assert_eq!(stage.runs().await, 2);
        let run = stage.get(&format!("/v1/runs/{id}")).await.body;
        assert_eq!((&run["key"], &run["workflow"]), (&json!("orders,msg_1"), &json!("w")));
        let verdicts: Vec<_> = stage.verdicts("orders").await;
        let names: Vec<_> = verdicts.iter().map(|(verdict, _)| verdict.as_str()).collect();
        assert_eq!(names, ["started", "repeated", "repeated", "repeated", "repeated", "started"]);
        assert_eq!(verdicts[4].1["run"], json!(id));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_19_a_storm_of_one_delivery_is_taken_once_and_is_durable_before_2xx() {
    on_both(|stage| async move {
        stage.put_new("orders", json!({ "scheme": "standard" })).await;
        let body = r#"{"n":1}"#;
        let headers = standard("msg_1", now(), body);
        let storm = (0..16).map(|_| stage.post("/hooks/orders", &headers, body));
        let answers = futures_util::future::join_all(storm).await;
        let new = answers.iter().filter(|answer| answer.status == 202).count();
        let ids: std::collections::BTreeSet<_> =
            answers.iter().map(|answer| answer.run(answer.status)).collect();
        assert_eq!((new, ids.len(), stage.runs().await), (1, 1, 1), "{answers:?}");
        // Somebody else who opens the store finds what was acknowledged.
        let id = ids.first().expect("one");
        let namespace = semel_core::key::Namespace::default();
        let opened = semel::Semel::open(&stage.store).await.expect("the same store");
        let found = opened.engine().run(&namespace, id).await.expect("the run");
        assert_eq!(found.workflow, "w");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_body_starts_nothing_and_only_our_own_callers_are_told() {
    on_both(|stage| async move {
        stage.put_new("payments", json!({ "scheme": "stripe" })).await;
        let hmac_keyed = json!({ "scheme": "hmac", "header": "x-sig", "key": "{body:/id}" });
        stage.put_new("own", hmac_keyed).await;
        let (one, other) = (r#"{"id":"evt_1","n":1}"#, r#"{"id":"evt_1","n":2}"#);
        let id = stage.post("/hooks/payments", &stripe(now(), one), one).await.run(202);
        let changed = stage.post("/hooks/payments", &stripe(now(), other), other).await;
        assert_eq!(changed.run(200), id);
        assert_eq!(stage.verdicts("payments").await[1].0, "changed");
        let sign = |body: &str| [("x-sig", hex(&hmac(SECRET.as_bytes(), body.as_bytes())))];
        stage.post("/hooks/own", &sign(one), one).await.run(202);
        stage.post("/hooks/own", &sign(other), other).await.refused(422, "input_changed");
        assert_eq!(stage.verdicts("own").await[1].0, "changed");
        assert_eq!(stage.runs().await, 2);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn req_t3_after_the_replay_window_a_redelivery_still_starts_nothing() {
    on_both(|stage| async move {
        stage.put_new("orders", json!({ "scheme": "standard", "replay_window": "0s" })).await;
        let id = stage.deliver("orders", "msg_1", "{}").await.run(202);
        let reason = [("content-type", "application/json".to_owned())];
        let path = format!("/v1/runs/{id}/cancel");
        let cancelled = stage.post(&path, &reason, r#"{"reason":"not needed"}"#).await;
        assert!(cancelled.status < 300, "{cancelled:?}");
        let engine = stage.app.engine();
        for _ in 0..200 {
            engine.sweep().await.expect("swept");
            if stage.get(&format!("/v1/runs/{id}")).await.body["state"] == "expired" {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
        let late = stage.deliver("orders", "msg_1", "{}").await;
        assert_eq!((late.run(200), &late.body["state"]), (id, &json!("expired")));
        assert_eq!(stage.verdicts("orders").await[1].0, "expired");
        assert_eq!(stage.runs().await, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_challenge_of_slack_is_answered_when_it_is_signed() {
    let stage = Stage::on_sqlite(Default::default()).await;
    stage.put_new("slack", json!({ "scheme": "slack" })).await;
    let body = r#"{"type":"url_verification","challenge":"c-1"}"#;
    let at = now();
    let signature = hex(&hmac(SECRET.as_bytes(), format!("v0:{at}:{body}").as_bytes()));
    let mut headers = vec![("x-slack-request-timestamp", at.to_string())];
    headers.push(("x-slack-signature", format!("v0={signature}")));
    let answer = stage.post("/hooks/slack", &headers, body).await;
    assert_eq!((answer.status, answer.body), (200, json!({ "challenge": "c-1" })));
    headers[1].1 = format!("v0={}", "0".repeat(64));
    stage.post("/hooks/slack", &headers, body).await.refused(401, "signature_invalid");
    assert_eq!(stage.runs().await, 0);
    assert_eq!(stage.verdicts("slack").await[0].1["run"], Value::Null);
}
