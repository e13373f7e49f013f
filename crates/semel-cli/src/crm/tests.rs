//! The CRM is the judge in crash tests, so each of its behaviours and faults is held here.

use std::fs::File;
use std::io::Write as _;
use std::time::Instant;

use reqwest::{Client, RequestBuilder};
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::*;

/// Longer than any wait a healthy test needs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A CRM in a runtime of its own, so that stopping it drops its connections like a kill.
struct World {
    dir: TempDir,
    runtime: Option<Runtime>,
    url: String,
    client: Client,
}

impl World {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut world = Self { dir, runtime: None, url: String::new(), client: Client::new() };
        world.restart().await;
        world
    }

    async fn restart(&mut self) {
        self.stop().await;
        let runtime = Runtime::new().unwrap();
        runtime.spawn(serve(self.dir.path().to_owned()));
        self.runtime = Some(runtime);
        let start = Instant::now();
        while !self.dir.path().join("crm.addr").exists() {
            assert!(start.elapsed() < PATIENCE, "no address");
            sleep(Duration::from_millis(5)).await;
        }
        self.url = fs::read_to_string(self.dir.path().join("crm.addr")).unwrap();
    }

    async fn stop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            fs::remove_file(self.dir.path().join("crm.addr")).unwrap();
            tokio::task::spawn_blocking(|| runtime.shutdown_timeout(PATIENCE)).await.unwrap();
        }
    }

    fn post(&self, path: &str, body: &Value) -> RequestBuilder {
        self.client.post(format!("{}{path}", self.url)).timeout(PATIENCE).json(body)
    }

    fn create(&self, rule: &str, reference: &str) -> RequestBuilder {
        let body = json!({ "reference": reference, "subject": "Help" });
        self.post(&format!("/{rule}/tickets"), &body)
    }

    fn native(&self, key: &str) -> RequestBuilder {
        self.create("native", "42").header("Idempotency-Key", key)
    }

    fn conditional(&self, reference: &str) -> RequestBuilder {
        self.client
            .put(format!("{}/conditional/tickets/{reference}", self.url))
            .timeout(PATIENCE)
            .json(&json!({ "subject": "Help" }))
    }

    async fn get(&self, path: &str) -> reqwest::Response {
        self.client.get(format!("{}{path}", self.url)).timeout(PATIENCE).send().await.unwrap()
    }

    async fn script(&self, answers: &[&str]) {
        let body = json!({ "reference": "42", "answers": answers });
        assert_eq!(status(self.post("/control/script", &body)).await, 204);
    }

    async fn events(&self, after: u64, wait_ms: u64) -> Vec<Event> {
        read(self.get(&format!("/control/events?after={after}&wait_ms={wait_ms}")).await).await
    }

    /// Waits for `count` events and says them as `kind ticket`.
    async fn story(&self, count: usize) -> Vec<String> {
        let mut events: Vec<Event> = Vec::new();
        let start = Instant::now();
        while events.len() < count && start.elapsed() < PATIENCE {
            events.extend(self.events(events.len() as u64, 1000).await);
        }
        events.iter().map(tell).collect()
    }

    fn applied(&self) -> usize {
        applied(self.dir.path(), "42").unwrap()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

fn tell(event: &Event) -> String {
    let kind = serde_json::to_value(event.kind).unwrap();
    format!("{} {}", kind.as_str().unwrap(), event.ticket.as_deref().unwrap_or("-"))
}

async fn status(request: RequestBuilder) -> u16 {
    request.send().await.unwrap().status().as_u16()
}

async fn read<T: DeserializeOwned>(response: reqwest::Response) -> T {
    assert_eq!(response.status(), 200);
    response.json().await.unwrap()
}

/// Sends, sees `count` events and no answer, and goes away. Says the events.
async fn abandon(world: &World, request: RequestBuilder, count: usize) -> Vec<String> {
    let sent = tokio::spawn(request.send());
    let story = world.story(count).await;
    sleep(Duration::from_millis(200)).await;
    assert!(!sent.is_finished(), "the request was answered");
    sent.abort();
    story
}

#[tokio::test]
async fn plain_creates_every_time_and_offers_nothing_else() {
    let world = World::start().await;
    let first = world.create("plain", "42").header("x-worker", "7").send().await.unwrap();
    assert_eq!(first.status(), 201);
    let first: Ticket = first.json().await.unwrap();
    let keyed = || world.create("plain", "42").header("Idempotency-Key", "k");
    assert_eq!((status(keyed()).await, status(keyed()).await), (201, 201));
    let expected = Ticket {
        id: "T-1".into(),
        reference: "42".into(),
        subject: "Help".into(),
        key: None,
        worker: Some("7".into()),
        seq: 1,
    };
    assert_eq!(first, expected);
    let file = tickets(world.dir.path()).unwrap();
    assert_eq!((file.len(), &file[0], &file[2].id), (3, &expected, &"T-3".to_owned()));
    assert_eq!(file[1].key, None, "a key that was ignored is not a ticket's key");
    for path in ["/plain/tickets?reference=42", "/native/tickets", "/plain/tickets/T-1", "/"] {
        assert_eq!(world.get(path).await.status(), 404, "{path}");
    }
    assert_eq!(world.get("/control/health").await.status(), 200);
}

#[tokio::test]
async fn native_creates_once_per_key() {
    let world = World::start().await;
    let first = world.native("a").send().await.unwrap();
    assert_eq!(first.status(), 201);
    let first: Ticket = first.json().await.unwrap();
    assert_eq!(first.key.as_deref(), Some("a"));
    assert_eq!(read::<Ticket>(world.native("a").send().await.unwrap()).await, first);
    assert_eq!(status(world.native("b")).await, 201);
    assert_eq!(status(world.create("native", "42")).await, 201);
    assert_eq!(status(world.create("native", "42")).await, 201);
    assert_eq!(world.applied(), 4);
    assert_eq!(
        world.story(10).await[..4],
        ["arrived -", "written T-1", "arrived -", "replayed T-1"]
    );
}

#[tokio::test]
async fn native_creates_once_under_concurrency() {
    let world = World::start().await;
    let posts: Vec<_> = (0..100).map(|_| tokio::spawn(status(world.native("one")))).collect();
    let mut created = 0;
    for post in posts {
        match post.await.unwrap() {
            201 => created += 1,
            other => assert_eq!(other, 200),
        }
    }
    assert_eq!((created, world.applied()), (1, 1));
    let events = world.events(0, 0).await;
    assert_eq!(events.iter().filter(|event| event.kind == Kind::Replayed).count(), 99);
    assert!(events.iter().zip(1..).all(|(event, n)| event.n == n));
}

#[tokio::test]
async fn lookup_lists_the_tickets_of_a_reference() {
    let world = World::start().await;
    let path = "/lookup/tickets?reference=42";
    assert!(read::<Vec<Ticket>>(world.get(path).await).await.is_empty());
    for reference in ["42", "43", "42"] {
        assert_eq!(status(world.create("lookup", reference)).await, 201);
    }
    let found: Vec<Ticket> = read(world.get(path).await).await;
    assert_eq!(found.iter().map(|ticket| ticket.id.as_str()).collect::<Vec<_>>(), ["T-1", "T-3"]);
    let story = world.story(8).await;
    assert_eq!((story[0].as_str(), story[7].as_str()), ("looked -", "looked T-1"));
    assert_eq!(world.get("/lookup/tickets").await.status(), 400);
}

#[tokio::test]
async fn conditional_creates_only_if_absent() {
    let world = World::start().await;
    let path = "/conditional/tickets/42";
    let guarded = || world.conditional("42").header("If-None-Match", "*");
    assert_eq!(world.get(path).await.status(), 404);
    assert_eq!(status(world.conditional("42")).await, 428);
    assert_eq!(status(guarded()).await, 201);
    assert_eq!(status(guarded()).await, 412);
    assert_eq!(read::<Ticket>(world.get(path).await).await.id, "T-1");
    assert_eq!(world.applied(), 1);
    let story = ["looked -", "arrived -", "written T-1", "arrived -", "refused T-1", "looked T-1"];
    assert_eq!(world.story(6).await, story);
}

#[tokio::test]
async fn conditional_creates_once_under_concurrency() {
    let world = World::start().await;
    let put = || tokio::spawn(status(world.conditional("42").header("If-None-Match", "*")));
    let puts: Vec<_> = (0..20).map(|_| put()).collect();
    let mut answers = Vec::new();
    for put in puts {
        answers.push(put.await.unwrap());
    }
    answers.sort_unstable();
    assert_eq!((answers[0], answers[1], world.applied()), (201, 412, 1));
}

#[tokio::test]
async fn held_request_is_written_and_never_answered() {
    let world = World::start().await;
    world.script(&["hold"]).await;
    let story = abandon(&world, world.native("a"), 3).await;
    assert_eq!(story, ["arrived -", "written T-1", "held T-1"]);
    assert_eq!(status(world.native("a")).await, 200, "the script is over; the key is known");
    assert_eq!(world.applied(), 1);
}

#[tokio::test]
async fn held_before_is_never_written() {
    let world = World::start().await;
    world.script(&["hold_before"]).await;
    let story = abandon(&world, world.native("a"), 2).await;
    assert_eq!(story, ["arrived -", "held -"]);
    assert_eq!(world.applied(), 0);
    assert_eq!(status(world.native("a")).await, 201);
}

#[tokio::test]
async fn scripted_statuses_come_in_order_of_arrival() {
    let world = World::start().await;
    world.script(&["status:503", "write_status:500"]).await;
    world.script(&["status:412"]).await;
    let post = || status(world.create("plain", "42"));
    assert_eq!((post().await, world.applied()), (503, 0));
    assert_eq!((post().await, world.applied()), (500, 1));
    assert_eq!((post().await, world.applied()), (412, 1));
    assert_eq!((post().await, world.applied()), (201, 2));
    let story = ["arrived -", "refused -", "arrived -", "written T-1", "arrived -", "refused -"];
    assert_eq!(world.story(8).await[..6], story);
}

#[tokio::test]
async fn reset_writes_once_and_shows_no_status() {
    let world = World::start().await;
    world.script(&["reset"]).await;
    let error = world.create("plain", "42").send().await.unwrap_err();
    assert!(error.is_request() && !error.is_timeout() && !error.is_connect(), "{error:?}");
    assert_eq!(error.status(), None);
    assert_eq!(world.story(2).await, ["arrived -", "written T-1"], "the client did not repeat");
    assert_eq!(world.get("/control/health").await.status(), 200);
}

#[tokio::test]
async fn delayed_request_lands_late_also_when_its_client_has_gone() {
    let world = World::start().await;
    world.script(&["delay:1500"]).await;
    assert_eq!(abandon(&world, world.create("plain", "42"), 1).await, ["arrived -"]);
    assert_eq!(world.applied(), 0);
    assert_eq!(world.story(2).await, ["arrived -", "written T-1"]);
    assert_eq!(world.applied(), 1);
}

#[tokio::test]
async fn slow_request_is_written_before_the_wait() {
    let world = World::start().await;
    world.script(&["slow:1500"]).await;
    let post = tokio::spawn(status(world.create("plain", "42")));
    assert_eq!(world.story(2).await, ["arrived -", "written T-1"]);
    assert_eq!((post.is_finished(), world.applied()), (false, 1));
    assert_eq!(post.await.unwrap(), 201);
}

#[tokio::test]
async fn default_takes_every_third_request_without_a_script() {
    let world = World::start().await;
    world.script(&["ok"]).await;
    let set = |body: Value| status(world.post("/control/default", &body));
    assert_eq!(set(json!({ "every": 3, "answer": "status:503" })).await, 204);
    let mut answers = Vec::new();
    for reference in ["1", "42", "2", "42", "3", "4", "5", "6"] {
        answers.push(status(world.create("plain", reference)).await);
    }
    assert_eq!(answers, [201, 201, 201, 201, 503, 201, 201, 503]);
    for off in [json!({ "every": 0, "answer": "hold" }), json!({ "every": null })] {
        assert_eq!(set(json!({ "every": 1, "answer": "status:503" })).await, 204);
        assert_eq!(set(off).await, 204);
        assert_eq!(status(world.create("plain", "1")).await, 201);
    }
}

#[tokio::test]
async fn unknown_answers_are_refused() {
    let world = World::start().await;
    for answer in ["hang", "ok:1", "status", "status:99", "status:100", "delay:-1", "slow:600001"] {
        let body = json!({ "reference": "42", "answers": ["hold", answer] });
        assert_eq!(status(world.post("/control/script", &body)).await, 422, "{answer}");
    }
    assert_eq!(status(world.create("plain", "42")).await, 201, "nothing was scripted");
}

#[tokio::test]
async fn events_wait_for_news_and_no_longer() {
    let world = World::start().await;
    let start = Instant::now();
    assert!(world.events(0, 200).await.is_empty());
    assert!(start.elapsed() >= Duration::from_millis(200));
    let (events, created) = tokio::join!(
        world.events(0, 20_000),
        status(world.native("k").header("x-worker", "pid 7")),
    );
    assert_eq!((tell(&events[0]), created), ("arrived -".to_owned(), 201));
    assert_eq!((events[0].key.as_deref(), events[0].worker.as_deref()), (Some("k"), Some("pid 7")));
    assert!(start.elapsed() < Duration::from_secs(15), "news end the wait");
    assert_eq!(world.events(1, 1000).await[0].n, 2);
}

#[tokio::test]
async fn restart_keeps_tickets_keys_and_event_numbers() {
    let mut world = World::start().await;
    assert_eq!(status(world.native("a")).await, 201);
    let guarded = |world: &World| world.conditional("43").header("If-None-Match", "*");
    assert_eq!(status(guarded(&world)).await, 201);
    world.stop().await;
    let mut file = File::options().append(true).open(world.dir.path().join(book::TICKETS)).unwrap();
    file.write_all(br#"{"id":"T-3","refer"#).unwrap();
    drop(file);
    assert_eq!(tickets(world.dir.path()).unwrap().len(), 2, "a torn line is no ticket");
    world.restart().await;
    assert_eq!(status(world.native("a")).await, 200);
    assert_eq!(status(guarded(&world)).await, 412);
    assert_eq!(status(world.native("b")).await, 201);
    let file = tickets(world.dir.path()).unwrap();
    assert_eq!(
        file.iter().map(|ticket| ticket.id.as_str()).collect::<Vec<_>>(),
        ["T-1", "T-2", "T-3"]
    );
    assert!(world.events(0, 0).await.iter().zip(1..=10).all(|(event, n)| event.n == n));
}

#[tokio::test]
async fn one_directory_has_one_server() {
    let world = World::start().await;
    let refused = serve(world.dir.path().to_owned()).await.unwrap_err();
    assert!(format!("{refused:#}").contains("another server holds"), "{refused:#}");
}

#[test]
fn oracle_refuses_what_it_cannot_trust() {
    let dir = tempfile::tempdir().unwrap();
    assert!(tickets(dir.path()).is_err(), "no file is not the same as no ticket");
    let line = r#"{"id":"T-2","reference":"42","subject":"Help","key":null,"worker":null,"seq":2}"#;
    fs::write(dir.path().join(book::TICKETS), format!("{line}\n")).unwrap();
    assert!(applied(dir.path(), "42").is_err(), "a ticket is missing");
}
