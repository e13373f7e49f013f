//! The end of a server: what is under way is answered, what comes is sent elsewhere.

use std::time::{Duration, Instant};

use semel_server::Limits;
use serde_json::json;

use crate::door::{Answer, Door, file, send};
use crate::wire::{body, connect, read, status, unfinished, write};

/// Waits until so many requests hang at their effect.
async fn held(door: &Door, count: usize) {
    let patience = Instant::now();
    while door.app.engine().keys_in_flight() < count {
        assert!(patience.elapsed() < Duration::from_secs(10), "nobody waits");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits until the server takes no more connections.
async fn closed(door: &Door) {
    let patience = Instant::now();
    while tokio::net::TcpStream::connect(crate::wire::address(door)).await.is_ok() {
        assert!(patience.elapsed() < Duration::from_secs(10), "it still listens");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// A duplicate of an effect that is under way, in a task of its own.
fn duplicate(door: &Door, key: &str) -> tokio::task::JoinHandle<Answer> {
    let body = json!({ "action": "mail", "key": key, "input": 1 });
    tokio::spawn(send(door.request("POST", "/v1/effects/begin").json(&body)))
}

async fn ends(store: &str) {
    let limits = Limits { hold_ms: 3_000, drain_ms: 15_000, ..Limits::default() };
    let (mut door, other) = (Door::on(store, limits).await, Door::on(store, limits).await);
    let mut fences = Vec::new();
    for key in ["won", "open"] {
        let body = json!({ "action": "mail", "key": key, "input": 1 });
        fences.push(door.begin(body).await.is(200).json()["fence"].clone());
    }
    let (won, open) = (duplicate(&door, "won"), duplicate(&door, "open"));
    held(&door, 2).await;
    // Connections of which the server has seen a part: one for us, one for whoever probes.
    let (mut late, mut probe, mut idle) =
        (connect(&door).await, connect(&door).await, connect(&door).await);
    write(&mut idle, &format!("{}\r\n", unfinished("/healthz"))).await;
    write(&mut late, &unfinished("/v1/effects")).await;
    write(&mut probe, &unfinished("/readyz")).await;
    let ready = door.get("/readyz").await.is(200).json();
    assert_eq!(ready["checks"]["draining"], "ok", "{ready}");
    // It has surely read what it got so far.
    tokio::time::sleep(Duration::from_millis(200)).await;
    let ended = door.stop();
    closed(&door).await;
    assert!(!ended.is_finished(), "somebody still waits");
    for socket in [&mut late, &mut probe] {
        write(socket, "\r\n").await;
    }
    let said = read(&mut late).await;
    assert_eq!((status(&said), &body(&said)["code"]), (503, &json!("overloaded")), "{said}");
    assert!(said.contains("\r\nretry-after: 1\r\n"), "{said}");
    let said = read(&mut probe).await;
    assert_eq!(status(&said), 503, "{said}");
    assert_eq!(body(&said)["checks"]["draining"], "the server is shutting down", "{said}");
    let said = read(&mut idle).await;
    assert_eq!((status(&said), said.matches("HTTP/1.1 ").count()), (200, 1), "{said}");
    // The server beside it is told what became of the effect, and the one that ends passes it on.
    other.settle("won", &fences[0], json!({ "receipt": "M-1" })).await.is(200);
    let won = won.await.unwrap().is(200);
    assert_eq!(won.json()["receipt"], "M-1", "{}", won.text);
    let told = open.await.unwrap().refused(409, "in_progress");
    assert!(told.header("retry-after").is_some(), "{told:?}");
    let asked = Instant::now();
    ended.await.unwrap().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "it has nothing left to wait for");
    assert_eq!(other.count().await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_answers_who_waits_and_sends_the_others_away() {
    let folder = tempfile::tempdir().unwrap();
    ends(&file(&folder)).await;
    let database = semel_lab::database();
    ends(&database.url()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_ends_waits_for_nobody_longer_than_it_was_told() {
    let limits = Limits { hold_ms: 20_000, drain_ms: 500, ..Limits::default() };
    let folder = tempfile::tempdir().unwrap();
    let mut door = Door::on(&file(&folder), limits).await;
    door.begin(json!({ "action": "mail", "key": "k", "input": 1 })).await.is(200);
    let waits = duplicate(&door, "k");
    held(&door, 1).await;
    let asked = Instant::now();
    door.stop().await.unwrap().unwrap();
    assert!(asked.elapsed() < Duration::from_secs(10), "{:?}", asked.elapsed());
    waits.abort();
}
