//! A wait counts from when the code asks for it, never from an entry that was written while no
//! worker had the run.

use futures_util::FutureExt;
use semel_core::journal::{self, At, Event};
use semel_core::key::Namespace;
use semel_core::run::State;
use semel_engine::{Port, Work};

use super::flows::Done;
use super::kit::{Kit, json, sleep, wait};
use super::world::{World, play, run_id, start};

/// Seconds from the creation of the run to its entries of a kind.
async fn seconds(world: &World, kind: &str) -> Vec<i64> {
    let run = world.row().await.expect("the run is there");
    let journal = world.outside.journal(&run).await.expect("one clean chain");
    let entries = journal.iter().map(|inked| journal::decode(&inked.text).expect("an entry"));
    let wanted = entries.filter(|entry| entry.event.name() == kind);
    wanted.map(|entry| (entry.at.0.0 - run.created.0) / 1_000).collect()
}

fn only_sleeps(port: Port, _: Kit) -> Done {
    async move { sleep(&port, 2_000).await.map(|()| json("0")) }.boxed()
}

fn only_waits(port: Port, _: Kit) -> Done {
    async move {
        let came = wait(&port, "word", Some(3_000)).await?;
        Ok(came.unwrap_or_else(|| json("\"nothing\"")))
    }
    .boxed()
}

/// What it asks for is named by the time it sees.
fn by_the_clock(port: Port, _: Kit) -> Done {
    async move {
        let id = port.next_id("sleep");
        let what = format!("sleep at {}", port.now().0);
        port.command(id, what, Work::Sleep { ms: 5_000 }).await?;
        let (sleeper, waiter) = (port.clone(), port.clone());
        let timer = async move { sleep(&sleeper, 1_000).await.map(|()| None) }.boxed();
        let word = async move { wait(&waiter, "word", Some(60_000)).await }.boxed();
        let (first, _, _) = futures_util::future::select_all([timer, word]).await;
        first.map(|came| json(if came.is_none() { "\"timer\"" } else { "\"word\"" }))
    }
    .boxed()
}

#[test]
fn a_sleep_counts_from_the_take_when_the_worker_comes_late() {
    play(async {
        let world = World::new();
        world.outside.start_run(start()).await.expect("started");
        world.pass_ms(4_000).await;
        let _worker = world.live("worker", only_sleeps, None);
        world.end().await;
        world.check(State::Done).await;
        assert_eq!(seconds(&world, "taken").await[0], 4);
        assert_eq!(seconds(&world, "fired").await, [6]);
    });
}

#[test]
fn a_signal_that_comes_within_its_time_is_taken_though_the_worker_was_late() {
    for (comes_at_ms, wanted) in [(2_000, "received"), (4_000, "timed_out")] {
        play(async {
            let world = World::new();
            world.outside.start_run(start()).await.expect("started");
            world.pass_ms(4_000).await;
            let _worker = world.live("worker", only_waits, None);
            world.pass_ms(comes_at_ms).await;
            if wanted == "received" {
                world.signal("word", "d-1").await.expect("it is delivered");
            }
            world.end().await;
            let names = world.names().await;
            assert!(names.contains(&wanted), "{names:?}");
            let at = seconds(&world, wanted).await;
            assert!(wanted == "received" || at == [7], "{at:?}");
        });
    }
}

#[test]
fn what_an_operator_gave_is_heard_with_the_next_take() {
    fn flow(port: Port, kit: Kit) -> Done {
        async move {
            kit.failing_step(&port, "first", "1", 99).await?;
            sleep(&port, 2_000).await.map(|()| json("0"))
        }
        .boxed()
    }
    play(async {
        let world = World::new();
        let process = world.live("worker", flow, None);
        process.start_run();
        let run = world.reach(State::Paused).await;
        process.life.kill();
        world.pass_ms(60_000).await;
        let events = world.events().await;
        let step = events.iter().find_map(|event| match event {
            Event::Paused { id: Some(id), .. } => Some(id.clone()),
            _ => None,
        });
        let step = step.expect("a step paused it");
        let (namespace, value) = (Namespace::default(), json("1"));
        let skipped = world.outside.skip_step(&namespace, &run.id, &step, &value, "ann", "no");
        skipped.await.expect("skipped");
        world.pass_ms(10_000).await;
        let _next = world.live("next", flow, None);
        world.end().await;
        let skipped = seconds(&world, "skipped").await[0];
        let taken = seconds(&world, "taken").await;
        let next = taken.iter().find(|at| **at > skipped).expect("taken again");
        assert_eq!(*next, skipped + 10);
        assert_eq!(seconds(&world, "fired").await, [next + 2]);
    });
}

async fn retry(world: &World) {
    let retried = world.outside.retry_run(&Namespace::default(), &run_id(), "ann", "mended").await;
    retried.expect("it is paused");
}

/// Code that stops by mistake with its start or with its step, until it is mended.
fn mistaken(port: Port, kit: Kit) -> Done {
    async move {
        stop_while_wrong(&kit, 0);
        kit.step(&port, "first", "1").await?;
        stop_while_wrong(&kit, 1);
        let came = wait(&port, "word", Some(3_000)).await?;
        sleep(&port, 2_000).await?;
        Ok(came.unwrap_or_else(|| json("\"nothing\"")))
    }
    .boxed()
}

fn stop_while_wrong(kit: &Kit, place: u32) {
    assert!(kit.there.ran("wrong") != place + 1, "c.uppr()");
}

/// Whoever mends the code and retries the run: the wait that follows counts from there.
#[test]
fn a_wait_after_a_mistake_counts_from_the_take_after_the_retry() {
    for place in [1, 2] {
        for retries in [1, 2] {
            for dies_after_ms in [None, Some(0), Some(1_000), Some(4_000)] {
                play(async {
                    let world = World::new();
                    for _ in 0..place {
                        world.there.note_run("wrong");
                    }
                    let first = world.live("first", mistaken, None);
                    first.start_run();
                    world.reach(State::Paused).await;
                    for turn in 1..=retries {
                        world.pass_ms(60_000).await;
                        if turn == retries {
                            for _ in 0..9 {
                                world.there.note_run("wrong");
                            }
                        }
                        retry(&world).await;
                        world.idle().await;
                    }
                    let _second = match dies_after_ms {
                        None => None,
                        Some(ms) => {
                            world.pass_ms(ms).await;
                            first.life.kill();
                            world.pass_ms(500).await;
                            Some(world.live("second", mistaken, None))
                        }
                    };
                    world.end().await;
                    world.check(State::Done).await;
                    let names = (place, retries, dies_after_ms);
                    let mended = 60 * i64::from(retries);
                    let timed_out = seconds(&world, "timed_out").await[0];
                    assert!(timed_out >= mended + 3, "{names:?}: out after {timed_out}");
                    assert!(timed_out < mended + 60, "{names:?}: out after {timed_out}");
                    assert!(seconds(&world, "fired").await[0] >= timed_out + 2, "{names:?}");
                });
            }
        }
    }
}

/// A release with a mistake takes a run whose earlier code has asked: mended, the wait goes on.
#[test]
fn a_wait_that_was_asked_for_before_a_mistake_is_not_begun_again() {
    fn waits(port: Port, kit: Kit) -> Done {
        async move {
            kit.step(&port, "first", "1").await?;
            stop_while_wrong(&kit, 1);
            sleep(&port, 100_000).await.map(|()| json("0"))
        }
        .boxed()
    }
    for mistakes in [1, 2] {
        play(async {
            let world = World::new();
            let worker = world.live("worker", waits, None);
            worker.start_run();
            world.pass_ms(50_000).await;
            assert_eq!(world.state().await, Some(State::Waiting));
            world.there.note_run("wrong");
            world.there.note_run("wrong");
            world.reach(State::Paused).await;
            for turn in 1..=mistakes {
                world.pass_ms(10_000).await;
                if turn == mistakes {
                    world.there.note_run("wrong");
                }
                retry(&world).await;
                world.idle().await;
            }
            world.end().await;
            let fired = seconds(&world, "fired").await[0];
            assert!((100..150).contains(&fired), "{mistakes}: fired after {fired}");
        });
    }
}

#[test]
fn the_clock_of_the_code_is_the_same_in_every_replay_and_no_wait_ends_early() {
    for late_ms in [0, 1_000, 7_000] {
        for dies_after_ms in [0, 1_000, 3_000, 5_500] {
            play(async {
                let world = World::new();
                world.outside.start_run(start()).await.expect("started");
                world.pass_ms(late_ms).await;
                let first = world.live("first", by_the_clock, None);
                world.pass_ms(dies_after_ms).await;
                first.life.kill();
                world.pass_ms(2_000).await;
                let _second = world.live("second", by_the_clock, None);
                world.end().await;
                world.check(State::Done).await;
                let taken = seconds(&world, "taken").await;
                let fired = seconds(&world, "fired").await;
                assert!(fired[0] >= taken[0] + 5, "{taken:?} {fired:?}");
                assert!(fired[1] > fired[0], "{fired:?}");
            });
        }
    }
}

#[test]
fn the_time_at_the_start_is_that_of_the_first_take() {
    fn flow(port: Port, _: Kit) -> Done {
        async move { Ok(json(&port.now().0.to_string())) }.boxed()
    }
    play(async {
        let world = World::new();
        world.outside.start_run(start()).await.expect("started");
        world.pass_ms(4_000).await;
        let _worker = world.live("worker", flow, None);
        let run = world.end().await;
        let journal = world.outside.journal(&run).await.expect("a journal");
        let mut entries =
            journal.iter().map(|inked| journal::decode(&inked.text).expect("an entry"));
        let taken = entries.clone().find(|entry| entry.event.name() == "taken").expect("taken");
        let At(wall, _) = taken.at;
        let done = entries.next_back().expect("an end").event.value().cloned();
        assert_eq!(done, Some(journal::Value::Json(json(&wall.0.to_string()))));
        assert_eq!(run.id, run_id());
    });
}
