use serde_json::{Value, json};

use super::{Stage, answer};
use crate::double::{Fault, Kind, Script};

#[tokio::test]
async fn a_script_poses_as_a_service() {
    let stage = Stage::scripted(&json!({
        "mode": "plain",
        "routes": [
            {
                "method": "POST", "path": "/v2/{account}/tickets", "mode": "keys",
                "key_header": "X-Request-Id", "id": "TCK-{n}", "status": 200,
                "answer": { "ticket": {
                    "number": "{id}", "title": "{body.subject}", "size": "{body.size}",
                    "url": "https://{path.account}.example/{id}", "for": "{key}",
                } },
            },
            {
                "method": "GET", "path": "/v2/{account}/search", "of": "/v2/{account}/tickets",
                "answer": { "results": "{found}", "total": "{count}", "q": "{query.subject}" },
            },
        ],
    }));
    let send = || {
        let body = json!({ "subject": "Help", "size": 3 });
        stage.post("/v2/acme/tickets", &body).header("X-Request-Id", "k-1")
    };
    let ticket = json!({
        "number": "TCK-1", "title": "Help", "size": 3,
        "url": "https://acme.example/TCK-1", "for": "k-1",
    });
    let want = (200, json!({ "ticket": ticket }));
    assert_eq!(answer(send()).await, want);
    assert_eq!(answer(send()).await, want);
    let found = stage.get("/v2/acme/search?subject=Help").await.1;
    assert_eq!(found, json!({ "results": [want.1], "total": 1, "q": "Help" }));
    assert_eq!(stage.get("/v2/acme/search?subject=None").await.1["total"], 0);
    assert_eq!(stage.double.counts().routes["POST /v2/{account}/tickets"].applied, 1);
}

#[tokio::test]
async fn a_model_takes_its_texts_in_turn() {
    let stage = Stage::scripted(&json!({ "routes": [{
        "method": "POST", "path": "/v1/messages", "mode": "model", "text": ["billing", "refund"],
        "answer": { "content": [{ "type": "text", "text": "{text}" }], "call": "{n}" },
    }] }));
    let mut said = Vec::new();
    for _ in 0..3 {
        let body = answer(stage.post("/v1/messages", &json!({ "prompt": "?" }))).await.1;
        said.push(format!("{} {}", body["call"], body["content"][0]["text"]));
    }
    assert_eq!(said, ["1 \"billing\"", "2 \"refund\"", "3 \"billing\""]);
    assert_eq!(stage.double.counts().routes["POST /v1/messages"].model_calls, 3);
}

/// A destination with keys and one more trait.
fn with(traits: &Value) -> Stage {
    let mut route = json!({ "method": "POST", "path": "/tickets", "mode": "keys" });
    let all = route.as_object_mut().unwrap();
    all.extend(traits.as_object().unwrap().clone());
    Stage::scripted(&json!({ "routes": [route] }))
}

async fn two_at_once(stage: &Stage) -> Vec<u16> {
    let (one, two) = tokio::join!(answer(stage.keyed("a")), answer(stage.keyed("a")));
    let mut seen = vec![one.0, two.0];
    seen.sort_unstable();
    seen
}

#[tokio::test]
async fn repeats_beside_the_first_are_replayed_refused_or_applied() {
    let stage = with(&json!({ "latency": "200ms" }));
    assert_eq!(two_at_once(&stage).await, [201, 201]);
    assert_eq!(stage.double.counts().objects, 1);

    let stage = with(&json!({ "latency": "200ms", "at_once": "conflict" }));
    assert_eq!(two_at_once(&stage).await, [201, 409]);
    assert_eq!(answer(stage.keyed("a")).await.0, 201);
    assert_eq!(stage.double.counts().objects, 1);

    let stage = with(&json!({ "latency": "200ms", "at_once": "race" }));
    assert_eq!(two_at_once(&stage).await, [201, 201]);
    assert_eq!(stage.double.counts().objects, 2);
    assert_eq!(answer(stage.keyed("a")).await.1["id"], "tickets-1");
    assert_eq!(stage.double.counts().objects, 2, "in sequence the key counts");
}

#[tokio::test]
async fn careless_destinations_can_be_posed() {
    let other = |stage: &Stage| {
        stage.post("/tickets", &json!({ "subject": "Other" })).header("Idempotency-Key", "a")
    };
    let stage = with(&json!({ "other_body": "create" }));
    answer(stage.keyed("a")).await;
    assert_eq!(answer(other(&stage)).await.1["id"], "tickets-2");

    let stage = with(&json!({ "other_body": "replay" }));
    answer(stage.keyed("a")).await;
    assert_eq!(answer(other(&stage)).await.1["subject"], "Help");

    let stage = with(&json!({ "copies": 2 }));
    answer(stage.keyed("a")).await;
    assert_eq!(stage.double.counts().objects, 2);

    let stage = with(&json!({ "stores_errors": true }));
    stage.double.arm(Fault::next(Kind::ErrorAfter)).unwrap();
    assert_eq!(answer(stage.keyed("a")).await.0, 500);
    assert_eq!(answer(stage.keyed("a")).await.0, 500);
    assert_eq!(stage.double.counts().objects, 1);

    let stage = with(&json!({ "remembers": "1ms" }));
    answer(stage.keyed("a")).await;
    tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    assert_eq!(answer(stage.keyed("a")).await.1["id"], "tickets-2");
}

#[test]
fn scripts_with_a_slip_are_refused() {
    let route = |traits: Value| {
        let mut route = json!({ "method": "POST", "path": "/a" });
        route.as_object_mut().unwrap().extend(traits.as_object().unwrap().clone());
        json!({ "routes": [route] }).to_string()
    };
    let check = |text: &str, want: &str| {
        let error = Script::from_json(text).expect_err(text).to_string();
        assert!(error.contains(want), "{text}: {error}");
    };
    check("{", "EOF");
    check(r#"{"mod": "keys"}"#, "mod");
    check(r#"{"mode": "magic"}"#, "magic");
    check(&route(json!({ "latancy": "1s" })), "latancy");
    check(&route(json!({ "latency": "soon" })), "duration");
    check(&route(json!({ "latency": "31m" })), "half an hour");
    check(&route(json!({ "answer": { "a": "{bdy.x}" } })), "{bdy.x}");
    check(&route(json!({ "status": 99 })), "status");
    check(&route(json!({ "copies": 0 })), "copies");
    check(&route(json!({ "method": "post" })), "method");
    check(&route(json!({ "path": "a" })), "path");
    check(&route(json!({ "text": [] })), "something to say");
    assert!(Script::from_json("{}").is_ok());
}
