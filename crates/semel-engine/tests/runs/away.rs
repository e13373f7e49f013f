//! Bodies whose code runs in another thread, as that of another language does.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use semel_core::code::Code;
use semel_core::journal::Raised;
use semel_core::json::Json;
use semel_core::key::{Action, Key, Namespace};
use semel_core::limits;
use semel_core::retry::Retry;
use semel_core::run::State;
use semel_engine::{Engine, Error, Executor, Exhausted, Offer, Pending, Port, Start, StepFn, Work};
use semel_store::Clock;
use semel_store::memory::Memory;
use tokio::sync::oneshot;

use super::kit::json;

type Outcome = Option<Result<Json, Error>>;

/// What the thread does in each of its turns: given the answer to the command before, it issues
/// another one, ends, or gives up.
type Turn = fn(&Port, Option<Json>) -> Said;

enum Said {
    Asks(Vec<Pending>),
    Ends(Json),
    /// Its process or event loop is gone.
    GoesAway(Error),
    GivesUp(Error),
}

/// A body that goes to a thread for each of its turns, and is away meanwhile.
struct Guest {
    port: Port,
    turn: Turn,
    away: Option<oneshot::Receiver<Said>>,
    /// Only the first is waited for; the others are open when the body ends.
    waiting: Vec<Pending>,
    is_begun: bool,
}

impl Guest {
    fn go(&mut self, answer: Option<Json>) {
        let (sender, receiver) = oneshot::channel();
        let (port, turn) = (self.port.clone(), self.turn);
        self.port.set_away(true);
        self.away = Some(receiver);
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(20));
            let _ = sender.send(turn(&port, answer));
        });
    }
}

impl Future for Guest {
    type Output = Result<Json, Error>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        loop {
            if !std::mem::replace(&mut this.is_begun, true) {
                this.go(None);
            }
            if let Some(away) = &mut this.away {
                let Poll::Ready(said) = Pin::new(away).poll(context) else { return Poll::Pending };
                this.away = None;
                this.port.set_away(false);
                match said.expect("the thread has spoken") {
                    Said::Asks(pending) => this.waiting = pending,
                    Said::Ends(value) => return Poll::Ready(Ok(value)),
                    Said::GoesAway(error) => {
                        this.port.release(error);
                        return Poll::Pending;
                    }
                    Said::GivesUp(error) => {
                        this.port.pause(None, error);
                        return Poll::Pending;
                    }
                }
            }
            let mut answer = None;
            for (place, pending) in this.waiting.iter_mut().enumerate() {
                if let Poll::Ready(came) = Pin::new(pending).poll(context)
                    && place == 0
                {
                    answer = Some(came?.expect("a step has a value"));
                }
            }
            match answer {
                None => return Poll::Pending,
                Some(answer) => this.go(Some(answer)),
            }
        }
    }
}

fn step(port: &Port, name: &str) -> Pending {
    let run: StepFn = Arc::new(|_| Box::pin(async { Ok(json("1")) }));
    let work = Work::Step {
        run,
        executor: Executor::Task,
        retry: Retry::default(),
        exhausted: Exhausted::Pause,
    };
    port.command(port.next_id(name), "step".to_owned(), work)
}

/// Starts a run on an engine of its own and says what became of it within a moment.
async fn play(turn: Turn) -> (State, Outcome) {
    let engine = Engine::new(Arc::new(Memory::new(Clock::Real)), "worker").expect("an engine");
    engine.start();
    let body = Arc::new(move |port: Port, _: Json| {
        let guest = Guest { port, turn, away: None, waiting: Vec::new(), is_begun: false };
        Box::pin(guest) as Pin<Box<dyn Future<Output = _> + Send>>
    });
    engine.offer("default", "guest", Offer::new(body, "1"));
    let start = Start {
        namespace: Namespace::default(),
        workflow: Action::new("guest").expect("a name"),
        key: Some(Key::from_text("k").expect("a key")),
        input: Json::null(),
        window_ms: limits::WINDOW_MS,
        deadline_ms: None,
        release: None,
        parent: None,
    };
    let started = engine.start_run(start).await.expect("started");
    let patience = Duration::from_secs(2);
    let outcome = tokio::time::timeout(patience, engine.result_of(&started)).await.ok();
    let run = engine.run(&Namespace::default(), &started.run.id).await.expect("it is there");
    (run.state(), outcome)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_driver_waits_for_code_that_is_away() {
    let (state, outcome) = play(|port, answer| match answer {
        None => Said::Asks(vec![step(port, "first")]),
        Some(answer) => Said::Ends(answer),
    })
    .await;
    assert_eq!((state, outcome), (State::Done, Some(Ok(json("1")))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_body_may_end_while_its_commands_are_open() {
    let (state, outcome) = play(|port, answer| match answer {
        None => {
            let never = Work::Wait { name: "never".into(), timeout_ms: None, note: None };
            let wait = port.command(port.next_id("never"), "signal never".to_owned(), never);
            Said::Asks(vec![step(port, "first"), wait])
        }
        Some(answer) => Said::Ends(answer),
    })
    .await;
    assert_eq!((state, outcome), (State::Done, Some(Ok(json("1")))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_does_what_it_may_not_pauses_its_run() {
    let (state, outcome) = play(|_, _| {
        let raised = Raised { kind: "m:E".into(), args: None, trace: String::new() };
        Said::GivesUp(Error::new(Code::ForeignAwait, "a socket").with_raised(raised))
    })
    .await;
    let code = outcome.expect("it is told").expect_err("it stands still").code();
    assert_eq!((state, code), (State::Paused, Code::RunPaused));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn code_that_is_gone_ends_nothing() {
    let (state, outcome) =
        play(|_, _| Said::GoesAway(Error::new(Code::StoreUnavailable, "the loop was closed")))
            .await;
    assert_eq!(outcome, None, "nobody may say what became of it");
    assert!(!state.is_final() && state != State::Paused, "{state:?}: another worker goes on");
}
