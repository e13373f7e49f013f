//! A server that is killed again and again while clients ask it, several of them for the same at
//! once: nothing that it acknowledged is lost, and nothing happens twice.

#![expect(clippy::print_stdout, reason = "the figures of the run")]

use std::collections::{BTreeSet, HashMap};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use reqwest::StatusCode;
use serde_json::{Value, json};

const CLIENTS: usize = 32;
/// As many as the plan asks for; `SEMEL_KILLS` says otherwise.
const KILLS: usize = 300;
/// So many calls are made for each intent, by whoever is free: mostly by others at the same time.
const CALLS_EACH: u64 = 3;
/// A call that has no answer by then never gets one. The longest wait is for a lease of 2 seconds.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread")]
async fn inv_i9_a_server_killed_three_hundred_times_loses_nothing_and_repeats_nothing() {
    let kills = std::env::var("SEMEL_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let store = format!("sqlite:{}", folder.path().join("semel.db").display());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let client = Client::new(format!("http://127.0.0.1:{port}"));
    let started = Instant::now();
    let clients: Vec<_> =
        (0..CLIENTS).map(|_| tokio::spawn(client.clone().work_until_over())).collect();
    for number in 0..kills {
        let mut server = serve(&store, port);
        client.wait_for_server().await;
        // At another phase of the work each time.
        tokio::time::sleep(Duration::from_millis(20 + (number as u64 * 7) % 60)).await;
        server.kill().unwrap();
        server.wait().unwrap();
    }
    client.seen.is_over.store(true, Ordering::SeqCst);
    let mut server = serve(&store, port);
    for working in clients {
        working.await.unwrap();
    }
    client.check().await;
    println!("server_kill: {kills} kills in {:.1} s", started.elapsed().as_secs_f64());
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

/// Something that is to happen once. Whoever works on it knows all of it by its number.
#[derive(Clone, Copy)]
struct Intent(u64);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Start,
    AtMostOnce,
    NativeKey,
}

/// What becomes of whoever has the first permit of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Lives,
    DiesBeforeSending,
    DiesBeforeSettling,
}

impl Intent {
    fn key(self) -> String {
        format!("k{}", self.0)
    }

    fn kind(self) -> Kind {
        [Kind::Start, Kind::AtMostOnce, Kind::NativeKey][(self.0 % 3) as usize]
    }

    /// Some die, so that the others meet a doubt and not only a receipt.
    fn fate(self) -> Fate {
        match (self.0 / 3) % 12 {
            3 => Fate::DiesBeforeSending,
            9 => Fate::DiesBeforeSettling,
            _ => Fate::Lives,
        }
    }
}

/// The outside world: every request makes an object there, unless it brings a key that is known.
#[derive(Default)]
struct Destination {
    /// The receipts of the objects that were made for each intent: at most one, if all is well.
    made: HashMap<String, Vec<String>>,
    by_downstream_key: HashMap<String, String>,
    requests: u64,
}

impl Destination {
    /// Does what it is asked for, and answers with a receipt.
    fn take(&mut self, key: &str, downstream_key: Option<&str>) -> String {
        self.requests += 1;
        if let Some(known) = downstream_key.and_then(|key| self.by_downstream_key.get(key)) {
            return known.clone();
        }
        let receipt = format!("object-{}", self.requests);
        self.made.entry(key.to_owned()).or_default().push(receipt.clone());
        if let Some(downstream_key) = downstream_key {
            self.by_downstream_key.insert(downstream_key.to_owned(), receipt.clone());
        }
        receipt
    }
}

/// What the callers were told.
#[derive(Default)]
struct Told {
    /// All receipts that callers of one intent have, settled or replayed.
    receipts: HashMap<String, BTreeSet<String>>,
    /// All runs that the starts of one key came to.
    runs: HashMap<String, BTreeSet<String>>,
    /// How often a start was said to have made its run.
    created: HashMap<String, u64>,
    attached: u64,
    settled: u64,
    replays: u64,
    waits: u64,
    doubts: u64,
    resumed: u64,
    taken_over: u64,
}

#[derive(Default)]
struct Seen {
    destination: Mutex<Destination>,
    told: Mutex<Told>,
    next: AtomicU64,
    is_over: AtomicBool,
}

/// One that asks; it repeats what got no answer, as clients do, until it has one.
#[derive(Clone)]
struct Client {
    http: reqwest::Client,
    url: String,
    seen: Arc<Seen>,
}

impl Client {
    fn new(url: String) -> Client {
        let http = reqwest::Client::builder().timeout(Duration::from_secs(5)).build().unwrap();
        Client { http, url, seen: Arc::default() }
    }

    async fn wait_for_server(&self) {
        let patience = Instant::now();
        while self.http.get(format!("{}/healthz", self.url)).send().await.is_err() {
            assert!(patience.elapsed() < Duration::from_secs(20), "the server does not start");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn work_until_over(self) {
        while !self.seen.is_over.load(Ordering::SeqCst) {
            let intent = Intent(self.seen.next.fetch_add(1, Ordering::SeqCst) / CALLS_EACH);
            match intent.kind() {
                Kind::Start => self.start(intent).await,
                Kind::AtMostOnce | Kind::NativeKey => self.effect(intent).await,
            }
        }
    }

    /// Posts until there is an answer.
    async fn post(&self, path: &str, key: &str, body: &Value) -> (StatusCode, Value) {
        let patience = Instant::now();
        while patience.elapsed() < PATIENCE {
            let request = self.http.post(format!("{}{path}", self.url));
            let request = request.header("idempotency-key", key).json(body);
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
        panic!("{path} {key}: no answer");
    }

    async fn start(&self, intent: Intent) {
        let key = intent.key();
        let (status, body) =
            self.post("/v1/workflows/killed/runs", &key, &json!({ "input": key })).await;
        assert!(status.is_success(), "{status} {body}");
        let id = body["id"].as_str().unwrap().to_owned();
        let mut told = self.seen.told.lock().unwrap();
        told.runs.entry(key.clone()).or_default().insert(id);
        match status {
            StatusCode::CREATED => *told.created.entry(key).or_default() += 1,
            _ => told.attached += 1,
        }
    }

    /// Asks for permission until there is some answer that stands.
    async fn effect(&self, intent: Intent) {
        let (key, patience) = (intent.key(), Instant::now());
        let mut attempt_id = random_id();
        while patience.elapsed() < PATIENCE {
            let (status, begun) = self.begin(intent, &attempt_id).await;
            let code = begun["code"].as_str();
            match (begun["outcome"].as_str(), code, intent.kind()) {
                (Some("attempt"), _, _) => return self.perform(intent, &begun).await,
                (Some("replay"), _, _) => {
                    let mut told = self.seen.told.lock().unwrap();
                    told.replays += 1;
                    let receipt = begun["receipt"].as_str().unwrap().to_owned();
                    told.receipts.entry(key).or_default().insert(receipt);
                    return;
                }
                (_, Some("in_progress"), _) => self.seen.told.lock().unwrap().waits += 1,
                // It was cut between commit and answer for too long: another call has to ask.
                (_, Some("attempt_spent"), _) => attempt_id = random_id(),
                // Nobody knows whether it was sent, so nobody may send it.
                (_, Some("in_doubt"), Kind::AtMostOnce) => {
                    self.seen.told.lock().unwrap().doubts += 1;
                    return;
                }
                _ => panic!("{key} {:?}: {status} {begun}", intent.kind()),
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{key}: neither a permit nor a receipt");
    }

    async fn begin(&self, intent: Intent, attempt_id: &str) -> (StatusCode, Value) {
        let key = intent.key();
        let contract = match intent.kind() {
            Kind::Start | Kind::AtMostOnce => json!("at_most_once"),
            Kind::NativeKey => json!({ "native_key": { "retention": "24h" } }),
        };
        let body = json!({ "action": "killed", "key": key, "input": key, "contract": contract,
                           "attempt_id": attempt_id, "lease": "2s", "hold": "1s" });
        self.post("/v1/effects/begin", &key, &body).await
    }

    /// Sends under a permit, and settles what came of it.
    async fn perform(&self, intent: Intent, begun: &Value) {
        let (key, attempt) = (intent.key(), begun["attempt"].as_u64().unwrap());
        self.note(|told| {
            told.resumed += u64::from(begun["resumed"] == true);
            told.taken_over += u64::from(attempt > 1);
        });
        let fate = if attempt == 1 { intent.fate() } else { Fate::Lives };
        if fate == Fate::DiesBeforeSending {
            return;
        }
        // The others arrive while it is under way.
        tokio::time::sleep(Duration::from_millis(u64::from(random_bytes()[0]) / 8)).await;
        let downstream_key = match intent.kind() {
            Kind::Start | Kind::AtMostOnce => None,
            Kind::NativeKey => Some(begun["downstream_key"].as_str().unwrap()),
        };
        let receipt = self.seen.destination.lock().unwrap().take(&key, downstream_key);
        if fate == Fate::DiesBeforeSettling {
            return;
        }
        let body = json!({ "action": "killed", "key": key, "fence": begun["fence"],
                           "result": { "receipt": receipt } });
        let (status, settled) = self.post("/v1/effects/settle", &key, &body).await;
        assert!(status.is_success(), "{status} {settled}");
        self.note(|told| {
            told.settled += 1;
            told.receipts.entry(key).or_default().insert(receipt);
        });
    }

    fn note(&self, change: impl FnOnce(&mut Told)) {
        change(&mut self.seen.told.lock().unwrap());
    }

    /// Everything that was acknowledged is there, and nothing was done twice.
    async fn check(&self) {
        let destination = std::mem::take(&mut *self.seen.destination.lock().unwrap());
        let told = std::mem::take(&mut *self.seen.told.lock().unwrap());
        for (key, made) in &destination.made {
            assert_eq!(made.len(), 1, "{key} happened twice: {made:?}");
        }
        for (key, receipts) in &told.receipts {
            let made = BTreeSet::from_iter(destination.made.get(key).cloned().unwrap_or_default());
            assert_eq!(*receipts, made, "{key}: a receipt that the destination did not give");
        }
        for (key, runs) in &told.runs {
            assert_eq!(runs.len(), 1, "{key} is several runs: {runs:?}");
        }
        assert!(told.created.values().all(|count| *count == 1), "a run was made twice");
        for number in 0..self.seen.next.load(Ordering::SeqCst).div_ceil(CALLS_EACH) {
            self.check_stored(Intent(number), &told).await;
        }
        told.check_enough(&destination);
    }

    /// The ledger says now what it said then, and where it said nothing it lets nobody send again.
    async fn check_stored(&self, intent: Intent, told: &Told) {
        let key = intent.key();
        if let Some(id) = told.runs.get(&key).and_then(BTreeSet::first) {
            let run = self.http.get(format!("{}/v1/runs/{id}", self.url)).send().await.unwrap();
            assert_eq!(run.status(), StatusCode::OK, "{key} {id}");
            let body = json!({ "input": key });
            let again = self.post("/v1/workflows/killed/runs", &key, &body).await.1;
            assert_eq!(again["id"], json!(id), "{key}");
        }
        let receipt = told.receipts.get(&key).and_then(BTreeSet::first);
        match (receipt, intent.kind()) {
            (_, Kind::Start) | (None, Kind::NativeKey) => {}
            (Some(receipt), Kind::AtMostOnce | Kind::NativeKey) => {
                let begun = self.begin(intent, &random_id()).await.1;
                assert_eq!(begun["receipt"], json!(receipt), "{key}: {begun}");
            }
            (None, Kind::AtMostOnce) => {
                let begun = self.begin(intent, &random_id()).await.1;
                let code = begun["code"].as_str();
                assert!(matches!(code, Some("in_doubt" | "in_progress")), "{key}: {begun}");
            }
        }
    }
}

impl Told {
    /// Enough of each was under way for the kills to mean something, and duplicates met.
    fn check_enough(&self, destination: &Destination) {
        println!(
            "server_kill: {} runs ({} attached), {} effects with a receipt of {} objects and {} \
             requests, {} settled, {} replays, {} waits, {} doubts, {} taken over, {} resumed",
            self.runs.len(),
            self.attached,
            self.receipts.len(),
            destination.made.len(),
            destination.requests,
            self.settled,
            self.replays,
            self.waits,
            self.doubts,
            self.taken_over,
            self.resumed,
        );
        assert!(self.receipts.len() >= 50 && self.runs.len() >= 50, "too little was under way");
        assert!(self.replays >= 50 && self.attached >= 50, "duplicates did not meet");
        assert!(self.doubts > 0 && self.taken_over > 0, "nobody met what the dead had left");
    }
}

fn random_bytes() -> [u8; 16] {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).unwrap();
    bytes
}

fn random_id() -> String {
    format!("{:032x}", u128::from_be_bytes(random_bytes()))
}
