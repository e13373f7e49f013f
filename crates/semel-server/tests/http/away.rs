//! The store is away: callers are told to come again, and nothing is begun meanwhile.

use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_core::access::Role;
use semel_lab::Cluster;
use semel_server::Limits;
use serde_json::{Value, json};

use crate::door::{Answer, Door};

/// Breaks or mends a server, which takes its time.
async fn blocking(cluster: &Arc<Cluster>, act: fn(&Cluster)) {
    let cluster = cluster.clone();
    tokio::task::spawn_blocking(move || act(&cluster)).await.unwrap();
}

fn wish(key: &str) -> Value {
    json!({ "action": "mail", "key": key, "input": 1 })
}

fn is_away(answer: Answer) {
    let answer = answer.refused(503, "store_unavailable");
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!((1..=60).contains(&seconds), "{seconds}");
    assert_eq!(answer.header("x-should-retry"), Some("true"));
    for told in ["postgres", "127.0.0.1", "refused"] {
        assert!(!answer.text.contains(told), "where the store is: {}", answer.text);
    }
}

/// Asks until the store has come back.
async fn begin(door: &Door, key: &str) -> Value {
    let patience = Instant::now();
    loop {
        let answer = door.begin(wish(key)).await;
        if answer.status == 200 {
            return answer.json();
        }
        is_away(answer);
        assert!(patience.elapsed() < Duration::from_secs(60), "it does not come back");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn case_l1_without_its_store_a_server_begins_nothing_and_goes_on_when_it_is_back() {
    let cluster = Arc::new(Cluster::start());
    let nobody = Door::on(&cluster.url(), Limits::default()).await;
    let door = nobody.to("default", Role::Admin).await;
    let open = door.begin(wish("open")).await.is(200).json();
    door.done("done", json!(1), json!("R")).await;
    for stop in [Cluster::stop_immediately as fn(&Cluster), Cluster::stop_fast] {
        blocking(&cluster, stop).await;
        is_away(door.begin(wish("new")).await);
        is_away(door.begin(wish("done")).await);
        is_away(door.settle("open", &open["fence"], json!({ "unknown": true })).await);
        is_away(door.post("/v1/gate", &wish("gate")).await);
        is_away(door.keyed("/v1/workflows/w/runs", "run", &json!({})).await);
        let ready = door.get("/readyz").await;
        assert_eq!(ready.status, 503, "{}", ready.text);
        // Whoever has no token, or a wrong one, learns no more than others do.
        is_away(nobody.with("semel_default.000000000000.00").begin(wish("new")).await);
        blocking(&cluster, Cluster::start_again).await;
        assert_eq!(begin(&door, "done").await["receipt"], "R");
        let listed = door.get("/v1/effects?limit=10").await.is(200).json();
        assert_eq!(listed["items"].as_array().unwrap().len(), 2, "nothing was begun: {listed}");
        let runs = door.get("/v1/runs").await.is(200).json();
        assert_eq!(runs["items"], json!([]));
    }
    assert_eq!(begin(&door, "new").await["outcome"], "attempt");
    // The attempt of before is its worker's still: nobody took it for lost.
    door.settle("open", &open["fence"], json!({ "receipt": "late" })).await.is(200);
    assert_eq!(begin(&door, "open").await["receipt"], "late");
}
