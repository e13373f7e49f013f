//! The code of a step begins while its worker holds the run, or not at all: a process that was
//! stopped past its lease does not repeat what its successor has done.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::join;
use semel_core::json::Json;
use semel_core::key::{Action, Key, Namespace};
use semel_core::limits;
use semel_core::retry::{Retry, Trouble};
use semel_core::run::{self, State, Take};
use semel_engine::{
    Body, Executor, Exhausted, Offer, Port, Slot, Start, Started, StepFault, StepFn, StepTry, Work,
};
use semel_store::Write;
use tokio::sync::oneshot;

use crate::common::{World, idle, json, world};

fn start() -> Start {
    Start {
        namespace: Namespace::default(),
        workflow: Action::new("w").expect("a name"),
        key: Some(Key::from_text("k").expect("a key")),
        input: Json::null(),
        window_ms: limits::WINDOW_MS,
        deadline_ms: None,
        release: None,
        parent: None,
    }
}

fn step(run: StepFn, executor: Executor) -> Work {
    Work::Step { run, executor, retry: Retry::NONE, exhausted: Exhausted::Pause }
}

/// Another worker takes the run whose lease is over. Nobody in this process gets a turn meanwhile.
fn take_over(world: &World) {
    let query = semel_store::RunQuery::everywhere(1);
    let page = world.store.list_runs(&query).now_or_never().expect("in memory").expect("runs");
    let ask = Take { worker: "other".into(), session: None, lease_ms: 30_000, epoch: 0 };
    let now = world.store.ground().now;
    let taken = run::take(&page.runs[0], &ask, &now).expect("its lease is over");
    let written = world.store.commit(Write::run(&taken, &now).into()).now_or_never();
    written.expect("in memory").expect("taken");
}

async fn state(world: &World, run: &Started) -> State {
    world.engine.run(&Namespace::default(), &run.run.id).await.expect("the run").state()
}

/// Steps that run in the engine's own task. The first takes as long as it says, in one go, as a
/// process does that is stopped; then the second would begin.
fn two_steps(pause: Arc<dyn Fn() + Send + Sync>, ran: Arc<AtomicU32>) -> Body {
    Arc::new(move |port: Port, _| {
        let (pause, ran) = (pause.clone(), ran.clone());
        Box::pin(async move {
            let first: StepFn = Arc::new(move |_| {
                pause();
                async { Ok(json("1")) }.boxed()
            });
            let second: StepFn = Arc::new(move |_| {
                ran.fetch_add(1, Ordering::SeqCst);
                async { Ok(json("2")) }.boxed()
            });
            let (first, second) = (step(first, Executor::Task), step(second, Executor::Task));
            let first = port.command("a".into(), "step".into(), first);
            let second = port.command("b".into(), "step".into(), second);
            let (first, second) = join(first, second).await;
            first.and(second).map(|value| value.expect("a step has a value"))
        })
    })
}

#[tokio::test]
async fn a_step_does_not_begin_once_another_worker_has_the_run() {
    let world = Arc::new(world());
    let ran = Arc::new(AtomicU32::new(0));
    let frozen = world.clone();
    let freeze = Arc::new(move || {
        frozen.clock.advance_ms(30_000);
        take_over(&frozen);
    });
    world.engine.offer("default", "w", Offer::new(two_steps(freeze, ran.clone()), "1"));
    let run = world.engine.start_run(start()).await.unwrap();
    world.pass_ms(5_000).await;
    assert_eq!(ran.load(Ordering::SeqCst), 0, "the second step began without the run");
    assert_eq!(state(&world, &run).await, State::Running);
    assert_eq!(world.engine.runs_held(), 0, "the run is lost");
}

/// Nobody has taken it meanwhile: the lease is renewed first, and the step begins once.
#[tokio::test]
async fn a_step_begins_under_a_lease_that_was_renewed() {
    for frozen_ms in [27_999, 28_000, 30_000, 3_600_000] {
        let world = Arc::new(world());
        let ran = Arc::new(AtomicU32::new(0));
        let clock = world.clock.clone();
        let freeze = Arc::new(move || clock.advance_ms(frozen_ms));
        world.engine.offer("default", "w", Offer::new(two_steps(freeze, ran.clone()), "1"));
        let run = world.engine.start_run(start()).await.unwrap();
        idle().await;
        assert_eq!(state(&world, &run).await, State::Done, "after {frozen_ms} ms");
        assert_eq!(ran.load(Ordering::SeqCst), 1);
    }
}

type Waiting = Arc<Mutex<Vec<(StepTry, oneshot::Sender<Result<Json, StepFault>>)>>>;

/// A step that another thread runs, when the test says so.
fn away(waiting: Waiting) -> Body {
    Arc::new(move |port: Port, _| {
        let waiting = waiting.clone();
        Box::pin(async move {
            let run: StepFn = Arc::new(move |turn| {
                let (reply, replied) = oneshot::channel();
                waiting.lock().unwrap().push((turn, reply));
                let lost =
                    || StepFault { detail: "lost".into(), trouble: Trouble::Final, raised: None };
                replied.map(move |said| said.unwrap_or_else(|_| Err(lost()))).boxed()
            });
            let ready = || async { Ok(Box::new(()) as Slot) }.boxed();
            let work = step(run, Executor::Away(Arc::new(ready)));
            let value = port.command("a".into(), "step".into(), work).await?;
            Ok(value.expect("a step has a value"))
        })
    })
}

#[tokio::test]
async fn a_step_in_another_thread_does_not_begin_once_another_worker_has_the_run() {
    for is_taken in [true, false] {
        let (world, waiting) = (world(), Waiting::default());
        world.engine.offer("default", "w", Offer::new(away(waiting.clone()), "1"));
        let run = world.engine.start_run(start()).await.unwrap();
        idle().await;
        let (turn, reply) = waiting.lock().unwrap().pop().expect("a step waits");
        world.clock.advance_ms(30_000);
        if is_taken {
            take_over(&world);
        }
        assert!(!turn.clearance.begin(), "begun after the lease");
        drop((turn, reply));
        idle().await;
        if is_taken {
            assert!(waiting.lock().unwrap().is_empty(), "it was begun again without the run");
            assert_eq!(world.engine.runs_held(), 0, "the run is lost");
            continue;
        }
        let (turn, reply) = waiting.lock().unwrap().pop().expect("it waits again");
        assert!(turn.clearance.begin());
        assert_eq!(turn.attempt, 1, "nothing failed");
        reply.send(Ok(json("1"))).unwrap();
        idle().await;
        assert_eq!(state(&world, &run).await, State::Done);
    }
}
