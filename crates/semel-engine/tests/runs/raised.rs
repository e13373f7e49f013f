//! Exceptions of user code: what a step raised is what the body catches, in every life, and what
//! the body raised is what whoever asks for the result gets.

use std::sync::Arc;

use futures_util::FutureExt;
use semel_core::code::Code;
use semel_core::journal::{Event, Raised};
use semel_core::key::Namespace;
use semel_core::retry::Trouble;
use semel_core::run::State;
use semel_engine::{Error, Executor, Exhausted, Port, StepFault, Work};

use super::flows::Done;
use super::kit::{AT_ONCE, Flow, Kit, json};
use super::world::{World, play, run_id};

fn raised(by: &str, trace: &str) -> Raised {
    let (kind, args) = ("shop.errors:NoStock".into(), json(&format!("[\"{by}\"]")));
    Raised { kind, args: Some(args), trace: trace.into() }
}

/// A step that raises in each of its attempts; the trace says in which.
fn raising(port: &Port, kit: &Kit, trouble: Trouble, exhausted: Exhausted) -> Done {
    let (kit, id) = (kit.clone(), port.next_id("order"));
    let run = move |turn: semel_engine::StepTry| {
        let attempt = turn.attempt;
        let kit = kit.clone();
        async move {
            kit.life.point().await;
            let raised = raised("step", &format!("attempt {attempt}"));
            let raised = Some(Box::new(raised));
            Err(StepFault { detail: "no stock".into(), trouble, raised })
        }
        .boxed()
    };
    let work =
        Work::Step { run: Arc::new(run), executor: Executor::Task, retry: AT_ONCE, exhausted };
    let pending = port.command(id, "step".to_owned(), work);
    async move { pending.await.map(|value| value.expect("it raises")) }.boxed()
}

/// Catches what the step raised, notes it elsewhere, and raises something of its own.
fn catching(port: Port, kit: Kit, trouble: Trouble) -> Done {
    async move {
        let caught = raising(&port, &kit, trouble, Exhausted::Fail).await;
        let caught = caught.expect_err("it raises");
        let seen = caught.raised().map(|raised| format!("{} {raised:?}", caught.code()));
        kit.step(&port, "note", seen.expect("an exception")).await?;
        Err(Error::new(Code::RunFailed, "sold out").with_raised(raised("body", "in the body")))
    }
    .boxed()
}

fn catches_final(port: Port, kit: Kit) -> Done {
    catching(port, kit, Trouble::Final)
}

fn catches_exhausted(port: Port, kit: Kit) -> Done {
    catching(port, kit, Trouble::Passing)
}

fn pausing(port: Port, kit: Kit) -> Done {
    async move { raising(&port, &kit, Trouble::Passing, Exhausted::Pause).await }.boxed()
}

/// Plays a flow whose first life dies at a point. Returns how many points it passed.
fn dying(flow: Flow, die_at: Option<u32>) -> u32 {
    play(async {
        let world = World::new();
        let first = world.live("first", flow, die_at);
        first.start_run();
        world.pass_ms(2_000).await;
        let _second = die_at.map(|point| {
            assert!(first.life.is_dead(), "point {point} was not reached");
            let second = world.live("second", flow, None);
            second.start_run();
            second
        });
        world.end().await;
        world.check(State::Failed).await;
        let error = world.outside.result("default", &run_id()).await.expect_err("it failed");
        assert_eq!((error.code(), error.detail()), (Code::RunFailed, "sold out"));
        assert_eq!(error.raised(), Some(&raised("body", "in the body")));
        let events = world.events().await;
        let steps = events.iter().filter(|event| event.id() == Some("order#0"));
        for event in steps {
            let fault = event.fault().expect("each attempt raises");
            let kept = fault.raised.as_deref().expect("an exception");
            assert_eq!(kept.args, raised("step", "").args);
            let Event::StepFailed { attempt, .. } = event else { continue };
            assert_eq!(kept.trace, format!("attempt {attempt}"));
        }
        first.life.points()
    })
}

#[test]
fn an_exception_is_caught_alike_in_every_life_whatever_dies() {
    for flow in [catches_final as Flow, catches_exhausted] {
        let points = dying(flow, None);
        assert!(points > 5, "only {points}");
        for point in 1..=points {
            dying(flow, Some(point));
        }
    }
}

#[test]
fn a_pause_and_the_failure_that_a_person_makes_of_it_keep_the_exception() {
    play(async {
        let world = World::new();
        let process = world.live("worker", pausing, None);
        process.start_run();
        world.reach(State::Paused).await;
        let want = raised("step", "attempt 4");
        let error = world.outside.result("default", &run_id()).await.expect_err("it is paused");
        assert_eq!((error.code(), error.raised()), (Code::RunPaused, Some(&want)));
        let namespace = Namespace::default();
        world.outside.fail_run(&namespace, &run_id(), "ann", "sold out").await.expect("it is");
        let error = world.outside.result("default", &run_id()).await.expect_err("it failed");
        assert_eq!((error.code(), error.raised()), (Code::RetriesExhausted, Some(&want)));
    });
}
