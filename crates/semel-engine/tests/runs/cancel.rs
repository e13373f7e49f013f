//! Cancelling: in every state, and at every point of a run.

use semel_core::code::Code;
use semel_core::effect::State as EffectState;
use semel_core::key::Namespace;
use semel_core::run::State;
use semel_engine::{Engine, Start};
use semel_store::{Query, Store};

use super::crash::help;
use super::flows;
use super::kit::Flow;
use super::world::{World, play, run_id, start};

async fn cancel(engine: &Engine) -> Result<State, Code> {
    let asked = engine.cancel_run(&Namespace::default(), &run_id(), "ann", "not needed").await;
    asked.map(|run| run.state()).map_err(|error| error.code())
}

#[test]
fn bug_inngest_2531_cancel_works_in_every_state() {
    play(async {
        let world = World::new();
        world.outside.start_run(start()).await.expect("it is started");
        assert_eq!(world.state().await, Some(State::Ready));
        assert_eq!(cancel(&world.outside).await, Ok(State::Cancelled));
        assert_eq!(cancel(&world.outside).await, Ok(State::Cancelled), "the first asker stands");
        world.check(State::Cancelled).await;
    });
    let reached = [
        (flows::long_step as Flow, State::Running, State::Cancelling),
        (flows::long_sleep, State::Waiting, State::Cancelled),
        (flows::two_words, State::Waiting, State::Cancelled),
        (flows::hopeless, State::Paused, State::Cancelled),
    ];
    for (flow, state, answer) in reached {
        play(async {
            let world = World::new();
            let process = world.live("worker", flow, None);
            process.start_run();
            world.reach(state).await;
            assert_eq!(cancel(&world.outside).await, Ok(answer), "{state}");
            world.pass_ms(2_000).await;
            world.check(State::Cancelled).await;
            assert_eq!(process.engine.runs_held(), 0);
        });
    }
}

#[test]
fn bug_inngest_2531_a_run_that_a_dead_worker_left_running_can_be_cancelled() {
    play(async {
        let world = World::new();
        let dead = world.live("dead", flows::long_step, None);
        dead.start_run();
        world.reach(State::Running).await;
        dead.life.kill();
        assert_eq!(cancel(&world.outside).await, Ok(State::Cancelling));
        // Whoever comes needs no code of it.
        world.outside.start();
        world.pass_ms(32_000).await;
        world.check(State::Cancelled).await;
    });
}

/// Cancels when a worker is at a point, and perhaps the worker dies there. Returns whether the
/// point was reached.
fn cancel_at(flow: Flow, point: u32, dies: bool) -> bool {
    play(async {
        let world = World::new();
        let process = world.live("worker", flow, None);
        let (outside, life) = (world.outside.clone(), process.life.clone());
        let act = move || {
            Box::pin(async move {
                // Before the first commit there is no run, and after the last it has ended.
                let _ = cancel(&outside).await;
                if dies {
                    life.kill();
                }
            }) as _
        };
        process.life.act_at(point, Box::new(act));
        process.start_run();
        let mut next = None;
        for _ in 0..300 {
            world.idle().await;
            world.check_wakes().await;
            if world.state().await.is_some_and(State::is_final) {
                break;
            }
            if process.life.is_dead() && next.is_none() {
                let process = world.live("next", flow, None);
                process.start_run();
                next = Some(process);
            }
            help(&world).await;
            world.clock.advance_ms(1_000);
        }
        if process.life.points() < point {
            return false;
        }
        let state = world.state().await.expect("the run is there");
        let names = world.names().await;
        assert!(matches!(state, State::Done | State::Cancelled), "{point}: {state} {names:?}");
        let taken = names.iter().filter(|name| **name == "taken").count();
        assert!(taken < 12, "{point}: taken {taken} times while there was nothing to do");
        world.check(state).await;
        let now = world.disk.ground().now;
        for effect in world.disk.list(&Query::everywhere(99)).await.expect("readable").effects {
            let is_open = matches!(effect.state(&now), EffectState::Pending | EffectState::InDoubt);
            assert!(!is_open, "{point}: the run ended before {effect:#?}");
        }
        let before = (world.row().await, world.events().await);
        world.pass_ms(60_000).await;
        assert_eq!((world.row().await, world.events().await), before, "{point}");
        true
    })
}

#[test]
fn inv_i29_a_cancel_at_any_point_ends_the_run_once_after_its_effects_are_settled() {
    let flows = [(flows::of_all_kinds as Flow, 37), (flows::slow_race, 22), (flows::wide, 64)];
    for (flow, want) in flows {
        let points = (1..=want).filter(|point| cancel_at(flow, *point, false)).count();
        assert!(points > 10, "only {points}");
    }
}

#[test]
fn inv_i29_a_cancel_at_any_point_at_which_the_worker_dies_ends_the_run_once() {
    for (flow, want) in [(flows::of_all_kinds as Flow, 37), (flows::slow_race, 22)] {
        let points = (1..=want).filter(|point| cancel_at(flow, *point, true)).count();
        assert!(points > 10, "only {points}");
    }
}

/// A worker stops at a point, its run is cancelled and ended by another, and it goes on. Returns
/// whether the point was reached before the run had ended.
fn zombie_of_cancelled(flow: Flow, point: u32) -> bool {
    play(async {
        let world = World::new();
        let first = world.live("first", flow, None);
        let life = first.life.clone();
        let stop = move || {
            life.stop();
            Box::pin(std::future::ready(())) as _
        };
        first.life.act_at(point, Box::new(stop));
        first.start_run();
        for _ in 0..15 {
            world.idle().await;
            help(&world).await;
            world.clock.advance_ms(1_000);
        }
        if world.state().await.is_some_and(State::is_final) {
            return false;
        }
        world.outside.start_run(start()).await.expect("it is there");
        let _ = cancel(&world.outside).await;
        let _second = world.live("second", flow, None);
        for _ in 0..300 {
            world.idle().await;
            if world.state().await.is_some_and(State::is_final) {
                break;
            }
            help(&world).await;
            world.clock.advance_ms(1_000);
        }
        world.check(State::Cancelled).await;
        world.pass_ms(60_000).await;
        let told = || async {
            let effects = world.disk.list(&Query::everywhere(99)).await.expect("readable").effects;
            let attempts: usize = effects.iter().map(|effect| effect.attempts.len()).sum();
            (world.row().await, world.events().await, world.there.sends(), attempts)
        };
        let before = told().await;
        first.life.go_on();
        world.pass_ms(60_000).await;
        let after = told().await;
        assert_eq!((after.2, after.3), (before.2, before.3), "stopped at {point}, it sent later");
        assert_eq!((after.0, after.1), (before.0, before.1), "stopped at {point}, it wrote later");
        true
    })
}

#[test]
fn inv_i5_a_stopped_worker_begins_nothing_of_a_run_that_was_cancelled_meanwhile() {
    for (flow, least) in
        [(flows::of_all_kinds as Flow, 30), (flows::slow_race, 15), (flows::wide, 55)]
    {
        let stopped = (1..).take_while(|point| zombie_of_cancelled(flow, *point)).count();
        assert!(stopped >= least, "only {stopped} points");
    }
}

/// A run with a deadline that passes while it sleeps or its worker is dead.
fn overdue(flow: Flow, dies_at: Option<u32>) -> u32 {
    play(async {
        let world = World::new();
        let ask = Start { deadline_ms: Some(3_000), ..start() };
        world.outside.start_run(ask).await.expect("it is started");
        let first = world.live("first", flow, dies_at);
        world.pass_ms(2_000).await;
        let points = first.life.points();
        let _second = world.live("second", flow, None);
        for _ in 0..300 {
            world.idle().await;
            world.check_wakes().await;
            if world.state().await.is_some_and(State::is_final) {
                break;
            }
            help(&world).await;
            world.clock.advance_ms(1_000);
        }
        world.check(State::Failed).await;
        let row = world.row().await.expect("it is there");
        let error = world.outside.ending(&row).await.expect_err("it failed");
        assert_eq!(error.code(), Code::DeadlinePassed, "{dies_at:?}");
        if dies_at.is_none() {
            assert_eq!(row.ended.expect("it has").at.0 - row.created.0, 3_000);
        }
        let taken = world.names().await.iter().filter(|name| **name == "taken").count();
        assert!(taken < 12, "{dies_at:?}: taken {taken} times while there was nothing to do");
        points
    })
}

#[test]
fn inv_i29_a_deadline_ends_a_run_once_in_time_and_after_any_death() {
    for flow in [flows::of_all_kinds as Flow, flows::two_words, flows::long_step] {
        for point in 1..=overdue(flow, None) {
            overdue(flow, Some(point));
        }
    }
}

#[test]
fn inv_i29_a_deadline_that_passes_after_the_code_returned_changes_nothing() {
    play(async {
        let world = World::new();
        let ask = Start { deadline_ms: Some(3_000), ..start() };
        world.outside.start_run(ask).await.expect("it is started");
        let first = world.live("first", flows::unsafe_race, None);
        world.pass_ms(2_000).await;
        first.life.kill();
        let _second = world.live("second", flows::unsafe_race, None);
        world.pass_ms(120_000).await;
        assert_eq!(world.state().await, Some(State::Waiting), "{:?}", world.names().await);
        let taken = world.names().await.iter().filter(|name| **name == "taken").count();
        assert!(taken < 6, "taken {taken} times while there was nothing to do");
        help(&world).await;
        world.pass_ms(2_000).await;
        world.check(State::Done).await;
    });
}
