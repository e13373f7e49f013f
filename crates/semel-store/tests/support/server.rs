//! What the tests on a Postgres that breaks share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use semel_core::effect::Ground;
use semel_core::run::Run;
use semel_lab::Cluster;
use semel_store::conformance::{appends, armed, insert, new_run};
use semel_store::postgres::Postgres;
use semel_store::{Access, Batch, Clock, CommitError, Store, StoreError, Write};

use super::address;

/// Ends a test that hangs; nothing here takes half as long.
pub(crate) const LONG: Duration = Duration::from_secs(60);

/// Opens a store on the real clock, and creates it where it is missing.
pub(crate) async fn open(url: &str) -> Postgres {
    let sign = if url.contains('?') { '&' } else { '?' };
    try_open(&format!("{url}{sign}migrate=true")).await.expect("a store on Postgres")
}

pub(crate) async fn try_open(url: &str) -> Result<Postgres, StoreError> {
    Postgres::open(url, Access::ReadWrite, Clock::Real).await
}

pub(crate) fn batch(writes: Vec<Write>) -> Batch {
    Batch { writes: writes.into() }
}

/// A new effect under a key, to be written once.
pub(crate) fn effect(key: &str, ground: &Ground) -> Batch {
    insert(&armed(&address(key), key, ground), ground).into()
}

/// A run of this number, whose key is its number.
pub(crate) fn numbered(number: i64, ground: &Ground) -> Run {
    new_run(&number.to_string(), number, ground)
}

/// Two effects, a run and the first entry of its journal: what must never be there in part.
pub(crate) fn whole(number: i64, ground: &Ground) -> Batch {
    let run = numbered(number, ground);
    let both = ["left", "right"].map(|side| format!("{number}-{side}"));
    let mut writes: Vec<_> =
        both.iter().map(|key| insert(&armed(&address(key), key, ground), ground)).collect();
    writes.push(Write::run(&run, &ground.now));
    writes.extend(appends(&run, &["{}"]).into_iter().map(Write::Append));
    batch(writes)
}

/// How many of the four parts of such a batch are there.
pub(crate) async fn parts(store: &dyn Store, number: i64) -> usize {
    let mut found = 0;
    for side in ["left", "right"] {
        found += usize::from(super::has(store, &format!("{number}-{side}")).await);
    }
    let run = numbered(number, &store.ground());
    let stored = store.run(&run.namespace, &run.id).await.expect("a run");
    found += usize::from(stored.is_some());
    found + store.journal(number, 0, 10).await.expect("a journal").len()
}

/// Repeats a batch until the store has said what became of it, as the engine does.
pub(crate) async fn until_known(store: &dyn Store, batch: &Batch) -> Result<(), CommitError> {
    let started = Instant::now();
    loop {
        let passing = match store.commit(batch.clone()).await {
            Err(CommitError::Unknown) => "unknown".to_owned(),
            Err(CommitError::Failed(
                error @ (StoreError::Unavailable(_) | StoreError::Busy(_)),
            )) => error.to_string(),
            known => return known,
        };
        assert!(started.elapsed() < LONG, "no answer in time: {passing}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Callers that commit whole batches, each until it is known, until they are told to stop.
pub(crate) struct Callers {
    tasks: Vec<tokio::task::JoinHandle<i64>>,
    stop: Arc<AtomicBool>,
}

/// Numbers of one caller lie together.
const APART: i64 = 1_000_000;

impl Callers {
    pub(crate) fn start(store: &Arc<Postgres>, count: i64) -> Callers {
        let stop = Arc::new(AtomicBool::new(false));
        let task = |caller: i64| {
            let (store, stop) = (store.clone(), stop.clone());
            tokio::spawn(async move {
                let mut number = caller * APART;
                while !stop.load(Ordering::SeqCst) {
                    let next = whole(number, &store.ground());
                    let answer = until_known(store.as_ref(), &next).await;
                    assert_eq!(answer, Ok(()), "batch {number}");
                    number += 1;
                }
                number - caller * APART
            })
        };
        Callers { tasks: (1..=count).map(task).collect(), stop }
    }

    /// Ends them. Everything they were told is written must be there, and nothing else or half.
    pub(crate) async fn end_and_check(self, schema: &str, cluster: &Cluster) -> i64 {
        self.stop.store(true, Ordering::SeqCst);
        let mut total = 0;
        for (caller, task) in (1..).zip(self.tasks) {
            let count = task.await.expect("a caller");
            let first = caller * APART;
            let range = format!("BETWEEN {first} AND {}", first + APART - 1);
            let rows = cluster.psql(&format!(
                "SELECT (SELECT count(*) FROM {schema}.runs WHERE number {range}), \
                 (SELECT max(number) FROM {schema}.runs WHERE number {range}), \
                 (SELECT count(*) FROM {schema}.journal WHERE run {range}), \
                 (SELECT count(*) FROM {schema}.effects \
                  WHERE split_part(key, '-', 1)::bigint {range})"
            ));
            let last = first + count - 1;
            assert_eq!(rows, format!("{count}|{last}|{count}|{}", 2 * count), "caller {caller}");
            total += count;
        }
        total
    }
}

/// Runs what blocks beside the tasks of a test.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}

/// Waits for something that must happen.
pub(crate) async fn eventually<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let started = Instant::now();
    while !holds().await {
        assert!(started.elapsed() < LONG, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
