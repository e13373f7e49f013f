//! Postgres keeps the laws that every store keeps.

mod support;

use std::sync::Arc;

use semel_lab::Database;
use semel_store::conformance::{self, Subject};
use semel_store::{Clock, ManualClock};

/// A store on a clock that stands still, and the schema it lives in.
async fn fresh() -> (Subject, Database) {
    let database = semel_lab::database();
    let clock = Clock::Manual(ManualClock::new(support::WALL_MS));
    (Arc::new(support::postgres(&database, clock).await), database)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_inserted_once() {
    let (store, _database) = fresh().await;
    conformance::a_row_is_inserted_once(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_needs_the_version_before() {
    let (store, _database) = fresh().await;
    conformance::update_needs_the_version_before(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_missing_row_cannot_be_updated() {
    let (store, _database) = fresh().await;
    conformance::a_missing_row_cannot_be_updated(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_brings_the_newest_row_of_each_write() {
    let (store, _database) = fresh().await;
    conformance::stale_brings_the_newest_row_of_each_write(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_whose_second_guard_fails_writes_nothing() {
    let (store, _database) = fresh().await;
    conformance::a_batch_whose_second_guard_fails_writes_nothing(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guards_see_the_writes_before_them() {
    let (store, _database) = fresh().await;
    conformance::guards_see_the_writes_before_them(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_of_nothing_is_done() {
    let (store, _database) = fresh().await;
    conformance::a_batch_of_nothing_is_done(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committed_batch_repeated_is_done_and_changes_nothing() {
    let (store, _database) = fresh().await;
    conformance::a_committed_batch_repeated_is_done_and_changes_nothing(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeat_after_somebody_else_moved_on_is_stale() {
    let (store, _database) = fresh().await;
    conformance::a_repeat_after_somebody_else_moved_on_is_stale(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn remove_takes_all_generations_at_the_newest_version() {
    let (store, _database) = fresh().await;
    conformance::remove_takes_all_generations_at_the_newest_version(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_empty_store_answers_everything() {
    let (store, _database) = fresh().await;
    conformance::an_empty_store_answers_everything(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_come_back_as_they_were_written() {
    let (store, _database) = fresh().await;
    conformance::effects_come_back_as_they_were_written(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generations_are_loaded_apart() {
    let (store, _database) = fresh().await;
    conformance::generations_are_loaded_apart(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn names_are_never_mixed_up() {
    let (store, _database) = fresh().await;
    conformance::names_are_never_mixed_up(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_filtered() {
    let (store, _database) = fresh().await;
    conformance::lists_are_filtered(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lists_are_paged_newest_first() {
    let (store, _database) = fresh().await;
    conformance::lists_are_paged_newest_first(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cursors_survive_writes_between_pages() {
    let (store, _database) = fresh().await;
    conformance::cursors_survive_writes_between_pages(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn due_is_in_order_with_a_cursor_and_the_next() {
    let (store, _database) = fresh().await;
    conformance::due_is_in_order_with_a_cursor_and_the_next(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweepable_is_in_order_of_its_time() {
    let (store, _database) = fresh().await;
    conformance::sweepable_is_in_order_of_its_time(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_one_of_many_inserts_wins() {
    let (store, _database) = fresh().await;
    conformance::inv_i1_one_of_many_inserts_wins(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_one_of_many_updates_wins() {
    let (store, _database) = fresh().await;
    conformance::inv_i1_one_of_many_updates_wins(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_at_once_are_all_written() {
    let (store, _database) = fresh().await;
    conformance::many_keys_at_once_are_all_written(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_see_half_a_batch() {
    let (store, _database) = fresh().await;
    conformance::readers_never_see_half_a_batch(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_starts_once() {
    let (store, _database) = fresh().await;
    conformance::a_run_starts_once(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taken_number_or_id_is_refused() {
    let (store, _database) = fresh().await;
    conformance::a_taken_number_or_id_is_refused(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_changes_on_the_version_before() {
    let (store, _database) = fresh().await;
    conformance::a_run_changes_on_the_version_before(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_touch_makes_a_parked_run_due() {
    let (store, _database) = fresh().await;
    conformance::a_touch_makes_a_parked_run_due(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_touch_makes_a_park_on_what_was_before_stale() {
    let (store, _database) = fresh().await;
    conformance::a_touch_makes_a_park_on_what_was_before_stale(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_touch_never_fails() {
    let (store, _database) = fresh().await;
    conformance::a_touch_never_fails(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_is_for_the_holder_alone() {
    let (store, _database) = fresh().await;
    conformance::holds_is_for_the_holder_alone(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn effects_and_runs_are_written_together_or_not_at_all() {
    let (store, _database) = fresh().await;
    conformance::effects_and_runs_are_written_together_or_not_at_all(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_batch_of_a_run_is_done_once() {
    let (store, _database) = fresh().await;
    conformance::a_repeated_batch_of_a_run_is_done_once(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stale_brings_rows_of_effects_alone() {
    let (store, _database) = fresh().await;
    conformance::stale_brings_rows_of_effects_alone(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_run_leaves_its_tombstone() {
    let (store, _database) = fresh().await;
    conformance::a_dropped_run_leaves_its_tombstone(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_comes_back_in_order() {
    let (store, _database) = fresh().await;
    conformance::a_journal_comes_back_in_order(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_needs_its_predecessor() {
    let (store, _database) = fresh().await;
    conformance::an_append_needs_its_predecessor(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_follows_a_refused_append_is_refused() {
    let (store, _database) = fresh().await;
    conformance::what_follows_a_refused_append_is_refused(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_appenders_wins() {
    let (store, _database) = fresh().await;
    conformance::one_of_many_appenders_wins(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_comes_once() {
    let (store, _database) = fresh().await;
    conformance::a_delivery_comes_once(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_makes_a_parked_run_due() {
    let (store, _database) = fresh().await;
    conformance::a_delivery_makes_a_parked_run_due(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_delivery_is_consumed_once() {
    let (store, _database) = fresh().await;
    conformance::a_delivery_is_consumed_once(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blob_is_kept_in_its_namespace() {
    let (store, _database) = fresh().await;
    conformance::a_blob_is_kept_in_its_namespace(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_without_runs_answers_everything() {
    let (store, _database) = fresh().await;
    conformance::a_store_without_runs_answers_everything(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn due_runs_are_of_their_lane_in_order() {
    let (store, _database) = fresh().await;
    conformance::due_runs_are_of_their_lane_in_order(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn runs_are_listed_by_what_they_are() {
    let (store, _database) = fresh().await;
    conformance::runs_are_listed_by_what_they_are(store).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweepable_runs_come_in_order_of_their_time() {
    let (store, _database) = fresh().await;
    conformance::sweepable_runs_come_in_order_of_their_time(store).await;
}
