//! Namespaces: what one does the other neither sees nor feels.

use std::time::{Duration, Instant};

use semel_core::access::Role;
use serde_json::json;

use crate::door::on_both;

#[tokio::test]
async fn case_s1_the_same_key_in_two_namespaces_is_two_effects() {
    on_both(async |door| {
        let a = door.to("acme", Role::Worker).await;
        let b = door.to("bolt", Role::Worker).await;
        let first = a.done("42", json!({ "to": "x" }), json!("A's receipt")).await;
        let body = json!({ "action": "mail", "key": "42", "input": { "to": "x" } });
        let begun = b.begin(body).await.is(200).json();
        assert_eq!(begun["outcome"], "attempt");
        assert_ne!(begun["id"], first);
        assert!(!begun.to_string().contains("A's receipt"));
    })
    .await;
}

#[tokio::test]
async fn case_s2_a_key_in_flight_blocks_nobody_else() {
    on_both(async |door| {
        let a = door.to("acme", Role::Worker).await;
        let b = door.to("bolt", Role::Worker).await;
        let body = json!({ "action": "mail", "key": "42", "input": 1 });
        assert_eq!(a.begin(body.clone()).await.is(200).json()["outcome"], "attempt");
        let asked = Instant::now();
        assert_eq!(b.begin(body).await.is(200).json()["outcome"], "attempt");
        assert!(asked.elapsed() < Duration::from_secs(10), "it waited for another's effect");
    })
    .await;
}

#[tokio::test]
async fn case_s3_s8_ids_and_refusals_reveal_nothing() {
    on_both(async |door| {
        let a = door.to("acme", Role::Worker).await;
        let b = door.to("bolt", Role::Worker).await;
        let id = a.done("secret-key", json!({ "card": "4242" }), json!({ "ch": "ch_1" })).await;
        let theirs = b.get(&format!("/v1/effects/{id}")).await.refused(404, "not_found");
        let never = b.get("/v1/effects/AAAAAAAAAAAAAAAAeA").await.refused(404, "not_found");
        assert_eq!(theirs.comparable(), never.comparable());
        assert_eq!(b.count().await, 0);
        let body = json!({ "action": "mail", "key": "secret-key", "input": { "card": "4343" } });
        let changed = a.begin(body).await.refused(422, "input_changed");
        for hidden in ["4242", "ch_1", "/card", "secret-key"] {
            assert!(!changed.text.contains(hidden), "{}", changed.text);
        }
    })
    .await;
}

#[tokio::test]
async fn case_s6_s7_the_credential_is_judged_before_anything_is_looked_up() {
    on_both(async |door| {
        let worker = door.to("acme", Role::Worker).await;
        worker.done("42", json!(1), json!("R")).await;
        let ask = |key: &str| json!({ "action": "mail", "key": key, "input": 1 });
        let viewer = door.to("acme", Role::Viewer).await;
        let known = viewer.begin(ask("42")).await.refused(403, "forbidden");
        let unknown = viewer.begin(ask("43")).await.refused(403, "forbidden");
        assert_eq!(known.comparable(), unknown.comparable());
        let mut answers = Vec::new();
        for token in ["", "semel_acme.000000000000.00", "nonsense"] {
            let nobody = door.with(token);
            answers.push(nobody.begin(ask("42")).await.refused(401, "unauthenticated"));
            answers.push(nobody.begin(ask("43")).await.refused(401, "unauthenticated"));
        }
        answers.push(door.begin(ask("42")).await.refused(401, "unauthenticated"));
        let first = answers[0].comparable();
        assert!(answers.iter().all(|answer| answer.comparable() == first));
        assert_eq!(worker.count().await, 1);
    })
    .await;
}

#[tokio::test]
async fn case_s11_the_draft_twin_has_keys_of_its_own() {
    on_both(async |door| {
        door.done("42", json!(1), json!("live")).await;
        let drafts = door.get("/v1/effects?draft=true").await.is(200).json();
        assert_eq!(drafts["items"], json!([]));
        assert_eq!(door.count().await, 1);
    })
    .await;
}

#[tokio::test]
async fn sec_5_sec_9_tokens_and_keys_of_one_namespace_mean_nothing_in_another() {
    on_both(async |door| {
        let token = door.token("acme", Role::Admin).await;
        let swapped = token.replace("semel_acme.", "semel_bolt.");
        door.with(&swapped).get("/v1/runs").await.refused(401, "unauthenticated");
        let listed = door.with(&token).get("/v1/tokens").await.is(200);
        let secret = token.rsplit('.').next().unwrap();
        assert!(!listed.text.contains(secret));
    })
    .await;
}
