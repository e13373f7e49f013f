//! A promoted standby: whoever speaks to it first puts that on record.

use std::time::Duration;

use semel_lab::{Cluster, Proxy};
use semel_store::postgres::Postgres;
use semel_store::{Access, Clock, Query, Store};
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_callers_that_leave_early_do_not_hide_a_promotion() {
    let primary = Cluster::start();
    Postgres::migrate(&primary.url()).await.expect("the store is made");
    let standby = primary.standby();
    let proxy = Proxy::start(primary.port());
    let url = format!("{}?connections=3", proxy.url());
    let store = Postgres::open(&url, Access::ReadWrite, Clock::Real).await.expect("it opens");
    standby.wait_until_caught_up();
    primary.stop_immediately();
    standby.promote();
    proxy.lead_to(standby.port());
    proxy.cut_all();
    proxy.delay(10);
    let mut left = 0;
    // Each is a little more patient than the one before, until one is answered: so they leave at
    // every point of the first talk with the new server.
    for ms in (10..5_000).step_by(10) {
        let page = timeout(Duration::from_millis(ms), store.list(&Query::everywhere(1))).await;
        match page {
            Err(_) => left += 1,
            Ok(Err(_)) => {}
            Ok(Ok(_)) => break,
        }
    }
    assert_eq!(standby.psql("SELECT count(*) FROM semel.returns"), "1", "{left} left early");
    assert!(left > 5, "only {left} left early");
}
