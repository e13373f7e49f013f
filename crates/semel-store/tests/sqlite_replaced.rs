//! The file is put back, or exchanged, under a live process: nothing is written on what is gone,
//! and what the process wrote since is listed.

mod support;

use std::process::Command;

use semel_store::conformance::{armed, done, insert, update};
use semel_store::sqlite::Sqlite;
use semel_store::{Batch, CommitError, LostRow, Store, StoreError, Upkeep, Write};
use support::{Folder, address, beside, block_on, has, put};

fn commit(store: &Sqlite, writes: Vec<Write>) -> Result<(), CommitError> {
    block_on(store.commit(Batch { writes: writes.into() }))
}

/// Arms, sends and settles the effect `gone`.
fn send(store: &Sqlite) {
    let ground = store.ground();
    let sent = armed(&address("gone"), "1", &ground);
    assert_eq!(commit(store, vec![insert(&sent, &ground)]), Ok(()));
    let sent = done(&sent, "1", &ground);
    assert_eq!(commit(store, vec![update(&sent, &ground)]), Ok(()));
}

/// The same process asks for the key that it has sent, on what it knew before.
fn again(store: &Sqlite) -> Result<(), CommitError> {
    let ground = store.ground();
    let again = insert(&armed(&address("gone"), "2", &ground), &ground);
    commit(store, vec![Write::InEpoch(ground.epoch), again])
}

fn lost(store: &Sqlite) -> Vec<String> {
    let lost = block_on(store.lost(0, 10)).expect("a list");
    let text = |one: &semel_store::Lost| match &one.what {
        LostRow::Effect { address, .. } => format!("{} {}", address.key.as_str(), one.state),
        LostRow::Run { id, .. } => format!("{id} {}", one.state),
    };
    lost.iter().map(text).collect()
}

/// A copy of the file as it is now, by SQLite itself.
fn copy(folder: &Folder) -> std::path::PathBuf {
    let to = folder.path().join("copy.db");
    let made = format!("VACUUM INTO '{}'", to.display());
    child(&folder.store(), &made);
    to
}

/// Another process works on the file with the sqlite3 library. Not this one: closing its file would
/// drop the locks of ours.
fn child(file: &std::path::Path, sql: &str) {
    let script = "import sqlite3, sys\n\
        c = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=10)\n\
        if sys.argv[2].startswith('restore '):\n    \
            sqlite3.connect(sys.argv[2][8:]).backup(c)\n\
        else:\n    c.execute(sys.argv[2])\n";
    let python = Command::new("python3").args(["-c", script]).arg(file).arg(sql).output();
    let python = python.expect("python3");
    assert!(python.status.success(), "{}", String::from_utf8_lossy(&python.stderr));
}

#[test]
fn inv_i27_a_restore_into_the_open_file_opens_the_quarantine_in_the_live_process() {
    let folder = Folder::new();
    let (store, other) = (folder.open(), folder.open());
    block_on(put(&store, "kept", 10)).expect("a new key");
    let copy = copy(&folder);
    send(&store);
    block_on(put(&other, "others", 10)).expect("a new key");
    child(&folder.store(), &format!("restore {}", copy.display()));
    assert_eq!(again(&store), Err(CommitError::Stale(vec![None])));
    assert_eq!(store.ground().epoch, 1);
    assert!(store.ground().quarantine.is_some());
    assert!(!block_on(has(&store, "gone")) && block_on(has(&store, "kept")));
    assert_eq!(lost(&store), ["gone done"]);
    let returns = block_on(store.returns()).expect("returns");
    assert!(returns[0].evidence.contains("the mark remembers commit"), "{returns:?}");
    // The other process finds it recorded, and lists its own.
    assert_eq!(again(&other), Err(CommitError::Stale(vec![None])));
    assert_eq!(other.ground().epoch, 1);
    assert_eq!(lost(&store), ["gone done", "others pending"]);
    block_on(put(&store, "next", 10)).expect("it goes on");
    drop(other);
    folder.close(store);
    let store = folder.open();
    assert_eq!(store.ground().epoch, 1, "once for all time");
    assert_eq!(lost(&store), ["gone done", "others pending"]);
}

#[test]
fn inv_i27_a_process_whose_file_was_exchanged_writes_no_more() {
    let folder = Folder::new();
    let store = folder.open();
    block_on(put(&store, "kept", 10)).expect("a new key");
    let copy = copy(&folder);
    send(&store);
    // The file alone, as `mv` does: its log stays beside it.
    std::fs::rename(&copy, folder.store()).expect("moved");
    for _ in 0..2 {
        let refused = again(&store);
        let is_refused = matches!(
            &refused,
            Err(CommitError::Failed(StoreError::Unavailable(text))) if text.contains("replaced")
        );
        assert!(is_refused, "{refused:?}");
    }
    assert!(store.damage().is_some(), "and it says so to whoever asks for its health");
    folder.close(store);
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(beside(&folder.store(), suffix));
    }
    let store = folder.open();
    assert!(store.ground().quarantine.is_some());
    assert!(lost(&store).contains(&"gone done".to_owned()), "{:?}", lost(&store));
}

#[test]
fn inv_i27_an_exchanged_file_that_knows_as_much_is_in_quarantine_all_the_same() {
    let folder = Folder::new();
    let store = folder.open();
    send(&store);
    let copy = copy(&folder);
    std::fs::rename(&copy, folder.store()).expect("moved");
    assert!(again(&store).is_err());
    folder.close(store);
    for suffix in ["-wal", "-shm"] {
        let _ = std::fs::remove_file(beside(&folder.store(), suffix));
    }
    assert!(folder.open().ground().quarantine.is_some(), "it may have mixed with the log");
}

#[test]
fn inv_i27_a_process_whose_file_was_removed_writes_no_more() {
    let folder = Folder::new();
    let store = folder.open();
    send(&store);
    std::fs::remove_file(folder.store()).expect("removed");
    assert!(matches!(again(&store), Err(CommitError::Failed(StoreError::Unavailable(_)))));
}

#[test]
fn inv_i27_a_restore_from_another_store_stops_the_live_process() {
    let (folder, elsewhere) = (Folder::new(), Folder::new());
    let (store, another) = (folder.open(), elsewhere.open());
    send(&store);
    block_on(put(&another, "theirs", 10)).expect("a new key");
    let copy = copy(&elsewhere);
    child(&folder.store(), &format!("restore {}", copy.display()));
    let refused = again(&store);
    assert!(matches!(refused, Err(CommitError::Failed(StoreError::Unavailable(_)))), "{refused:?}");
    folder.close(store);
    let store = folder.open();
    assert!(store.ground().quarantine.is_some());
    assert_eq!(lost(&store), ["gone done"]);
}

#[test]
fn what_maintains_the_file_opens_nothing() {
    let folder = Folder::new();
    let store = folder.open();
    for (round, upkeep) in
        ["VACUUM", "ANALYZE", "REINDEX", "PRAGMA wal_checkpoint(TRUNCATE)"].iter().enumerate()
    {
        block_on(put(&store, &format!("k{round}"), 10)).expect("a new key");
        child(&folder.store(), upkeep);
    }
    block_on(put(&store, "last", 10)).expect("a new key");
    assert_eq!(store.ground().epoch, 0);
}
