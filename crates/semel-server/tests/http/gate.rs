//! The gate: one word, and 200.

use semel_server::Limits;
use serde_json::{Value, json};

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
        tokio::time::sleep(std::time::Duration::from_millis(400)).await;
        assert_eq!(gate(&door, "look", Value::Null).await["decision"], "in_doubt");
    })
    .await;
}
