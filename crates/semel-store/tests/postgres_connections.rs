//! Connections run out, break and are left in the middle. The store says so, and heals by itself.

mod support;

use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_lab::{Cluster, Proxy};
use semel_store::postgres::Verdict;
use semel_store::{CommitError, Runs, Store, StoreError, Write};
use support::server::{blocking, effect, eventually, numbered, open, try_open, until_known};

/// Another program that holds a connection.
struct Holder(Child);

impl Holder {
    fn start(cluster: &Cluster, sql: &str) -> Holder {
        let mut psql = Command::new("psql");
        psql.args(["-qXAt", "-d", &cluster.url(), "-c", sql]);
        let child = psql.stdout(Stdio::null()).stderr(Stdio::null()).stdin(Stdio::null()).spawn();
        Holder(child.expect("psql"))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A server with few connections, which notices soon that a client is gone.
fn small(connections: &str) -> Cluster {
    Cluster::with(&[
        ("max_connections", connections),
        ("superuser_reserved_connections", "0"),
        ("max_wal_senders", "0"),
        ("client_connection_check_interval", "50ms"),
    ])
}

/// Takes all connections that the server has left.
async fn take_all(cluster: &Arc<Cluster>, count: usize) -> Vec<Holder> {
    let holders = (0..count).map(|_| Holder::start(cluster, "SELECT pg_sleep(60)")).collect();
    eventually("none is left", || {
        let cluster = cluster.clone();
        blocking(move || {
            let left = cluster.try_psql("SELECT 1");
            left.is_err_and(|error| error.to_string().contains("too many clients"))
        })
    })
    .await;
    holders
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_a_connection_left_is_busy_and_later_fine_again() {
    let cluster = Arc::new(small("20"));
    let store = open(&cluster.url()).await;
    assert_eq!(store.commit(effect("a", &store.ground())).await, Ok(()));
    let holders = take_all(&cluster, 20).await;
    let busy = try_open(&cluster.url()).await.err();
    assert!(matches!(busy, Some(StoreError::Busy(_))), "{busy:?}");
    assert_eq!(store.commit(effect("b", &store.ground())).await, Ok(()), "it has its own");

    drop(holders);
    eventually("it opens again", || async { try_open(&cluster.url()).await.is_ok() }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_lost_its_connections_to_others_is_busy_and_heals() {
    let cluster = Arc::new(small("12"));
    let store = open(&cluster.url()).await;
    cluster.terminate_backends("application_name = 'semel'");
    let holders = take_all(&cluster, 12).await;
    // What holds a connection of its own since before may have been quicker than the others.
    let answer = store.commit(effect("a", &store.ground())).await;
    let passing = matches!(
        answer,
        Ok(()) | Err(CommitError::Failed(StoreError::Busy(_) | StoreError::Unavailable(_)))
    );
    assert!(passing, "{answer:?}");
    drop(holders);
    assert_eq!(until_known(&store, &effect("b", &store.ground())).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_connections_of_a_pool_heal_after_a_restart() {
    let cluster = Arc::new(Cluster::start());
    let store = Arc::new(open(&cluster.url()).await);
    for round in 0..3 {
        let key = format!("k{round}");
        assert_eq!(until_known(store.as_ref(), &effect(&key, &store.ground())).await, Ok(()));
        let reads = (0..40).map(|_| {
            let (store, key) = (store.clone(), key.clone());
            tokio::spawn(async move { support::has(store.as_ref(), &key).await })
        });
        for read in reads.collect::<Vec<_>>() {
            assert!(read.await.expect("a read"), "round {round}");
        }
        let cluster = cluster.clone();
        blocking(move || {
            cluster.stop_fast();
            cluster.start_again();
        })
        .await;
    }
    let down = cluster.clone();
    blocking(move || down.stop_fast()).await;
    let answer = store.commit(effect("down", &store.ground())).await;
    assert!(matches!(answer, Err(CommitError::Failed(StoreError::Unavailable(_)))), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_holds_makes_its_own_batch_busy_and_no_other() {
    let cluster = Arc::new(Cluster::start());
    let store = Arc::new(open(&cluster.url()).await);
    let ground = store.ground();
    let held = semel_store::conformance::armed(&support::address("held"), "1", &ground);
    let first = semel_store::conformance::insert(&held, &ground);
    assert_eq!(store.commit(first.into()).await, Ok(()));
    let lock = "BEGIN; SELECT 1 FROM semel.effects FOR UPDATE; SELECT pg_sleep(60)";
    let holder = Holder::start(&cluster, lock);
    eventually("the row is held", || {
        let cluster = cluster.clone();
        let free = "SELECT count(*) FROM (SELECT 1 FROM semel.effects FOR UPDATE SKIP LOCKED) AS f";
        blocking(move || cluster.psql(free) == "0")
    })
    .await;
    let done = semel_store::conformance::done(&held, "1", &ground);
    let done = semel_store::conformance::update(&done, &ground);
    let meeting = {
        let (store, done) = (store.clone(), done.clone());
        tokio::spawn(async move { store.commit(done.into()).await })
    };
    let others = (0..8).map(|number| {
        let (store, other) = (store.clone(), effect(&format!("other-{number}"), &ground));
        tokio::spawn(async move { store.commit(other).await })
    });
    for other in others.collect::<Vec<_>>() {
        assert_eq!(other.await.expect("no panic"), Ok(()));
    }
    let answer = meeting.await.expect("no panic");
    assert!(matches!(answer, Err(CommitError::Failed(StoreError::Busy(_)))), "{answer:?}");
    drop(holder);
    cluster.terminate_backends("query LIKE '%pg_sleep%'");
    assert_eq!(until_known(store.as_ref(), &done.into()).await, Ok(()));
}

/// Whoever asks may be gone at any moment, with its question half asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn callers_that_go_away_leave_no_transaction_open_and_no_row_held() {
    let cluster = Arc::new(Cluster::start());
    let proxy = Proxy::start(cluster.port());
    let store = open(&proxy.url()).await;
    let ground = store.ground();
    let mut lane = String::new();
    for number in 1..=20 {
        let run = numbered(number, &ground);
        lane = run.lane();
        assert_eq!(store.commit(Write::run(&run, &ground.now).into()).await, Ok(()));
    }
    // Each answer takes 20 ms, so that callers are cut off between any two of them.
    proxy.delay(10);
    for patience_ms in (5..200).step_by(7) {
        let patience = Duration::from_millis(patience_ms);
        // Shown anew each time, so that each call has something to write.
        cluster.psql("SET lock_timeout = '5s'; UPDATE semel.runs SET shown_to = NULL");
        let _ = tokio::time::timeout(patience, store.due_runs(&lane, 20)).await;
    }
    proxy.pass();
    eventually("nothing is left open", || {
        let cluster = cluster.clone();
        let open = "SELECT count(*) FROM pg_stat_activity \
             WHERE application_name = 'semel' AND state LIKE 'idle in transaction%'";
        blocking(move || cluster.psql(open) == "0")
    })
    .await;
    let held = "SELECT count(*) FROM (SELECT 1 FROM semel.runs FOR UPDATE SKIP LOCKED) AS free";
    assert_eq!(cluster.psql(held), "20", "no row is held");
    assert_eq!(store.commit(effect("after", &store.ground())).await, Ok(()));
}

/// A machine that vanished neither answers nor closes the connection.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_a_server_that_never_answers_is_given_up() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.port());
    let store = open(&proxy.url()).await;
    assert!(!support::has(&store, "k").await);
    proxy.delay(3_600_000);
    let address = support::address("k");
    let asked = effect("k", &store.ground());
    let (written, read) = tokio::join!(
        tokio::time::timeout(Duration::from_secs(90), store.commit(asked.clone())),
        tokio::time::timeout(Duration::from_secs(90), store.load(&address)),
    );
    // Whoever had the connection that was open does not know; who waited for one wrote nothing.
    let written = written.expect("it ends");
    assert!(matches!(written, Err(CommitError::Unknown | CommitError::Failed(_))), "{written:?}");
    let read = read.expect("it ends");
    assert!(matches!(read, Err(StoreError::Unavailable(_) | StoreError::Busy(_))), "{read:?}");
    proxy.pass();
    assert_eq!(until_known(&store, &asked).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_elsewhere_is_heard_within_a_second_and_again_after_the_listener_was_cut() {
    let cluster = Arc::new(Cluster::start());
    let (writer, reader) = (open(&cluster.url()).await, open(&cluster.url()).await);
    let listening = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'";
    for round in 0..3 {
        eventually("both listen", || {
            let cluster = cluster.clone();
            blocking(move || cluster.psql(listening) == "2")
        })
        .await;
        let mut hints = reader.hints();
        hints.mark_unchanged();
        let committed = Instant::now();
        let key = format!("k{round}");
        assert_eq!(until_known(&writer, &effect(&key, &writer.ground())).await, Ok(()));
        let heard = tokio::time::timeout(Duration::from_secs(10), hints.changed()).await;
        assert!(heard.is_ok(), "round {round}: nothing was heard");
        assert!(committed.elapsed() < Duration::from_secs(1), "{:?}", committed.elapsed());
        assert!(support::has(&reader, &key).await, "what was heard of is there");
        assert_eq!(cluster.terminate_backends("query LIKE 'LISTEN%'"), 2);
    }
}

/// Whoever drops it in the middle must not leave its transaction on a connection for others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn forwarding_that_is_left_in_the_middle_leaves_no_transaction_open() {
    let cluster = Arc::new(Cluster::start());
    let store = open(&cluster.url()).await;
    assert_eq!(store.commit(effect("held", &store.ground())).await, Ok(()));
    cluster.psql(
        "INSERT INTO semel.outbox (namespace, action, key, input) \
         SELECT namespace, action, key, '{}' FROM semel.effects",
    );
    let lock = "BEGIN; SELECT 1 FROM semel.effects FOR UPDATE; SELECT pg_sleep(60)";
    let _holder = Holder::start(&cluster, lock);
    eventually("the row is held", || {
        let cluster = cluster.clone();
        let free = "SELECT count(*) FROM (SELECT 1 FROM semel.effects FOR UPDATE SKIP LOCKED) AS f";
        blocking(move || cluster.psql(free) == "0")
    })
    .await;
    let address = support::address("held");
    let actions = [(address.namespace, address.action)];
    let forwarding = store.forward(&actions, &|_, _, _, _| Verdict::Same);
    let left = tokio::time::timeout(Duration::from_millis(100), forwarding).await;
    assert!(left.is_err(), "it waits for the row: {left:?}");
    eventually("no transaction is open", || {
        let cluster = cluster.clone();
        let open = "SELECT count(*) FROM pg_stat_activity \
             WHERE application_name = 'semel' AND state <> 'idle'";
        blocking(move || cluster.psql(open) == "0")
    })
    .await;
}
