//! What is not believed, and what is said about it.

use serde_json::{Value, json};

use crate::kit::{Answered, SECRET, Stage, hex, hmac, now, on_both, standard, standard_by};

fn without_request(answer: &Answered) -> (u16, Value) {
    let mut body = answer.body.clone();
    body.as_object_mut().expect("a problem").remove("request_id").expect("a request id");
    (answer.status, body)
}

#[tokio::test(flavor = "multi_thread")]
async fn case_w2_old_and_early_deliveries_are_refused_and_not_remembered_as_seen() {
    on_both(|stage| async move {
        stage.put_new("orders", json!({ "scheme": "standard" })).await;
        for at in [now() - 301, now() + 302] {
            let headers = standard("msg_1", at, "{}");
            let refused = stage.post("/hooks/orders", &headers, "{}").await;
            refused.refused(401, "signature_invalid");
        }
        assert_eq!(stage.runs().await, 0);
        stage.deliver("orders", "msg_1", "{}").await.run(202);
        let verdicts = stage.verdicts("orders").await;
        let details: Vec<_> = verdicts.iter().map(|(_, item)| item["detail"].clone()).collect();
        assert_eq!(details, [json!("too_old"), json!("too_new"), Value::Null]);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_w3_and_w4_one_good_signature_is_enough_and_a_body_written_anew_is_not() {
    on_both(|stage| async move {
        stage.put_new("orders", json!({ "scheme": "standard" })).await;
        let body = r#"{"b": 1, "a": 2}"#;
        let mut headers = standard("msg_1", now(), body);
        headers[2].1 = format!("v1,AAAA v7,zz {} v1a,BBBB", headers[2].1);
        let anew = stage.post("/hooks/orders", &headers, r#"{"a":2,"b":1}"#).await;
        anew.refused(401, "signature_invalid");
        stage.post("/hooks/orders", &headers, body).await.run(202);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_17_flipped_bits_are_refused_over_the_wire() {
    let stage = Stage::on_sqlite(Default::default()).await;
    stage.put_new("orders", json!({ "scheme": "standard" })).await;
    let body = r#"{"amount":100}"#;
    let headers = standard("msg_1", now(), body);
    for byte in 0..body.len() {
        let mut flipped = body.as_bytes().to_vec();
        flipped[byte] ^= 1 << (byte % 8);
        let refused = stage.post("/hooks/orders", &headers, flipped).await;
        refused.refused(401, "signature_invalid");
    }
    let signature = headers[2].1.clone();
    for place in 3..signature.len() {
        let mut bytes = signature.clone().into_bytes();
        // The lowest bit: the character stays one that a header may have.
        bytes[place] ^= 1;
        let mut flipped = headers.clone();
        flipped[2].1 = String::from_utf8(bytes).expect("text");
        let refused = stage.post("/hooks/orders", &flipped, body).await;
        refused.refused(401, "signature_invalid");
    }
    stage.post("/hooks/orders", &headers, body).await.run(202);
    assert_eq!(stage.runs().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_18_missing_repeated_and_malformed_headers_are_refused() {
    let stage = Stage::on_sqlite(Default::default()).await;
    stage.put_new("orders", json!({ "scheme": "standard" })).await;
    let good = standard("msg_1", now(), "{}");
    let check = async |headers: &[(&str, String)], why: &str| {
        let refused = stage.post("/hooks/orders", headers, "{}").await;
        refused.refused(401, "signature_invalid");
        let verdicts = stage.verdicts("orders").await;
        let newest = &verdicts.last().expect("a verdict").1["detail"];
        assert_eq!(newest, why, "{headers:?}");
    };
    for missing in 0..3 {
        let mut headers = good.to_vec();
        headers.remove(missing);
        check(&headers, "signature_missing").await;
        let mut twice = good.to_vec();
        twice.push(good[missing].clone());
        check(&twice, "header_repeated").await;
    }
    for time in ["-1", "1e9", "soon", "99999999999999"] {
        let mut headers = good.to_vec();
        headers[1].1 = time.to_owned();
        check(&headers, "signature_malformed").await;
    }
    assert_eq!(stage.runs().await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_20_two_secrets_count_until_the_old_ones_date() {
    on_both(|stage| async move {
        let new = "bmV3LXNlY3JldC1vZi10ZXN0cw==";
        stage.write("new", &format!("{new}\n"));
        let rotated = |until: &str| {
            json!({
                "scheme": "standard",
                "secret": stage.file("new"),
                "old_secret": { "from": stage.file("secret"), "until": until },
            })
        };
        stage.put_new("orders", rotated("2999-01-01T00:00:00Z")).await;
        stage.deliver("orders", "msg_1", "{}").await.run(202);
        let by_new = standard_by(new, "msg_2", now(), "{}");
        stage.post("/hooks/orders", &by_new, "{}").await.run(202);
        stage.put_new("orders", rotated("2020-01-01T00:00:00Z")).await;
        stage.deliver("orders", "msg_3", "{}").await.refused(401, "signature_invalid");
        // Which secret it is signed with says nothing about which delivery it is.
        let again = standard_by(new, "msg_1", now(), "{}");
        stage.post("/hooks/orders", &again, "{}").await.run(200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_21_no_header_chooses_the_algorithm_or_the_scheme() {
    let stage = Stage::on_sqlite(Default::default()).await;
    stage.put_new("code", json!({ "scheme": "github" })).await;
    let signature = hex(&hmac(SECRET.as_bytes(), b"{}"));
    let delivery = ("x-github-delivery", "d-1".to_owned());
    let forged = [
        ("x-hub-signature-256", "none=".to_owned()),
        ("x-hub-signature-256", "sha256=".to_owned()),
        ("x-hub-signature-256", format!("sha1={signature}")),
        ("x-hub-signature-256", format!("SHA256={signature}")),
        ("x-hub-signature", format!("sha256={signature}")),
        ("authorization", format!("Bearer {SECRET}")),
    ];
    for header in forged {
        let refused = stage.post("/hooks/code", &[header, delivery.clone()], "{}").await;
        refused.refused(401, "signature_invalid");
    }
    // A good delivery of another scheme under the same secret.
    stage.deliver("code", "msg_1", "{}").await.refused(401, "signature_invalid");
    let good = ("x-hub-signature-256", format!("sha256={signature}"));
    stage.post("/hooks/code", &[good, delivery], "{}").await.run(202);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_trigger_and_a_wrong_signature_are_one_answer() {
    let stage = Stage::on_sqlite(Default::default()).await;
    stage.put_new("orders", json!({ "scheme": "standard" })).await;
    stage.put_new("gone", json!({ "scheme": "standard", "secret": stage.file("none") })).await;
    let forged = standard_by("Zm9yZ2Vk", "msg_1", now(), "{}");
    let wrong = stage.post("/hooks/orders", &forged, "{}").await;
    wrong.refused(401, "signature_invalid");
    let mut answers = vec![without_request(&wrong)];
    for path in [
        "/hooks/unknown",
        "/hooks/other/orders",
        "/hooks/default/unknown",
        "/hooks/no%20namespace/orders",
        "/hooks/default~draft/orders",
        "/hooks/gone",
    ] {
        answers.push(without_request(&stage.post(path, &forged, "{}").await));
    }
    answers.push(without_request(&stage.post("/hooks/orders", &[], "").await));
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:#?}");
    let text = answers[0].1.to_string();
    assert!(!text.contains("orders") && !text.contains("wrong"), "{text}");
    // Both addresses of the default namespace are the same trigger.
    let headers = standard("msg_1", now(), "{}");
    stage.post("/hooks/default/orders", &headers, "{}").await.run(202);
    stage.post("/hooks/orders", &headers, "{}").await.run(200);
    let kept = stage.get("/v1/triggers/gone/deliveries").await.body.to_string();
    assert!(kept.contains("secret_missing"), "{kept}");
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_bodies_nor_signatures_nor_secrets_are_kept_of_a_delivery() {
    let stage = Stage::on_sqlite(Default::default()).await;
    stage.put_new("orders", json!({ "scheme": "standard" })).await;
    let body = r#"{"canary":"body-canary"}"#;
    let headers = standard("msg_1", now(), body);
    stage.post("/hooks/orders", &headers, body).await.run(202);
    let forged = standard_by("Zm9yZ2Vk", "msg_2", now(), body);
    stage.post("/hooks/orders", &forged, body).await.refused(401, "signature_invalid");
    let kept = stage.get("/v1/triggers/orders/deliveries").await.body;
    let shown = stage.get("/v1/triggers/orders").await.body;
    for text in [kept.to_string(), shown.to_string()] {
        for secret in ["body-canary", SECRET, &headers[2].1, &forged[2].1, "msg_2"] {
            assert!(!text.contains(secret), "{secret} in {text}");
        }
    }
    assert_eq!((&kept["verified"], &kept["refused"]), (&json!(1), &json!(1)));
    assert_eq!(kept["items"][1]["bytes"], json!(body.len()));
}
