//! What clients, proxies and strangers send that is not quite what the description says.

use std::io::Write as _;
use std::time::Duration;

use semel_core::access::Role;
use semel_server::{Limits, Server, Settings};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::door::{Door, on_both, on_both_with, on_file, send};

#[tokio::test]
async fn case_s14_a_name_that_cannot_be_printed_is_not_found_on_any_store() {
    on_both(async |door| {
        let id = "%00";
        for path in ["runs", "effects", "schedules", "triggers"] {
            door.get(&format!("/v1/{path}/{id}")).await.refused(404, "not_found");
            door.get(&format!("/v1/{path}/a{id}b")).await.refused(404, "not_found");
        }
        door.post("/v1/tokens/%00/revoke", &Value::Null).await.refused(404, "not_found");
        door.post("/hooks/%00", &json!({})).await.refused(401, "signature_invalid");
        door.post("/v1/callbacks/a.%00", &json!(1)).await.refused(404, "not_found");
        door.get("/v1/triggers?after=%00").await.refused(400, "request_invalid");
    })
    .await;
}

#[tokio::test]
async fn a_path_that_is_no_text_gets_a_problem_like_every_other() {
    on_file(Limits::default(), async |door| {
        let answer = door.get("/v1/effects/%ff").await.refused(404, "not_found");
        assert!(answer.header("x-request-id").is_some());
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
    })
    .await;
}

fn packed(text: &str) -> Vec<u8> {
    let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    packer.write_all(text.as_bytes()).unwrap();
    packer.finish().unwrap()
}

#[tokio::test]
async fn case_f11_what_counts_is_what_was_packed_however_well_and_by_whatever_name() {
    on_file(Limits::default(), async |door| {
        let body = json!({ "action": "mail", "key": "z", "input": "x".repeat(100_000) });
        let begin = |kind: &str| {
            let request = door.request("POST", "/v1/effects/begin");
            let request = request.header("content-type", "application/json");
            request.header("content-encoding", kind).body(packed(&body.to_string()))
        };
        let begun = send(begin("gzip")).await.is(200).json();
        door.settle("z", &begun["fence"], json!({ "receipt": 1 })).await.is(200);
        for kind in ["GZIP", "x-gzip"] {
            assert_eq!(send(begin(kind)).await.is(200).json()["outcome"], "replay", "{kind}");
        }
        send(begin("br")).await.refused(415, "media_unsupported");
        let twice = begin("gzip").header("content-encoding", "gzip");
        send(twice).await.refused(415, "media_unsupported");
        let bomb = json!({ "action": "mail", "key": "b", "input": "x".repeat(3_000_000) });
        let bomb = begin("gzip").body(packed(&bomb.to_string()));
        send(bomb).await.refused(413, "body_too_large");
    })
    .await;
}

#[tokio::test]
async fn case_l3_sec_44_the_limit_that_is_published_passes_and_a_large_upload_hears_its_answer() {
    on_file(Limits::default(), async |door| {
        let said = door.get("/v1/capabilities").await.is(200).json();
        let most = usize::try_from(said["limits"]["body_bytes"].as_u64().unwrap()).unwrap();
        let body = |bytes: usize| {
            let bare = r#"{"action":"mail","key":"l3","input":""}"#.len();
            format!(r#"{{"action":"mail","key":"l3","input":"{}"}}"#, "x".repeat(bytes - bare))
        };
        let post = |bytes| {
            let request = door.request("POST", "/v1/effects/begin");
            request.header("content-type", "application/json").body(body(bytes))
        };
        send(post(most + 1)).await.refused(413, "body_too_large");
        send(post(5_000_000)).await.refused(413, "body_too_large");
        assert_eq!(door.count().await, 0);
        send(post(most)).await.is(200);
    })
    .await;
}

#[tokio::test]
async fn what_may_be_left_out_may_be_left_out_with_the_whole_body() {
    on_file(Limits::default(), async |door| {
        let bare = |path: String| send(door.request("POST", &path));
        let run = bare("/v1/workflows/w/runs".to_owned()).await.is(201).json();
        let id = run["id"].as_str().unwrap();
        assert_eq!(bare(format!("/v1/runs/{id}/cancel")).await.is(200).json()["id"], id);
        bare("/v1/effects/begin".to_owned()).await.refused(400, "request_invalid");
        let gate = door.post("/v1/gate", &json!({ "action": "mail", "key": "g" })).await.is(200);
        let gate = gate.json()["id"].as_str().unwrap().to_owned();
        let done = bare(format!("/v1/gate/{gate}/done")).await.is(200).json();
        assert_eq!((&done["decision"], &done["receipt"]), (&json!("done"), &Value::Null));
    })
    .await;
}

#[tokio::test]
async fn case_k4_a_key_that_is_no_text_is_an_invalid_key() {
    on_file(Limits::default(), async |door| {
        for key in [json!(42), json!({ "a": 1 }), json!(["a", 1]), json!(true)] {
            let body = json!({ "action": "mail", "key": key });
            door.begin(body).await.refused(400, "key_invalid");
        }
        door.begin(json!({ "action": "mail", "key": null })).await.refused(400, "key_missing");
        assert_eq!(door.count().await, 0);
    })
    .await;
}

#[tokio::test]
async fn an_effect_is_found_by_the_key_that_it_was_begun_with() {
    on_both(async |door| {
        for (key, query) in [("a,b", "a%2Cb"), ("100%", "100%25"), ("x y/z", "x%20y%2Fz")] {
            let id = door.done(key, json!(1), json!(1)).await;
            let found = door.get(&format!("/v1/effects?action=mail&key={query}")).await.is(200);
            assert_eq!(found.json()["items"][0]["id"], json!(id), "{key}");
            assert_eq!(found.json()["items"].as_array().unwrap().len(), 1, "{key}");
        }
        let none = door.get("/v1/effects?key=never").await.is(200);
        assert_eq!(none.json()["items"], json!([]));
        let run = door.keyed("/v1/workflows/w/runs", "r;1", &json!({})).await.is(201).json();
        let found = door.get("/v1/runs?workflow=w&key=r%3B1").await.is(200).json();
        assert_eq!(found["items"][0]["id"], run["id"]);
    })
    .await;
}

#[tokio::test]
async fn case_f1_signals_and_receipts_that_say_the_same_are_the_same() {
    on_both(async |door| {
        let run = door.post("/v1/workflows/w/runs", &json!({})).await.is(201).json();
        let path = format!("/v1/runs/{}/signals/go", run["id"].as_str().unwrap());
        let signal = |text: &'static str| {
            let request = door.request("POST", &path).header("idempotency-key", "s-1");
            send(request.header("content-type", "application/json").body(text))
        };
        assert_eq!(signal(r#"{"a":1,"b":2}"#).await.is(200).json()["repeated"], false);
        assert_eq!(signal(r#"{ "b":2.0, "a":1 }"#).await.is(200).json()["repeated"], true);
        signal(r#"{"a":1,"b":3}"#).await.refused(422, "input_changed");
        let begun = door.begin(json!({ "action": "mail", "key": "k", "input": 1 })).await.is(200);
        let fence = &begun.json()["fence"];
        door.settle("k", fence, json!({ "receipt": { "id": "M", "n": 1 } })).await.is(200);
        door.settle("k", fence, json!({ "receipt": { "n": 1.0, "id": "M" } })).await.is(200);
        let alarmed = door.get("/v1/effects?alarmed=true").await.is(200).json();
        assert_eq!(alarmed["items"], json!([]), "the same receipt twice is no alarm");
        door.settle("k", fence, json!({ "receipt": { "id": "N" } })).await.is(200);
        let alarmed = door.get("/v1/effects?alarmed=true").await.is(200).json();
        assert_eq!(alarmed["items"].as_array().unwrap().len(), 1, "another one is");
    })
    .await;
}

#[tokio::test]
async fn case_o3_what_failed_for_good_is_answered_as_a_repeat() {
    on_both(async |door| {
        let body = json!({ "action": "mail", "key": "declined", "input": 1 });
        let fence = door.begin(body.clone()).await.is(200).json()["fence"].clone();
        let declined = json!({ "not_applied": true, "final": true, "reason": "card declined" });
        door.settle("declined", &fence, declined).await.is(200);
        let again = door.begin(body).await.is(200);
        assert_eq!(again.json()["outcome"], "failed");
        assert_eq!(again.header("idempotent-replayed"), Some("true"));
    })
    .await;
}

#[tokio::test]
async fn the_host_of_the_public_address_is_ours() {
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("semel.db").display());
    let settings = Settings {
        public_url: Some("https://semel.example.com:8443/base".to_owned()),
        ..Settings::new(store, "127.0.0.1:0".parse().unwrap())
    };
    let server = Server::bind(settings).await.unwrap();
    let url = format!("http://{}/v1/effects", server.address().unwrap());
    let serving = tokio::spawn(server.run(std::future::pending()));
    let ask = async |host: &str| {
        let asked = reqwest::Client::new().get(&url).header("host", host).send().await.unwrap();
        asked.status().as_u16()
    };
    assert_eq!(ask("semel.example.com").await, 200);
    assert_eq!(ask("SEMEL.example.com:8443").await, 200);
    assert_eq!(ask("127.0.0.1").await, 200);
    assert_eq!(ask("evil.example.com").await, 403);
    serving.abort();
}

#[tokio::test]
async fn sec_52_who_changes_a_schedule_is_on_record() {
    on_both(async |door| {
        let namespace = semel_core::key::Namespace::new("acme").unwrap();
        let engine = door.app.engine();
        let made = engine.create_token(&namespace, ("olga", Role::Operator), None, "test").await;
        let olga = door.with(&made.unwrap().0);
        let schedule = json!({ "workflow": "w", "cron": "0 0 * * *" });
        let put = olga.request("PUT", "/v1/schedules/nightly").json(&schedule);
        send(put).await.is(201);
        olga.post("/v1/schedules/nightly/pause", &json!({ "reason": "audit" })).await.is(200);
        send(olga.request("POST", "/v1/schedules/nightly/resume")).await.is(200);
        send(olga.request("DELETE", "/v1/schedules/nightly")).await.is(204);
        let entries = olga.get("/v1/audit").await.is(200).json();
        let said: Vec<_> = entries["items"].as_array().unwrap().iter().collect();
        let of_olga = said.iter().filter(|entry| entry["actor"] == "olga").count();
        assert_eq!(of_olga, 4, "{entries}");
    })
    .await;
}

async fn socket(door: &Door, head: &str) -> TcpStream {
    let mut socket = TcpStream::connect(door.url.trim_start_matches("http://")).await.unwrap();
    socket.write_all(head.as_bytes()).await.unwrap();
    socket
}

async fn ask(door: &Door, path: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n");
    let mut said = String::new();
    let mut asked = socket(door, &head).await;
    asked.read_to_string(&mut said).await.unwrap();
    said
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_46_with_every_connection_taken_health_is_still_told() {
    let limits = Limits { connections: 8, ..Limits::default() };
    on_file(limits, async |door| {
        let mut idle = Vec::new();
        for _ in 0..8 {
            idle.push(socket(&door, "").await);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(ask(&door, "/healthz").await.starts_with("HTTP/1.1 200"));
        let refused = ask(&door, "/v1/effects").await;
        assert!(refused.starts_with("HTTP/1.1 503"), "{refused}");
        assert!(refused.contains("retry-after: 1"), "{refused}");
        drop(idle);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_46_bodies_of_strangers_that_never_end_keep_nobody_out_who_is_known() {
    let limits = Limits { bodies_bytes: 400_000, requests_in_flight: 40, ..Limits::default() };
    on_both_with(limits, async |door| {
        let mut stalled = Vec::new();
        let head = "POST /hooks/x HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000000\r\n\r\n";
        for _ in 0..30 {
            let body = "x".repeat(9_000);
            stalled.push(socket(&door, &format!("{head}{body}")).await);
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
        door.done("k", json!("x".repeat(300_000)), json!(1)).await;
        drop(stalled);
    })
    .await;
}
