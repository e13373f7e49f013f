//! Time on one machine: boots, suspends, and a wall clock that steps.

mod support;

use semel_core::effect::State;
use semel_core::limits::{LEASE_MS, WALL_SLACK_MS};
use semel_store::sqlite::Sqlite;
use semel_store::{Clock, ManualClock, Store};
use support::{Folder, WALL_MS, address, block_on, put};

fn state(store: &Sqlite) -> State {
    let effect = block_on(store.load(&address("k"))).expect("a load").expect("an effect");
    effect.state(&store.ground().now)
}

/// How many effects are due, and when the next one is, from now.
fn due(store: &Sqlite) -> (usize, Option<i64>) {
    let page = block_on(store.due(None, 10)).expect("what is due");
    let now = store.ground().now.steady.ms;
    (page.effects.len(), page.next_due.map(|due| due.ms - now))
}

fn lease_ms() -> i64 {
    i64::try_from(LEASE_MS).expect("a lease is short")
}

#[test]
fn after_a_reboot_leases_are_over_and_everything_is_due() {
    let folder = Folder::new();
    let clock = ManualClock::new(WALL_MS);
    let store = folder.open_on(Clock::Manual(clock.clone()));
    block_on(put(&store, "k", 10)).expect("a new key");
    assert_eq!((state(&store), due(&store)), (State::Pending, (0, Some(lease_ms()))));
    let boot = store.ground().now.steady.boot;
    folder.close(store);
    // The same boot: nothing has changed.
    let store = folder.open_on(Clock::Manual(clock.clone()));
    assert_eq!((state(&store), due(&store)), (State::Pending, (0, Some(lease_ms()))));
    assert_eq!(store.ground().now.steady.boot, boot);
    folder.close(store);
    clock.reboot("boot-2");
    let store = folder.open_on(Clock::Manual(clock.clone()));
    assert_eq!(store.ground().now.steady.boot, boot + 1);
    assert_eq!((state(&store), due(&store)), (State::InDoubt, (1, None)));
    // A clock that starts at zero does not put what is due off.
    let other = folder.open_on(Clock::Manual(clock.clone()));
    assert_eq!(other.ground().now.steady.boot, boot + 1, "one boot for all processes");
    assert_eq!(due(&other), (1, None));
    block_on(put(&store, "new", 10)).expect("a new key");
    assert_eq!(due(&store), (1, Some(lease_ms())), "new leases count from the new boot");
}

#[test]
fn case_x11_leases_are_judged_by_the_steady_clock() {
    const HOUR_MS: i64 = 3_600_000;
    let folder = Folder::new();
    let clock = ManualClock::new(WALL_MS);
    let store = folder.open_on(Clock::Manual(clock.clone()));
    block_on(put(&store, "k", 10)).expect("a new key");
    for step in [HOUR_MS, -2 * HOUR_MS, HOUR_MS] {
        clock.step_wall_ms(step);
        assert_eq!((state(&store), due(&store)), (State::Pending, (0, Some(lease_ms()))));
    }
    clock.advance_ms(LEASE_MS - 1);
    assert_eq!((state(&store), due(&store)), (State::Pending, (0, Some(1))));
    clock.advance_ms(1);
    assert_eq!((state(&store), due(&store)), (State::InDoubt, (1, None)));
}

#[test]
fn case_x11_a_wall_clock_behind_the_latest_commit_is_not_trusted() {
    let folder = Folder::new();
    let clock = ManualClock::new(WALL_MS);
    let store = folder.open_on(Clock::Manual(clock.clone()));
    let is_behind = |store: &Sqlite| store.ground().now.wall_is_behind;
    block_on(put(&store, "k", 10)).expect("a new key");
    clock.step_wall_ms(-WALL_SLACK_MS);
    assert!(!is_behind(&store), "a nudge");
    clock.step_wall_ms(-1);
    assert!(is_behind(&store), "a step");
    // A commit under the clock that is behind does not make it right.
    block_on(put(&store, "k2", 10)).expect("a new key");
    assert!(is_behind(&store));
    let other = folder.open_on(Clock::Manual(clock.clone()));
    assert!(is_behind(&other), "another process knows it");
    drop(other);
    folder.close(store);
    let store = folder.open_on(Clock::Manual(clock.clone()));
    assert!(is_behind(&store), "it outlives the process");
    clock.advance_ms(1);
    assert!(!is_behind(&store), "time has caught up");
}
