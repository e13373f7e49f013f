//! Workers that were stopped, starved or cut off, and come back when another has their run.

use semel_core::record::Effect;
use semel_core::run::State;

use super::flows;
use super::kit::{Flow, address};
use super::world::{World, play};

/// A worker stops at a point for longer than its lease lasts, another finishes the run, and the
/// first one goes on. Returns whether the point was reached before the run had ended.
fn zombie(flow: Flow, point: u32, applied: usize) -> bool {
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
        for _ in 0..20 {
            world.idle().await;
            super::crash::help(&world).await;
            world.clock.advance_ms(1_000);
        }
        if world.state().await.is_some_and(State::is_final) {
            return false;
        }
        let second = world.live("second", flow, None);
        second.start_run();
        for _ in 0..300 {
            world.idle().await;
            world.check_wakes().await;
            super::crash::help(&world).await;
            if world.state().await.is_some_and(State::is_final) {
                break;
            }
            world.clock.advance_ms(1_000);
        }
        world.check(State::Done).await;
        let (row, events, sends) = (world.row().await, world.events().await, world.there.sends());
        first.life.go_on();
        world.pass_ms(60_000).await;
        assert_eq!(world.row().await, row, "a stopped worker changed the run");
        assert_eq!(world.events().await, events, "a stopped worker wrote into the journal");
        assert_eq!(world.there.sends(), sends, "a stopped worker began a send");
        world.check(State::Done).await;
        assert_eq!(world.there.applied(), (applied, applied));
        assert_eq!(first.engine.runs_held(), 0);
        true
    })
}

fn every_zombie(flow: Flow, applied: usize, want: u32) {
    let stopped = (1..).take_while(|point| zombie(flow, *point, applied)).count();
    assert_eq!(stopped, want as usize, "other points than before");
}

#[test]
fn inv_i5_a_worker_that_was_stopped_in_three_steps_changes_nothing_when_it_goes_on() {
    every_zombie(flows::three_steps, 0, 13);
}

#[test]
fn bug_temporal_5176_a_worker_that_was_stopped_in_any_command_changes_nothing_later() {
    every_zombie(flows::of_all_kinds, 2, 36);
}

#[test]
fn bug_hatchet_2432_a_worker_cut_off_in_a_race_changes_nothing_later() {
    every_zombie(flows::slow_race, 1, 21);
}

#[test]
fn inv_i5_the_receipt_of_a_stopped_worker_closes_its_own_attempt_and_moves_nothing() {
    play(async {
        let world = World::new();
        let first = world.live("first", flows::one_slow_effect, None);
        first.start_run();
        world.pass_ms(10_000).await;
        first.life.stop();
        let _second = world.live("second", flows::one_slow_effect, None);
        world.end().await;
        let before = (world.row().await, world.events().await);
        let effect = world.outside.effect(&address("k-1")).await.unwrap();
        let is_closed = |effect: &Effect| effect.attempts[0].receipt().is_some();
        assert!(effect.attempts.len() > 1 && !is_closed(&effect), "{effect:#?}");
        first.life.go_on();
        world.pass_ms(10_000).await;
        let effect = world.outside.effect(&address("k-1")).await.unwrap();
        assert!(is_closed(&effect), "{effect:#?}");
        assert_eq!((world.row().await, world.events().await), before);
        world.check(State::Done).await;
    });
}

#[test]
fn bug_durable_ext_1748_a_run_whose_renewals_starve_is_taken_over_and_its_first_holder_fenced() {
    play(async {
        let world = World::new();
        let first = world.live("first", flows::longest_step, None);
        first.start_run();
        world.pass_ms(60_000).await;
        assert_eq!(world.row().await.unwrap().fence, 1, "a lease that is renewed is kept");
        first.life.stop();
        let second = world.live("second", flows::longest_step, None);
        world.pass_ms(35_000).await;
        assert_eq!(world.row().await.unwrap().fence, 2);
        first.life.go_on();
        world.pass_ms(2_000).await;
        assert_eq!((first.engine.runs_held(), second.engine.runs_held()), (0, 1));
        world.end().await;
        world.check(State::Done).await;
        assert_eq!(world.there.ran("long#0"), 2);
    });
}

#[test]
fn bug_dbos_java_491_looking_for_work_does_not_take_a_run_that_is_live_here() {
    play(async {
        let world = World::new();
        let process = world.live("worker", flows::longest_step, None);
        let lost = world.process("worker", flows::longest_step, None);
        process.start_run();
        world.idle().await;
        let old = world.row().await.unwrap();
        for _ in 0..100 {
            for engine in [&process.engine, &lost.engine] {
                assert_eq!(engine.dispatch_once().await.unwrap(), 0);
            }
            world.pass_ms(500).await;
        }
        // Told by an old list that it is free, it finds out.
        let free = semel_core::run::Run { lease: None, ..old };
        let due = semel_store::DueRuns { runs: vec![free], next: None };
        for process in [&process, &lost] {
            process.life.set_stale_due(Some(due.clone()));
            process.engine.dispatch_once().await.unwrap();
            world.idle().await;
            process.life.set_stale_due(None);
        }
        // Told that it is due although it is held, it sees that it is.
        let held = world.row().await.expect("it is there");
        let due = semel_store::DueRuns { runs: vec![held], next: None };
        lost.life.set_stale_due(Some(due));
        lost.engine.dispatch_once().await.unwrap();
        world.idle().await;
        world.end().await;
        world.check(State::Done).await;
        assert_eq!(world.names().await, ["started", "taken", "step", "finished"]);
        assert_eq!(world.there.ran("long#0"), 1);
    });
}
