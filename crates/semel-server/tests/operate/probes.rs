//! Probes, of servers that are well and of such that are not.

use std::sync::Arc;

use semel_engine::{Engine, Loop};
use semel_server::{App, Settings};
use semel_store::{Access, Clock, ManualClock, Opened};
use serde_json::Value;

use crate::place::Place;
use crate::wedged::Wedged;

async fn probe(place: &Place, path: &str) -> (u16, Value) {
    let (status, text) = place.get(path).await;
    (status, serde_json::from_str(&text).expect("JSON"))
}

/// Lets everybody act on a clock that is moved by hand.
async fn pass_ms(clock: &ManualClock, ms: u64) {
    for _ in 0..ms.div_ceil(500) {
        clock.advance_ms(500);
        for _ in 0..20 {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sec_56_a_server_that_is_well_says_so_and_names_its_versions() {
    let place = Place::new().await;
    let (status, shown) = probe(&place, "/healthz").await;
    assert_eq!((status, &shown["status"]), (200, &Value::from("ok")), "{shown}");
    assert_eq!(shown["store"]["sqlite"], semel_store::sqlite::Sqlite::library_version());
    assert_eq!(shown["store"]["format"], semel_store::sqlite::FORMAT);
    assert!(!shown.to_string().contains("semel.db"), "no places: {shown}");
    let (status, shown) = probe(&place, "/readyz").await;
    assert_eq!(status, 200, "{shown}");
    for check in ["job", "dispatch", "writer", "store", "format", "draining"] {
        assert_eq!(shown["checks"][check], "ok", "{shown}");
    }
    // Whoever probes may call us by any name.
    let host = place.client.get(format!("{}/healthz", place.url)).header("host", "10.1.2.3");
    assert_eq!(host.send().await.expect("an answer").status().as_u16(), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn bug_dapr_10337_health_fails_when_a_loop_hangs_though_the_process_lives() {
    let folder = tempfile::tempdir().expect("a folder");
    let store = format!("sqlite:{}", folder.path().join("semel.db").display());
    let clock = ManualClock::new(1_700_000_000_000);
    let by_hand = Clock::Manual(clock.clone());
    let opened = Opened::open(&store, Access::ReadWrite, by_hand).await.expect("a store");
    let wedged = Arc::new(Wedged::new(opened.store()));
    let engine = Engine::before(&opened, wedged.clone(), "server").expect("an engine");
    engine.start();
    let settings = Settings::new(store, "127.0.0.1:0".parse().expect("an address"));
    let place = Place::serve(App::on(engine, opened, settings).expect("an app")).await;
    pass_ms(&clock, 3_000).await;
    assert_eq!(probe(&place, "/healthz").await.0, 200);
    wedged.hang(Loop::Job);
    pass_ms(&clock, 10_000).await;
    let (status, shown) = probe(&place, "/healthz").await;
    assert_eq!(status, 503, "{shown}");
    let job = shown["checks"]["job"].as_str().expect("a text");
    assert!(job.starts_with("it has not turned for "), "{shown}");
    assert_eq!(shown["checks"]["dispatch"], "ok", "the other one turns: {shown}");
    assert_eq!(probe(&place, "/readyz").await.0, 503);
    // The store itself answers, and so does the rest of the server.
    assert_eq!(place.get("/v1/effects").await.0, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_fails_when_nothing_is_written_any_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("semel.db");
    let place = Place::on(&format!("sqlite:{}", path.display()), |settings| settings).await;
    place.begin("probes-damage", "1", &[]).await;
    // Another program breaks the file: an index that is nowhere.
    let other = rusqlite::Connection::open(&path).expect("a database");
    let version: i64 = other.pragma_query_value(None, "schema_version", |row| row.get(0)).unwrap();
    let text = format!(
        "PRAGMA writable_schema = ON; \
         UPDATE sqlite_schema SET rootpage = 999999 WHERE name = 'effects_due'; \
         PRAGMA schema_version = {}",
        version + 1
    );
    other.execute_batch(&text).expect("broken");
    drop(other);
    let body = serde_json::json!({
        "action": "probes-damage", "key": "2", "input": 1, "contract": "at_most_once",
    });
    let (status, answer) = place.ask("/v1/effects/begin", &body, &[]).await;
    assert!(status >= 500, "{answer}");
    let (status, shown) = probe(&place, "/healthz").await;
    assert_eq!(status, 503, "{shown}");
    assert_eq!(shown["checks"]["writer"], "nothing is written: store_corrupt", "{shown}");
}
