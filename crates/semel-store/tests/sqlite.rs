//! SQLite keeps the laws that every store keeps, on real files.

mod support;

use semel_store::{Store, conformance};
use support::Folder;

#[tokio::test]
async fn a_row_is_inserted_once() {
    let fresh = Folder::new();
    conformance::a_row_is_inserted_once(fresh.subject()).await;
}

#[tokio::test]
async fn update_needs_the_version_before() {
    let fresh = Folder::new();
    conformance::update_needs_the_version_before(fresh.subject()).await;
}

#[tokio::test]
async fn a_missing_row_cannot_be_updated() {
    let fresh = Folder::new();
    conformance::a_missing_row_cannot_be_updated(fresh.subject()).await;
}

#[tokio::test]
async fn stale_brings_the_newest_row_of_each_write() {
    let fresh = Folder::new();
    conformance::stale_brings_the_newest_row_of_each_write(fresh.subject()).await;
}

#[tokio::test]
async fn a_batch_whose_second_guard_fails_writes_nothing() {
    let fresh = Folder::new();
    conformance::a_batch_whose_second_guard_fails_writes_nothing(fresh.subject()).await;
}

#[tokio::test]
async fn guards_see_the_writes_before_them() {
    let fresh = Folder::new();
    conformance::guards_see_the_writes_before_them(fresh.subject()).await;
}

#[tokio::test]
async fn a_batch_of_nothing_is_done() {
    let fresh = Folder::new();
    conformance::a_batch_of_nothing_is_done(fresh.subject()).await;
}

#[tokio::test]
async fn a_committed_batch_repeated_is_done_and_changes_nothing() {
    let fresh = Folder::new();
    conformance::a_committed_batch_repeated_is_done_and_changes_nothing(fresh.subject()).await;
}

#[tokio::test]
async fn a_repeat_after_somebody_else_moved_on_is_stale() {
    let fresh = Folder::new();
    conformance::a_repeat_after_somebody_else_moved_on_is_stale(fresh.subject()).await;
}

#[tokio::test]
async fn remove_takes_all_generations_at_the_newest_version() {
    let fresh = Folder::new();
    conformance::remove_takes_all_generations_at_the_newest_version(fresh.subject()).await;
}

#[tokio::test]
async fn an_empty_store_answers_everything() {
    let fresh = Folder::new();
    conformance::an_empty_store_answers_everything(fresh.subject()).await;
}

#[tokio::test]
async fn effects_come_back_as_they_were_written() {
    let fresh = Folder::new();
    conformance::effects_come_back_as_they_were_written(fresh.subject()).await;
}

#[tokio::test]
async fn generations_are_loaded_apart() {
    let fresh = Folder::new();
    conformance::generations_are_loaded_apart(fresh.subject()).await;
}

#[tokio::test]
async fn names_are_never_mixed_up() {
    let fresh = Folder::new();
    conformance::names_are_never_mixed_up(fresh.subject()).await;
}

#[tokio::test]
async fn lists_are_filtered() {
    let fresh = Folder::new();
    conformance::lists_are_filtered(fresh.subject()).await;
}

#[tokio::test]
async fn lists_are_paged_newest_first() {
    let fresh = Folder::new();
    conformance::lists_are_paged_newest_first(fresh.subject()).await;
}

#[tokio::test]
async fn cursors_survive_writes_between_pages() {
    let fresh = Folder::new();
    conformance::cursors_survive_writes_between_pages(fresh.subject()).await;
}

#[tokio::test]
async fn due_is_in_order_with_a_cursor_and_the_next() {
    let fresh = Folder::new();
    conformance::due_is_in_order_with_a_cursor_and_the_next(fresh.subject()).await;
}

#[tokio::test]
async fn sweepable_is_in_order_of_its_time() {
    let fresh = Folder::new();
    conformance::sweepable_is_in_order_of_its_time(fresh.subject()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_one_of_many_inserts_wins() {
    let fresh = Folder::new();
    conformance::inv_i1_one_of_many_inserts_wins(fresh.subject()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_one_of_many_updates_wins() {
    let fresh = Folder::new();
    conformance::inv_i1_one_of_many_updates_wins(fresh.subject()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_keys_at_once_are_all_written() {
    let fresh = Folder::new();
    conformance::many_keys_at_once_are_all_written(fresh.subject()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_never_see_half_a_batch() {
    let fresh = Folder::new();
    conformance::readers_never_see_half_a_batch(fresh.subject()).await;
}

#[tokio::test]
async fn a_run_starts_once() {
    let fresh = Folder::new();
    conformance::a_run_starts_once(fresh.subject()).await;
}

#[tokio::test]
async fn a_taken_number_or_id_is_refused() {
    let fresh = Folder::new();
    conformance::a_taken_number_or_id_is_refused(fresh.subject()).await;
}

#[tokio::test]
async fn a_run_changes_on_the_version_before() {
    let fresh = Folder::new();
    conformance::a_run_changes_on_the_version_before(fresh.subject()).await;
}

#[tokio::test]
async fn a_touch_makes_a_parked_run_due() {
    let fresh = Folder::new();
    conformance::a_touch_makes_a_parked_run_due(fresh.subject()).await;
}

#[tokio::test]
async fn a_touch_makes_a_park_on_what_was_before_stale() {
    let fresh = Folder::new();
    conformance::a_touch_makes_a_park_on_what_was_before_stale(fresh.subject()).await;
}

#[tokio::test]
async fn a_touch_never_fails() {
    let fresh = Folder::new();
    conformance::a_touch_never_fails(fresh.subject()).await;
}

#[tokio::test]
async fn holds_is_for_the_holder_alone() {
    let fresh = Folder::new();
    conformance::holds_is_for_the_holder_alone(fresh.subject()).await;
}

#[tokio::test]
async fn effects_and_runs_are_written_together_or_not_at_all() {
    let fresh = Folder::new();
    conformance::effects_and_runs_are_written_together_or_not_at_all(fresh.subject()).await;
}

#[tokio::test]
async fn a_repeated_batch_of_a_run_is_done_once() {
    let fresh = Folder::new();
    conformance::a_repeated_batch_of_a_run_is_done_once(fresh.subject()).await;
}

#[tokio::test]
async fn stale_brings_rows_of_effects_alone() {
    let fresh = Folder::new();
    conformance::stale_brings_rows_of_effects_alone(fresh.subject()).await;
}

#[tokio::test]
async fn a_dropped_run_leaves_its_tombstone() {
    let fresh = Folder::new();
    conformance::a_dropped_run_leaves_its_tombstone(fresh.subject()).await;
}

#[tokio::test]
async fn a_journal_comes_back_in_order() {
    let fresh = Folder::new();
    conformance::a_journal_comes_back_in_order(fresh.subject()).await;
}

#[tokio::test]
async fn an_append_needs_its_predecessor() {
    let fresh = Folder::new();
    conformance::an_append_needs_its_predecessor(fresh.subject()).await;
}

#[tokio::test]
async fn what_follows_a_refused_append_is_refused() {
    let fresh = Folder::new();
    conformance::what_follows_a_refused_append_is_refused(fresh.subject()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_of_many_appenders_wins() {
    let fresh = Folder::new();
    conformance::one_of_many_appenders_wins(fresh.subject()).await;
}

#[tokio::test]
async fn a_delivery_comes_once() {
    let fresh = Folder::new();
    conformance::a_delivery_comes_once(fresh.subject()).await;
}

#[tokio::test]
async fn a_delivery_makes_a_parked_run_due() {
    let fresh = Folder::new();
    conformance::a_delivery_makes_a_parked_run_due(fresh.subject()).await;
}

#[tokio::test]
async fn a_delivery_is_consumed_once() {
    let fresh = Folder::new();
    conformance::a_delivery_is_consumed_once(fresh.subject()).await;
}

#[tokio::test]
async fn a_blob_is_kept_in_its_namespace() {
    let fresh = Folder::new();
    conformance::a_blob_is_kept_in_its_namespace(fresh.subject()).await;
}

#[tokio::test]
async fn a_store_without_runs_answers_everything() {
    let fresh = Folder::new();
    conformance::a_store_without_runs_answers_everything(fresh.subject()).await;
}

#[tokio::test]
async fn due_runs_are_of_their_lane_in_order() {
    let fresh = Folder::new();
    conformance::due_runs_are_of_their_lane_in_order(fresh.subject()).await;
}

#[tokio::test]
async fn runs_are_listed_by_what_they_are() {
    let fresh = Folder::new();
    conformance::runs_are_listed_by_what_they_are(fresh.subject()).await;
}

#[tokio::test]
async fn sweepable_runs_come_in_order_of_their_time() {
    let fresh = Folder::new();
    conformance::sweepable_runs_come_in_order_of_their_time(fresh.subject()).await;
}

/// Runs SQL as any other program may, past every guard of ours.
fn plain_sql(folder: &Folder, text: &str) -> rusqlite::Result<()> {
    rusqlite::Connection::open(folder.store())?.execute_batch(text)
}

#[tokio::test]
async fn req_l8_a_row_has_its_columns_and_the_database_keeps_it_unique() {
    let folder = Folder::new();
    let store = folder.open();
    support::put(&store, "k", 10).await.expect("a new key");
    let connection = rusqlite::Connection::open(folder.store()).expect("a connection");
    let sql = "SELECT workflow, action, key, state, created_at FROM effects";
    let row = connection.query_row(sql, [], |row| {
        let text = |index| row.get::<_, String>(index);
        Ok(([text(0)?, text(1)?, text(2)?, text(3)?], row.get::<_, i64>(4)?))
    });
    let (texts, created_at) = row.expect("one row");
    assert_eq!(texts, ["billing", "a", "k", "pending"]);
    let effect = store.load(&support::address("k")).await.expect("a load").expect("an effect");
    assert_eq!(created_at, effect.created.0);
    let copy = "INSERT INTO effects SELECT NULL, namespace, action, key, generation, version, \
         state, workflow, created_at, due_at, sweep_at, alarmed, sum, record, held, seal \
         FROM effects";
    let error = plain_sql(&folder, copy).expect_err("a duplicate").to_string();
    let unique = "UNIQUE constraint failed: effects.namespace, effects.action, effects.key";
    assert!(error.starts_with(unique), "{error}");
    assert_eq!(support::keys(&store).await, ["k"]);
}

#[tokio::test]
async fn req_l15_the_database_itself_rejects_a_duplicate() {
    let folder = Folder::new();
    let store = folder.open();
    for key in ["k", "k2"] {
        support::put(&store, key, 10).await.expect("a new key");
    }
    let error = plain_sql(&folder, "UPDATE effects SET key = 'k'").expect_err("a duplicate");
    assert!(error.to_string().starts_with("UNIQUE constraint failed"), "{error}");
    assert_eq!(support::keys(&store).await, ["k2", "k"]);
}
