//! A store that loses answers, loses requests, or is away for a moment, at every commit of a run.

use semel_core::key::Key;
use semel_core::run::State;
use semel_engine::{Engine, Start};
use semel_store::{RunQuery, Runs};

use super::crash::help;
use super::flows;
use super::kit::Flow;
use super::life::{Fault, Life};
use super::world::{Process, World, play, signal, start};

/// Asks until it is told that the run is there.
fn start_until_told(process: &Process) {
    let engine = process.engine.clone();
    tokio::spawn(async move { while engine.start_run(start()).await.is_err() {} });
}

/// Plays a run to its end with one fault; returns how many commits it took.
fn with_fault(flow: Flow, fault: Option<(u32, Fault)>, applied: usize) -> u32 {
    play(async {
        let world = World::new();
        let process = world.live("worker", flow, None);
        if let Some((commit, fault)) = fault {
            process.life.plan(commit, fault);
        }
        start_until_told(&process);
        for _ in 0..200 {
            world.idle().await;
            world.check_wakes().await;
            if world.state().await.is_some_and(State::is_final) {
                break;
            }
            help(&world).await;
            world.clock.advance_ms(500);
        }
        let stuck = (fault, world.row().await, world.names().await);
        assert_eq!(world.state().await, Some(State::Done), "{stuck:#?}");
        world.check(State::Done).await;
        assert_eq!(world.there.applied(), (applied, applied), "{fault:?}");
        if world.clock_s() > 40 {
            panic!("{fault:?} cost the run its lease: {:?}", world.names().await);
        }
        process.life.commits()
    })
}

fn every_commit(flow: Flow, applied: usize, want: u32) {
    let commits = with_fault(flow, None, applied);
    assert_eq!(commits, want, "other commits than before: look why, then write it down here");
    for commit in 1..=commits {
        for fault in Fault::ALL {
            with_fault(flow, Some((commit, fault)), applied);
        }
    }
}

#[test]
fn bug_inngest_2385_a_lost_answer_at_any_commit_of_three_steps_is_no_failure() {
    every_commit(flows::three_steps, 0, 4);
}

#[test]
fn bug_inngest_2385_a_lost_answer_at_any_commit_of_any_command_is_no_failure() {
    every_commit(flows::of_all_kinds, 2, 15);
}

#[test]
fn bug_inngest_2385_a_lost_answer_at_any_commit_of_a_race_is_no_failure() {
    every_commit(flows::slow_race, 1, 9);
}

#[test]
fn bug_inngest_2385_a_lost_answer_at_any_commit_of_many_commands_is_no_failure() {
    every_commit(flows::wide, 3, 20);
}

#[test]
fn bug_inngest_2385_a_lost_answer_at_any_commit_of_two_waits_is_no_failure() {
    every_commit(flows::two_words, 0, 9);
}

#[test]
fn bug_trigger_4889_a_short_loss_of_the_store_loses_no_signal_and_repeats_none() {
    for fault in Fault::ALL {
        play(async {
            let world = World::new();
            let _process = world.live("worker", flows::two_words, None);
            _process.start_run();
            world.reach(State::Waiting).await;
            let life = Life::new(&world.disk, &world.activity, None);
            let sender = Engine::new(life.clone(), "sender").expect("an engine");
            for (number, identity) in ["d-1", "d-2"].into_iter().enumerate() {
                life.plan(u32::try_from(2 * number + 1).expect("small"), fault);
                let task = {
                    let sender = sender.clone();
                    tokio::spawn(async move {
                        // Whoever is not told that it was delivered sends it again.
                        while sender.signal(signal("word", identity)).await.is_err() {}
                    })
                };
                world.pass_ms(3_000).await;
                assert!(task.is_finished(), "{fault:?}");
            }
            world.end().await;
            world.check(State::Done).await;
            assert_eq!(world.names().await.iter().filter(|name| **name == "received").count(), 2);
        });
    }
}

fn keyed(number: u32) -> Start {
    Start { key: Some(Key::from_text(&format!("e-{number}")).expect("a key")), ..start() }
}

/// Runs that a process left behind when it died: some in their first step, some just taken.
async fn left_behind(world: &World, count: u32) {
    for number in 0..count {
        world.outside.start_run(keyed(number)).await.expect("it is started");
    }
    let dead = world.live("worker", flows::three_steps, Some(25));
    world.idle().await;
    assert!(dead.life.is_dead());
}

async fn unfinished(world: &World) -> usize {
    let page = world.disk.list_runs(&RunQuery::everywhere(1_000)).await.expect("readable");
    page.runs.iter().filter(|run| !run.state().is_final()).count()
}

#[test]
fn bug_dbos_716_a_store_that_fails_at_any_row_of_a_recovery_strands_no_run() {
    for fault in Fault::ALL {
        for commit in 1..=12 {
            play(async {
                let world = World::new();
                left_behind(&world, 10).await;
                assert_eq!(unfinished(&world).await, 10);
                let next = world.live("worker", flows::three_steps, None);
                (commit..commit + 5).for_each(|commit| next.life.plan(commit, fault));
                world.pass_ms(75_000).await;
                assert_eq!(unfinished(&world).await, 0, "{fault:?} at {commit}");
            });
        }
    }
}

#[test]
fn bug_dbos_716_a_store_that_cannot_be_read_during_a_recovery_is_asked_again_in_time() {
    play(async {
        let world = World::new();
        left_behind(&world, 10).await;
        world.pass_ms(31_000).await;
        let next = world.live("worker", flows::three_steps, None);
        next.life.set_blind(true);
        // Also that it is not asked without end while no time passes.
        world.pass_ms(10_000).await;
        assert!(next.life.due_asked() < 200, "{} looks", next.life.due_asked());
        next.life.set_blind(false);
        world.pass_ms(32_000).await;
        assert_eq!(unfinished(&world).await, 0);
    });
}

/// A worker dies in a race of a signal and an effect, the signal comes, and whoever goes on meets
/// a fault. Returns how many commits it needed.
fn race_after_death(point: u32, fault: Option<(u32, Fault)>) -> u32 {
    play(async {
        let world = World::new();
        let dead = world.live("first", flows::signal_race, Some(point));
        dead.start_run();
        world.pass_ms(10_000).await;
        assert!(dead.life.is_dead(), "point {point} was not reached");
        world.signal("word", "d-1").await.expect("it is delivered");
        let next = world.live("second", flows::signal_race, None);
        if let Some((commit, fault)) = fault {
            next.life.plan(commit, fault);
        }
        for _ in 0..60 {
            world.pass_ms(1_000).await;
        }
        let run = world.row().await.expect("it is there");
        let names = world.names().await;
        assert_eq!(run.state(), State::Done, "{point} {fault:?} {names:?}");
        world.check(State::Done).await;
        assert_eq!(run.fence, 2, "{point} {fault:?}: its holder let it go: {names:?}");
        next.life.commits()
    })
}

#[test]
fn inv_i14_a_fault_while_a_begun_effect_is_taken_up_again_does_not_cost_the_run_its_holder() {
    let mut played = 0;
    for point in 3..=9 {
        for commit in 1..=race_after_death(point, None) {
            for fault in Fault::ALL {
                race_after_death(point, Some((commit, fault)));
                played += 1;
            }
        }
    }
    assert!(played > 60, "only {played}");
}

/// Plays a run while the store is away, from a commit on; returns how often the run was taken.
fn while_away(first: Option<u32>) -> usize {
    play(async {
        let world = World::new();
        let process = world.live("worker", flows::of_all_kinds, None);
        if let Some(first) = first {
            // The delays between so many tries are more than a minute.
            (first..first + 45).for_each(|commit| process.life.plan(commit, Fault::Unavailable));
        }
        start_until_told(&process);
        for _ in 0..600 {
            world.idle().await;
            if world.state().await.is_some_and(State::is_final) {
                break;
            }
            help(&world).await;
            world.clock.advance_ms(500);
        }
        let names = world.names().await;
        assert_eq!(world.state().await, Some(State::Done), "{first:?}: {names:?}");
        world.check(State::Done).await;
        assert_eq!(world.there.applied(), (2, 2), "{first:?}");
        assert!(!names.contains(&"paused"), "{first:?}: {names:?}");
        assert!(!names.contains(&"step_failed"), "{first:?}: {names:?}");
        names.iter().filter(|name| **name == "taken").count()
    })
}

/// Whatever commit it begins at, and long beyond the lease.
#[test]
fn inv_i14_a_store_that_is_away_for_a_minute_does_not_cost_a_run_its_holder() {
    let takes = while_away(None);
    for first in 2..=14 {
        // Fewer, where the time that passed made a wait needless.
        assert!(while_away(Some(first)) <= takes, "from commit {first} on");
    }
}
