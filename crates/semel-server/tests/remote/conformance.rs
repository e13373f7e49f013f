//! What every store must do, a store over HTTP does as well, whatever keeps it.

use std::sync::Arc;

use semel_store::conformance::{self, Subject};
use semel_store::remote::Remote;
use semel_store::{Access, Clock};

use crate::served::Served;

/// They write into several namespaces, of which a token has one, or rows that are due at times
/// which their records do not say. What a token does not reach is not there, and when a row is
/// due is derived by the server: see `reach.rs` and `tenants.rs`. All others hold, and none is
/// left out that would.
const BEYOND_A_TOKEN: [&str; 12] = [
    "lists_are_filtered",
    "due_is_in_order_with_a_cursor_and_the_next",
    "sweepable_is_in_order_of_its_time",
    "a_taken_number_or_id_is_refused",
    "a_blob_is_kept_in_its_namespace",
    "due_runs_are_of_their_lane_in_order",
    "runs_are_listed_by_what_they_are",
    "the_least_number_of_a_queue_is_next",
    "a_card_is_made_once",
    "cards_are_never_mixed_up",
    "cards_are_listed_in_order_in_pages",
    "due_cards_come_earliest_first",
];

async fn subject(served: &Served) -> Subject {
    let remote = Remote::open(&served.url, None, Access::ReadWrite, Clock::Real).await;
    Arc::new(remote.expect("the server answers"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_law_of_stores_holds_over_http_on_sqlite() {
    let mut broken = Vec::new();
    for (name, law) in conformance::laws() {
        let folder = tempfile::tempdir().expect("a folder");
        let served = Served::quiet(&format!("sqlite:{}/semel.db", folder.path().display())).await;
        if tokio::spawn(law(subject(&served).await)).await.is_err() {
            broken.push(name);
        }
    }
    assert_eq!(broken, BEYOND_A_TOKEN);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_law_of_stores_holds_over_http_on_postgres() {
    for (name, law) in conformance::laws() {
        if BEYOND_A_TOKEN.contains(&name) {
            continue;
        }
        let database = semel_lab::database();
        let url = format!("{}&migrate=true", database.url());
        law(subject(&Served::quiet(&url).await).await).await;
    }
}
