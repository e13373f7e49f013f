//! Recovery: two at once, on an old list, by a worker that is about to leave, and how soon.

use semel_core::run::State;
use semel_store::Runs;

use super::crash::help;
use super::flows;
use super::kit::Flow;
use super::world::{Process, World, play};

/// A world in which a worker died at a point of a run and its lease has passed.
async fn abandoned(flow: Flow, point: u32) -> World {
    let world = World::new();
    let dead = world.live("first", flow, Some(point));
    dead.start_run();
    for _ in 0..20 {
        world.idle().await;
        help(&world).await;
        world.clock.advance_ms(1_000);
    }
    assert!(dead.life.is_dead(), "point {point} was not reached");
    world.clock.advance_ms(31_000);
    world
}

async fn end_with_help(world: &World) {
    for _ in 0..300 {
        world.idle().await;
        if world.state().await.is_some_and(State::is_final) {
            break;
        }
        world.check_wakes().await;
        help(world).await;
        world.clock.advance_ms(1_000);
    }
    world.check(State::Done).await;
}

#[test]
fn inv_i25_of_two_recoveries_at_the_same_instant_one_wins_and_the_run_ends_once() {
    for point in 3..=13 {
        for lead in 0..6 {
            play(async {
                let world = abandoned(flows::three_steps, point).await;
                let second = world.process("second", flows::three_steps, None);
                let third = world.process("third", flows::three_steps, None);
                let look = |process: &Process, late: usize| {
                    let engine = process.engine.clone();
                    tokio::spawn(async move {
                        for _ in 0..late {
                            tokio::task::yield_now().await;
                        }
                        engine.dispatch_once().await.expect("a look")
                    })
                };
                let looks = [look(&second, lead), look(&third, 0)];
                for look in looks {
                    look.await.expect("no panic");
                }
                world.idle().await;
                world.check(State::Done).await;
                let taken = world.names().await.iter().filter(|name| **name == "taken").count();
                assert_eq!(taken, 2, "died at {point}, {lead} behind");
            });
        }
    }
}

#[test]
fn inv_i25_two_workers_that_recover_everything_at_once_equal_one() {
    for (flow, points, applied) in
        [(flows::of_all_kinds as Flow, 36, 2), (flows::slow_race, 21, 1), (flows::wide, 63, 3)]
    {
        for point in 3..=points {
            play(async {
                let world = abandoned(flow, point).await;
                let _both = [world.live("second", flow, None), world.live("third", flow, None)];
                end_with_help(&world).await;
                assert_eq!(world.there.applied(), (applied, applied), "died at {point}");
            });
        }
    }
}

#[test]
fn bug_dbos_742_a_recovery_with_an_old_list_changes_nothing() {
    play(async {
        let world = abandoned(flows::two_words, 3).await;
        let lane = world.row().await.expect("it is there").lane();
        let old = world.disk.due_runs(&lane, 9).await.expect("readable");
        assert_eq!(old.runs.len(), 1);
        let second = world.live("second", flows::two_words, None);
        world.reach(State::Waiting).await;
        let third = world.process("third", flows::two_words, None);
        third.life.set_stale_due(Some(old));
        for word in ["d-1", "d-2"] {
            let before = (world.row().await, world.events().await);
            third.engine.dispatch_once().await.expect("a look");
            world.idle().await;
            assert_eq!((world.row().await, world.events().await), before);
            world.signal("word", word).await.expect("it is delivered");
            world.idle().await;
            world.clock.advance_ms(1_000);
            world.idle().await;
        }
        end_with_help(&world).await;
        let before = (world.row().await, world.events().await);
        third.engine.dispatch_once().await.expect("a look");
        world.idle().await;
        assert_eq!((world.row().await, world.events().await), before);
        assert_eq!(second.engine.runs_held(), 0);
    });
}

#[test]
fn bug_dbos_804_a_draining_worker_does_not_take_again_what_it_let_go() {
    play(async {
        let world = World::new();
        let old = world.live("worker", flows::long_step, None);
        old.start_run();
        world.pass_ms(1_000).await;
        let draining = {
            let engine = old.engine.clone();
            tokio::spawn(async move { engine.drain(60_000).await })
        };
        // Its step ends, and the run is let go.
        world.pass_ms(25_000).await;
        assert!(draining.is_finished());
        let run = world.row().await.expect("it is there");
        assert!(matches!(run.state(), State::Ready | State::Done), "{run:#?}");
        world.pass_ms(60_000).await;
        assert_eq!(world.row().await.expect("it is there"), run, "it was taken again");
        assert_eq!(old.engine.runs_held(), 0);
        let _new = world.live("worker", flows::long_step, None);
        end_with_help(&world).await;
        assert_eq!(world.there.ran("long#0"), 1);
    });
}

#[test]
fn bug_dbos_804_a_draining_worker_leaves_a_woken_run_to_the_new_one_of_its_name() {
    play(async {
        let world = World::new();
        let old = world.live("worker", flows::two_words, None);
        old.start_run();
        world.reach(State::Waiting).await;
        old.engine.drain(0).await;
        let commits = old.life.commits();
        world.signal("word", "d-1").await.expect("it is delivered");
        world.pass_ms(40_000).await;
        assert_eq!(old.life.commits(), commits, "a draining worker takes nothing");
        let _new = world.live("worker", flows::two_words, None);
        end_with_help(&world).await;
    });
}

#[test]
fn bug_pikku_1544_a_run_whose_worker_died_goes_on_as_soon_as_its_lease_has_passed() {
    for flow in [flows::three_steps as Flow, flows::wide, flows::stubborn_step] {
        for point in 3..=13 {
            play(async {
                let world = World::new();
                let dead = world.live("first", flow, Some(point));
                dead.start_run();
                world.idle().await;
                assert!(dead.life.is_dead());
                let _next = world.live("second", flow, None);
                world.pass_ms(29_000).await;
                assert_eq!(world.row().await.expect("it is there").fence, 1, "a lease is kept");
                // Two seconds for the lease; effects under way have leases of their own.
                world.pass_ms(2_000).await;
                assert_eq!(world.row().await.expect("it is there").fence, 2, "died at {point}");
            });
        }
    }
}

#[test]
fn bug_dbos_805_a_recovered_run_goes_from_step_to_step_without_another_wake() {
    for point in 3..=13 {
        play(async {
            let world = abandoned(flows::three_steps, point).await;
            let next = world.process("second", flows::three_steps, None);
            assert_eq!(next.engine.dispatch_once().await.expect("a look"), 1);
            world.idle().await;
            world.check(State::Done).await;
            assert_eq!(next.engine.runs_held(), 0, "its place is free again");
        });
    }
}

#[test]
fn bug_dbos_232_whoever_dies_right_after_taking_a_run_leaves_it_to_be_taken_again() {
    play(async {
        let world = abandoned(flows::three_steps, 3).await;
        for round in 0..10 {
            let next = world.live("next", flows::three_steps, Some(2));
            world.idle().await;
            assert!(next.life.is_dead(), "round {round}");
            let run = world.row().await.expect("it is there");
            assert_eq!((run.state(), run.fence), (State::Running, round + 2));
            world.clock.advance_ms(31_000);
        }
        let _last = world.live("last", flows::three_steps, None);
        end_with_help(&world).await;
    });
}

/// Advances the time by less than a third of the lease, everybody acting on each step.
async fn pass_finely(world: &World, ms: u64) {
    for _ in 0..ms / 250 {
        world.clock.advance_ms(250);
        world.idle().await;
    }
}

#[test]
fn inv_i15_a_short_lease_is_renewed_in_time_and_lapses_as_soon() {
    play(async {
        let world = World::new();
        let first = world.live("first", flows::long_step, None);
        let second = world.live("second", flows::long_step, None);
        for process in [&first, &second] {
            assert!(process.engine.set_run_lease_ms(99).is_err(), "shorter than any");
            process.engine.set_run_lease_ms(1_500).expect("long enough");
        }
        first.start_run();
        world.idle().await;
        pass_finely(&world, 10_000).await;
        let holder = |run: semel_core::run::Run| run.lease.map(|lease| lease.worker);
        let run = world.row().await.expect("it is there");
        assert_eq!((run.fence, holder(run).as_deref()), (1, Some("first")), "renewed in time");
        first.life.kill();
        pass_finely(&world, 4_000).await;
        let run = world.row().await.expect("it is there");
        assert_eq!((run.fence, holder(run).as_deref()), (2, Some("second")), "taken over soon");
    });
}
