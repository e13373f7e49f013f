//! A store that outlives its processes, and what must be true whatever died.

#![allow(dead_code, reason = "not every module uses every helper")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel_core::journal::{self, Event, Outcome, Value};
use semel_core::json::Json;
use semel_core::key::{Action, Key, Namespace};
use semel_core::limits;
use semel_core::run::{Run, State};
use semel_engine::{Engine, Error, Offer, Port, Signal, Signalled, Start};
use semel_store::memory::Memory;
use semel_store::{CardQuery, Cards, Clock, ManualClock, Runs, Store};

use super::flows;
use super::kit::{Flow, Kit, There, address, json};
use super::life::Life;

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) disk: Arc<Memory>,
    /// Whoever signals and cancels: a process that never dies and offers nothing.
    pub(crate) outside: Engine,
    pub(crate) there: Arc<There>,
    pub(crate) activity: Arc<AtomicU32>,
}

impl World {
    pub(crate) fn new() -> World {
        let clock = ManualClock::new(1_700_000_000_000);
        let disk = Arc::new(Memory::new(Clock::Manual(clock.clone())));
        let outside = Engine::new(disk.clone(), "outside").expect("an engine");
        World { clock, disk, outside, there: Arc::default(), activity: Arc::default() }
    }

    /// A process that offers the workflow and takes runs.
    pub(crate) fn live(&self, worker: &str, flow: Flow, die_at: Option<u32>) -> Process {
        let process = self.process(worker, flow, die_at);
        process.engine.start();
        process
    }

    /// A process that takes runs only when it is told to.
    pub(crate) fn process(&self, worker: &str, flow: Flow, die_at: Option<u32>) -> Process {
        let life = Life::new(&self.disk, &self.activity, die_at);
        let engine = Engine::new(life.clone(), worker).expect("an engine");
        let kit = Kit { life: life.clone(), there: self.there.clone() };
        let body = Arc::new(move |port: Port, _input: Json| flow(port, kit.clone()));
        let offer = Offer::new(body, "1");
        engine.offer("default", "flow", offer);
        let kit = Kit { life: life.clone(), there: self.there.clone() };
        let body = Arc::new(move |port: Port, _input: Json| flows::child(port, kit.clone()));
        engine.offer("default", "child", Offer::new(body, "1"));
        Process { life, engine }
    }

    /// Runs everybody who can, until nobody touches the store any more.
    pub(crate) async fn idle(&self) {
        let mut quiet = 0;
        let mut before = self.activity.load(Ordering::SeqCst);
        for _ in 0..5_000 {
            tokio::task::yield_now().await;
            let now = self.activity.load(Ordering::SeqCst);
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
            if quiet > 12 {
                return;
            }
        }
        panic!("somebody asks the store for ever while no time passes");
    }

    /// Lets time pass by steps, everybody acting on each.
    pub(crate) async fn pass_ms(&self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let step = left.min(1_000);
            self.idle().await;
            self.clock.advance_ms(step);
            left -= step;
        }
        self.idle().await;
    }

    /// Seconds since the story began.
    pub(crate) fn clock_s(&self) -> i64 {
        (self.disk.ground().now.wall.0 - 1_700_000_000_000) / 1_000
    }

    pub(crate) async fn row(&self) -> Option<Run> {
        self.disk.run("default", &run_id()).await.expect("the disk can be read")
    }

    pub(crate) async fn state(&self) -> Option<State> {
        self.row().await.map(|run| run.state())
    }

    /// Passes time until the run is in a state.
    pub(crate) async fn reach(&self, state: State) -> Run {
        for _ in 0..600 {
            self.idle().await;
            let row = self.row().await;
            if let Some(run) = row.filter(|run| run.state() == state) {
                return run;
            }
            self.clock.advance_ms(1_000);
        }
        panic!("never {state}: {:#?} {:#?}", self.row().await, self.events().await);
    }

    pub(crate) async fn end(&self) -> Run {
        for _ in 0..600 {
            self.idle().await;
            self.check_wakes().await;
            let row = self.row().await;
            if let Some(run) = row.filter(|run| run.state().is_final()) {
                return run;
            }
            self.clock.advance_ms(1_000);
        }
        panic!("it never ends: {:#?} {:#?}", self.row().await, self.events().await);
    }

    pub(crate) async fn signal(&self, name: &str, identity: &str) -> Result<Signalled, Error> {
        self.outside.signal(signal(name, identity)).await
    }

    pub(crate) async fn events(&self) -> Vec<Event> {
        let Some(run) = self.row().await else { return Vec::new() };
        let journal = self.outside.journal(&run).await.expect("one clean chain");
        journal.iter().map(|inked| journal::decode(&inked.text).expect("an entry").event).collect()
    }

    pub(crate) async fn names(&self) -> Vec<&'static str> {
        self.events().await.iter().map(Event::name).collect()
    }

    /// I13 and I14: an unfinished run is due some day, or says for what it waits.
    pub(crate) async fn check_wakes(&self) {
        let Some(run) = self.row().await.filter(|run| !run.state().is_final()) else { return };
        let due = self.disk.due_runs(&run.lane(), 10).await.expect("the disk can be read");
        let is_due = !due.runs.is_empty() || due.next.is_some();
        assert!(is_due || run.waits_on().is_some(), "nothing wakes {run:#?}");
        let has_timer = run.waits.iter().any(|wait| wait.due.is_some());
        assert!(is_due || !has_timer, "a timer has no due row: {run:#?}");
    }

    /// What must be true of a run that has ended, whatever died on the way.
    pub(crate) async fn check(&self, state: State) {
        let run = self.row().await.expect("the run is there");
        assert_eq!(run.state(), state, "{run:#?} {:#?}", self.events().await);
        let events = self.events().await;
        assert!(matches!(events.first(), Some(Event::Started { .. })));
        assert!(matches!(events.last(), Some(Event::Finished { .. })), "{events:#?}");
        let count = |name: &str| events.iter().filter(|event| event.name() == name).count();
        assert_eq!((count("started"), count("finished")), (1, 1), "{events:#?}");
        let mut fences = events.iter().filter_map(|event| match event {
            Event::Taken { fence, .. } => Some(*fence),
            _ => None,
        });
        assert!(fences.clone().zip(fences.clone().skip(1)).all(|(a, b)| a < b), "{events:#?}");
        assert_eq!(fences.next_back().unwrap_or(0), run.fence);
        let mut answered = BTreeSet::new();
        for event in &events {
            let answer = matches!(
                event,
                Event::Step { .. }
                    | Event::Effect { .. }
                    | Event::Fired { .. }
                    | Event::Received { .. }
                    | Event::TimedOut { .. }
                    | Event::Child { .. }
                    | Event::Entered { .. }
                    | Event::Left { .. }
            );
            if answer {
                assert!(answered.insert(event.id()), "answered twice: {events:#?}");
            }
        }
        self.check_effects(&events).await;
        self.check_cards().await;
    }

    /// A run that has ended holds nothing that others wait for, and stands in no queue.
    async fn check_cards(&self) {
        for kind in ["entity", "gate"] {
            let query = CardQuery { namespace: None, kind: kind.into(), after: None, limit: 100 };
            for card in self.disk.cards(&query).await.expect("the disk can be read").cards {
                assert!(!card.record.contains(&run_id()), "{card:?}");
            }
        }
    }

    /// Receipts in the journal are those of the ledger, and each happened once.
    pub(crate) async fn check_effects(&self, events: &[Event]) {
        for event in events {
            let Event::Effect { what, result, .. } = event else { continue };
            let key = what.strip_prefix("effect charge/").expect("an effect of ours");
            let effect = self.outside.effect(&address(key)).await.expect("it is in the ledger");
            match result {
                Outcome::Value(Value::Json(receipt)) => {
                    assert_eq!(effect.receipt(), Some(receipt), "{effect:#?}");
                }
                Outcome::Value(Value::Blob { .. }) => panic!("receipts are small here"),
                Outcome::Fault(fault) => {
                    let answer = effect.approval.as_ref().and_then(|one| one.judgement.as_ref());
                    let code = answer.map_or("effect_failed".to_owned(), |given| {
                        format!("approval_{}", given.answer.as_str())
                    });
                    assert_eq!(fault.code, code, "{fault:?}");
                    assert!(effect.failure().is_some(), "{effect:#?}");
                }
            }
            let found = semel_core::verify::check(&effect, &self.disk.ground().now);
            assert!(found.is_empty(), "{found:?} in {effect:#?}");
        }
        self.there.check();
    }
}

/// One process: its life and its engine.
pub(crate) struct Process {
    pub(crate) life: Arc<Life>,
    pub(crate) engine: Engine,
}

impl Process {
    /// Asks for the run, as whoever wants it does until told that it is there.
    pub(crate) fn start_run(&self) {
        let engine = self.engine.clone();
        tokio::spawn(async move { engine.start_run(start()).await.map(|_| ()) });
    }
}

pub(crate) fn start() -> Start {
    Start {
        namespace: Namespace::default(),
        workflow: Action::new("flow").expect("a name"),
        key: Some(Key::from_text("e-1").expect("a key")),
        input: json("{}"),
        window_ms: limits::WINDOW_MS,
        deadline_ms: None,
        release: None,
        parent: None,
    }
}

pub(crate) fn signal(name: &str, identity: &str) -> Signal {
    Signal {
        namespace: Namespace::default(),
        run: run_id(),
        name: name.to_owned(),
        identity: Some(identity.to_owned()),
        payload: json(&format!("\"{identity}\"")),
    }
}

pub(crate) fn run_id() -> String {
    let key = Key::from_text("e-1").expect("a key");
    semel_core::derive::run_id(&Namespace::default(), "flow", &key).to_string()
}

/// Runs a story on a runtime of its own: what hangs in it goes with it.
pub(crate) fn play<F: Future>(story: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(story)
}
