//! Postgres crashes under load and comes back. What was acknowledged is there, and nothing is half.

mod support;

use std::sync::Arc;
use std::time::Duration;

use semel_lab::Cluster;
use semel_store::conformance::{armed, insert};
use semel_store::{CommitError, Store};
use support::address;
use support::server::{Callers, blocking, effect, open, until_known};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i9_ten_crashes_under_eight_callers_lose_nothing_that_was_acknowledged() {
    const CRASHES: u64 = 10;
    let cluster = Arc::new(Cluster::durable());
    let store = Arc::new(open(&cluster.url()).await);
    let callers = Callers::start(&store, 8);
    for crash in 0..CRASHES {
        tokio::time::sleep(Duration::from_millis(100 + crash * 23)).await;
        let cluster = cluster.clone();
        blocking(move || {
            cluster.stop_immediately();
            cluster.start_again();
        })
        .await;
        // Progress after each crash, or there would be nothing to lose in the next one.
        let mark = effect(&format!("0-{crash}"), &store.ground());
        assert_eq!(until_known(store.as_ref(), &mark).await, Ok(()));
    }
    let total = callers.end_and_check("semel", &cluster).await;
    assert!(total > 80, "{total} batches in {CRASHES} crashes");
    assert_eq!(store.ground().epoch, 0, "a crash is no return in time");
    assert_eq!(cluster.psql("SELECT count(*) FROM semel.returns"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_postmaster_is_ridden_out() {
    let cluster = Arc::new(Cluster::start());
    let store = Arc::new(open(&cluster.url()).await);
    let callers = Callers::start(&store, 4);
    for _ in 0..2 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let cluster = cluster.clone();
        blocking(move || {
            cluster.kill();
            cluster.start_again();
        })
        .await;
    }
    assert!(callers.end_and_check("semel", &cluster).await > 4);
    assert_eq!(store.ground().epoch, 0);
}

/// Somebody's log that was written and not yet forced to disk is no promise: that a crash loses it
/// says nothing about what was acknowledged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_that_loses_a_log_nobody_was_promised_opens_no_quarantine() {
    let cluster = Cluster::with(&[("wal_writer_delay", "10s"), ("autovacuum", "off")]);
    let store = open(&cluster.url()).await;
    let ground = store.ground();
    assert_eq!(store.commit(effect("a", &ground)).await, Ok(()));
    // It tells others of its commit, and that too is not waited for on disk.
    tokio::time::sleep(Duration::from_millis(300)).await;
    cluster.psql("CREATE TABLE other (t text)");
    cluster.psql(
        "SET synchronous_commit = off; \
         INSERT INTO other SELECT repeat('x', 200) FROM generate_series(1, 2000)",
    );
    // A look at the server's log that writes nothing itself.
    let rival = insert(&armed(&address("a"), "rival", &ground), &ground);
    let answer = store.commit(rival.into()).await;
    assert!(matches!(answer, Err(CommitError::Stale(_))), "{answer:?}");
    cluster.stop_immediately();
    cluster.start_again();
    assert_eq!(cluster.psql("SELECT count(*) < 2000 FROM other"), "t", "the crash lost a log");
    assert_eq!(until_known(&store, &effect("b", &store.ground())).await, Ok(()));
    assert_eq!(store.ground().epoch, 0, "{}", cluster.psql("SELECT evidence FROM semel.returns"));
}
