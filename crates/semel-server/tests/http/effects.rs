//! The ledger over HTTP: crashes, leases, outcomes, decisions, expiry.

use std::time::Duration;

use semel_server::Limits;
use serde_json::{Value, json};

use crate::door::{Door, on_both, on_both_with, send};

/// Begins an effect whose lease ends soon, and lets it end: as if its worker were killed.
async fn cut(door: &Door, key: &str, contract: Value) -> Value {
    let body = json!({ "action": "mail", "key": key, "input": 1, "contract": contract,
                       "lease": "150ms", "deadline": "200ms", "settle": "100ms" });
    let begun = door.begin(body).await.is(200).json();
    assert_eq!(begun["outcome"], "attempt", "{begun}");
    tokio::time::sleep(Duration::from_millis(450)).await;
    begun
}

/// Begins with time enough, whatever the first attempt had.
async fn begin(door: &Door, key: &str) -> crate::door::Answer {
    let body = json!({ "action": "mail", "key": key, "input": 1,
                       "lease": "30s", "deadline": "60s" });
    door.begin(body).await
}

#[tokio::test]
async fn case_x2_a_cut_attempt_at_most_once_is_in_doubt_and_not_sent_again() {
    on_both(async |door| {
        let begun = cut(&door, "x2", json!("at_most_once")).await;
        begin(&door, "x2").await.refused(409, "in_doubt");
        let path = format!("/v1/effects/{}", begun["id"].as_str().unwrap());
        let shown = door.get(&path).await.is(200).json();
        assert_eq!(
            (&shown["state"], &shown["attempts"][0]["outcome"]),
            (&json!("in_doubt"), &json!("unknown"))
        );
        let listed = door.get("/v1/effects?state=in_doubt").await.is(200).json();
        assert_eq!(listed["items"][0]["id"], begun["id"]);
    })
    .await;
}

#[tokio::test]
async fn case_x3_with_a_native_key_it_is_sent_again_under_the_same_key() {
    on_both(async |door| {
        let first = cut(&door, "x3", json!({ "native_key": { "retention": "24h" } })).await;
        let again = begin(&door, "x3").await.is(200).json();
        assert_eq!(again["outcome"], "attempt");
        assert_eq!(again["downstream_key"], first["downstream_key"]);
        assert!(again["fence"].as_u64() > first["fence"].as_u64());
        assert_eq!(again["attempt"], 2);
    })
    .await;
}

#[tokio::test]
async fn case_x4_x5_a_probe_looks_before_it_sends_again() {
    on_both(async |door| {
        for (key, found) in [("x4", true), ("x5", false)] {
            cut(&door, key, json!({ "probe": { "settle": "100ms" } })).await;
            let look = begin(&door, key).await.is(200).json();
            assert_eq!(look["outcome"], "probe", "{look}");
            let result =
                if found { json!({ "receipt": "M-9" }) } else { json!({ "not_applied": true }) };
            door.settle(key, &look["fence"], result).await.is(200);
            let then = begin(&door, key).await.is(200).json();
            if found {
                assert_eq!((&then["outcome"], &then["receipt"]), (&json!("replay"), &json!("M-9")));
            } else {
                assert_eq!(then["outcome"], "attempt");
                assert!(then["fence"].as_u64() > look["fence"].as_u64());
            }
        }
    })
    .await;
}

#[tokio::test]
async fn case_x9_x10_a_lease_is_renewed_and_a_lost_one_writes_nothing_but_evidence() {
    on_both(async |door| {
        let body = json!({ "action": "mail", "key": "x10", "input": 1,
                           "lease": "400ms", "deadline": "10s" });
        let begun = door.begin(body).await.is(200).json();
        let renew = json!({ "action": "mail", "key": "x10", "fence": begun["fence"] });
        for _ in 0..5 {
            tokio::time::sleep(Duration::from_millis(150)).await;
            let renewed = door.post("/v1/effects/renew", &renew).await.is(200).json();
            assert!(renewed["lease_ms"].as_u64() > Some(200), "{renewed}");
        }
        door.settle("x10", &begun["fence"], json!({ "receipt": 1 })).await.is(200);
        let old = cut(&door, "x9", json!("harmless")).await;
        let new = begin(&door, "x9").await.is(200).json();
        let stale = json!({ "not_applied": true });
        door.settle("x9", &old["fence"], stale).await.refused(409, "stale_fence");
        let renew = json!({ "action": "mail", "key": "x9", "fence": old["fence"] });
        door.post("/v1/effects/renew", &renew).await.refused(409, "stale_fence");
        let late = door.settle("x9", &old["fence"], json!({ "receipt": "late" })).await.is(200);
        assert_eq!(late.json()["kept_as_evidence"], true);
        door.settle("x9", &new["fence"], json!({ "receipt": "late" })).await.is(200);
        assert_eq!(begin(&door, "x9").await.is(200).json()["receipt"], "late");
    })
    .await;
}

#[tokio::test]
async fn case_o1_o2_what_was_refused_at_the_front_may_be_corrected_under_the_same_key() {
    on_both(async |door| {
        let wrong = json!({ "action": "mail", "key": "o1", "inputs": 1 });
        door.begin(wrong).await.refused(400, "request_invalid");
        let wrong = json!({ "action": "mail", "key": "o1", "contract": "exactly_once" });
        door.begin(wrong).await.refused(400, "request_invalid");
        let wrong = json!({ "action": "mail", "key": "o1", "lease": "soon" });
        door.begin(wrong).await.refused(400, "duration_invalid");
        let wrong = json!({ "action": "mail", "key": "o1", "lease": "1ms" });
        door.begin(wrong).await.refused(400, "terms_invalid");
        assert_eq!(begin(&door, "o1").await.is(200).json()["outcome"], "attempt");
    })
    .await;
}

#[tokio::test]
async fn case_o3_o4_o5_declines_proofs_and_silence_are_told_apart() {
    on_both(async |door| {
        let declined = begin(&door, "o3").await.is(200).json();
        let word = json!({ "not_applied": true, "final": true, "reason": "402 card declined" });
        door.settle("o3", &declined["fence"], word.clone()).await.is(200);
        door.settle("o3", &declined["fence"], word).await.is(200);
        for _ in 0..2 {
            let failed = begin(&door, "o3").await.is(200).json();
            assert_eq!(
                (&failed["outcome"], &failed["reason"]),
                (&json!("failed"), &json!("402 card declined"))
            );
        }
        let refused = begin(&door, "o4").await.is(200).json();
        let word = json!({ "not_applied": true, "reason": "connection refused" });
        door.settle("o4", &refused["fence"], word).await.is(200);
        assert_eq!(begin(&door, "o4").await.is(200).json()["attempt"], 2);
        let silent = begin(&door, "o5").await.is(200).json();
        let word = json!({ "unknown": true, "reason": "timeout after bytes were sent" });
        door.settle("o5", &silent["fence"], word).await.is(200);
        begin(&door, "o5").await.refused(409, "in_doubt");
        let odd =
            [json!({}), json!({ "receipt": 1, "unknown": true }), json!({ "unknown": false })];
        for result in odd {
            door.settle("o5", &silent["fence"], result).await.refused(400, "request_invalid");
        }
    })
    .await;
}

#[tokio::test]
async fn case_r1_bare_receipts_are_replayed_as_they_are() {
    on_both(async |door| {
        let text = r#"{"b":1.50,  "a":9007199254740993123}"#;
        let begun = begin(&door, "bytes").await.is(200).json();
        let body = format!(
            r#"{{"action":"mail","key":"bytes","fence":{},"result":{{"receipt":{text}}}}}"#,
            begun["fence"]
        );
        let request = door.request("POST", "/v1/effects/settle").body(body);
        send(request.header("content-type", "application/json")).await.is(200);
        assert!(begin(&door, "bytes").await.text.contains(text), "byte for byte");
        assert!(door.get("/v1/effects?key=bytes").await.text.contains(text), "byte for byte");
        for (key, receipt) in [("null", Value::Null), ("false", json!(false)), ("n", json!(1.50))] {
            door.done(key, json!(1), receipt.clone()).await;
            let replay = begin(&door, key).await.is(200).json();
            let replay = replay.as_object().unwrap();
            assert_eq!(replay.get("receipt"), Some(&receipt), "{replay:?}");
        }
    })
    .await;
}

#[tokio::test]
async fn case_o10_o12_people_void_resolve_and_supersede() {
    on_both(async |door| {
        let doubt = cut(&door, "o12", json!("at_most_once")).await;
        let path = format!("/v1/effects/{}", doubt["id"].as_str().unwrap());
        // Reading it writes down what time has made of it; the version is the one that is shown.
        begin(&door, "o12").await.refused(409, "in_doubt");
        let version = door.get(&path).await.is(200).json()["version"].as_u64().unwrap();
        let word = |version: u64| {
            json!({ "decision": "done", "receipt": { "id": "M-3" },
                                          "reason": "seen at the provider", "version": version })
        };
        let resolve = format!("{path}/resolve");
        door.post(&resolve, &word(version + 7)).await.refused(409, "version_changed");
        let first = door.keyed(&resolve, "click-1", &word(version)).await.is(200);
        assert_eq!(first.json()["state"], "done");
        let again = door.keyed(&resolve, "click-1", &word(version)).await.is(200);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        door.keyed(&resolve, "click-1", &word(version + 1)).await.refused(422, "input_changed");
        door.post(&resolve, &word(version)).await.refused(409, "version_changed");
        let replay = begin(&door, "o12").await.is(200).json();
        assert_eq!(replay["receipt"]["id"], "M-3");
        let shown = door.get(&path).await.is(200).json();
        assert_eq!(
            (&shown["decisions"][0]["actor"], &shown["decisions"][0]["reason"]),
            (&json!("local"), &json!("seen at the provider"))
        );
        let supersede = json!({ "reason": "once more", "version": shown["version"] });
        let next = door.post(&format!("{path}/supersede"), &supersede).await.is(200).json();
        assert_eq!((&next["generation"], &next["state"]), (&json!(1), &json!("planned")));
        let void = json!({ "reason": "not needed", "version": next["version"] });
        let next = format!("/v1/effects/{}/void", next["id"].as_str().unwrap());
        assert_eq!(door.post(&next, &void).await.is(200).json()["state"], "void");
        assert_eq!(begin(&door, "o12").await.is(200).json()["outcome"], "attempt");
        let audit = door.get("/v1/audit").await.is(200).json();
        let verbs: Vec<_> =
            audit["items"].as_array().unwrap().iter().map(|one| &one["verb"]).collect();
        assert_eq!(verbs, ["void", "supersede", "resolve_done"]);
    })
    .await;
}

#[tokio::test]
async fn case_e1_after_its_window_a_key_is_expired_and_never_sent_again() {
    on_both_with(Limits { hold_ms: 100, ..Limits::default() }, async |door| {
        let body = json!({ "action": "mail", "key": "e1", "input": 1, "window": "1s",
                           "deadline": "100ms", "settle": "100ms", "lease": "100ms" });
        let begun = door.begin(body).await.is(200).json();
        door.settle("e1", &begun["fence"], json!({ "receipt": 1 })).await.is(200);
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        door.app.engine().sweep().await.unwrap();
        begin(&door, "e1").await.refused(410, "expired");
        let listed = door.get("/v1/effects?action=mail&key=e1").await.is(200).json();
        assert_eq!(listed["items"][0]["state"], "expired");
    })
    .await;
}

#[tokio::test]
async fn a_lost_answer_is_resumed_by_its_own_attempt_id() {
    on_both(async |door| {
        let body = json!({ "action": "mail", "key": "a", "input": 1, "attempt_id": "call-7" });
        let first = door.begin(body.clone()).await.is(200).json();
        let again = door.begin(body).await.is(200).json();
        assert_eq!((&again["resumed"], &again["fence"]), (&json!(true), &first["fence"]));
    })
    .await;
}

#[tokio::test]
async fn an_effect_is_proven_over_http() {
    on_both(async |door| {
        let id = door.done("42", json!({ "a": 1 }), json!({ "id": "M-1" })).await;
        begin(&door, "42").await.refused(422, "input_changed");
        let proof = door.get(&format!("/v1/effects/{id}/proof")).await.is(200).json();
        assert_eq!(proof["proof"]["statement"]["verdict"]["finding"], "done", "{proof}");
    })
    .await;
}

#[tokio::test]
async fn a_list_of_members_is_not_taken_for_the_object() {
    on_both(async |door| {
        let refused = async |path: &str, body: &Value| {
            door.post(path, body).await.refused(400, "request_invalid");
        };
        refused("/v1/effects/begin", &json!(["mail", "42"])).await;
        refused("/v1/workflows/w/runs", &json!([null, null])).await;
        refused("/v1/gate", &json!(["mail", "42"])).await;
        let settle = json!({ "action": "mail", "key": "42", "fence": 1, "result": [1] });
        refused("/v1/effects/settle", &settle).await;
        let none = door.get("/v1/effects").await.is(200).json();
        assert_eq!(none["items"], json!([]), "nothing was begun");
    })
    .await;
}

#[tokio::test]
async fn a_decision_about_an_older_generation_changes_nothing() {
    on_both(async |door| {
        let id = door.done("again", json!(1), json!("R")).await;
        let path = format!("/v1/effects/{id}");
        let version = door.get(&path).await.is(200).json()["version"].clone();
        let once_more = json!({ "reason": "once more", "version": version });
        let supersede = format!("{path}/supersede");
        let first = door.keyed(&supersede, "s-1", &once_more).await.is(200).json();
        assert_eq!(first["generation"], 1);
        door.done("again", json!(1), json!("R2")).await;
        // Its version counts anew, so the same number may come by again.
        for version in 1..5 {
            let stale = json!({ "reason": "once more", "version": version });
            door.post(&supersede, &stale).await.refused(409, "version_changed");
        }
        let again = door.keyed(&supersede, "s-1", &once_more).await.is(200);
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
        assert_eq!(again.json()["generation"], 1);
    })
    .await;
}

/// The shape that a begin gives is on record: what a person says later must fit it.
#[tokio::test]
async fn req_o8_a_receipt_that_does_not_fit_the_shape_of_a_begin_is_refused_over_http() {
    on_both(async |door| {
        let shape = json!({ "type": "object", "properties": { "id": { "type": "string" } },
                            "required": ["id"] });
        let ask = |shape: Value| json!({ "action": "mail", "key": "s", "receipt_shape": shape });
        for unusable in [json!("object"), json!([1]), json!({ "enum": ["x".repeat(9_000)] })] {
            let refused = door.begin(ask(unusable)).await.refused(400, "request_invalid");
            assert!(refused.text.contains("receipt_shape"), "{}", refused.text);
        }
        let begun = door.begin(ask(shape.clone())).await.is(200).json();
        let unknown = json!({ "unknown": true, "reason": "cut" });
        door.settle("s", &begun["fence"], unknown).await.is(200);
        let path = format!("/v1/effects/{}", begun["id"].as_str().unwrap());
        let before = door.get(&path).await.is(200).json();
        let word = |receipt: Option<Value>| {
            let mut word = json!({ "decision": "done", "reason": "seen",
                                   "version": before["version"] });
            if let Some(receipt) = receipt {
                word["receipt"] = receipt;
            }
            word
        };
        let resolve = format!("{path}/resolve");
        for wrong in [None, Some(json!(null)), Some(json!("m-7")), Some(json!({ "id": 7 }))] {
            let refused = door.post(&resolve, &word(wrong)).await;
            let refused = refused.refused(422, "receipt_invalid");
            assert!(
                refused.json()["detail"].as_str().unwrap().contains("what fits"),
                "{refused:?}"
            );
        }
        assert_eq!(door.get(&path).await.is(200).json(), before, "nothing was recorded");
        assert_eq!(door.decided("resolve_done").await, 0);
        let right = word(Some(json!({ "id": "m-7" })));
        assert_eq!(door.post(&resolve, &right).await.is(200).json()["state"], "done");
        assert_eq!(begin(&door, "s2").await.is(200).json()["outcome"], "attempt", "optional");
    })
    .await;
}
