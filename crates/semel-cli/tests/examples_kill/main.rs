//! The examples of sagas and approvals, killed before and after every commit and at every request
//! of their destination. A worker is this very program, asked to run the ignored test `a_worker`.

#![expect(clippy::print_stdout, reason = "each point is printed with its outcome")]

#[path = "../common/mod.rs"]
mod common;
mod person;
mod shop;
mod specs;
mod worker;

use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use tempfile::TempDir;

use common::{run, semel};
use person::{Deeds, attend};
use shop::{Kill, Shop};
use worker::{End, Worker, store_url};

/// Points at a time: most of a point's time is waiting.
const AT_ONCE: usize = 4;
/// Whether a lease is renewed or a run is parked depends on who is faster.
const BY_THE_CLOCK: [&str; 3] = [" run running", " run waiting", " taken"];

/// Not a test: what the other tests start as a process of its own.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by the other tests as a process of its own"]
async fn a_worker() {
    worker::work().await;
}

/// An example, and what it comes to wherever it is killed.
struct Example {
    name: &'static str,
    /// What the destination has at the end, in this order and each once.
    kinds: &'static [&'static str],
    points_min: usize,
}

const SAGA_ORDER: Example = Example {
    name: "saga_order",
    kinds: &["reservations", "charges", "refunds", "releases"],
    points_min: 30,
};
const REFUND_APPROVAL: Example =
    Example { name: "refund_approval", kinds: &["refunds"], points_min: 14 };

/// One story: a store, a destination, and workers one after the other.
struct Story<'a> {
    example: &'a Example,
    folder: TempDir,
    shop: Shop,
    url: String,
}

impl Story<'_> {
    async fn new(example: &Example) -> Story<'_> {
        let shop = Shop::default();
        let url = shop.start().await;
        Story { example, folder: tempfile::tempdir().expect("a folder"), shop, url }
    }

    fn start(&self, die_at: Option<&str>) -> Worker {
        Worker::start(self.example.name, self.folder.path(), &self.url, die_at)
    }

    async fn attend(&self, worker: &mut Worker) -> (End, Deeds) {
        attend(worker, self.folder.path(), &self.shop).await
    }

    /// Lets a new worker finish, and counts.
    async fn finish(&self) -> Deeds {
        let mut last = self.start(None);
        let (end, deeds) = self.attend(&mut last).await;
        assert_eq!(end, End::Done);
        self.check();
        deeds
    }

    fn check(&self) {
        assert_eq!(self.shop.kinds(), self.example.kinds, "what the destination has");
        let told = std::fs::read_to_string(self.folder.path().join("outcome")).expect("told");
        let told: Value = serde_json::from_str(&told).expect("an outcome");
        let want = match self.example.name {
            "saga_order" => json!(["run_failed", "run_failed"]),
            _ => {
                let paid = self.shop.all("refunds");
                let receipt = json!({ "id": paid[0]["id"], "cents": 2100 });
                json!(["approval_returned", "approval_returned", receipt, receipt])
            }
        };
        assert_eq!(told, want, "what both callers were told");
        let url = store_url(self.folder.path());
        let verified = run(semel().args(["--store", &url, "--json", "verify"])).expect(0).json();
        assert_eq!(verified["violations"], json!([]));
    }
}

/// Every point that a worker passes when nobody kills it.
async fn points(example: &Example) -> Vec<String> {
    let story = Story::new(example).await;
    let mut worker = story.start(Some("nowhere"));
    assert_eq!(story.attend(&mut worker).await.0, End::Done);
    story.check();
    let mut points: Vec<String> = Vec::new();
    for point in worker.points() {
        if !points.contains(&point) {
            points.push(point);
        }
    }
    assert!(points.len() >= example.points_min, "{points:?}");
    points
}

async fn killed_at(example: &Example, point: String) {
    let story = Story::new(example).await;
    let mut worker = story.start(Some(&point));
    let (end, before) = story.attend(&mut worker).await;
    let may_miss = BY_THE_CLOCK.iter().any(|name| point.ends_with(name));
    assert!(end == End::Killed || may_miss, "{point} was not reached: {}", worker.words());
    let after = story.finish().await;
    let doubts = before.doubts + after.doubts;
    println!("{} killed {point}: {doubts} doubts", example.name);
}

async fn killed_by_the_destination(example: &Example, what: &str, is_after: bool) -> usize {
    let story = Story::new(example).await;
    let mut worker = story.start(None);
    story.shop.plan(Kill { what: what.to_owned(), is_after, worker: worker.id() });
    assert_eq!(story.attend(&mut worker).await.0, End::Killed, "{what}");
    let doubts = story.finish().await.doubts;
    let phase = if is_after { "after" } else { "before" };
    println!("{} killed {phase} {what} at the destination: {doubts} doubts", example.name);
    doubts
}

async fn killed_at_every_point(example: &Example) {
    let stories = points(example).await.into_iter().map(|point| killed_at(example, point));
    stream::iter(stories).buffer_unordered(AT_ONCE).collect::<Vec<()>>().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn req_o4_an_order_killed_at_every_point_is_taken_back_once() {
    killed_at_every_point(&SAGA_ORDER).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn req_a3_a_refund_killed_at_every_point_is_paid_once_and_as_approved() {
    killed_at_every_point(&REFUND_APPROVAL).await;
}

/// What honours keys is asked again; a refund is not, and waits for a person.
#[tokio::test(flavor = "multi_thread")]
async fn examples_killed_at_their_destination_repeat_only_what_has_keys() {
    for is_after in [false, true] {
        for what in ["reservations", "charges", "parcels", "releases"] {
            assert_eq!(killed_by_the_destination(&SAGA_ORDER, what, is_after).await, 0);
        }
        for example in [&SAGA_ORDER, &REFUND_APPROVAL] {
            assert_eq!(killed_by_the_destination(example, "refunds", is_after).await, 1);
        }
    }
}
