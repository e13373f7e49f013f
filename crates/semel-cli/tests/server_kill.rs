//! A server that is killed again and again while clients ask it: nothing that it acknowledged is
//! lost, and nothing happens twice.

use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};

const CLIENTS: usize = 32;
/// As many as the plan asks for; `SEMEL_KILLS` says otherwise.
const KILLS: usize = 300;

/// What the outside world and the callers have seen.
#[derive(Default)]
struct Seen {
    /// How often each effect without a key was applied.
    applied: Mutex<HashMap<String, u32>>,
    /// What each effect with a key was sent under.
    sent: Mutex<HashMap<String, String>>,
    /// Receipts whose settling was acknowledged.
    settled: Mutex<HashMap<String, String>>,
    /// Runs whose start was acknowledged.
    started: Mutex<HashMap<String, String>>,
    next: AtomicU64,
    is_over: AtomicBool,
}

#[tokio::test(flavor = "multi_thread")]
async fn inv_i9_a_server_killed_three_hundred_times_loses_nothing_and_repeats_nothing() {
    let kills = std::env::var("SEMEL_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("semel.db").display());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let url = format!("http://127.0.0.1:{port}");
    let seen = Arc::new(Seen::default());
    let client = reqwest::Client::builder().timeout(Duration::from_secs(5)).build().unwrap();
    let clients: Vec<_> = (0..CLIENTS)
        .map(|number| tokio::spawn(ask(client.clone(), url.clone(), seen.clone(), number)))
        .collect();
    for number in 0..kills {
        let mut server = serve(&store, port);
        ready(&client, &url).await;
        // At another phase of the work each time.
        tokio::time::sleep(Duration::from_millis(20 + (number as u64 * 7) % 60)).await;
        server.kill().unwrap();
        server.wait().unwrap();
    }
    seen.is_over.store(true, Ordering::SeqCst);
    let mut server = serve(&store, port);
    for client in clients {
        client.await.unwrap();
    }
    check(&client, &url, &seen).await;
    server.kill().unwrap();
    server.wait().unwrap();
    let verified = semel(&store).arg("verify").output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stdout));
}

fn semel(store: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.args(["--store", store]).stdin(Stdio::null()).stderr(Stdio::null());
    command
}

fn serve(store: &str, port: u16) -> Child {
    let listen = format!("127.0.0.1:{port}");
    semel(store).args(["serve", "--listen", &listen]).stdout(Stdio::null()).spawn().unwrap()
}

async fn ready(client: &reqwest::Client, url: &str) {
    let patience = Instant::now();
    while client.get(format!("{url}/healthz")).send().await.is_err() {
        assert!(patience.elapsed() < Duration::from_secs(20), "the server does not start");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// One client: it repeats what got no answer, as clients do, until it has one.
async fn ask(client: reqwest::Client, url: String, seen: Arc<Seen>, number: usize) {
    while !seen.is_over.load(Ordering::SeqCst) {
        let key = format!("k{}", seen.next.fetch_add(1, Ordering::SeqCst));
        match number % 3 {
            0 => start(&client, &url, &seen, &key).await,
            1 => effect(&client, &url, &seen, &key, json!("at_most_once")).await,
            _ => {
                let contract = json!({ "native_key": { "retention": "24h" } });
                effect(&client, &url, &seen, &key, contract).await;
            }
        }
    }
}

/// Posts until there is an answer.
async fn post(client: &reqwest::Client, url: &str, key: &str, body: &Value) -> (StatusCode, Value) {
    loop {
        let request = client.post(url).header("idempotency-key", key).json(body);
        if let Ok(answer) = request.send().await {
            let status = answer.status();
            if let Ok(body) = answer.json().await
                && status != StatusCode::SERVICE_UNAVAILABLE
            {
                return (status, body);
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

async fn start(client: &reqwest::Client, url: &str, seen: &Seen, key: &str) {
    let url = format!("{url}/v1/workflows/killed/runs");
    let (status, body) = post(client, &url, key, &json!({ "input": key })).await;
    assert!(status.is_success(), "{status} {body}");
    let id = body["id"].as_str().unwrap().to_owned();
    seen.started.lock().unwrap().insert(key.to_owned(), id);
}

async fn effect(client: &reqwest::Client, url: &str, seen: &Seen, key: &str, contract: Value) {
    let is_keyed = contract.is_object();
    let body = json!({ "action": "killed", "key": key, "input": key, "contract": contract,
                       "attempt_id": format!("a-{key}"), "hold": "1s" });
    let (status, begun) = post(client, &format!("{url}/v1/effects/begin"), key, &body).await;
    if begun["outcome"] != "attempt" {
        // Whoever was cut between commit and answer for too long may not send: it is told so.
        let code = begun["code"].as_str().unwrap_or_default();
        assert!(matches!(code, "attempt_spent" | "in_doubt" | "in_progress"), "{status} {begun}");
        return;
    }
    if is_keyed {
        let sent = begun["downstream_key"].as_str().unwrap().to_owned();
        let before = seen.sent.lock().unwrap().insert(key.to_owned(), sent.clone());
        assert!(before.is_none_or(|before| before == sent), "another downstream key");
    } else {
        *seen.applied.lock().unwrap().entry(key.to_owned()).or_default() += 1;
    }
    let receipt = format!("R-{key}");
    let body = json!({ "action": "killed", "key": key, "fence": begun["fence"],
                       "result": { "receipt": receipt } });
    let (status, settled) = post(client, &format!("{url}/v1/effects/settle"), key, &body).await;
    assert!(status.is_success(), "{status} {settled}");
    seen.settled.lock().unwrap().insert(key.to_owned(), receipt);
}

/// Everything that was acknowledged is there, and nothing was done twice.
async fn check(client: &reqwest::Client, url: &str, seen: &Seen) {
    let applied = seen.applied.lock().unwrap().clone();
    assert!(applied.values().all(|count| *count == 1), "applied twice");
    let settled = seen.settled.lock().unwrap().clone();
    for (key, receipt) in &settled {
        let body = json!({ "action": "killed", "key": key, "input": key });
        let begun = post(client, &format!("{url}/v1/effects/begin"), key, &body).await.1;
        assert_eq!(begun["receipt"], json!(receipt), "{key}: {begun}");
    }
    let started = seen.started.lock().unwrap().clone();
    for (key, id) in &started {
        let run = client.get(format!("{url}/v1/runs/{id}")).send().await.unwrap();
        assert_eq!(run.status(), StatusCode::OK, "{key} {id}");
        let again = format!("{url}/v1/workflows/killed/runs");
        let again = post(client, &again, key, &json!({ "input": key })).await.1;
        assert_eq!(again["id"], json!(id));
    }
    // Enough of each was under way for the kills to mean something.
    assert!(settled.len() >= 50 && started.len() >= 50, "{} {}", settled.len(), started.len());
}
