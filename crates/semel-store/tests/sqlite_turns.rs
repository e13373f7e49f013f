//! A turn that does not end: of a dead process whose forked child lives on, and of one that is
//! stopped.

mod support;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

use rustix::process::{PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open};
use semel_core::limits;
use semel_store::sqlite::Sqlite;
use semel_store::{Access, Clock, CommitError, ManualClock, Store, StoreError};
use support::child::{Player, role, say};
use support::{Folder, WALL_MS, address, beside, block_on, has, put, wait_until};

fn open(store: &Path) -> Sqlite {
    Sqlite::open(store, Access::ReadWrite, Clock::Real).expect("the store opens")
}

/// Plays a process that is in its turn and does not end it.
fn stay_in_turn(store: &Path) {
    let store = open(store);
    say(store.session().expect("a session"));
    let stay = Box::new(|_, _: &_, _: &rusqlite::Connection| {
        say("in turn");
        std::thread::sleep(Duration::from_secs(60));
        Ok(None)
    });
    drop(block_on(store.transaction(address("k"), stay)));
}

/// All open files of a process in the folder of the locks, as a child that it forked off has them:
/// not opened again, but shared.
fn share_locks(of: &Player, store: &Path) -> Vec<OwnedFd> {
    let (pid, folder) = (of.pid(), beside(store, "-semel"));
    let process = pidfd_open(pid, PidfdFlags::empty()).expect("the process");
    let files = std::fs::read_dir(format!("/proc/{}/fd", pid.as_raw_pid())).expect("its files");
    let ours = files
        .flatten()
        .filter(|file| std::fs::read_link(file.path()).is_ok_and(|path| path.starts_with(&folder)));
    let numbers = ours.filter_map(|file| file.file_name().to_str()?.parse().ok());
    let share = |number: i32| pidfd_getfd(process.as_fd(), number, PidfdGetfdFlags::empty());
    numbers.map(|number| share(number).expect("its file")).collect()
}

#[test]
fn a_forked_child_holds_neither_the_turn_nor_the_session_of_its_dead_parent() {
    match role() {
        Some((name, store)) if name == "parent" => return stay_in_turn(&store),
        Some((_, store)) => {
            let store = open(&store);
            assert_eq!(block_on(put(&store, "other", 10)), Ok(()));
            say(&store.dead_sessions().join(","));
            return;
        }
        None => {}
    }
    const TEST: &str = "a_forked_child_holds_neither_the_turn_nor_the_session_of_its_dead_parent";
    let folder = Folder::new();
    let mut parent = Player::start(TEST, "parent", &folder.store());
    let session = parent.hear().expect("its session");
    parent.expect("in turn");
    let shared = share_locks(&parent, &folder.store());
    assert!(shared.len() >= 4, "next, turn, checkpointer, session: {}", shared.len());
    parent.kill();
    let mut other = Player::start(TEST, "other", &folder.store());
    // It would wait for as long as these are open.
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| said.send(other.hear()));
        let heard = heard.recv_timeout(Duration::from_secs(20));
        drop(shared);
        assert_eq!(heard, Ok(Some(session)), "it waits for a process that is dead");
    });
}

#[test]
fn a_process_with_two_stores_takes_its_turns_one_after_the_other() {
    let folder = Folder::new();
    let stores = [folder.open(), folder.open()];
    // Record locks do not keep the threads of one process apart.
    let inside = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for (number, store) in stores.iter().enumerate() {
            let inside = inside.clone();
            scope.spawn(move || {
                for count in 0..20 {
                    let inside = inside.clone();
                    let work = Box::new(move |_, _: &_, _: &rusqlite::Connection| {
                        use std::sync::atomic::Ordering::SeqCst;
                        assert_eq!(inside.fetch_add(1, SeqCst), 0, "two are in their turn");
                        std::thread::sleep(Duration::from_millis(1));
                        inside.fetch_sub(1, SeqCst);
                        Ok(None)
                    });
                    let key = address(&format!("{number}-{count}"));
                    block_on(store.transaction(key, work)).expect("a turn");
                }
            });
        }
    });
    // Closing one of them frees nothing that the other one holds.
    let [first, second] = stores;
    let session = second.session().expect("a session").to_owned();
    drop(first);
    let other = folder.open();
    assert!(!other.is_dead(&session));
}

/// A process that is stopped in its turn, and a store on a clock that is moved by hand.
fn stopped(test: &str, folder: &Folder) -> (Player, Sqlite, std::sync::Arc<ManualClock>) {
    let clock = ManualClock::new(WALL_MS);
    let store = folder.open_on(Clock::Manual(clock.clone()));
    let mut holder = Player::start(test, "holder", &folder.store());
    holder.hear().expect("its session");
    holder.expect("in turn");
    holder.signal(Signal::STOP);
    let is_stopped = || {
        let found = Sqlite::holder(&folder.store()).expect("a look");
        found.is_some_and(|found| found.is_stopped)
    };
    wait_until("it is stopped", is_stopped);
    (holder, store, clock)
}

/// Moves the clock while somebody waits, until that one gives up.
fn until_it_gives_up<T>(clock: &ManualClock, waiting: &std::thread::ScopedJoinHandle<'_, T>) {
    wait_until("it stops waiting", || {
        clock.advance_ms(limits::TURN_MS_MAX);
        waiting.is_finished()
    });
}

#[test]
fn a_stopped_process_that_keeps_the_turn_is_named_to_who_waits() {
    if let Some((_, store)) = role() {
        return stay_in_turn(&store);
    }
    const TEST: &str = "a_stopped_process_that_keeps_the_turn_is_named_to_who_waits";
    let folder = Folder::new();
    let (mut holder, store, clock) = stopped(TEST, &folder);
    let pid = u32::try_from(holder.pid().as_raw_pid()).expect("a pid");
    let found = Sqlite::holder(&folder.store()).expect("a look").expect("a holder");
    assert_eq!((found.pid, found.is_stopped), (Some(pid), true));
    let since = semel_core::wire::rfc3339(found.since.expect("since when"));
    let named = |error: &StoreError| {
        let StoreError::Busy(text) = error else { panic!("{error:?}") };
        assert!(text.contains(&format!("process {pid} is stopped")), "{text}");
        assert!(text.contains(&since), "{text}");
        assert!(text.contains(&format!("kill -CONT {pid}")), "{text}");
    };
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(put(&store, "k", 10)));
        until_it_gives_up(&clock, &waiting);
        match waiting.join().expect("no panic") {
            Err(CommitError::Failed(error)) => named(&error),
            other => panic!("{other:?}"),
        }
        // Opening waits for the turn as well.
        let open = || folder.try_open(Access::ReadWrite, Clock::Manual(clock.clone())).map(drop);
        let waiting = scope.spawn(open);
        until_it_gives_up(&clock, &waiting);
        named(&waiting.join().expect("no panic").expect_err("it cannot be opened"));
        // A quarantine is not closed either, and the user's statements do not run.
        let work = Box::new(|_, _: &_, _: &rusqlite::Connection| panic!("it was taken back"));
        let waiting = scope.spawn(|| block_on(store.transaction(address("t"), work)));
        until_it_gives_up(&clock, &waiting);
        assert!(waiting.join().expect("no panic").is_err());
    });
    // What was refused is not written later.
    holder.kill();
    assert_eq!(block_on(put(&store, "later", 10)), Ok(()));
    assert!(!block_on(has(&store, "k")), "refused, and yet written");
    assert_eq!(Sqlite::holder(&folder.store()).expect("a look"), None);
}

#[test]
fn a_turn_that_ends_in_time_is_waited_for() {
    if let Some((_, store)) = role() {
        return stay_in_turn(&store);
    }
    const TEST: &str = "a_turn_that_ends_in_time_is_waited_for";
    let folder = Folder::new();
    let (mut holder, store, clock) = stopped(TEST, &folder);
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(put(&store, "k", 10)));
        // Seen once, it may be any turn.
        clock.advance_ms(limits::TURN_MS_MAX - 1);
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished());
        holder.kill();
        assert_eq!(waiting.join().expect("no panic"), Ok(()));
    });
}

/// The folder belongs to the store; deleted, it says nothing about who lives.
#[test]
fn a_missing_session_file_proves_nothing_while_its_process_lives() {
    if let Some((_, store)) = role() {
        let store = open(&store);
        say(store.session().expect("a session"));
        return std::thread::sleep(Duration::from_secs(60));
    }
    const TEST: &str = "a_missing_session_file_proves_nothing_while_its_process_lives";
    let folder = Folder::new();
    let mut worker = Player::start(TEST, "worker", &folder.store());
    let session = worker.hear().expect("its session");
    let store = folder.open();
    let file = beside(&folder.store(), &format!("-semel/sessions/{session}"));
    std::fs::remove_file(&file).expect("the session file");
    assert!(!store.is_dead(&session), "its file is missing");
    // Somebody puts one there, without the lock.
    std::fs::write(&file, "").expect("a file");
    assert!(!store.is_dead(&session), "its lock is free");
    assert_eq!(store.dead_sessions(), [""; 0]);
    std::fs::remove_dir_all(beside(&folder.store(), "-semel")).expect("the whole folder");
    assert!(!store.is_dead(&session), "the folder is missing");
    let other = folder.open();
    assert!(!other.is_dead(&session), "the folder is new");
    worker.kill();
    assert!(store.is_dead(&session) && other.is_dead(&session), "at once");
}

#[test]
fn a_session_of_a_closed_store_is_over_although_its_process_lives() {
    if let Some((_, store)) = role() {
        let store = open(&store);
        say(store.session().expect("a session"));
        drop(store);
        say("closed");
        return std::thread::sleep(Duration::from_secs(60));
    }
    const TEST: &str = "a_session_of_a_closed_store_is_over_although_its_process_lives";
    let folder = Folder::new();
    let store = folder.open();
    let mut worker = Player::start(TEST, "worker", &folder.store());
    let session = worker.hear().expect("its session");
    worker.expect("closed");
    assert!(store.is_dead(&session));
    assert_eq!(store.dead_sessions(), std::slice::from_ref(&session));
    store.bury(&session);
    assert_eq!(store.dead_sessions(), [""; 0]);
}
