//! Limits: at them, and one beyond.

use std::time::{Duration, Instant};

use semel_core::access::Role;
use semel_server::Limits;
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::door::{on_both, on_both_with, on_file, send};

#[tokio::test]
async fn case_l3_sec_44_bodies_at_the_limit_pass_and_larger_ones_are_refused() {
    let limits = Limits { body_bytes: 4_096, ..Limits::default() };
    on_both_with(limits, async |door| {
        let body = |bytes: usize| {
            let bare = r#"{"action":"mail","key":"l3","input":""}"#.len();
            format!(r#"{{"action":"mail","key":"l3","input":"{}"}}"#, "x".repeat(bytes - bare))
        };
        let post =
            || door.request("POST", "/v1/effects/begin").header("content-type", "application/json");
        send(post().body(body(4_097))).await.refused(413, "body_too_large");
        let chunks = |bytes| {
            let text = body(bytes).into_bytes();
            let parts: Vec<Result<_, std::io::Error>> =
                text.chunks(1_000).map(|part| Ok(part.to_vec())).collect();
            reqwest::Body::wrap_stream(futures_util::stream::iter(parts))
        };
        send(post().body(chunks(4_097))).await.refused(413, "body_too_large");
        assert_eq!(door.count().await, 0, "refused before the claim");
        send(post().body(chunks(4_096))).await.is(200);
    })
    .await;
}

#[tokio::test]
async fn sec_44_keys_of_255_bytes_pass_and_one_more_is_refused() {
    on_file(Limits::default(), async |door| {
        door.done(&"k".repeat(255), json!(1), json!(1)).await;
        let body = json!({ "action": "mail", "key": "k".repeat(256), "input": 1 });
        door.begin(body).await.refused(400, "key_invalid");
        let body = json!({ "action": "a".repeat(101), "key": "k" });
        door.begin(body).await.refused(400, "name_invalid");
        let large = json!({ "action": "mail", "key": "v", "input": "x".repeat(1024 * 1024) });
        door.begin(large).await.refused(413, "body_too_large");
        let head = "x".repeat(20_000);
        let request = door.request("GET", "/v1/effects").header("x-large", head);
        let status = request.send().await.map(|answer| answer.status().as_u16());
        assert!(status.is_err() || status.is_ok_and(|status| status == 431));
    })
    .await;
}

#[tokio::test]
async fn case_s13_a_namespace_above_its_rate_still_replays() {
    let limits = Limits { new_keys_per_second: Some(5), ..Limits::default() };
    on_both_with(limits, async |door| {
        let acme = door.to("acme", Role::Worker).await;
        let bolt = door.to("bolt", Role::Worker).await;
        acme.done("first", json!(1), json!("R")).await;
        let mut refused = 0;
        for number in 0..20 {
            let body = json!({ "action": "mail", "key": format!("n{number}"), "input": 1 });
            let answer = acme.begin(body).await;
            if answer.status == 429 {
                assert!(answer.header("retry-after").is_some());
                answer.refused(429, "quota_exceeded");
                refused += 1;
            }
        }
        assert!(refused >= 5, "{refused}");
        let body = json!({ "action": "mail", "key": "first", "input": 1 });
        assert_eq!(acme.begin(body.clone()).await.is(200).json()["receipt"], "R");
        assert_eq!(bolt.begin(body).await.is(200).json()["outcome"], "attempt");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn case_s13_c1_one_new_key_of_many_callers_counts_once() {
    let limits = Limits { new_keys_per_second: Some(2), ..Limits::default() };
    on_both_with(limits, async |door| {
        let body = json!({ "action": "mail", "key": "k", "input": 1, "hold": "0s" });
        let many = futures_util::future::join_all((0..30).map(|_| door.begin(body.clone()))).await;
        let told = |status| many.iter().filter(|answer| answer.status == status).count();
        assert_eq!((told(200), told(409)), (1, 29), "one goes, and nobody is over the rate");
        let start = json!({ "input": 1 });
        let many = (0..30).map(|_| door.keyed("/v1/workflows/w/runs", "r", &start));
        let many = futures_util::future::join_all(many).await;
        assert!(many.iter().all(|answer| matches!(answer.status, 200 | 201)));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_47_a_namespace_that_fills_its_share_leaves_the_others_theirs() {
    let limits = Limits { requests_per_namespace: 4, hold_ms: 1_500, ..Limits::default() };
    on_file(limits, async |door| {
        let acme = door.to("acme", Role::Worker).await;
        let bolt = door.to("bolt", Role::Worker).await;
        let body = json!({ "action": "mail", "key": "k", "input": 1 });
        acme.begin(body.clone()).await.is(200);
        let many = futures_util::future::join_all((0..20).map(|_| acme.begin(body.clone())));
        let other = async {
            tokio::time::sleep(Duration::from_millis(300)).await;
            bolt.done("k", json!(1), json!(1)).await;
        };
        let (answers, ()) = tokio::join!(many, other);
        let over = answers.iter().filter(|answer| answer.status == 429).count();
        assert_eq!((over, answers.len() - over), (16, 4));
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i24_an_overload_is_told_and_loses_nothing() {
    let limits = Limits { requests_in_flight: 8, hold_ms: 1_500, ..Limits::default() };
    on_file(limits, async |door| {
        let body = json!({ "action": "mail", "key": "k", "input": 1 });
        let begun = door.begin(body.clone()).await.is(200).json();
        let many = futures_util::future::join_all((0..40).map(|_| door.begin(body.clone())));
        let over = many.await.into_iter().filter(|answer| answer.status == 503);
        let over: Vec<_> = over.collect();
        assert!(over.len() >= 30, "{}", over.len());
        assert!(over.iter().all(|answer| answer.header("retry-after") == Some("1")));
        door.settle("k", &begun["fence"], json!({ "receipt": 1 })).await.is(200);
        assert_eq!(door.begin(body).await.is(200).json()["receipt"], 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_46_slow_and_idle_sockets_keep_nobody_waiting() {
    let limits = Limits { read_ms: 700, connections: 400, ..Limits::default() };
    on_file(limits, async |door| {
        let address = door.url.trim_start_matches("http://").to_owned();
        let mut slow = Vec::new();
        for number in 0..300 {
            let mut socket = TcpStream::connect(&address).await.unwrap();
            if number % 3 == 1 {
                socket
                    .write_all(b"POST /v1/effects/begin HTTP/1.1\r\nHost: 127.0.0.1\r\n")
                    .await
                    .unwrap();
            }
            if number % 3 == 2 {
                let head = "POST /v1/effects/begin HTTP/1.1\r\nHost: 127.0.0.1\r\n\
                            Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{";
                socket.write_all(head.as_bytes()).await.unwrap();
            }
            slow.push(socket);
        }
        let asked = Instant::now();
        door.done("k", json!(1), json!(1)).await;
        assert!(asked.elapsed() < Duration::from_secs(5), "{:?}", asked.elapsed());
        tokio::time::sleep(Duration::from_millis(1_200)).await;
        // Whoever was slow has been cut off, or answered that the body did not come.
        let mut said = Vec::new();
        let mut last = slow.pop().unwrap();
        let read = tokio::time::timeout(Duration::from_secs(5), last.read_to_end(&mut said)).await;
        assert!(read.is_ok(), "the socket is still open");
        door.done("k2", json!(1), json!(1)).await;
    })
    .await;
}

#[tokio::test]
async fn case_l6_capabilities_say_limits_windows_and_rules() {
    on_both(async |door| {
        let said = door.get("/v1/capabilities").await.is(200).json();
        assert_eq!(said["windows"]["replay"], "30d");
        assert_eq!(
            (&said["key"]["bytes_max"], &said["key"]["forms"][1]),
            (&json!(255), &json!("quoted"))
        );
        assert_eq!(said["limits"]["body_bytes"], Limits::default().body_bytes);
        let codes = said["codes"].as_array().unwrap();
        assert!(codes.contains(&json!({ "code": "input_changed", "status": 422 })));
    })
    .await;
}

#[tokio::test]
async fn case_o2_sec_15_a_form_of_a_web_page_is_refused_and_nothing_is_stored() {
    on_both(async |door| {
        let body = r#"{"action":"mail","key":"k","input":1}"#;
        let post = || door.request("POST", "/v1/effects/begin").body(body);
        let text = post().header("content-type", "text/plain");
        send(text).await.refused(415, "media_unsupported");
        send(post()).await.refused(415, "media_unsupported");
        let json = || post().header("content-type", "application/json; charset=utf-8");
        let foreign = json().header("origin", "https://evil.example");
        send(foreign).await.refused(403, "host_refused");
        send(json().header("origin", "null")).await.refused(403, "host_refused");
        let rebound = json().header("host", "evil.example");
        send(rebound).await.refused(403, "host_refused");
        assert_eq!(door.count().await, 0);
        send(json().header("origin", door.url.clone())).await.is(200);
    })
    .await;
}
