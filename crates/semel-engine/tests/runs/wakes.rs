//! What wakes a run: signals at the instant of parking, timers, early and useless wakes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::FutureExt;
use semel_core::journal::{self, At, Event};
use semel_core::run::{On, State};
use semel_engine::Engine;
use semel_store::{Batch, Runs, Write};

use super::flows;
use super::life::{Hook, When};
use super::world::{World, play, signal};

/// Whether a batch lets a run go while it waits.
fn parks(batch: &Batch) -> bool {
    batch.writes.iter().any(|write| matches!(write, Write::UpdateRun(row) if row.parked))
}

/// Delivers the next signal right before or right after each try to park.
fn deliver_at_park(outside: &Engine, order: fn(usize) -> When) -> (Hook, Arc<AtomicUsize>) {
    let delivered = Arc::new(AtomicUsize::new(0));
    let (outside, count) = (outside.clone(), delivered.clone());
    let hook: Hook = Arc::new(move |when, batch| {
        let number = count.load(Ordering::SeqCst);
        if !parks(batch) || number >= flows::WORDS || when != order(number) {
            return std::future::ready(()).boxed();
        }
        count.fetch_add(1, Ordering::SeqCst);
        let outside = outside.clone();
        async move {
            let sent = outside.signal(signal("word", &format!("d-{number}"))).await;
            assert!(!sent.expect("it is delivered").repeated);
        }
        .boxed()
    });
    (hook, delivered)
}

#[test]
fn inv_i14_a_signal_at_the_instant_of_parking_wakes_the_run() {
    let orders: [fn(usize) -> When; 3] = [
        |_| When::Before,
        |_| When::After,
        |number| if number % 3 == 0 { When::After } else { When::Before },
    ];
    for order in orders {
        play(async {
            let world = World::new();
            let process = world.live("worker", flows::many_words, None);
            let (hook, delivered) = deliver_at_park(&world.outside, order);
            process.life.set_hook(hook);
            process.start_run();
            // Never longer than a look for work takes: nothing is found by luck.
            for _ in 0..flows::WORDS * 2 {
                world.pass_ms(1_000).await;
            }
            let missing = (delivered.load(Ordering::SeqCst), world.row().await);
            assert_eq!(world.state().await, Some(State::Done), "asleep: {missing:#?}");
            world.check(State::Done).await;
            assert_eq!(delivered.load(Ordering::SeqCst), flows::WORDS);
        });
    }
}

#[test]
fn bug_durable_ext_3375_a_conflict_at_the_last_write_does_not_leave_the_run_running() {
    play(async {
        let world = World::new();
        let process = world.live("worker", flows::three_steps, None);
        let outside = world.outside.clone();
        let count = Arc::new(AtomicUsize::new(0));
        let ends = |batch: &Batch| {
            let is_end =
                |write: &Write| matches!(write, Write::UpdateRun(row) if row.state.is_final());
            batch.writes.iter().any(is_end)
        };
        let conflicts = count.clone();
        process.life.set_hook(Arc::new(move |when, batch| {
            if when == When::After || !ends(batch) || conflicts.load(Ordering::SeqCst) == 10 {
                return std::future::ready(()).boxed();
            }
            let number = conflicts.fetch_add(1, Ordering::SeqCst);
            let outside = outside.clone();
            async move {
                outside.signal(signal("late", &format!("d-{number}"))).await.expect("delivered");
            }
            .boxed()
        }));
        process.start_run();
        world.idle().await;
        world.check(State::Done).await;
        assert_eq!(count.load(Ordering::SeqCst), 10);
        let refused = world.signal("late", "d-99").await.expect_err("it has ended");
        assert_eq!(refused.code().as_str(), "run_finished");
    });
}

/// When the sleep of a run fired, after its start.
async fn fired_ms(world: &World) -> i64 {
    let run = world.row().await.expect("the run is there");
    let journal = world.outside.journal(&run).await.expect("one clean chain");
    let entries = journal.iter().map(|inked| journal::decode(&inked.text).expect("an entry"));
    let mut fired = entries.filter(|entry| matches!(entry.event, Event::Fired { .. }));
    let At(at, _) = fired.next().expect("it fired").at;
    assert!(fired.next().is_none(), "it fires once");
    at.0 - run.created.0
}

#[test]
fn bug_vercel_3743_early_wakes_do_not_fire_a_timer_early_late_or_twice() {
    play(async {
        let world = World::new();
        let process = world.live("worker", flows::long_sleep, None);
        process.start_run();
        for number in 0..40 {
            world.pass_ms(2_000).await;
            world.check_wakes().await;
            world.signal("nobody waits", &format!("d-{number}")).await.expect("it is delivered");
        }
        world.end().await;
        world.check(State::Done).await;
        assert_eq!(fired_ms(&world).await, 100_000);
    });
}

#[test]
fn bug_temporal_11869_a_parked_timer_always_has_its_due_row() {
    play(async {
        let world = World::new();
        let process = world.live("worker", flows::long_sleep, None);
        process.start_run();
        let run = world.reach(State::Waiting).await;
        assert_eq!(run.waits[0].on, On::Timer);
        let due = || async { world.disk.due_runs(&run.lane(), 9).await.expect("readable") };
        let At(_, want) = run.waits[0].due.expect("a timer has a time");
        assert_eq!(due().await.next, Some(want));
        world.signal("nobody waits", "d-1").await.expect("it is delivered");
        assert_eq!(due().await.runs.len(), 1, "a touch makes it due at once");
        world.idle().await;
        world.pass_ms(1_000).await;
        assert_eq!((due().await.runs.len(), due().await.next), (0, Some(want)));
    });
}

#[test]
fn bug_dapr_8548_a_timer_fires_at_its_time_however_often_the_process_dies_meanwhile() {
    play(async {
        let world = World::new();
        let process = world.live("worker", flows::long_sleep, None);
        process.start_run();
        world.reach(State::Waiting).await;
        process.life.kill();
        for number in 0..2 {
            // Woken early, and dead right after it was taken.
            let process = world.live("worker", flows::long_sleep, Some(2));
            world.signal("nobody waits", &format!("d-{number}")).await.expect("it is delivered");
            world.pass_ms(32_000).await;
            assert!(process.life.is_dead());
        }
        let _last = world.live("worker", flows::long_sleep, None);
        world.end().await;
        world.check(State::Done).await;
        assert_eq!(fired_ms(&world).await, 100_000);
    });
}

#[test]
fn bug_dapr_8548_a_timer_beside_a_step_fires_at_its_time_though_the_process_died_in_the_step() {
    play(async {
        let world = World::new();
        let process = world.live("worker", flows::sleep_beside_a_step, None);
        process.start_run();
        world.pass_ms(50_000).await;
        process.life.kill();
        let _next = world.live("worker", flows::sleep_beside_a_step, None);
        world.end().await;
        world.check(State::Done).await;
        assert_eq!(fired_ms(&world).await, 100_000);
    });
}

#[test]
fn bug_vercel_2848_a_storm_of_wakes_during_a_step_does_not_run_it_again() {
    play(async {
        let world = World::new();
        let process = world.live("worker", flows::long_step, None);
        let other = world.live("other", flows::long_step, None);
        process.start_run();
        for number in 0..999 {
            if number % 100 == 0 {
                world.pass_ms(1_000).await;
            }
            world.signal("nobody waits", &format!("d-{number}")).await.expect("it is delivered");
            if number % 10 == 0 {
                process.engine.dispatch_once().await.expect("a look");
                other.engine.dispatch_once().await.expect("a look");
            }
        }
        world.end().await;
        world.check(State::Done).await;
        assert_eq!(world.there.ran("long#0"), 1);
        assert_eq!(world.names().await, ["started", "taken", "step", "finished"]);
    });
}

#[test]
fn bug_restate_1714_whoever_settles_a_doubt_wakes_the_run_in_the_same_commit() {
    play(async {
        let world = World::new();
        // It dies when the send is on its way: at most once means that a person decides.
        let process = world.live("worker", flows::unsafe_effect, Some(7));
        process.start_run();
        world.pass_ms(1_000).await;
        assert!(process.life.is_dead() && world.there.sends() == 1);
        let _next = world.live("worker", flows::unsafe_effect, None);
        for _ in 0..200 {
            world.pass_ms(1_000).await;
            let waits = world.row().await.map(|run| run.waits).unwrap_or_default();
            if waits.iter().any(|wait| wait.due.is_none()) {
                break;
            }
        }
        let before_s = world.clock_s();
        super::crash::help(&world).await;
        let run = world.end().await;
        assert!(world.clock_s() - before_s <= 1, "found by a later look, not by the wake");
        world.check(run.state()).await;
    });
}
