//! Which run a delivery is, and what that gets.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::{Context, Failure, Semel};
use serde_json::{Value, json};

use crate::kit::{SECRET, on_both};

fn token() -> (&'static str, String) {
    ("authorization", format!("Bearer {SECRET}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn case_w6_cloud_events_are_told_apart_by_source_and_id_in_either_mode() {
    on_both(|stage| async move {
        stage.put_new("events", json!({ "scheme": "cloudevents" })).await;
        let structured = async |source: &str| {
            let kind = "application/cloudevents+json".to_owned();
            let event = json!({
                "specversion": "1.0", "id": "e-1", "source": source, "type": "paid",
                "datacontenttype": "application/json", "data": { "n": 1 },
            });
            let headers = [token(), ("content-type", kind)];
            stage.post("/hooks/events", &headers, event.to_string()).await
        };
        let binary = async |source: &str| {
            let headers = [
                token(),
                ("ce-specversion", "1.0".to_owned()),
                ("ce-id", "e-1".to_owned()),
                ("ce-source", source.to_owned()),
                ("ce-type", "paid".to_owned()),
                ("content-type", "application/json".to_owned()),
            ];
            stage.post("/hooks/events", &headers, r#"{"n":1}"#).await
        };
        let first = structured("/shop").await.run(202);
        assert_eq!(binary("/shop").await.run(200), first);
        let other = binary("/warehouse").await.run(202);
        assert_ne!(other, first);
        assert_eq!(structured("/warehouse").await.run(200), other);
        let verdicts = stage.verdicts("events").await;
        let names: Vec<_> = verdicts.iter().map(|(verdict, _)| verdict.as_str()).collect();
        assert_eq!(names, ["started", "repeated", "started", "repeated"]);
    })
    .await;
}

/// Sends under the key that came with the webhook.
async fn charge(ctx: Context, input: Value, sent: Arc<AtomicU32>) -> Result<String, semel::Error> {
    let client_key = input["client_key"].as_str().unwrap_or_default().to_owned();
    let effect = ctx.effect("charge").key([client_key]);
    effect
        .call(move |_| {
            let number = sent.fetch_add(1, Ordering::SeqCst) + 1;
            async move { Ok::<_, Failure>(format!("charge {number}")) }
        })
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn req_t4_a_clients_key_names_the_run_and_reaches_the_effect() {
    on_both(|stage| async move {
        let declared = json!({
            "scheme": "bearer",
            "key": "{header:idempotency-key}",
            "input": { "client_key": "{header:idempotency-key}", "amount": "{body:/amount}" },
        });
        stage.put_new("pay", declared).await;
        let semel = Semel::open(&stage.store).await.expect("the same store");
        let sent = Arc::new(AtomicU32::new(0));
        let count = sent.clone();
        let flow = move |ctx: Context, input: Value| charge(ctx, input, count.clone());
        semel.worker().workflow("w", flow).start().expect("a worker");
        let deliver = async |key: &str, request: &str| {
            let headers =
                [token(), ("idempotency-key", key.into()), ("x-request-id", request.into())];
            stage.post("/hooks/pay", &headers, r#"{"amount":5}"#).await
        };
        let id = deliver("order-7", "r-1").await.run(202);
        // Sent again by a tool that counts its requests, and quotes the key as the draft has it.
        assert_eq!(deliver("\"order-7\"", "r-2").await.run(200), id);
        let result = stage.get(&format!("/v1/runs/{id}/result?wait=30s")).await;
        assert_eq!(result.status, 200, "{result:?}");
        assert_eq!(deliver("order-7", "r-3").await.run(200), id);
        let effect = semel.find("charge", "order-7").await.expect("a look").expect("an effect");
        assert_eq!((effect.run.as_deref(), sent.load(Ordering::SeqCst)), (Some(id.as_str()), 1));
        let run = stage.get(&format!("/v1/runs/{id}")).await.body;
        assert_eq!(run["key"], "order-7");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_part_is_told_listed_and_taken_once_the_trigger_is_corrected() {
    on_both(|stage| async move {
        stage.put_new("form", json!({ "scheme": "bearer", "key": "{body:/order/id}" })).await;
        let body = r#"{"request":"r-1"}"#;
        let refused = stage.post("/hooks/form", &[token()], body).await;
        refused.refused(400, "input_invalid");
        assert_eq!(refused.body["detail"], "the body has no /order/id");
        stage.post("/hooks/form", &[token()], "order=1").await.refused(400, "input_invalid");
        let long = format!(r#"{{"order":{{"id":"{}"}}}}"#, "x".repeat(300));
        stage.post("/hooks/form", &[token()], long).await.refused(400, "key_invalid");
        assert_eq!(stage.runs().await, 0);
        let verdicts = stage.verdicts("form").await;
        assert!(verdicts.iter().all(|(verdict, _)| verdict == "unusable"), "{verdicts:?}");
        assert_eq!(verdicts.len(), 3);
        stage.put_new("form", json!({ "scheme": "bearer", "key": "{body:/request}" })).await;
        stage.post("/hooks/form", &[token()], body).await.run(202);
    })
    .await;
}
