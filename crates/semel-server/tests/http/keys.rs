//! Keys: syntax and presence.

use serde_json::json;

use crate::door::{on_both, send};

const START: &str = "/v1/workflows/triage/runs";

#[tokio::test]
async fn case_k1_a_missing_key_is_refused_and_nothing_is_stored() {
    on_both(async |door| {
        door.begin(json!({ "action": "mail", "input": 1 })).await.refused(400, "key_missing");
        let gate = door.post("/v1/gate", &json!({ "action": "mail" })).await;
        gate.refused(400, "key_missing");
        assert_eq!(door.count().await, 0);
    })
    .await;
}

#[tokio::test]
async fn case_k2_quoted_and_bare_keys_are_one_intent() {
    on_both(async |door| {
        let body = json!({ "input": { "a": 1 } });
        let first = door.keyed(START, "abc", &body).await.is(201);
        assert_eq!(first.header("idempotent-replayed"), None);
        let again = door.keyed(START, "\"abc\"", &body).await.is(200);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.json()["id"], first.json()["id"]);
    })
    .await;
}

#[tokio::test]
async fn case_k3_k9_keys_are_taken_verbatim() {
    on_both(async |door| {
        let body = json!({});
        for key in ["0815", "9e107d9d-372b-4b6c-8d1f-2f76c66d35ca", "Order-1", "order-1"] {
            let started = door.keyed(START, key, &body).await.is(201);
            assert_eq!(started.json()["key"], key);
        }
    })
    .await;
}

#[tokio::test]
async fn case_k4_k6_k7_what_is_no_key_is_refused() {
    on_both(async |door| {
        for key in ["\"unterminated", "\"bad\\escape\"", "tab\tinside", "a, b", "", "   "] {
            door.keyed(START, key, &json!({})).await.refused(400, "key_invalid");
        }
        let bytes = reqwest::header::HeaderValue::from_bytes(b"gr\xc3\xb6\xc3\x9fe").unwrap();
        let request = door.request("POST", START).json(&json!({}));
        send(request.header("idempotency-key", bytes)).await.refused(400, "key_invalid");
        let request = door.request("POST", START).json(&json!({}));
        let twice = request.header("idempotency-key", "a").header("idempotency-key", "a");
        send(twice).await.refused(400, "key_invalid");
        for key in [json!(""), json!(" "), json!([]), json!("a\nb"), json!("a\u{0}b")] {
            let body = json!({ "action": "mail", "key": key });
            door.begin(body).await.refused(400, "key_invalid");
        }
        let runs = door.get("/v1/runs").await.is(200).json();
        assert_eq!((runs["items"].as_array().unwrap().len(), door.count().await), (0, 0));
    })
    .await;
}

#[tokio::test]
async fn case_k10_a_key_on_a_get_is_ignored() {
    on_both(async |door| {
        let request = door.request("GET", "/v1/effects").header("idempotency-key", "\"broken");
        send(request).await.is(200);
        assert_eq!(door.count().await, 0);
    })
    .await;
}

#[tokio::test]
async fn case_s14_sec_29_text_that_injects_is_stored_inert_or_refused() {
    on_both(async |door| {
        let inert = ["'; drop table effects; --", "../../etc/passwd", "{{7*7}}", "%00", "a%2Cb"];
        for key in inert {
            door.done(key, json!(1), json!("R")).await;
        }
        for key in ["a\r\nSet-Cookie: x", "nul\u{0}"] {
            let body = json!({ "action": "mail", "key": key });
            door.begin(body).await.refused(400, "key_invalid");
        }
        assert_eq!(door.count().await, inert.len());
        let hostile = door.get("/v1/effects?state=done'%20or%201=1").await;
        hostile.refused(400, "request_invalid");
        door.get("/v1/effects?order=key").await.refused(400, "request_invalid");
        door.get("/v1/effects/..%2f..%2fetc").await.refused(404, "not_found");
    })
    .await;
}
