//! The files of a store: who may read them, who writes them, and how large they grow.

mod support;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use semel_core::record::Effect;
use semel_store::Access;
use semel_store::sqlite::Sqlite;
use semel_store::{Clock, CommitError, Store, StoreError, conformance};
use support::child::{Player, role, say};
use support::{Folder, address, beside, block_on, has, keys, put, wait_until};

fn open(store: &Path) -> Sqlite {
    Sqlite::open(store, Access::ReadWrite, Clock::Real).expect("the store opens")
}

#[test]
fn files_are_for_their_owner_only() {
    let folder = Folder::new();
    let store = folder.open();
    block_on(put(&store, "k", 10)).expect("a new key");
    let mode = |path: &Path| path.metadata().expect("a file").permissions().mode() & 0o777;
    for suffix in ["", "-wal", "-shm", "-semel/mark", "-semel/turn", "-semel/next"] {
        assert_eq!(mode(&beside(&folder.store(), suffix)), 0o600, "semel.db{suffix}");
    }
    assert_eq!(mode(&beside(&folder.store(), "-semel")), 0o700);
    let session = format!("-semel/sessions/{}", store.session().expect("a session"));
    assert_eq!(mode(&beside(&folder.store(), &session)), 0o600);
}

#[test]
fn reading_changes_nothing_not_even_a_log_that_was_left_behind() {
    if let Some((_, store)) = role() {
        let store = open(&store);
        block_on(put(&store, "k", 10)).expect("a new key");
        say("written");
        return std::thread::sleep(Duration::from_secs(60));
    }
    const TEST: &str = "reading_changes_nothing_not_even_a_log_that_was_left_behind";
    let folder = Folder::new();
    let mut player = Player::start(TEST, "writer", &folder.store());
    player.expect("written");
    player.kill();
    let files = ["", "-wal", "-semel/mark"];
    let bytes = || files.map(|suffix| std::fs::read(beside(&folder.store(), suffix)).ok());
    let before = bytes();
    assert!(before.iter().all(|bytes| bytes.as_ref().is_some_and(|bytes| !bytes.is_empty())));
    let store = folder.open_to_read();
    assert_eq!(block_on(keys(&store)), ["k"]);
    assert_eq!(store.session(), None);
    let refused = block_on(put(&store, "new", 10));
    assert!(matches!(refused, Err(CommitError::Failed(StoreError::Unavailable(_)))), "{refused:?}");
    folder.close(store);
    assert!(before == bytes(), "a reader wrote");
}

#[test]
fn a_reader_makes_no_store() {
    let folder = Folder::new();
    let missing = folder.try_open(Access::ReadOnly, Clock::Real).err();
    assert!(matches!(missing, Some(StoreError::Missing(_))), "{missing:?}");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    std::fs::write(folder.store(), "").expect("an empty file");
    let empty = folder.try_open(Access::ReadOnly, Clock::Real).err();
    assert!(matches!(empty, Some(StoreError::Foreign(_))), "{empty:?}");
    assert_eq!(std::fs::read(folder.store()).expect("the file"), b"");
}

#[test]
fn a_reader_sees_what_another_process_has_acknowledged() {
    if let Some((_, store)) = role() {
        let store = open(&store);
        for count in 0..50 {
            block_on(put(&store, &count.to_string(), 10)).expect("a new key");
            say(&count.to_string());
        }
        return;
    }
    const TEST: &str = "a_reader_sees_what_another_process_has_acknowledged";
    let folder = Folder::new();
    folder.close(folder.open());
    let mut player = Player::start(TEST, "writer", &folder.store());
    let first = player.hear().expect("a first key");
    let reader = folder.open_to_read();
    assert!(block_on(has(&reader, &first)));
    let mut count = 1;
    while let Some(key) = player.hear() {
        assert!(block_on(has(&reader, &key)), "{key} was acknowledged");
        count += 1;
    }
    assert_eq!(count, 50);
}

#[test]
fn a_commit_of_another_process_is_hinted() {
    if let Some((_, store)) = role() {
        let store = open(&store);
        return block_on(put(&store, "k", 10)).expect("a new key");
    }
    const TEST: &str = "a_commit_of_another_process_is_hinted";
    let folder = Folder::new();
    let store = folder.open();
    let mut hints = store.hints();
    // Whoever has just come gets one hint to look for himself.
    block_on(async { hints.changed().await }).expect("a first hint");
    hints.mark_unchanged();
    std::thread::sleep(Duration::from_millis(100));
    assert!(!hints.has_changed().expect("an open store"), "a hint of nothing");
    let mut player = Player::start(TEST, "writer", &folder.store());
    let hinted = async { tokio::time::timeout(Duration::from_secs(30), hints.changed()).await };
    block_on(hinted).expect("in time").expect("an open store");
    assert!(player.wait().success());
    // Our own commits are hinted like those of others.
    hints.mark_unchanged();
    block_on(put(&store, "own", 10)).expect("a new key");
    let hinted = async { tokio::time::timeout(Duration::from_secs(30), hints.changed()).await };
    block_on(hinted).expect("in time").expect("an open store");
}

#[test]
fn nobody_polls_while_nobody_listens() {
    if let Some((_, store)) = role() {
        return be_idle(&open(&store));
    }
    let folder = Folder::new();
    // A process of its own: other tests have watchers, too.
    let mut player = Player::start("nobody_polls_while_nobody_listens", "idle", &folder.store());
    player.expect("asleep");
    player.expect("awake");
    player.expect("asleep");
    assert!(player.wait().success());
}

fn be_idle(store: &Sqlite) {
    let wakes_in = |ms| {
        let before = watcher_wakes();
        std::thread::sleep(Duration::from_millis(ms));
        watcher_wakes() - before
    };
    let report = || say(if wakes_in(1_200) == 0 { "asleep" } else { "awake" });
    std::thread::sleep(Duration::from_millis(100));
    report();
    let hints = store.hints();
    say(if wakes_in(300) > 5 { "awake" } else { "asleep" });
    drop(hints);
    std::thread::sleep(Duration::from_millis(100));
    report();
}

/// How often the watcher of this process has gone to sleep, and so has woken.
fn watcher_wakes() -> u64 {
    for task in std::fs::read_dir("/proc/self/task").expect("the threads").flatten() {
        let read = |name: &str| std::fs::read_to_string(task.path().join(name)).unwrap_or_default();
        if read("comm").trim() == "semel-watcher" {
            let status = read("status");
            let line =
                status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            return line.and_then(|count| count.trim().parse().ok()).expect("a count");
        }
    }
    panic!("there is no watcher")
}

/// Commits large effects from several callers until about this much is written.
async fn write_much(store: Sqlite, bytes: usize) -> (Sqlite, Duration) {
    const EACH: usize = 128 * 1024;
    let store = Arc::new(store);
    // Made once: the rules would look at each byte of each input.
    put(&*store, "model", EACH).await.expect("a new key");
    let model = store.load(&address("model")).await.expect("a load").expect("an effect");
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..8 {
        let (store, model) = (store.clone(), model.clone());
        callers.spawn(async move {
            let mut wait_max = Duration::ZERO;
            for count in 0..bytes / EACH / 8 {
                let asked = Instant::now();
                let address = address(&format!("{caller}-{count}"));
                let effect = Effect { address, ..model.clone() };
                let insert = conformance::insert(&effect, &store.ground());
                store.commit(insert.into()).await.expect("a commit");
                wait_max = wait_max.max(asked.elapsed());
            }
            wait_max
        });
    }
    let waits = callers.join_all().await;
    let store = Arc::into_inner(store).expect("the callers are done");
    (store, waits.into_iter().max().expect("eight callers"))
}

#[test]
fn the_log_stays_bounded_under_a_long_load() {
    const WRITTEN: usize = 150_000_000;
    const LOG_MAX: u64 = 100_000_000;
    let folder = Folder::new();
    let store = folder.open();
    let log = beside(&folder.store(), "-wal");
    let done = AtomicBool::new(false);
    let largest = AtomicU64::new(0);
    let store = std::thread::scope(|scope| {
        scope.spawn(|| {
            // Looks at the size only: opening the file would drop SQLite's locks.
            while !done.load(Ordering::Relaxed) {
                let bytes = std::fs::metadata(&log).map_or(0, |metadata| metadata.len());
                largest.fetch_max(bytes, Ordering::Relaxed);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let (store, _) = block_on(write_much(store, WRITTEN));
        done.store(true, Ordering::Relaxed);
        store
    });
    let largest = largest.load(Ordering::Relaxed);
    assert!(largest > 4_000_000, "nothing was seen: {largest}");
    writeln!(std::io::stderr(), "the log grew to {largest} bytes").expect("a report");
    assert!(largest < LOG_MAX, "the log grew to {largest} bytes");
    folder.close_and_fold(store);
    let file = std::fs::metadata(folder.store()).expect("the file").len();
    assert!(file > 140_000_000, "it was not written: {file}");
}

#[test]
fn a_reader_that_never_ends_does_not_stop_the_writers() {
    let folder = Folder::new();
    let store = folder.open();
    block_on(put(&store, "first", 10)).expect("a new key");
    let reader = rusqlite::Connection::open(folder.store()).expect("a reader");
    reader.execute_batch("BEGIN; SELECT count(*) FROM effects;").expect("an old state");
    let log = beside(&folder.store(), "-wal");
    let (store, mut wait_max) = block_on(write_much(store, 72_000_000));
    let log_bytes = || std::fs::metadata(&log).expect("a log").len();
    assert!(log_bytes() > 64 * 1024 * 1024, "the log could start anew");
    // Each try to start it anew would wait for the reader, and the writers for the try.
    for count in 0..60 {
        let asked = Instant::now();
        block_on(put(&store, &format!("then-{count}"), 10)).expect("a commit");
        wait_max = wait_max.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(wait_max < Duration::from_secs(8), "a writer waited {wait_max:?}");
    drop(reader);
    wait_until("the log starts anew", || log_bytes() < 1_000_000);
}

/// Also while another process has the role of the checkpointer.
#[test]
fn a_closed_store_leaves_no_thread_and_no_file_behind() {
    if let Some((_, store)) = role() {
        // A process of its own: other tests have threads and files, too.
        return open_and_close(&store);
    }
    const TEST: &str = "a_closed_store_leaves_no_thread_and_no_file_behind";
    let folder = Folder::new();
    let _checkpointer = folder.open();
    let mut player = Player::start(TEST, "visitor", &folder.store());
    player.expect("clean");
    assert!(player.wait().success());
}

fn open_and_close(path: &Path) {
    let count = |folder| std::fs::read_dir(folder).expect("a folder of /proc").count();
    let held = || (count("/proc/self/task"), count("/proc/self/fd"));
    let before = held();
    for _ in 0..10 {
        drop(open(path));
    }
    wait_until("threads and files are gone", || held() == before);
    say("clean");
}
