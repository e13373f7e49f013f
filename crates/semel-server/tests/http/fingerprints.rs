//! When two bodies are the same wish.

use std::io::Write;

use serde_json::{Value, json};

use crate::door::{Door, on_both, send};

/// What a second begin with this body text gets.
async fn again(door: &Door, key: &str, first: &str, second: &str) -> String {
    for (text, is_first) in [(first, true), (second, false)] {
        let body = format!(r#"{{"action":"mail","key":"{key}","input":{text}}}"#);
        let request = door.request("POST", "/v1/effects/begin");
        let request = request.header("content-type", "application/json").body(body);
        let answer = send(request).await;
        if !is_first {
            let body = answer.json();
            return body["outcome"].as_str().unwrap_or(&answer.code()).to_owned();
        }
        let begun: Value = answer.is(200).json();
        door.settle(key, &begun["fence"], json!({ "receipt": key })).await.is(200);
    }
    unreachable!("the second has an answer")
}

#[tokio::test]
async fn case_f_the_canonical_content_decides() {
    on_both(async |door| {
        let same = [
            (r#"{"a":1,"b":2}"#, r#"{ "b":2, "a":1 }"#), // f1
            ("1.0", "1"),                                // f3
            ("1.0", "1e0"),
            (r#"{"é":1}"#, r#"{"\u00e9":1}"#),
        ];
        for (place, (first, second)) in same.iter().enumerate() {
            let answer = again(&door, &format!("same-{place}"), first, second).await;
            assert_eq!(answer, "replay", "{first} {second}");
        }
        let other = [
            (r#""10.00""#, r#""10.0""#),           // f3
            ("[1,2]", "[2,1]"),                    // f4
            ("\"é\"", "\"e\u{301}\""),             // f5
            (r#"{"a":1}"#, r#"{"a":1,"b":null}"#), // f8
            ("9007199254740993", "9007199254740992"),
        ];
        for (place, (first, second)) in other.iter().enumerate() {
            let answer = again(&door, &format!("other-{place}"), first, second).await;
            assert_eq!(answer, "input_changed", "{first} {second}");
        }
    })
    .await;
}

#[tokio::test]
async fn case_f11_packed_bodies_count_by_their_content() {
    on_both(async |door| {
        let body = r#"{"action":"mail","key":"zip","input":{"a":1}}"#;
        let pack = |time: u32| {
            let packer = flate2::GzBuilder::new().mtime(time);
            let mut packer = packer.write(Vec::new(), flate2::Compression::default());
            packer.write_all(body.as_bytes()).unwrap();
            packer.finish().unwrap()
        };
        let post = |bytes: Vec<u8>| {
            let request = door.request("POST", "/v1/effects/begin").body(bytes);
            request.header("content-type", "application/json").header("content-encoding", "gzip")
        };
        let begun = send(post(pack(1))).await.is(200).json();
        door.settle("zip", &begun["fence"], json!({ "receipt": 1 })).await.is(200);
        assert_eq!(send(post(pack(2))).await.is(200).json()["outcome"], "replay");
        send(post(b"no gzip".to_vec())).await.refused(400, "request_invalid");
        let bomb = {
            let mut packer =
                flate2::GzBuilder::new().write(Vec::new(), flate2::Compression::best());
            packer.write_all(&vec![b' '; 40_000_000]).unwrap();
            packer.finish().unwrap()
        };
        send(post(bomb)).await.refused(413, "body_too_large");
        let strange = door.request("POST", "/v1/effects/begin").json(&json!({}));
        send(strange.header("content-encoding", "br")).await.refused(415, "media_unsupported");
    })
    .await;
}

#[tokio::test]
async fn case_f12_headers_do_not_count() {
    on_both(async |door| {
        door.done("42", json!({ "a": 1 }), json!("R")).await;
        let body = json!({ "action": "mail", "key": "42", "input": { "a": 1 } });
        let request = door.request("POST", "/v1/effects/begin").json(&body);
        let request = request
            .header("x-stainless-retry-count", "3")
            .header("svix-retry-count", "2")
            .header("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
            .header("user-agent", "another");
        assert_eq!(send(request).await.is(200).json()["outcome"], "replay");
    })
    .await;
}

#[tokio::test]
async fn case_f15_only_the_declared_members_count() {
    on_both(async |door| {
        let ask = |wording: &str, id: u32| {
            json!({ "action": "mail", "key": "w", "fingerprint": ["id"],
                    "input": { "id": id, "wording": wording } })
        };
        let begun = door.begin(ask("first words", 1)).await.is(200).json();
        door.settle("w", &begun["fence"], json!({ "receipt": "R" })).await.is(200);
        assert_eq!(door.begin(ask("other words", 1)).await.is(200).json()["outcome"], "replay");
        door.begin(ask("first words", 2)).await.refused(422, "input_changed");
    })
    .await;
}

#[tokio::test]
async fn case_f17_sec_45_hostile_json_is_bounded() {
    on_both(async |door| {
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        let long = "1".repeat(500_000);
        let inputs = [deep.as_str(), "1e400", long.as_str(), r#"{"a":1,"a":2}"#, r#""\ud800""#];
        for (place, input) in inputs.iter().enumerate() {
            let body = format!(r#"{{"action":"mail","key":"h{place}","input":{input}}}"#);
            let request = door.request("POST", "/v1/effects/begin");
            let request = request.header("content-type", "application/json").body(body);
            let status = send(request).await.status;
            assert!(matches!(status, 200 | 400), "{place}: {status}");
        }
        for body in
            ["", "{", "[]", "null", r#"{"action":"a","action":"b","key":"k"}"#, "\u{feff}{}"]
        {
            let request = door.request("POST", "/v1/effects/begin");
            let request = request.header("content-type", "application/json").body(body);
            send(request).await.refused(400, "request_invalid");
        }
        let request = door.request("POST", "/v1/effects/begin");
        let request = request.header("content-type", "application/json");
        send(request.body(vec![b'"', 0xff, b'"'])).await.refused(400, "request_invalid");
    })
    .await;
}
