//! Seals in a file: every statement leaves one that fits, older files get theirs, and what was
//! changed is found.

mod support;

use semel_store::sqlite::Sqlite;
use semel_store::{Access, Clock, ManualClock, Runs, StoreError, Upkeep};
use support::sealed::{audits, fill};
use support::{Folder, WALL_MS, block_on};

fn sql(folder: &Folder, text: &str) {
    let connection = rusqlite::Connection::open(folder.store()).expect("a database");
    connection.execute_batch(text).expect("SQL");
}

/// Takes the migration of seals back, as the Semel before left a file.
const BACK: &str = "ALTER TABLE effects DROP COLUMN seal; ALTER TABLE runs DROP COLUMN seal; \
     ALTER TABLE inbox DROP COLUMN seal; ALTER TABLE returns DROP COLUMN seal; \
     ALTER TABLE meta DROP COLUMN seal; PRAGMA user_version = 4";

#[test]
fn inv_i22_every_statement_leaves_a_seal_that_fits() {
    let folder = Folder::new();
    let store = folder.open();
    block_on(fill(&store));
    assert_eq!(block_on(audits(&store)), [""; 0]);
    let deliveries = block_on(store.audit_runs(0, 9)).expect("an audit").beside;
    assert_eq!(deliveries[&7].deliveries, 2);
    assert_eq!(deliveries[&7].values.len(), 1);
}

#[test]
fn inv_i22_rows_that_a_reboot_made_due_are_sealed_anew() {
    let folder = Folder::new();
    let clock = ManualClock::new(WALL_MS);
    let store = folder.open_on(Clock::Manual(clock.clone()));
    block_on(fill(&store));
    folder.close(store);
    clock.reboot("boot-2");
    let store = folder.open_on(Clock::Manual(clock));
    assert_eq!(block_on(audits(&store)), [""; 0]);
}

#[test]
fn a_file_of_the_format_before_is_sealed_when_it_is_opened_and_can_be_looked_at() {
    let folder = Folder::new();
    let store = folder.open();
    block_on(fill(&store));
    folder.close_and_fold(store);
    sql(&folder, BACK);
    let reader = folder.open_to_read();
    assert_eq!((reader.format(), block_on(audits(&reader))), (4, vec![]));
    assert_eq!(block_on(reader.inbox(7)).expect("an inbox").len(), 1);
    folder.close(reader);
    let store = folder.open();
    assert_eq!((store.format(), block_on(audits(&store))), (5, vec![]));
    assert_eq!(block_on(store.inbox(7)).expect("an inbox").len(), 1);
}

#[test]
fn inv_i22_what_was_changed_beside_a_record_is_found() {
    let changes = [
        "UPDATE effects SET due_at = due_at + 1",
        "UPDATE effects SET created_at = created_at + 1",
        "UPDATE effects SET workflow = 'other'",
        "UPDATE effects SET alarmed = 2",
        "UPDATE effects SET state = 'planned'",
        "UPDATE effects SET seal = zeroblob(32)",
        "UPDATE runs SET version = version + 1",
        "UPDATE runs SET wake_at = wake_at - 1",
        "UPDATE runs SET seal = x''",
        "UPDATE inbox SET payload = '1' WHERE identity = 'b'",
        "UPDATE inbox SET consumed = 0 WHERE identity = 'a'",
        "UPDATE inbox SET at = at + 1 WHERE identity = 'a'",
        "DELETE FROM inbox WHERE identity = 'a'",
        "UPDATE blobs SET text = 'other'",
        "DELETE FROM blob_uses",
        "UPDATE blob_uses SET namespace = 'other'",
        "UPDATE meta SET epoch = 9",
        "UPDATE meta SET wall_high = wall_high - 1",
        "UPDATE inbox SET run = 8",
    ];
    let folder = Folder::new();
    let store = folder.open();
    block_on(fill(&store));
    folder.close_and_fold(store);
    for change in changes {
        let copy = Folder::new();
        std::fs::copy(folder.store(), copy.store()).expect("a copy");
        sql(&copy, change);
        let reader = copy.try_open(Access::ReadOnly, Clock::Real).expect("it opens");
        assert_ne!(block_on(audits(&reader)), [""; 0], "{change}");
        copy.close(reader);
    }
}

#[test]
fn a_changed_delivery_is_not_believed() {
    let folder = Folder::new();
    let store = folder.open();
    block_on(fill(&store));
    folder.close_and_fold(store);
    sql(&folder, "UPDATE inbox SET payload = '\"forged\"' WHERE identity = 'b'");
    let store: Sqlite = folder.open();
    let read = block_on(store.inbox(7));
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
    let read = block_on(store.delivery(7, "b"));
    assert!(matches!(read, Err(StoreError::Corrupt(_))), "{read:?}");
}
