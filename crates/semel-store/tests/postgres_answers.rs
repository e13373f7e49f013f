//! Postgres' answers get lost: on the way, or with the backend that was about to give them.

mod support;

use std::sync::Arc;
use std::time::Duration;

use semel_lab::{Cluster, Proxy};
use semel_store::{CommitError, Store};
use support::server::{Callers, blocking, effect, open, parts, until_known, whole};

const SCHEMA: &str = "semel";

/// As whole batches are, when all of it is there.
const ALL: usize = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bug_inngest_2385_a_lost_answer_to_commit_is_unknown_and_its_repeat_is_done() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.port());
    let store = open(&proxy.url()).await;
    let batch = whole(1, &store.ground());
    proxy.cut_before_answer(b"COMMIT\0");
    assert_eq!(store.commit(batch.clone()).await, Err(CommitError::Unknown));
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(parts(&store, 1).await, ALL, "it was committed all the same");
    let before = rows(&cluster);

    assert_eq!(store.commit(batch.clone()).await, Ok(()));
    assert_eq!(store.commit(batch).await, Ok(()), "and again");
    assert_eq!(rows(&cluster), before, "the repeats wrote nothing");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_is_unknown_too_and_its_repeat_writes() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.port());
    let store = open(&proxy.url()).await;
    let batch = whole(1, &store.ground());
    proxy.cut_before_request(b"COMMIT\0");
    assert_eq!(store.commit(batch.clone()).await, Err(CommitError::Unknown));
    assert_eq!(parts(&store, 1).await, 0, "the server undid it");

    assert_eq!(until_known(&store, &batch).await, Ok(()));
    assert_eq!(parts(&store, 1).await, ALL);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_cut_before_the_writes_went_out_has_written_nothing() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.port());
    let store = open(&proxy.url()).await;
    let batch = whole(1, &store.ground());
    proxy.cut_before_answer(b"FOR UPDATE OF e");
    let answer = store.commit(batch.clone()).await;
    assert!(matches!(answer, Err(CommitError::Failed(_))), "{answer:?}");
    assert_eq!(parts(&store, 1).await, 0);
    assert_eq!(store.commit(batch).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_one_group_share_the_fate_of_its_commit() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.port());
    let store = Arc::new(open(&proxy.url()).await);
    proxy.cut_before_answer(b"COMMIT\0");
    let commit = |number: i64| {
        let (store, batch) = (store.clone(), whole(number, &store.ground()));
        tokio::spawn(async move { (store.commit(batch.clone()).await, batch) })
    };
    let calls: Vec<_> = (0..32).map(commit).collect();
    let mut unknown = 0;
    for (number, call) in (0..).zip(calls) {
        let (answer, batch) = call.await.expect("a caller");
        match answer {
            Ok(()) => {}
            Err(CommitError::Unknown) => unknown += 1,
            other => panic!("batch {number}: {other:?}"),
        }
        assert_eq!(until_known(store.as_ref(), &batch).await, Ok(()));
        assert_eq!(parts(store.as_ref(), number).await, ALL, "batch {number}");
    }
    assert!(unknown > 0, "the cut met nobody");
    let counts = cluster.psql("SELECT count(*), count(DISTINCT row) FROM semel.effects");
    assert_eq!(counts, "64|64");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i9_backends_that_are_terminated_at_any_moment_lose_and_repeat_nothing() {
    const KILLS: u64 = 40;
    let cluster = Arc::new(Cluster::start());
    let store = Arc::new(open(&cluster.url()).await);
    let callers = Callers::start(&store, 8);
    let mut ended = 0;
    for kill in 0..KILLS {
        // Sleeps of many lengths, so that a kill falls anywhere in a commit.
        let pause_us = 1_000 + (kill * 7_919) % 37_000;
        tokio::time::sleep(Duration::from_micros(pause_us)).await;
        let cluster = cluster.clone();
        ended += blocking(move || cluster.terminate_backends("application_name = 'semel'")).await;
    }
    let total = callers.end_and_check(SCHEMA, &cluster).await;
    assert!(ended >= 40, "{ended} backends were ended in as many rounds");
    assert!(total > 8, "{total} batches in spite of it");
    assert_eq!(store.ground().epoch, 0, "nothing went back in time");
    assert_eq!(store.commit(effect("after", &store.ground())).await, Ok(()));
}

/// All that is in the store, as text.
fn rows(cluster: &Cluster) -> String {
    cluster.psql(
        "SELECT e::text FROM semel.effects AS e UNION ALL SELECT r::text FROM semel.runs AS r \
         UNION ALL SELECT j::text FROM semel.journal AS j ORDER BY 1",
    )
}
