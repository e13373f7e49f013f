//! The laws of cards, queues and held effects, each on every store.

mod support;

use std::sync::Arc;

use semel_store::conformance::{self, Subject};
use semel_store::memory::Memory;
use semel_store::{Clock, ManualClock};
use support::{Folder, WALL_MS};

async fn on_every_store<L: Future<Output = ()>>(law: impl Fn(Subject) -> L) {
    law(Arc::new(Memory::new(Clock::Real))).await;
    let folder = Folder::new();
    law(folder.subject()).await;
    let database = semel_lab::database();
    let clock = Clock::Manual(ManualClock::new(WALL_MS));
    law(Arc::new(support::postgres(&database, clock).await)).await;
}

#[tokio::test]
async fn a_store_without_cards_answers_everything() {
    on_every_store(conformance::a_store_without_cards_answers_everything).await;
}

#[tokio::test]
async fn a_card_is_made_once() {
    on_every_store(conformance::a_card_is_made_once).await;
}

#[tokio::test]
async fn cards_are_never_mixed_up() {
    on_every_store(conformance::cards_are_never_mixed_up).await;
}

#[tokio::test]
async fn a_card_changes_on_the_version_before() {
    on_every_store(conformance::a_card_changes_on_the_version_before).await;
}

#[tokio::test]
async fn a_card_is_dropped_at_its_version() {
    on_every_store(conformance::a_card_is_dropped_at_its_version).await;
}

#[tokio::test]
async fn a_repeated_batch_with_cards_is_done_once() {
    on_every_store(conformance::a_repeated_batch_with_cards_is_done_once).await;
}

#[tokio::test]
async fn cards_are_written_together_with_rows_or_not_at_all() {
    on_every_store(conformance::cards_are_written_together_with_rows_or_not_at_all).await;
}

#[tokio::test]
async fn cards_are_listed_in_order_in_pages() {
    on_every_store(conformance::cards_are_listed_in_order_in_pages).await;
}

#[tokio::test]
async fn due_cards_come_earliest_first() {
    on_every_store(conformance::due_cards_come_earliest_first).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_writers_of_a_card_wins() {
    on_every_store(conformance::one_of_many_writers_of_a_card_wins).await;
}

#[tokio::test]
async fn the_least_number_of_a_queue_is_next() {
    on_every_store(conformance::the_least_number_of_a_queue_is_next).await;
}

#[tokio::test]
async fn a_run_leaves_its_queue_when_it_is_taken() {
    on_every_store(conformance::a_run_leaves_its_queue_when_it_is_taken).await;
}

#[tokio::test]
async fn held_effects_are_listed_until_they_are_judged() {
    on_every_store(conformance::held_effects_are_listed_until_they_are_judged).await;
}
