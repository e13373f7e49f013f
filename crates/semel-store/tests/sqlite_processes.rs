//! Several processes on one file: they take turns, they die, and nothing is lost or done twice.

mod support;

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::io::Write;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use semel_store::Access;
use semel_store::sqlite::Sqlite;
use semel_store::{Clock, CommitError, Store, conformance};
use support::chance::Chance;
use support::child::{Player, role, say};
use support::{Folder, address, beside, block_on, has, keys, problems, put, wait_until};

fn open(store: &Path) -> Sqlite {
    Sqlite::open(store, Access::ReadWrite, Clock::Real).expect("the store opens")
}

#[test]
fn case_c2_inv_i1_four_processes_share_a_file_and_each_key_has_one_winner() {
    if let Some((name, store)) = role() {
        return block_on(write_for_a_while(&name, &open(&store)));
    }
    const TEST: &str = "case_c2_inv_i1_four_processes_share_a_file_and_each_key_has_one_winner";
    let folder = Folder::new();
    let names = ["p0", "p1", "p2", "p3"];
    let mut players = names.map(|name| Player::start(TEST, name, &folder.store()));
    let said = players.each_mut().map(Player::hear_all);
    for player in &mut players {
        assert!(player.wait().success());
    }
    let store = folder.open_to_read();
    block_on(check_what_they_said(&store, &names, &said));
}

/// Commits keys of its own and keys that all processes want, and says what it got.
async fn write_for_a_while(name: &str, store: &Sqlite) {
    const WINDOWS: usize = 2;
    let mut windows = [0; WINDOWS];
    let mut wait_max = Duration::ZERO;
    let started = Instant::now();
    let mut count = 0;
    loop {
        let asked = Instant::now();
        let window = usize::try_from(started.elapsed().as_secs()).expect("seconds");
        let Some(window) = windows.get_mut(window) else { break };
        put(store, &format!("{name}-{count}"), 10).await.expect("a key of its own");
        *window += 1;
        wait_max = wait_max.max(asked.elapsed());
        let shared = format!("shared-{count}");
        let ground = store.ground();
        let effect = conformance::armed(&address(&shared), name, &ground);
        match store.commit(conformance::insert(&effect, &ground).into()).await {
            Ok(()) => say(&format!("won {shared}")),
            Err(CommitError::Stale(_)) => {}
            Err(error) => panic!("{error}"),
        }
        count += 1;
    }
    assert!(windows.iter().all(|count| *count > 0), "starved: {windows:?}");
    say(&format!("acked {count}"));
    say(&format!("waited at most {} ms", wait_max.as_millis()));
}

async fn check_what_they_said(store: &Sqlite, names: &[&str; 4], said: &[Vec<String>; 4]) {
    let mut winners = BTreeMap::new();
    for (name, lines) in names.iter().zip(said) {
        let wait = lines.iter().find(|line| line.starts_with("waited")).expect("its longest wait");
        writeln!(std::io::stderr(), "{name} {wait}").expect("a report");
        let numbers = lines.iter().find_map(|line| line.strip_prefix("acked "));
        let acked: usize = numbers.expect("it came to its end").parse().expect("a number");
        assert!(acked > 0);
        for count in 0..acked {
            assert!(has(store, &format!("{name}-{count}")).await, "{name}-{count} is lost");
        }
        for shared in lines.iter().filter_map(|line| line.strip_prefix("won ")) {
            let before = winners.insert(shared.to_owned(), *name);
            assert_eq!(before, None, "{shared} was won twice");
        }
    }
    assert!(winners.len() > 10, "they hardly met: {winners:?}");
    for (shared, winner) in &winners {
        let effect = store.load(&address(shared)).await.expect("a load").expect("it was won");
        assert_eq!(effect.attempts[0].id, **winner, "{shared}");
    }
    assert_eq!(problems(store).await, [""; 0]);
}

#[test]
fn a_session_is_dead_when_its_process_is_and_not_before() {
    if let Some((_, store)) = role() {
        let store = open(&store);
        say(store.session().expect("a session"));
        return std::thread::sleep(Duration::from_secs(60));
    }
    const TEST: &str = "a_session_is_dead_when_its_process_is_and_not_before";
    let folder = Folder::new();
    let store = folder.open();
    let own = store.session().expect("a session").to_owned();
    let mut player = Player::start(TEST, "holder", &folder.store());
    let session = player.hear().expect("its session");
    let alive = || {
        assert!(!store.is_dead(&session));
        assert!(!store.is_dead(&own));
        assert_eq!(store.dead_sessions(), [""; 0]);
        // Nobody can bury the living.
        store.bury(&session);
    };
    alive();
    player.signal(Signal::STOP);
    std::thread::sleep(Duration::from_millis(50));
    alive();
    player.signal(Signal::CONT);
    alive();
    player.kill();
    assert!(store.is_dead(&session), "at once");
    assert_eq!(store.dead_sessions(), std::slice::from_ref(&session));
    store.bury(&session);
    assert_eq!(store.dead_sessions(), [""; 0]);
    assert!(store.is_dead(&session), "the dead stay dead");
    for nobody in ["", "../mark", "not a session", &"g".repeat(32)] {
        assert!(!store.is_dead(nobody), "{nobody:?} proves nothing");
    }
}

/// Whoever was told that a session is dead closes its attempts, now or later.
#[test]
fn a_session_is_never_called_dead_before_it_lives() {
    let folder = Folder::new();
    let store = folder.open();
    let done = AtomicBool::new(false);
    let called_dead = Mutex::new(HashSet::new());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                let dead = store.dead_sessions();
                called_dead.lock().expect("no panic").extend(dead);
            }
        });
        // Each one lives on for a while, so that a late word about it is heard, too.
        let mut living = VecDeque::new();
        let mut wronged = 0;
        for _ in 0..100 {
            living.push_back(folder.open());
            if living.len() > 5 {
                let other = living.pop_front().expect("six stores");
                let called_dead = called_dead.lock().expect("no panic");
                wronged += usize::from(called_dead.contains(other.session().expect("a session")));
            }
        }
        done.store(true, Ordering::Relaxed);
        assert_eq!(wronged, 0, "living sessions were called dead");
    });
}

#[test]
fn a_file_reached_through_a_link_has_the_same_sessions() {
    let folder = Folder::new();
    let store = folder.open();
    let link = folder.path().join("link.db");
    std::os::unix::fs::symlink(folder.store(), &link).expect("a link");
    let linked = open(&link);
    assert!(!linked.is_dead(store.session().expect("a session")));
    assert!(!store.is_dead(linked.session().expect("a session")));
    assert!(!folder.path().join("link.db-semel").exists());
}

#[test]
fn the_turn_of_a_killed_writer_passes_on() {
    if let Some((_, store)) = role() {
        let store = open(&store);
        let sleep = Box::new(|_, _: &_, _: &rusqlite::Connection| {
            say("in turn");
            std::thread::sleep(Duration::from_secs(60));
            Ok(None)
        });
        return drop(block_on(store.transaction(address("k"), sleep)));
    }
    const TEST: &str = "the_turn_of_a_killed_writer_passes_on";
    let folder = Folder::new();
    let store = folder.open();
    let mut player = Player::start(TEST, "writer", &folder.store());
    player.expect("in turn");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| block_on(put(&store, "k", 10)));
        std::thread::sleep(Duration::from_millis(200));
        assert!(!waiting.is_finished(), "it did not wait for its turn");
        player.kill();
        assert_eq!(waiting.join().expect("no panic"), Ok(()));
    });
}

/// SQLite's own lock would also do, but lets an unlucky process starve.
#[test]
fn writers_of_all_processes_queue_for_their_turn() {
    if let Some((lock, store)) = role() {
        let file = std::fs::File::options().write(true).open(beside(&store, &lock));
        let file = file.expect("a lock file");
        rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::LockExclusive).expect("the lock");
        say("held");
        return std::thread::sleep(Duration::from_secs(60));
    }
    const TEST: &str = "writers_of_all_processes_queue_for_their_turn";
    let folder = Folder::new();
    let store = folder.open();
    for lock in ["-semel/next", "-semel/turn"] {
        let mut holder = Player::start(TEST, lock, &folder.store());
        holder.expect("held");
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| block_on(put(&store, lock, 10)));
            std::thread::sleep(Duration::from_millis(200));
            assert!(!waiting.is_finished(), "it did not wait for {lock}");
            holder.kill();
            assert_eq!(waiting.join().expect("no panic"), Ok(()));
        });
    }
}

#[test]
fn the_role_of_a_killed_checkpointer_passes_on() {
    if let Some((_, store)) = role() {
        let _store = open(&store);
        say("open");
        return std::thread::sleep(Duration::from_secs(60));
    }
    const TEST: &str = "the_role_of_a_killed_checkpointer_passes_on";
    let folder = Folder::new();
    let mut player = Player::start(TEST, "checkpointer", &folder.store());
    player.expect("open");
    // Its thread has had the time to be elected; stopped, it keeps the role and does nothing.
    std::thread::sleep(Duration::from_millis(100));
    player.signal(Signal::STOP);
    let store = folder.open();
    for key in ["1", "2", "3", "4", "5", "6"] {
        block_on(put(&store, key, 900_000)).expect("a large effect");
    }
    let file_bytes = || std::fs::metadata(folder.store()).expect("the file").len();
    std::thread::sleep(Duration::from_millis(600));
    assert!(file_bytes() < 1_000_000, "two processes copy the log");
    player.kill();
    wait_until("the log is copied into the file", || file_bytes() > 5_000_000);
}

#[test]
fn inv_i9_nothing_acknowledged_is_lost_by_fifty_kills() {
    if let Some((round, store)) = role() {
        return block_on(commit_until_killed(&round, open(&store)));
    }
    const TEST: &str = "inv_i9_nothing_acknowledged_is_lost_by_fifty_kills";
    let folder = Folder::new();
    let mut chance = Chance::new(7);
    let mut acked = Vec::new();
    for round in 0..50 {
        let mut player = Player::start(TEST, &round.to_string(), &folder.store());
        for _ in 0..=chance.up_to(40) {
            acked.push(player.hear().expect("a key"));
        }
        player.kill();
        // What it said before it died counts, too.
        acked.extend(player.hear_all());
    }
    let store = folder.open();
    let found = block_on(keys(&store));
    let found: HashSet<_> = found.iter().collect();
    let lost: Vec<_> = acked.iter().filter(|key| !found.contains(key)).collect();
    assert_eq!(lost, [""; 0]);
    assert!(acked.len() > 500, "hardly anything was acknowledged: {}", acked.len());
    assert_eq!(store.ground().quarantine, None, "a kill is no step back in time");
    assert_eq!(block_on(problems(&store)), [""; 0]);
}

/// Eight callers at once, so that groups are cut, too.
async fn commit_until_killed(round: &str, store: Sqlite) {
    let store = std::sync::Arc::new(store);
    let mut callers = tokio::task::JoinSet::new();
    for caller in 0..8 {
        let store = store.clone();
        let round = round.to_owned();
        callers.spawn(async move {
            for count in 0.. {
                let key = format!("{round}-{caller}-{count}");
                put(&*store, &key, 200).await.expect("a commit");
                say(&key);
            }
        });
    }
    callers.join_all().await;
}
