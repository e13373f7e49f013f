//! Leases are judged by the server's clock, and by nothing else.

mod support;

use std::time::Duration;

use semel_lab::{Cluster, Proxy, psql};
use semel_store::{Store, StoreError};
use support::server::{effect, open, try_open};

/// The server's wall time in milliseconds, as this role sees it.
fn server_ms(url: &str) -> i64 {
    let now = psql(url, &["SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"]);
    now.expect("the time").parse().expect("a number")
}

/// By how much a store is ahead of its server, for certain at least.
fn ahead_ms(store: &dyn Store, url: &str) -> (i64, i64) {
    let before = server_ms(url);
    let wall = store.ground().now.wall.0;
    let after = server_ms(url);
    (wall - after, wall - before)
}

fn agrees(store: &dyn Store, url: &str) {
    let (least, most) = ahead_ms(store, url);
    assert!(least <= 0, "never ahead of the server: {least} ms");
    assert!(most > -1_000, "behind by no more than a slow answer: {most} ms");
}

/// Roles whose server is minutes ahead of or behind this process: what a process with a wrong wall
/// clock would see.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bug_mlflow_25199_a_process_whose_wall_clock_is_wrong_goes_by_the_servers() {
    let cluster = Cluster::start();
    drop(open(&cluster.url()).await);
    for (role, minutes) in [("fast", 10), ("slow", -10)] {
        cluster.psql(&format!(
            "CREATE ROLE {role} LOGIN SUPERUSER; CREATE SCHEMA {role}; \
             CREATE FUNCTION {role}.clock_timestamp() RETURNS timestamptz VOLATILE LANGUAGE sql \
             AS $$ SELECT pg_catalog.clock_timestamp() + interval '{minutes} minutes' $$; \
             ALTER ROLE {role} SET search_path = {role}, pg_catalog"
        ));
        let url = cluster.url().replace("semel@", &format!("{role}@"));
        let store = try_open(&url).await.expect("a store");
        agrees(&store, &url);
        assert_eq!(store.commit(effect(role, &store.ground())).await, Ok(()));
        agrees(&store, &url);
        let apart = store.ground().now.wall.0 - server_ms(&cluster.url());
        assert!((apart - minutes * 60_000).abs() < 1_000, "{apart} ms from this machine's own");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i15_two_processes_agree_on_the_time_within_a_second() {
    let database = semel_lab::database();
    let stores = [open(&database.url()).await, open(&database.url()).await];
    for round in 0..5 {
        let [one, other] = stores.each_ref().map(|store| store.ground().now);
        assert!((one.wall.0 - other.wall.0).abs() < 1_000, "{one:?} {other:?}");
        assert_eq!(one.steady.boot, other.steady.boot);
        assert!((one.steady.ms - other.steady.ms).abs() < 1_000, "{one:?} {other:?}");
        stores.iter().for_each(|store| agrees(store, database.admin_url()));
        let key = format!("k{round}");
        assert_eq!(stores[0].commit(effect(&key, &stores[0].ground())).await, Ok(()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_an_answer_that_was_held_up_teaches_no_time() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.port());
    let store = open(&proxy.url()).await;
    assert_eq!(store.commit(effect("a", &store.ground())).await, Ok(()));
    let (_, before) = ahead_ms(&store, &cluster.url());
    proxy.delay(600);
    assert_eq!(store.commit(effect("b", &store.ground())).await, Ok(()));
    let (least, after) = ahead_ms(&store, &cluster.url());
    assert!(least <= 0 && after > before - 300, "{before} ms, then {after} ms");

    let slow = tokio::time::timeout(Duration::from_secs(60), try_open(&proxy.url())).await;
    let slow = slow.expect("it gives up").err();
    assert!(matches!(slow, Some(StoreError::Unavailable(_))), "{slow:?}");
}
