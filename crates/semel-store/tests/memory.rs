//! The reference model keeps the laws that every store keeps.

use std::sync::Arc;

use semel_store::conformance::{self, Subject};
use semel_store::memory::Memory;
use semel_store::{Clock, ManualClock};

fn fresh() -> Subject {
    Arc::new(Memory::new(Clock::Manual(ManualClock::new(1_790_000_000_000))))
}

/// How another store is tested: one line, on the real clock.
#[tokio::test]
async fn all_laws_hold_on_the_real_clock() {
    conformance::run_all(|| async { Arc::new(Memory::new(Clock::Real)) as Subject }).await;
}

#[tokio::test]
async fn a_row_is_inserted_once() {
    conformance::a_row_is_inserted_once(fresh()).await;
}

#[tokio::test]
async fn update_needs_the_version_before() {
    conformance::update_needs_the_version_before(fresh()).await;
}

#[tokio::test]
async fn a_missing_row_cannot_be_updated() {
    conformance::a_missing_row_cannot_be_updated(fresh()).await;
}

#[tokio::test]
async fn stale_brings_the_newest_row_of_each_write() {
    conformance::stale_brings_the_newest_row_of_each_write(fresh()).await;
}

#[tokio::test]
async fn a_batch_whose_second_guard_fails_writes_nothing() {
    conformance::a_batch_whose_second_guard_fails_writes_nothing(fresh()).await;
}

#[tokio::test]
async fn guards_see_the_writes_before_them() {
    conformance::guards_see_the_writes_before_them(fresh()).await;
}

#[tokio::test]
async fn a_batch_of_nothing_is_done() {
    conformance::a_batch_of_nothing_is_done(fresh()).await;
}

#[tokio::test]
async fn a_committed_batch_repeated_is_done_and_changes_nothing() {
    conformance::a_committed_batch_repeated_is_done_and_changes_nothing(fresh()).await;
}

#[tokio::test]
async fn a_repeat_after_somebody_else_moved_on_is_stale() {
    conformance::a_repeat_after_somebody_else_moved_on_is_stale(fresh()).await;
}

#[tokio::test]
async fn remove_takes_all_generations_at_the_newest_version() {
    conformance::remove_takes_all_generations_at_the_newest_version(fresh()).await;
}

#[tokio::test]
async fn an_empty_store_answers_everything() {
    conformance::an_empty_store_answers_everything(fresh()).await;
}

#[tokio::test]
async fn effects_come_back_as_they_were_written() {
    conformance::effects_come_back_as_they_were_written(fresh()).await;
}

#[tokio::test]
async fn generations_are_loaded_apart() {
    conformance::generations_are_loaded_apart(fresh()).await;
}

#[tokio::test]
async fn names_are_never_mixed_up() {
    conformance::names_are_never_mixed_up(fresh()).await;
}

#[tokio::test]
async fn lists_are_filtered() {
    conformance::lists_are_filtered(fresh()).await;
}

#[tokio::test]
async fn lists_are_paged_newest_first() {
    conformance::lists_are_paged_newest_first(fresh()).await;
}

#[tokio::test]
async fn cursors_survive_writes_between_pages() {
    conformance::cursors_survive_writes_between_pages(fresh()).await;
}

#[tokio::test]
async fn due_is_in_order_with_a_cursor_and_the_next() {
    conformance::due_is_in_order_with_a_cursor_and_the_next(fresh()).await;
}

#[tokio::test]
async fn sweepable_is_in_order_of_its_time() {
    conformance::sweepable_is_in_order_of_its_time(fresh()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_one_of_many_inserts_wins() {
    conformance::inv_i1_one_of_many_inserts_wins(fresh()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_one_of_many_updates_wins() {
    conformance::inv_i1_one_of_many_updates_wins(fresh()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_at_once_are_all_written() {
    conformance::many_keys_at_once_are_all_written(fresh()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_see_half_a_batch() {
    conformance::readers_never_see_half_a_batch(fresh()).await;
}

#[tokio::test]
async fn a_run_starts_once() {
    conformance::a_run_starts_once(fresh()).await;
}

#[tokio::test]
async fn a_taken_number_or_id_is_refused() {
    conformance::a_taken_number_or_id_is_refused(fresh()).await;
}

#[tokio::test]
async fn a_run_changes_on_the_version_before() {
    conformance::a_run_changes_on_the_version_before(fresh()).await;
}

#[tokio::test]
async fn a_touch_makes_a_parked_run_due() {
    conformance::a_touch_makes_a_parked_run_due(fresh()).await;
}

#[tokio::test]
async fn a_touch_makes_a_park_on_what_was_before_stale() {
    conformance::a_touch_makes_a_park_on_what_was_before_stale(fresh()).await;
}

#[tokio::test]
async fn a_touch_never_fails() {
    conformance::a_touch_never_fails(fresh()).await;
}

#[tokio::test]
async fn holds_is_for_the_holder_alone() {
    conformance::holds_is_for_the_holder_alone(fresh()).await;
}

#[tokio::test]
async fn effects_and_runs_are_written_together_or_not_at_all() {
    conformance::effects_and_runs_are_written_together_or_not_at_all(fresh()).await;
}

#[tokio::test]
async fn a_repeated_batch_of_a_run_is_done_once() {
    conformance::a_repeated_batch_of_a_run_is_done_once(fresh()).await;
}

#[tokio::test]
async fn stale_brings_rows_of_effects_alone() {
    conformance::stale_brings_rows_of_effects_alone(fresh()).await;
}

#[tokio::test]
async fn a_dropped_run_leaves_its_tombstone() {
    conformance::a_dropped_run_leaves_its_tombstone(fresh()).await;
}

#[tokio::test]
async fn a_journal_comes_back_in_order() {
    conformance::a_journal_comes_back_in_order(fresh()).await;
}

#[tokio::test]
async fn an_append_needs_its_predecessor() {
    conformance::an_append_needs_its_predecessor(fresh()).await;
}

#[tokio::test]
async fn what_follows_a_refused_append_is_refused() {
    conformance::what_follows_a_refused_append_is_refused(fresh()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_appenders_wins() {
    conformance::one_of_many_appenders_wins(fresh()).await;
}

#[tokio::test]
async fn a_delivery_comes_once() {
    conformance::a_delivery_comes_once(fresh()).await;
}

#[tokio::test]
async fn a_delivery_makes_a_parked_run_due() {
    conformance::a_delivery_makes_a_parked_run_due(fresh()).await;
}

#[tokio::test]
async fn a_delivery_is_consumed_once() {
    conformance::a_delivery_is_consumed_once(fresh()).await;
}

#[tokio::test]
async fn a_blob_is_kept_in_its_namespace() {
    conformance::a_blob_is_kept_in_its_namespace(fresh()).await;
}

#[tokio::test]
async fn a_store_without_runs_answers_everything() {
    conformance::a_store_without_runs_answers_everything(fresh()).await;
}

#[tokio::test]
async fn due_runs_are_of_their_lane_in_order() {
    conformance::due_runs_are_of_their_lane_in_order(fresh()).await;
}

#[tokio::test]
async fn runs_are_listed_by_what_they_are() {
    conformance::runs_are_listed_by_what_they_are(fresh()).await;
}

#[tokio::test]
async fn sweepable_runs_come_in_order_of_their_time() {
    conformance::sweepable_runs_come_in_order_of_their_time(fresh()).await;
}
