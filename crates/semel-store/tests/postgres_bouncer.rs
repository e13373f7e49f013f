//! PgBouncer in transaction mode: each transaction may meet another backend, and the connection to
//! the pooler outlives the server behind it.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use semel_lab::{Bouncer, Cluster};
use semel_store::conformance::{self, Subject};
use semel_store::postgres::Postgres;
use semel_store::{Access, Clock, ManualClock, Store};
use support::WALL_MS;
use support::server::{Callers, effect, open, until_known};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_law_holds_behind_a_pooler_in_transaction_mode() {
    let cluster = Cluster::start();
    let bouncer = Bouncer::start(&cluster);
    let count = AtomicUsize::new(0);
    conformance::run_all(|| {
        let number = count.fetch_add(1, Ordering::SeqCst);
        let url = format!("{}?pgbouncer=true&migrate=true&schema=b{number}", bouncer.url());
        async move {
            let clock = Clock::Manual(ManualClock::new(WALL_MS));
            let store = Postgres::open(&url, Access::ReadWrite, clock).await;
            Arc::new(store.expect("a store behind a pooler")) as Subject
        }
    })
    .await;
    assert!(count.into_inner() > 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i9_callers_behind_a_pooler_ride_out_backends_that_end() {
    let cluster = Cluster::start();
    let bouncer = Bouncer::start(&cluster);
    let store = Arc::new(open(&format!("{}?pgbouncer=true", bouncer.url())).await);
    let callers = Callers::start(&store, 8);
    for _ in 0..10 {
        tokio::time::sleep(std::time::Duration::from_millis(30)).await;
        cluster.terminate_backends("pid <> pg_backend_pid()");
    }
    assert!(callers.end_and_check("semel", &cluster).await > 8);
    assert_eq!(store.ground().epoch, 0);
}

/// The pooler's own address leads to the promoted server, and no connection to it was cut.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_failover_behind_a_pooler_is_noticed_before_anything_is_written() {
    let primary = Cluster::start();
    let standby = primary.standby();
    let bouncer = Bouncer::start(&primary);
    let store = open(&format!("{}?pgbouncer=true", bouncer.url())).await;
    assert_eq!(store.commit(effect("kept", &store.ground())).await, Ok(()));
    standby.wait_until_caught_up();
    standby.stop_receiving();
    assert_eq!(store.commit(effect("gone", &store.ground())).await, Ok(()));
    // It tells others of its commit; after that no connection is in use, and none is cut.
    tokio::time::sleep(std::time::Duration::from_millis(500)).await;

    primary.stop_immediately();
    standby.promote();
    standby.psql(&format!("ALTER SYSTEM SET port = {}", primary.port()));
    standby.stop_fast();
    standby.start_again();
    let moved = primary;
    assert_eq!(until_known(&store, &effect("next", &store.ground())).await, Ok(()));
    assert_eq!(store.ground().epoch, 1);
    assert!(store.ground().quarantine.is_some());
    assert_eq!(moved.psql("SELECT name FROM semel.lost"), "gone");
    assert!(!bouncer.log().contains("pooler error"), "{}", bouncer.log());
}
