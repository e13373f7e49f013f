//! The gate: one word, and 200.

use std::time::Duration;

use semel_core::access::Role;
use semel_server::Limits;
use serde_json::{Value, json};

use crate::approvals::{asked, hold, page, wish, word};
use crate::door::{Door, on_both, on_both_with};

async fn gate(door: &Door, key: &str, input: Value) -> Value {
    let body = json!({ "action": "mail", "key": key, "input": input });
    door.post("/v1/gate", &body).await.is(200).json()
}

#[tokio::test]
async fn the_gate_says_go_once_and_then_done() {
    on_both(async |door| {
        let go = gate(&door, "42", json!({ "a": 1 })).await;
        assert_eq!(go["decision"], "go");
        let path = format!("/v1/gate/{}/done", go["id"].as_str().unwrap());
        let receipt = json!({ "receipt": { "id": "M-1" } });
        let done = door.post(&path, &receipt).await.is(200).json();
        assert_eq!((&done["decision"], &done["receipt"]["id"]), (&json!("done"), &json!("M-1")));
        assert_eq!(door.post(&path, &receipt).await.is(200).json(), done);
        let again = gate(&door, "42", json!({ "a": 1 })).await;
        assert_eq!((&again["decision"], &again["receipt"]["id"]), (&json!("done"), &json!("M-1")));
        let other = gate(&door, "42", json!({ "a": 2 })).await;
        assert_eq!(
            (&other["decision"], &other["code"]),
            (&json!("failed"), &json!("input_changed"))
        );
    })
    .await;
}

#[tokio::test]
async fn the_gate_tells_what_is_not_known() {
    on_both_with(Limits { hold_ms: 100, ..Limits::default() }, async |door| {
        let go = gate(&door, "42", Value::Null).await;
        assert_eq!(gate(&door, "42", Value::Null).await["decision"], "wait");
        let path = format!("/v1/gate/{}/failed", go["id"].as_str().unwrap());
        let unknown = door.post(&path, &json!({ "applied": "unknown" })).await.is(200).json();
        assert_eq!(unknown["decision"], "in_doubt");
        assert_eq!(gate(&door, "42", Value::Null).await["decision"], "in_doubt");
        let go = gate(&door, "43", Value::Null).await;
        let path = format!("/v1/gate/{}/failed", go["id"].as_str().unwrap());
        door.post(&path, &json!({ "applied": "no" })).await.is(200);
        assert_eq!(gate(&door, "43", Value::Null).await["decision"], "go");
        door.post("/v1/gate/nothing/done", &json!({})).await.refused(404, "not_found");
        let looks = json!({ "action": "mail", "key": "44", "contract": { "probe": {} } });
        door.post("/v1/gate", &looks).await.refused(400, "request_invalid");
    })
    .await;
}

#[tokio::test]
async fn the_gate_never_says_go_where_somebody_must_look_first() {
    on_both(async |door| {
        let body = json!({ "action": "mail", "key": "look", "lease": "100ms", "deadline": "100ms",
                           "contract": { "probe": { "settle": "100ms" } } });
        let begun = door.begin(body).await.is(200).json();
        assert_eq!(begun["outcome"], "attempt");
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(gate(&door, "look", Value::Null).await["decision"], "in_doubt");
    })
    .await;
}

/// An effect that waits for a person is no `go` for anybody, until the yes; a no is `failed`.
#[tokio::test(flavor = "multi_thread")]
async fn req_a3_the_gate_says_wait_until_a_person_said_yes() {
    for (decision, then) in [("approve", "go"), ("deny", "failed")] {
        on_both(async |door| {
            hold(&door).await;
            let ann = door.to("default", Role::Approver).await;
            let worker = door.to("default", Role::Worker).await;
            let at_the_gate = async || worker.post("/v1/gate", &wish(&page())).await.is(200).json();
            for _ in 0..3 {
                let held = at_the_gate().await;
                let told = (&held["decision"], &held["code"], &held["downstream_key"]);
                assert_eq!(told, (&json!("wait"), &json!("held"), &Value::Null), "{held}");
                // The id of an answer that is no `go` settles nothing.
                let path = format!("/v1/gate/{}/done", held["id"].as_str().unwrap());
                worker.post(&path, &json!({ "receipt": 1 })).await.refused(404, "not_found");
            }
            let (path, digest) = asked(&ann).await;
            ann.post(&path, &word(decision, &digest)).await.is(200);
            assert_eq!(at_the_gate().await["decision"], then, "{decision}");
        })
        .await;
    }
}

/// Whoever comes late to the gate under an old fence is told how it is, and changes nothing.
#[tokio::test]
async fn inv_i5_a_late_word_at_the_gate_under_a_stale_fence_changes_nothing() {
    on_both(async |door| {
        for late in [json!({ "applied": "no" }), json!({ "applied": "unknown" })] {
            let key = late.to_string();
            let ask = json!({ "action": "mail", "key": key, "contract": "harmless",
                              "lease": "100ms" });
            let old = door.post("/v1/gate", &ask).await.is(200).json();
            assert_eq!(old["decision"], "go");
            let new = loop {
                let body = json!({ "action": "mail", "key": key, "hold": "1s" });
                let new = door.begin(body).await;
                if new.status == 200 {
                    break new.json();
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            };
            assert_eq!(new["outcome"], "attempt", "{new}");
            let shown = async || {
                let path = format!("/v1/effects?action=mail&key={}", escaped(&key));
                door.get(&path).await.is(200).json()["items"][0].clone()
            };
            let before = shown().await;
            let path = format!("/v1/gate/{}/failed", old["id"].as_str().unwrap());
            let answer = door.post(&path, &late).await.is(200).json();
            assert_eq!(answer["decision"], "wait", "{late}: {answer}");
            assert_eq!(shown().await, before, "{late}");
            door.settle(&key, &new["fence"], json!({ "receipt": "new" })).await.is(200);
            let after = door.post(&path, &late).await.is(200).json();
            let replay = (&after["decision"], &after["receipt"]);
            assert_eq!(replay, (&json!("done"), &json!("new")), "{late}");
        }
    })
    .await;
}

fn escaped(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02x}")).collect()
}
