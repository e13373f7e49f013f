//! What every store must do, as functions over any store: one law each, named after what holds.
//!
//! A law gets a store that is empty and its own, and panics when the store breaks it. It needs no
//! clock that stands still: what is due and what is not is written hours apart.

mod cards;
mod guards;
mod journals;
mod making;
mod making_cards;
mod making_runs;
mod queues;
mod races;
mod reads;
mod run_reads;
mod runs;

pub use cards::{
    a_card_changes_on_the_version_before, a_card_is_dropped_at_its_version, a_card_is_made_once,
    a_repeated_batch_with_cards_is_done_once, a_store_without_cards_answers_everything,
    cards_are_listed_in_order_in_pages, cards_are_never_mixed_up,
    cards_are_written_together_with_rows_or_not_at_all, due_cards_come_earliest_first,
    one_of_many_writers_of_a_card_wins,
};
pub use guards::{
    a_batch_of_nothing_is_done, a_batch_whose_second_guard_fails_writes_nothing,
    a_committed_batch_repeated_is_done_and_changes_nothing, a_missing_row_cannot_be_updated,
    a_repeat_after_somebody_else_moved_on_is_stale, a_row_is_inserted_once,
    guards_see_the_writes_before_them, remove_takes_all_generations_at_the_newest_version,
    stale_brings_the_newest_row_of_each_write, update_needs_the_version_before,
    what_was_decided_in_another_epoch_is_stale,
};
pub use journals::{
    a_blob_is_kept_in_its_namespace, a_delivery_comes_once, a_delivery_is_consumed_once,
    a_delivery_makes_a_parked_run_due, a_journal_comes_back_in_order,
    an_append_needs_its_predecessor, one_of_many_appenders_wins,
    what_follows_a_refused_append_is_refused,
};
pub use making::{address, armed, begin, done, insert, superseded, update};
pub use making_cards::{card, drop_card, next};
pub use making_runs::{appends, delivery, finished, new_run, parked, queued, run_of, taken};
pub use queues::{
    a_run_leaves_its_queue_when_it_is_taken, held_effects_are_listed_until_they_are_judged,
    the_least_number_of_a_queue_is_next,
};
pub use races::{inv_i1_one_of_many_inserts_wins, inv_i1_one_of_many_updates_wins};
pub use races::{many_keys_at_once_are_all_written, readers_never_see_half_a_batch};
pub use reads::{
    an_empty_store_answers_everything, cursors_survive_writes_between_pages,
    due_is_in_order_with_a_cursor_and_the_next, effects_come_back_as_they_were_written,
    generations_are_loaded_apart, lists_are_filtered, lists_are_paged_newest_first,
    names_are_never_mixed_up, sweepable_is_in_order_of_its_time,
};
pub use run_reads::{
    a_store_without_runs_answers_everything, due_runs_are_of_their_lane_in_order,
    runs_are_listed_by_what_they_are, sweepable_runs_come_in_order_of_their_time,
};
pub use runs::{
    a_dropped_run_leaves_its_tombstone, a_repeated_batch_of_a_run_is_done_once,
    a_run_changes_on_the_version_before, a_run_starts_once, a_taken_number_or_id_is_refused,
    a_touch_makes_a_park_on_what_was_before_stale, a_touch_makes_a_parked_run_due,
    a_touch_never_fails, effects_and_runs_are_written_together_or_not_at_all,
    holds_is_for_the_holder_alone, stale_brings_rows_of_effects_alone,
};

use std::pin::Pin;
use std::sync::Arc;

use crate::Store;

/// A store that a law has for itself.
pub type Subject = Arc<dyn Store>;

type Run = Pin<Box<dyn Future<Output = ()> + Send>>;

/// A law and its name.
pub type Law = (&'static str, fn(Subject) -> Run);

/// Runs all laws, each on a store of its own.
pub async fn run_all<F, S>(mut fresh: F)
where
    F: FnMut() -> S,
    S: Future<Output = Subject>,
{
    for (_, law) in LAWS {
        law(fresh().await).await;
    }
}

/// All laws by their names, for a store that has a reason to leave one out.
pub fn laws() -> impl Iterator<Item = Law> {
    LAWS.into_iter()
}

/// All laws, in reading order.
const LAWS: [Law; 60] = [
    ("a_row_is_inserted_once", |store| Box::pin(a_row_is_inserted_once(store))),
    ("update_needs_the_version_before", |store| Box::pin(update_needs_the_version_before(store))),
    ("a_missing_row_cannot_be_updated", |store| Box::pin(a_missing_row_cannot_be_updated(store))),
    ("what_was_decided_in_another_epoch_is_stale", |store| {
        Box::pin(what_was_decided_in_another_epoch_is_stale(store))
    }),
    ("stale_brings_the_newest_row_of_each_write", |store| {
        Box::pin(stale_brings_the_newest_row_of_each_write(store))
    }),
    ("a_batch_whose_second_guard_fails_writes_nothing", |store| {
        Box::pin(a_batch_whose_second_guard_fails_writes_nothing(store))
    }),
    ("guards_see_the_writes_before_them", |store| {
        Box::pin(guards_see_the_writes_before_them(store))
    }),
    ("a_batch_of_nothing_is_done", |store| Box::pin(a_batch_of_nothing_is_done(store))),
    ("a_committed_batch_repeated_is_done_and_changes_nothing", |store| {
        Box::pin(a_committed_batch_repeated_is_done_and_changes_nothing(store))
    }),
    ("a_repeat_after_somebody_else_moved_on_is_stale", |store| {
        Box::pin(a_repeat_after_somebody_else_moved_on_is_stale(store))
    }),
    ("remove_takes_all_generations_at_the_newest_version", |store| {
        Box::pin(remove_takes_all_generations_at_the_newest_version(store))
    }),
    ("an_empty_store_answers_everything", |store| {
        Box::pin(an_empty_store_answers_everything(store))
    }),
    ("effects_come_back_as_they_were_written", |store| {
        Box::pin(effects_come_back_as_they_were_written(store))
    }),
    ("generations_are_loaded_apart", |store| Box::pin(generations_are_loaded_apart(store))),
    ("names_are_never_mixed_up", |store| Box::pin(names_are_never_mixed_up(store))),
    ("lists_are_filtered", |store| Box::pin(lists_are_filtered(store))),
    ("lists_are_paged_newest_first", |store| Box::pin(lists_are_paged_newest_first(store))),
    ("cursors_survive_writes_between_pages", |store| {
        Box::pin(cursors_survive_writes_between_pages(store))
    }),
    ("due_is_in_order_with_a_cursor_and_the_next", |store| {
        Box::pin(due_is_in_order_with_a_cursor_and_the_next(store))
    }),
    ("sweepable_is_in_order_of_its_time", |store| {
        Box::pin(sweepable_is_in_order_of_its_time(store))
    }),
    ("inv_i1_one_of_many_inserts_wins", |store| Box::pin(inv_i1_one_of_many_inserts_wins(store))),
    ("inv_i1_one_of_many_updates_wins", |store| Box::pin(inv_i1_one_of_many_updates_wins(store))),
    ("many_keys_at_once_are_all_written", |store| {
        Box::pin(many_keys_at_once_are_all_written(store))
    }),
    ("readers_never_see_half_a_batch", |store| Box::pin(readers_never_see_half_a_batch(store))),
    ("a_run_starts_once", |store| Box::pin(a_run_starts_once(store))),
    ("a_taken_number_or_id_is_refused", |store| Box::pin(a_taken_number_or_id_is_refused(store))),
    ("a_run_changes_on_the_version_before", |store| {
        Box::pin(a_run_changes_on_the_version_before(store))
    }),
    ("a_touch_makes_a_parked_run_due", |store| Box::pin(a_touch_makes_a_parked_run_due(store))),
    ("a_touch_makes_a_park_on_what_was_before_stale", |store| {
        Box::pin(a_touch_makes_a_park_on_what_was_before_stale(store))
    }),
    ("a_touch_never_fails", |store| Box::pin(a_touch_never_fails(store))),
    ("holds_is_for_the_holder_alone", |store| Box::pin(holds_is_for_the_holder_alone(store))),
    ("effects_and_runs_are_written_together_or_not_at_all", |store| {
        Box::pin(effects_and_runs_are_written_together_or_not_at_all(store))
    }),
    ("a_repeated_batch_of_a_run_is_done_once", |store| {
        Box::pin(a_repeated_batch_of_a_run_is_done_once(store))
    }),
    ("stale_brings_rows_of_effects_alone", |store| {
        Box::pin(stale_brings_rows_of_effects_alone(store))
    }),
    ("a_dropped_run_leaves_its_tombstone", |store| {
        Box::pin(a_dropped_run_leaves_its_tombstone(store))
    }),
    ("a_journal_comes_back_in_order", |store| Box::pin(a_journal_comes_back_in_order(store))),
    ("an_append_needs_its_predecessor", |store| Box::pin(an_append_needs_its_predecessor(store))),
    ("what_follows_a_refused_append_is_refused", |store| {
        Box::pin(what_follows_a_refused_append_is_refused(store))
    }),
    ("one_of_many_appenders_wins", |store| Box::pin(one_of_many_appenders_wins(store))),
    ("a_delivery_comes_once", |store| Box::pin(a_delivery_comes_once(store))),
    ("a_delivery_makes_a_parked_run_due", |store| {
        Box::pin(a_delivery_makes_a_parked_run_due(store))
    }),
    ("a_delivery_is_consumed_once", |store| Box::pin(a_delivery_is_consumed_once(store))),
    ("a_blob_is_kept_in_its_namespace", |store| Box::pin(a_blob_is_kept_in_its_namespace(store))),
    ("a_store_without_runs_answers_everything", |store| {
        Box::pin(a_store_without_runs_answers_everything(store))
    }),
    ("due_runs_are_of_their_lane_in_order", |store| {
        Box::pin(due_runs_are_of_their_lane_in_order(store))
    }),
    ("runs_are_listed_by_what_they_are", |store| Box::pin(runs_are_listed_by_what_they_are(store))),
    ("sweepable_runs_come_in_order_of_their_time", |store| {
        Box::pin(sweepable_runs_come_in_order_of_their_time(store))
    }),
    ("the_least_number_of_a_queue_is_next", |store| {
        Box::pin(the_least_number_of_a_queue_is_next(store))
    }),
    ("a_run_leaves_its_queue_when_it_is_taken", |store| {
        Box::pin(a_run_leaves_its_queue_when_it_is_taken(store))
    }),
    ("held_effects_are_listed_until_they_are_judged", |store| {
        Box::pin(held_effects_are_listed_until_they_are_judged(store))
    }),
    ("a_store_without_cards_answers_everything", |store| {
        Box::pin(a_store_without_cards_answers_everything(store))
    }),
    ("a_card_is_made_once", |store| Box::pin(a_card_is_made_once(store))),
    ("cards_are_never_mixed_up", |store| Box::pin(cards_are_never_mixed_up(store))),
    ("a_card_changes_on_the_version_before", |store| {
        Box::pin(a_card_changes_on_the_version_before(store))
    }),
    ("a_card_is_dropped_at_its_version", |store| Box::pin(a_card_is_dropped_at_its_version(store))),
    ("a_repeated_batch_with_cards_is_done_once", |store| {
        Box::pin(a_repeated_batch_with_cards_is_done_once(store))
    }),
    ("cards_are_written_together_with_rows_or_not_at_all", |store| {
        Box::pin(cards_are_written_together_with_rows_or_not_at_all(store))
    }),
    ("cards_are_listed_in_order_in_pages", |store| {
        Box::pin(cards_are_listed_in_order_in_pages(store))
    }),
    ("due_cards_come_earliest_first", |store| Box::pin(due_cards_come_earliest_first(store))),
    ("one_of_many_writers_of_a_card_wins", |store| {
        Box::pin(one_of_many_writers_of_a_card_wins(store))
    }),
];
