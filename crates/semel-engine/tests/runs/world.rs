//! A store that outlives its processes, a destination that counts, and what must be true whatever
//! died.

#![allow(dead_code, reason = "not every module uses every helper")]

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use semel_core::contract::Declared;
use semel_core::effect::Abort;
use semel_core::fingerprint::Rule;
use semel_core::journal::{self, Event, Outcome, Value};
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::record::Contract;
use semel_core::retry::Retry;
use semel_core::run::{Run, State};
use semel_engine::{
    Call, Doer, Engine, Error, Exhausted, Intent, Looked, Offer, OnDoubt, Port, Sent, Signal,
    Signalled, Start, StepFault, Work,
};
use semel_store::memory::Memory;
use semel_store::{Clock, ManualClock, Runs, Store};

use super::life::Life;

pub(crate) const NATIVE: Contract = Contract::NativeKey { retention_ms: 24 * 3_600_000 };
pub(crate) const PROBE: Contract = Contract::Probe { first: false };
/// Again at once, so that nothing depends on drawn delays.
pub(crate) const AT_ONCE: Retry =
    Retry { attempts_max: 4, total_ms: 600_000, delay_ms: 0, delay_ms_max: 0 };

/// The code of a workflow, written against the tools of the process it runs in.
pub(crate) type Flow = fn(Port, Kit) -> BoxFuture<'static, Result<Json, Error>>;

pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) disk: Arc<Memory>,
    /// Whoever signals and cancels: a process that never dies and offers nothing.
    pub(crate) outside: Engine,
    pub(crate) there: Arc<There>,
    pub(crate) activity: Arc<AtomicU32>,
}

/// What really happened, over all lives.
#[derive(Default)]
pub(crate) struct There {
    /// By reference: contract name, and input and receipt of each application.
    applied: Mutex<BTreeMap<String, Vec<(Json, Json)>>>,
    refused: Mutex<BTreeSet<String>>,
    sends: AtomicU32,
    /// How often each step was run.
    ran: Mutex<BTreeMap<String, u32>>,
    /// What each step and send was given: the same in all lives.
    given: Mutex<BTreeMap<String, String>>,
}

impl There {
    pub(crate) fn ran(&self, step: &str) -> u32 {
        self.ran.lock().expect("no panic").get(step).copied().unwrap_or(0)
    }

    pub(crate) fn sends(&self) -> u32 {
        self.sends.load(Ordering::SeqCst)
    }

    /// How many keys were applied, and how often in all.
    pub(crate) fn applied(&self) -> (usize, usize) {
        let applied = self.applied.lock().expect("no panic");
        (applied.len(), applied.values().map(Vec::len).sum())
    }

    fn run_step(&self, id: &str) -> u32 {
        let mut ran = self.ran.lock().expect("no panic");
        let count = ran.entry(id.to_owned()).or_default();
        *count += 1;
        *count
    }

    /// Whatever reaches outside was decided by recorded values only.
    fn give(&self, id: &str, given: &str) {
        let mut all = self.given.lock().expect("no panic");
        let first = all.entry(id.to_owned()).or_insert_with(|| given.to_owned());
        assert_eq!(first, given, "{id} saw another value in another life");
    }

    fn land(&self, contract: Contract, reference: &str, input: &Json) -> Json {
        let mut all = self.applied.lock().expect("no panic");
        let applied = all.entry(reference.to_owned()).or_default();
        if let (Contract::NativeKey { .. }, Some((_, first))) = (contract, applied.first()) {
            return first.clone();
        }
        let number = applied.len() + 1;
        let receipt = json(&format!(r#"{{"for":{},"number":{number}}}"#, input.text()));
        applied.push((input.clone(), receipt.clone()));
        receipt
    }

    /// What a person finds who looks.
    pub(crate) fn receipt(&self, reference: &str) -> Option<Json> {
        let all = self.applied.lock().expect("no panic");
        all.get(reference).and_then(|applied| applied.first()).map(|(_, receipt)| receipt.clone())
    }

    fn find(&self, reference: &str) -> Looked {
        let all = self.applied.lock().expect("no panic");
        let mut found: Vec<Json> =
            all.get(reference).into_iter().flatten().map(|(_, receipt)| receipt.clone()).collect();
        if found.is_empty() {
            return Looked::Absent;
        }
        let first = found.remove(0);
        Looked::Found(first, found)
    }
}

/// The tools of one process: each use is a point at which it may die.
#[derive(Clone)]
pub(crate) struct Kit {
    pub(crate) life: Arc<Life>,
    pub(crate) there: Arc<There>,
}

/// How a send goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    Quick,
    Slow(u64),
    Refused,
}

impl Kit {
    /// A step that returns how often it was run: another value each time.
    pub(crate) fn step(
        &self,
        port: &Port,
        name: &str,
        given: impl Into<String>,
    ) -> BoxFuture<'static, Result<Json, Error>> {
        self.failing_step(port, name, given, 0)
    }

    /// A step whose first attempts fail.
    pub(crate) fn failing_step(
        &self,
        port: &Port,
        name: &str,
        given: impl Into<String>,
        failures: u32,
    ) -> BoxFuture<'static, Result<Json, Error>> {
        let (kit, given) = (self.clone(), given.into());
        let id = port.next_id(name);
        let (step, place) = (id.clone(), format!("{} {id}", port.facts().run_id));
        let run = move |attempt: u32| {
            let (kit, given) = (kit.clone(), given.clone());
            let (step, place) = (step.clone(), place.clone());
            async move {
                kit.life.point().await;
                kit.there.give(&place, &given);
                let count = kit.there.run_step(&step);
                kit.life.point().await;
                if attempt <= failures {
                    return Err(StepFault { detail: "no luck".into(), is_final: false });
                }
                Ok(json(&format!("\"{step} run {count}\"")))
            }
            .boxed()
        };
        let work = Work::Step { run: Arc::new(run), retry: AT_ONCE, exhausted: Exhausted::Pause };
        let pending = port.command(id, "step".to_owned(), work);
        async move { pending.await.map(|value| value.expect("a step has a value")) }.boxed()
    }

    /// A step that takes its time.
    pub(crate) fn long_step(
        &self,
        port: &Port,
        name: &str,
        ms: u64,
    ) -> BoxFuture<'static, Result<Json, Error>> {
        let (kit, id) = (self.clone(), port.next_id(name));
        let step = id.clone();
        let run = move |_| {
            let (kit, step) = (kit.clone(), step.clone());
            async move {
                kit.there.run_step(&step);
                kit.life.clock().sleep_ms(ms).await;
                kit.life.alive().await;
                Ok(json("1"))
            }
            .boxed()
        };
        let work = Work::Step { run: Arc::new(run), retry: AT_ONCE, exhausted: Exhausted::Pause };
        let pending = port.command(id, "step".to_owned(), work);
        async move { pending.await.map(|value| value.expect("a step has a value")) }.boxed()
    }

    pub(crate) fn effect(
        &self,
        port: &Port,
        key: &str,
        contract: Contract,
        input: Json,
        sending: Sending,
    ) -> BoxFuture<'static, Result<Json, Error>> {
        let address = address(key);
        let deadline_ms = match sending {
            Sending::Slow(ms) => ms + 20_000,
            Sending::Quick | Sending::Refused => 20_000,
        };
        let call = Call {
            address: address.clone(),
            input,
            rule: Rule::All,
            declared: Declared {
                contract: Some(contract),
                lease_ms: Some(6_000),
                deadline_ms: Some(deadline_ms),
                settle_ms: Some(5_000),
                ..Declared::default()
            },
            downstream_key: None,
            retry: AT_ONCE,
            hold_ms: limits::HOLD_MS,
            workflow: Some(port.facts().workflow.clone()),
            run: Some(port.facts().run_id.clone()),
            guard: None,
        };
        let doer = self.doer(contract, sending);
        let what = format!("effect {address}");
        let work = Work::Effect { call: Box::new(call), doer, on_doubt: OnDoubt::Wait };
        let pending = port.command(port.next_id("charge"), what, work);
        async move { pending.await.map(|receipt| receipt.expect("an effect has a receipt")) }
            .boxed()
    }

    fn doer(&self, contract: Contract, sending: Sending) -> Arc<Doer> {
        let (kit, looking) = (self.clone(), self.clone());
        let send = move |intent: Intent| {
            let kit = kit.clone();
            async move {
                let reference = intent.downstream_key().to_owned();
                kit.there.sends.fetch_add(1, Ordering::SeqCst);
                kit.there.give(&reference, intent.input().text());
                kit.life.point().await;
                match sending {
                    Sending::Quick => {}
                    Sending::Slow(ms) => kit.life.clock().sleep_ms(ms).await,
                    Sending::Refused => {
                        kit.there.refused.lock().expect("no panic").insert(reference);
                        return Sent::Refused("not like this".into());
                    }
                }
                kit.life.alive().await;
                let receipt = kit.there.land(contract, &reference, intent.input());
                kit.life.point().await;
                Sent::Receipt(receipt)
            }
            .boxed()
        };
        let look = move |intent: Intent| {
            let kit = looking.clone();
            async move {
                kit.life.point().await;
                kit.there.find(intent.downstream_key())
            }
            .boxed()
        };
        let looks = matches!(contract, Contract::Probe { .. });
        let look = looks.then(|| Box::new(look) as Box<_>);
        Arc::new(Doer { send: Box::new(send), look, abort: Abort::Possible })
    }
}

pub(crate) async fn sleep(port: &Port, ms: u64) -> Result<(), Error> {
    let id = port.next_id("sleep");
    port.command(id, format!("sleep {ms}"), Work::Sleep { ms }).await.map(|_| ())
}

pub(crate) async fn wait(
    port: &Port,
    name: &str,
    timeout_ms: Option<u64>,
) -> Result<Option<Json>, Error> {
    let id = port.next_id(&format!("signal {name}"));
    let work = Work::Wait { name: name.to_owned(), timeout_ms };
    port.command(id, format!("signal {name}"), work).await
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
        let offer = Offer { body, release: "1".into() };
        engine.offer("default", "flow", offer);
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
            );
            if answer {
                assert!(answered.insert(event.id()), "answered twice: {events:#?}");
            }
        }
        self.check_effects(&events).await;
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
                    assert_eq!(fault.code, "effect_failed", "{fault:?}");
                    assert!(effect.failure().is_some(), "{effect:#?}");
                }
            }
            let found = semel_core::verify::check(&effect, &self.disk.ground().now);
            assert!(found.is_empty(), "{found:?} in {effect:#?}");
        }
        for (reference, applied) in &*self.there.applied.lock().expect("no panic") {
            assert_eq!(applied.len(), 1, "{reference} was applied more than once: {applied:?}");
        }
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

pub(crate) fn address(key: &str) -> Address {
    Address {
        namespace: Namespace::default(),
        action: Action::new("charge").expect("a name"),
        key: Key::from_text(key).expect("a key"),
    }
}

pub(crate) fn json(text: &str) -> Json {
    Json::from_text(text).expect("JSON")
}

/// Runs a story on a runtime of its own: what hangs in it goes with it.
pub(crate) fn play<F: Future>(story: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(story)
}
