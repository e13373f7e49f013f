//! Seals on Postgres: those that SQL writes are those that Rust computes.

mod support;

use semel_lab::Database;
use semel_store::{Runs, StoreError, Upkeep};
use support::sealed::{audits, fill};
use support::server::{open, try_open};

fn unsealed(database: &Database) {
    database.psql(
        "ALTER TABLE effects DROP COLUMN seal; ALTER TABLE runs DROP COLUMN seal; \
         ALTER TABLE inbox DROP COLUMN seal; ALTER TABLE returns DROP COLUMN seal; \
         ALTER TABLE lost DROP COLUMN seal; ALTER TABLE outbox DROP COLUMN seal; \
         ALTER TABLE meta DROP COLUMN seal; DROP FUNCTION seal; DROP TABLE identity; \
         UPDATE meta SET format = 3",
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i22_every_statement_leaves_a_seal_that_fits() {
    let database = semel_lab::database();
    let store = open(&database.url()).await;
    fill(&store).await;
    database.psql("SELECT intend('mail', 'k', '{\"name\": \"grüße\"}')");
    assert_eq!(audits(&store).await, [""; 0]);
    drop(store);
    // It is on another server: everything is due, and a quarantine is opened, then closed.
    database.psql("UPDATE meta SET server = 'elsewhere'");
    let store = open(&database.url()).await;
    assert_eq!(audits(&store).await, [""; 0]);
    store.close_quarantine(1, "ann", "looked at").await.expect("closed");
    assert_eq!(audits(&store).await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_the_format_before_is_sealed_by_its_migration() {
    let database = semel_lab::database();
    let store = open(&database.url()).await;
    fill(&store).await;
    drop(store);
    database.psql("SELECT intend('mail', 'k', '{\"name\": \"grüße\"}')");
    unsealed(&database);
    let older = try_open(&database.url()).await.err();
    assert!(matches!(older, Some(StoreError::Older { found: 3, .. })), "{older:?}");
    let store = open(&database.url()).await;
    assert_eq!(audits(&store).await, [""; 0]);
    assert_eq!(store.inbox(7).await.expect("an inbox").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i22_what_was_changed_beside_a_record_is_found() {
    let database = semel_lab::database();
    let store = open(&database.url()).await;
    fill(&store).await;
    database.psql("SELECT intend('mail', 'k', '1')");
    for (change, undo) in [
        ("UPDATE effects SET due_at = due_at + 1", "UPDATE effects SET due_at = due_at - 1"),
        ("UPDATE runs SET version = version + 1", "UPDATE runs SET version = version - 1"),
        ("UPDATE runs SET wake_at = wake_at + 1", "UPDATE runs SET wake_at = wake_at - 1"),
        ("UPDATE inbox SET at = at + 1", "UPDATE inbox SET at = at - 1"),
        ("UPDATE meta SET epoch = epoch + 1", "UPDATE meta SET epoch = epoch - 1"),
        ("UPDATE outbox SET key = key || 'x'", "UPDATE outbox SET key = left(key, -1)"),
        ("UPDATE blobs SET text = text || 'x'", "UPDATE blobs SET text = left(text, -1)"),
    ] {
        database.psql(change);
        assert_ne!(audits(&store).await, [""; 0], "{change}");
        database.psql(undo);
        assert_eq!(audits(&store).await, [""; 0], "{undo}");
    }
    database.psql("UPDATE inbox SET payload = '1' WHERE identity = 'b'");
    let read = store.inbox(7).await;
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
}
