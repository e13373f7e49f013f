//! A disk that is full, and a disk that fails.

mod support;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use semel_store::Access;
use semel_store::sqlite::Sqlite;
use semel_store::{Clock, CommitError, Store, StoreError};
use support::child::{Player, role, say};
use support::{Folder, beside, block_on, has, problems, put};

fn open(store: &Path) -> Result<Sqlite, StoreError> {
    Sqlite::open(store, Access::ReadWrite, Clock::Real)
}

#[test]
fn case_l2_a_full_disk_loses_nothing_and_the_store_goes_on() {
    if let Some((_, store)) = role() {
        return fill_the_disk(&store);
    }
    const TEST: &str = "case_l2_a_full_disk_loses_nothing_and_the_store_goes_on";
    let folder = Folder::new();
    let mut player = on_a_small_disk(TEST, &folder);
    player.expect("full");
    player.expect("goes on");
    player.expect("all there");
    assert!(player.wait().success());
}

/// A child on a small disk, in a mount namespace of its own: the disk ends with the child.
fn on_a_small_disk(test: &str, folder: &Folder) -> Player {
    let mount = "mount -t tmpfs -o size=8m semel \"$0\" && exec \"$@\"";
    let disk = folder.path().to_str().expect("a plain path");
    let namespace = if works(&["unshare", "-rm", "true"]) { "-rm" } else { "-m" };
    let under = ["unshare", namespace, "sh", "-c", mount, disk];
    Player::start_under(&under, test, "filler", &folder.store())
}

/// A log that takes every byte that is freed would need more and more room to be copied.
#[test]
fn case_l2_a_disk_that_fills_again_and_again_always_leaves_room_for_the_log() {
    if let Some((_, store)) = role() {
        return fill_again_and_again(&store);
    }
    const TEST: &str = "case_l2_a_disk_that_fills_again_and_again_always_leaves_room_for_the_log";
    let folder = Folder::new();
    let mut player = on_a_small_disk(TEST, &folder);
    for round in 0..ROUNDS {
        player.expect(&format!("went on {round}"));
    }
    player.expect("copied");
    assert!(player.wait().success());
}

const ROUNDS: usize = 8;

fn fill_again_and_again(path: &Path) {
    const FREED: usize = 400_000;
    let folder = path.parent().expect("a folder");
    let ballast = |round: usize| folder.join(format!("ballast-{round}"));
    for round in 0..ROUNDS {
        std::fs::write(ballast(round), vec![0; FREED]).expect("room for the ballast");
    }
    let store = open(path).expect("a new store");
    let mut count = 0;
    // Until it is full; returns how many were acknowledged, and what the last one was told.
    let mut fill = || {
        let first = count;
        loop {
            let key = count.to_string();
            match block_on(put(&store, &key, 8_000)) {
                Ok(()) => count += 1,
                Err(CommitError::Failed(StoreError::Full(text))) => return (count - first, text),
                Err(error) => panic!("after {count} commits: {error:?}"),
            }
        }
    };
    let (acked, text) = fill();
    assert!(acked > 20, "{acked}");
    assert!(text.contains("free at least"), "it says what to do: {text}");
    for round in 0..ROUNDS {
        std::fs::remove_file(ballast(round)).expect("a little room");
        let (acked, _) = fill();
        assert!(acked > 5, "in round {round} only {acked} fitted");
        say(&format!("went on {round}"));
    }
    drop(store);
    // The log can still be copied, without a byte being freed.
    let connection = rusqlite::Connection::open(path).expect("a connection");
    let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
    let busy = connection.query_row(fold, [], |row| row.get::<_, bool>(0));
    assert_eq!(busy, Ok(false), "the log cannot be copied any more");
    say("copied");
}

/// Plays on a disk of eight megabytes. What is freed exceeds the log, so that it can be copied.
fn fill_the_disk(path: &Path) {
    let ballast = path.with_file_name("ballast");
    std::fs::write(&ballast, vec![0; 5_000_000]).expect("room for the ballast");
    let store = open(path).expect("a new store");
    let mut acked = Vec::new();
    let mut refused = 0;
    // A full disk stays full, and is told every time.
    for count in 0..400 {
        let key = count.to_string();
        match block_on(put(&store, &key, 20_000)) {
            Ok(()) => acked.push(key),
            Err(CommitError::Failed(StoreError::Full(_))) => {
                refused += 1;
                assert!(!block_on(has(&store, &key)), "{key} failed and is there");
            }
            Err(error) => panic!("after {count} commits: {error:?}"),
        }
        if refused == 20 {
            break;
        }
    }
    assert!(refused == 20 && acked.len() > 20, "{} acknowledged, {refused} not", acked.len());
    say("full");
    let is_there = |store: &Sqlite| acked.iter().all(|key| block_on(has(store, key)));
    assert!(is_there(&store), "lost while full");
    std::fs::remove_file(&ballast).expect("room again");
    for key in ["more", "and more"] {
        assert_eq!(block_on(put(&store, key, 20_000)), Ok(()));
    }
    say("goes on");
    drop(store);
    let store = open(path).expect("the store opens");
    assert_eq!(store.ground().quarantine, None);
    assert!(is_there(&store) && block_on(has(&store, "more")), "lost after the restart");
    assert_eq!(block_on(problems(&store)), [""; 0]);
    say("all there");
}

/// Commits one key after the other, each larger than a page; says what it tries and what it got.
fn commit_one_by_one(path: &Path, bytes: usize) {
    let store = match open(path) {
        Ok(store) => store,
        Err(error) => return say(&format!("not open: {error}")),
    };
    say("open");
    for count in 0..200 {
        say(&format!("tries {count}"));
        block_on(put(&store, &count.to_string(), bytes)).expect("done, or the end of the process");
        say(&format!("acked {count}"));
    }
    // What fails in the background has its time, too.
    std::thread::sleep(Duration::from_secs(10));
    say("alive");
}

/// The child must have ended by itself, with 70, in the middle of a commit; all that it
/// acknowledged is there.
fn stopped_and_lost_nothing(what: &str, player: &mut Player, folder: &Folder) -> usize {
    let said = player.hear_all();
    assert_eq!(player.wait().code(), Some(70), "{what}: {said:?}");
    let store = folder.open();
    let acked: Vec<_> = said.iter().filter_map(|line| line.strip_prefix("acked ")).collect();
    for key in &acked {
        assert!(block_on(has(&store, key)), "{what}: {key} was acknowledged");
    }
    assert_eq!(store.ground().quarantine, None, "{what}");
    let last = said.last().expect("it tried");
    assert!(last.starts_with("tries "), "{what}: acknowledged after the failure: {last}");
    acked.len()
}

/// Whether it is there and allowed to trace.
fn has_strace() -> bool {
    works(&["strace", "-f", "-qq", "-o", "/dev/null", "true"])
}

fn works(words: &[&str]) -> bool {
    let output = Command::new(words[0]).args(&words[1..]).output();
    output.is_ok_and(|output| output.status.success())
}

#[test]
fn inv_i31_a_failed_sync_of_a_commit_ends_the_process() {
    if let Some((_, store)) = role() {
        return commit_one_by_one(&store, 100);
    }
    const TEST: &str = "inv_i31_a_failed_sync_of_a_commit_ends_the_process";
    if !has_strace() {
        // Nothing can fail a sync here; a write that fails is the same class of error.
        return a_failed_write(TEST);
    }
    let mut stopped = 0;
    // The first ones belong to the opening, the later ones to commits: each thread is counted.
    for sync in [1, 4, 5, 9] {
        let folder = Folder::new();
        folder.close(folder.open());
        let log = beside(&folder.store(), "-wal");
        let inject = format!("inject=fsync,fdatasync:error=EIO:when={sync}");
        let under = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", log.to_str().expect("a path")];
        let under = [&under[..], &["-e", "trace=fsync,fdatasync", "-e", inject.as_str()]].concat();
        let mut player = Player::start_under(&under, TEST, "writer", &folder.store());
        let first = player.hear();
        if first.as_deref() != Some("open") {
            // The sync of the opening failed, in the thread that opens: nothing was promised yet.
            assert!(first.is_some_and(|line| line.starts_with("not open")), "sync {sync}");
            assert_eq!(player.hear(), None);
            continue;
        }
        let acked = stopped_and_lost_nothing(&format!("sync {sync}"), &mut player, &folder);
        assert!(acked < sync, "sync {sync} failed, yet {acked} commits were acknowledged");
        stopped += 1;
    }
    assert_eq!(stopped, 3, "only {stopped} of the failures met a commit");
}

#[test]
fn inv_i31_a_failed_sync_of_a_checkpoint_ends_the_process() {
    if let Some((_, store)) = role() {
        return commit_one_by_one(&store, 200_000);
    }
    const TEST: &str = "inv_i31_a_failed_sync_of_a_checkpoint_ends_the_process";
    if !has_strace() {
        return a_failed_write(TEST);
    }
    let folder = Folder::new();
    folder.close(folder.open());
    // Only a checkpoint syncs the file itself.
    let store = folder.store();
    let under = ["strace", "-f", "-qq", "-o", "/dev/null", "-P", store.to_str().expect("a path")];
    let inject = ["-e", "trace=fsync,fdatasync", "-e", "inject=fsync,fdatasync:error=EIO:when=1+"];
    let under = [&under[..], &inject[..]].concat();
    let mut player = Player::start_under(&under, TEST, "writer", &store);
    let said = player.hear_all();
    assert_eq!(player.wait().code(), Some(70), "it went on: {:?}", said.last());
    let store = folder.open();
    for key in said.iter().filter_map(|line| line.strip_prefix("acked ")) {
        assert!(block_on(has(&store, key)), "{key} was acknowledged");
    }
}

#[test]
fn inv_i31_a_failed_write_ends_the_process() {
    if let Some((_, store)) = role() {
        return commit_one_by_one(&store, 20_000);
    }
    a_failed_write("inv_i31_a_failed_write_ends_the_process");
}

/// Files may not grow over a megabyte: the write that would do it fails, and not as a full disk.
fn a_failed_write(test: &str) {
    let folder = Folder::new();
    let limit = "trap '' XFSZ; ulimit -f 2000; exec \"$@\"";
    let under = ["sh", "-c", limit, "sh"];
    let mut player = Player::start_under(&under, test, "writer", &folder.store());
    player.expect("open");
    let acked = stopped_and_lost_nothing("a write", &mut player, &folder);
    assert!(acked > 10, "{acked}");
}
