//! Damage: foreign and newer files are left alone, changed bytes are found, and a store that went
//! back in time says so.

mod support;

use std::path::Path;

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use semel_core::effect::{Quarantine, Rows};
use semel_core::time::Wall;
use semel_store::Access;
use semel_store::sqlite::{FORMAT, Sqlite};
use semel_store::{Clock, CommitError, ManualClock, Query, Store, StoreError, Upkeep};
use support::child::{Player, role, say};
use support::{Folder, WALL_MS, address, beside, block_on, has, problems, put};

/// Runs SQL on the file as another program would, and leaves the log as it is.
fn sql(path: &Path, text: &str) {
    let connection = Connection::open(path).expect("a database");
    let keep_log = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true);
    keep_log.expect("a setting");
    connection.execute_batch(text).expect("SQL");
}

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).unwrap_or_default()
}

/// A closed store that holds these keys.
fn store_with(folder: &Folder, keys: &[&str]) {
    let store = folder.open();
    for key in keys {
        block_on(put(&store, key, 100)).expect("a new key");
    }
    folder.close_and_fold(store);
}

fn refusals(folder: &Folder) -> [StoreError; 2] {
    [Access::ReadWrite, Access::ReadOnly]
        .map(|access| folder.try_open(access, Clock::Real).err().expect("the file is refused"))
}

#[test]
fn inv_i26_a_newer_format_is_refused_and_left_untouched() {
    let folder = Folder::new();
    store_with(&folder, &["k"]);
    let newer = FORMAT + 1;
    // In the log, not yet in the file: closing must not copy it.
    sql(&folder.store(), &format!("PRAGMA user_version = {newer}; CREATE TABLE future (x);"));
    let wal = beside(&folder.store(), "-wal");
    let before = (read(&folder.store()), read(&wal));
    assert!(!before.1.is_empty());
    for refusal in refusals(&folder) {
        assert_eq!(refusal, StoreError::Newer { found: newer, known: FORMAT });
    }
    assert!(before == (read(&folder.store()), read(&wal)), "the newer store was changed");
}

#[test]
fn another_programs_database_is_refused_and_left_untouched() {
    for text in [
        "CREATE TABLE effects (x);",
        "PRAGMA application_id = 7;",
        "PRAGMA user_version = 1;",
        "PRAGMA journal_mode = WAL; CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1);",
    ] {
        let folder = Folder::new();
        sql(&folder.store(), text);
        let wal = beside(&folder.store(), "-wal");
        let before = (read(&folder.store()), read(&wal));
        for refusal in refusals(&folder) {
            assert!(matches!(&refusal, StoreError::Foreign(_)), "{text}: {refusal:?}");
            assert!(refusal.to_string().contains("another program"), "{refusal}");
        }
        assert!(before == (read(&folder.store()), read(&wal)), "{text}: it was changed");
    }
}

#[test]
fn a_file_that_is_no_database_is_refused_as_corrupt_and_left_untouched() {
    for bytes in [b"Dear diary, ".repeat(500), b"hello, I am a text file\n".to_vec()] {
        let folder = Folder::new();
        std::fs::write(folder.store(), &bytes).expect("a file");
        for refusal in refusals(&folder) {
            assert!(matches!(&refusal, StoreError::Corrupt(_)), "{refusal:?}");
            assert!(refusal.to_string().contains("not a database"), "{refusal}");
        }
        assert!(read(&folder.store()) == bytes);
    }
}

#[test]
fn case_x13_a_flipped_byte_in_a_record_is_found_not_believed() {
    // The second makes the text invalid as text.
    for mask in [0x01, 0x80] {
        let folder = Folder::new();
        store_with(&folder, &["before", "flipped", "after"]);
        let mut bytes = read(&folder.store());
        let marker = b"\"id\":\"flipped\"";
        let places: Vec<_> =
            bytes.windows(marker.len()).enumerate().filter(|(_, part)| part == marker).collect();
        let [(place, _)] = places.as_slice() else { panic!("the record was not found once") };
        let place = *place + 8;
        bytes[place] ^= mask;
        std::fs::write(folder.store(), bytes).expect("a damaged file");
        let store = folder.open();
        block_on(async {
            let loaded = store.load(&address("flipped")).await;
            assert!(matches!(loaded, Err(StoreError::Corrupt(_))), "{loaded:?}");
            let listed = store.list(&Query::everywhere(10)).await.expect("the others");
            let named: Vec<_> = listed.unreadable.iter().map(|row| row.name.as_str()).collect();
            assert_eq!((listed.effects.len(), named), (2, vec!["a/flipped"]));
            let begun = put(&store, "flipped", 1).await;
            let corrupt = matches!(begun, Err(CommitError::Failed(StoreError::Corrupt(_))));
            assert!(corrupt, "the key is silently free, or stale: {begun:?}");
            let audit = store.audit(0, 10).await.expect("an audit");
            assert_eq!(audit.problems.len(), 1, "{:?}", audit.problems);
            assert_eq!(audit.effects.len(), 2, "the audit goes on after the damage");
            // The others are not held up by it.
            assert!(has(&store, "before").await && has(&store, "after").await);
            assert_eq!(put(&store, "new", 1).await, Ok(()));
        });
    }
}

#[test]
fn columns_that_differ_from_their_record_are_found() {
    for change in [
        "version = version + 1",
        "generation = 5",
        "sweep_at = 7",
        "alarmed = 1",
        "key = 'other'",
        "state = 'nonsense'",
        "sum = sum + 1",
        "record = replace(record, 'x', 'y')",
    ] {
        let folder = Folder::new();
        store_with(&folder, &["k", "untouched"]);
        sql(&folder.store(), &format!("UPDATE effects SET {change} WHERE key = 'k'"));
        let store = folder.open_to_read();
        let found = block_on(problems(&store));
        assert_eq!(found.len(), 1, "{change}: {found:?}");
        assert!(found[0].starts_with("row 1"), "{change}: {found:?}");
    }
    let folder = Folder::new();
    store_with(&folder, &["k"]);
    sql(&folder.store(), "UPDATE effects SET version = version + 1");
    let loaded = block_on(folder.open_to_read().load(&address("k")));
    assert!(matches!(loaded, Err(StoreError::Corrupt(_))), "a guard would compare it: {loaded:?}");
}

/// Leaves a store whose last commits are in the log only: its process was killed.
fn killed_store(test: &str, folder: &Folder) {
    let mut player = Player::start(test, "writer", &folder.store());
    player.expect("written");
    player.kill();
}

fn play_writer() -> bool {
    let Some((_, store)) = role() else { return false };
    let store = Sqlite::open(&store, Access::ReadWrite, Clock::Real).expect("the store opens");
    for key in ["1", "2", "3"] {
        block_on(put(&store, key, 100)).expect("a new key");
    }
    say("written");
    std::thread::sleep(std::time::Duration::from_secs(60));
    true
}

#[test]
fn case_x13_inv_i27_a_damaged_end_of_the_log_opens_the_quarantine() {
    if play_writer() {
        return;
    }
    const TEST: &str = "case_x13_inv_i27_a_damaged_end_of_the_log_opens_the_quarantine";
    type Damage = fn(&mut Vec<u8>);
    let damages: [(Damage, &[&str]); 4] = [
        (|log| log.truncate(log.len() - 1), &["1", "2"]),
        (|log| *log.last_mut().expect("a byte") ^= 1, &["1", "2"]),
        (|log| log.truncate(log.len() / 2), &[]),
        (Vec::clear, &[]),
    ];
    for (index, (damage, kept)) in damages.into_iter().enumerate() {
        let folder = Folder::new();
        killed_store(TEST, &folder);
        let log = beside(&folder.store(), "-wal");
        let mut bytes = read(&log);
        damage(&mut bytes);
        std::fs::write(&log, bytes).expect("a damaged log");
        let store = folder.try_open(Access::ReadWrite, Clock::Real).expect("the store opens");
        let ground = store.ground();
        assert!(ground.quarantine.is_some(), "damage {index}: what was lost may have been sent");
        assert_eq!(ground.epoch, 1, "damage {index}: the fences must grow over the lost ones");
        assert!(!block_on(has(&store, "3")), "damage {index}: nothing was lost");
        for key in kept {
            assert!(block_on(has(&store, key)), "damage {index}: {key} was whole");
        }
    }
}

#[test]
fn a_whole_log_after_a_kill_opens_no_quarantine() {
    if play_writer() {
        return;
    }
    let folder = Folder::new();
    killed_store("a_whole_log_after_a_kill_opens_no_quarantine", &folder);
    let store = folder.open();
    assert_eq!((store.ground().quarantine, store.ground().epoch), (None, 0));
    for key in ["1", "2", "3"] {
        assert!(block_on(has(&store, key)));
    }
}

/// Opens on a manual clock, writes a key, closes; says what the ground was.
fn visit(folder: &Folder, clock: &Clock, key: &str) -> (u64, Option<Quarantine>) {
    let store = folder.open_on(clock.clone());
    let ground = store.ground();
    block_on(put(&store, key, 10)).expect("a new key");
    folder.close_and_fold(store);
    (ground.epoch, ground.quarantine)
}

#[test]
fn inv_i27_a_restored_copy_opens_the_quarantine_until_it_is_closed() {
    let folder = Folder::new();
    let manual = ManualClock::new(WALL_MS);
    let clock = Clock::Manual(manual.clone());
    let copy = folder.path().join("backup");
    assert_eq!(visit(&folder, &clock, "kept"), (0, None));
    std::fs::copy(folder.store(), &copy).expect("a backup");
    manual.advance_ms(1_000);
    assert_eq!(visit(&folder, &clock, "lost"), (0, None));
    std::fs::copy(&copy, folder.store()).expect("a restore");
    manual.advance_ms(1_000);
    let reader = folder.try_open(Access::ReadOnly, clock.clone()).expect("the store opens");
    assert!(reader.ground().quarantine.is_some(), "a reader that comes first sees it");
    folder.close(reader);
    let opened = |ms: i64| Quarantine {
        opened: Wall(WALL_MS + ms),
        recovered: Wall(WALL_MS),
        rows: Rows::WentBack,
    };
    assert_eq!(visit(&folder, &clock, "later"), (1, Some(opened(2_000))));
    // It stays open, and is not opened again.
    manual.advance_ms(1_000);
    assert_eq!(visit(&folder, &clock, "still"), (1, Some(opened(2_000))));
    assert_eq!(visit(&folder, &clock, "still 2"), (1, Some(opened(2_000))));
    // A second restore, of a copy made meanwhile: the first lost tail is lost still.
    std::fs::copy(folder.store(), &copy).expect("a backup");
    manual.advance_ms(1_000);
    visit(&folder, &clock, "lost, too");
    std::fs::copy(&copy, folder.store()).expect("a restore");
    assert_eq!(visit(&folder, &clock, "at last"), (2, Some(opened(4_000))));
    let store = folder.open_to_read();
    assert_eq!(store.ground().quarantine, Some(opened(4_000)), "readers know it, too");
    assert!(block_on(has(&store, "kept")) && !block_on(has(&store, "lost")));
}

#[test]
fn inv_i27_a_store_that_is_gone_or_exchanged_opens_the_quarantine() {
    let other = Folder::new();
    store_with(&other, &["1", "2", "3", "4"]);
    let folder = Folder::new();
    store_with(&folder, &["k"]);
    std::fs::copy(other.store(), folder.store()).expect("another store in its place");
    let store = folder.open();
    assert_eq!((store.ground().epoch, store.ground().quarantine.is_some()), (1, true));
    folder.close_and_fold(store);
    std::fs::remove_file(folder.store()).expect("the file is deleted");
    let store = folder.open();
    assert_eq!((store.ground().epoch, store.ground().quarantine.is_some()), (2, true));
}

#[test]
fn without_a_mark_there_is_no_quarantine() {
    for mark in [None, Some(""), Some("nonsense\n")] {
        let folder = Folder::new();
        store_with(&folder, &["k"]);
        let path = beside(&folder.store(), "-semel/mark");
        match mark {
            None => std::fs::remove_file(path).expect("there was a mark"),
            Some(text) => std::fs::write(path, text).expect("another mark"),
        }
        let ground = folder.open().ground();
        assert_eq!((ground.quarantine, ground.epoch), (None, 0));
    }
}
