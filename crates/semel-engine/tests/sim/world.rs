//! One run: callers, processes, people and the clock, moved by one seed.

use std::sync::{Arc, Mutex};

use semel_core::code::Code;
use semel_core::contract::Declared;
use semel_core::effect::{Person, Resolution, State};
use semel_core::fingerprint::Rule;
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::record::{Contract, Effect};
use semel_core::retry::Retry;
use semel_engine::{Call, Engine, Error, Handler};
use semel_store::memory::Memory;
use semel_store::{Clock, ManualClock, Store};
use tokio::task::JoinHandle;

use super::chance::Chance;
use super::check::{self, Acknowledged};
use super::destination::{
    DEADLINE_MS, Destination, LEASE_MS, NATIVE, RETENTION_MS, SETTLE_MS, doer,
};
use super::process::{Graves, Mode, Process};

const CONTRACTS: [(&str, Contract); 6] = [
    ("native", NATIVE),
    ("conditional", Contract::Conditional),
    ("probe", Contract::Probe { first: false }),
    ("probe-first", Contract::Probe { first: true }),
    ("at-most-once", Contract::AtMostOnce),
    ("harmless", Contract::Harmless),
];
const KEYS: [&str; 2] = ["a", "b"];
const PROCESSES: u32 = 3;
const STEPS: u32 = 100;

struct Worker {
    process: Arc<Process>,
    engine: Engine,
}

struct Caller {
    address: Address,
    process: Arc<Process>,
    task: JoinHandle<Result<Json, Error>>,
}

struct World {
    chance: Arc<Chance>,
    clock: Arc<ManualClock>,
    store: Arc<Memory>,
    graves: Arc<Mutex<Graves>>,
    destination: Arc<Destination>,
    workers: Vec<Worker>,
    born: u32,
    callers: Vec<Caller>,
    told: Acknowledged,
    /// What happened, to compare two runs of one seed.
    trace: Vec<String>,
}

/// Runs a seed to its end; returns what happened.
pub(crate) async fn run(seed: u64) -> Vec<String> {
    let clock = ManualClock::new(1_700_000_000_000);
    let mut world = World {
        chance: Arc::new(Chance::new(seed)),
        store: Arc::new(Memory::new(Clock::Manual(clock.clone()))),
        clock,
        graves: Arc::default(),
        destination: Arc::default(),
        workers: Vec::new(),
        born: 0,
        callers: Vec::new(),
        told: Acknowledged::new(),
        trace: Vec::new(),
    };
    (0..PROCESSES).for_each(|_| world.start_worker());
    for step in 0..STEPS {
        world.step().await;
        if step % 5 == 0 {
            world.check().await;
        }
    }
    world.finish().await;
    world.trace
}

impl World {
    async fn step(&mut self) {
        match self.chance.below(16) {
            0..=5 => self.start_call(),
            6..=9 => {
                let ms = *self.chance.pick(&[1, 20, 300, 1_000, 2_000, 4_000]);
                self.advance(ms).await;
            }
            10 => {
                let far = [7_000, 15_000, 40_000, 40_000, RETENTION_MS + 60_000];
                let ms = *self.chance.pick(&far);
                self.advance(ms).await;
            }
            11 | 12 => {
                let engine = self.chance.pick(&self.workers).engine.clone();
                tokio::spawn(async move { engine.turn().await });
            }
            13 => self.person().await,
            14 => self.disturb(),
            _ => self.leave(),
        }
        self.settle_down().await;
    }

    fn start_worker(&mut self) {
        self.born += 1;
        let process = Process::start(self.born, &self.store, &self.graves, &self.chance);
        let engine = Engine::new(process.clone(), format!("worker-{}", self.born)).expect("chance");
        if self.chance.often(500) {
            for (name, contract) in CONTRACTS {
                let doer = doer(&process, &self.destination, &self.chance, contract);
                let handler = Handler::new(doer, declared(contract), RETRY);
                let action = Action::new(name).expect("a name");
                engine.handle(Namespace::default(), action, handler);
            }
        }
        self.workers.push(Worker { process, engine });
    }

    fn start_call(&mut self) {
        let (name, contract) = *self.chance.pick(&CONTRACTS);
        let key = *self.chance.pick(&KEYS);
        let index = self.chance.below(self.workers.len() as u64);
        let hold_ms = *self.chance.pick(&[0, 5_000, 25_000]);
        self.call(usize::try_from(index).expect("few"), address(name, key), contract, hold_ms);
    }

    fn call(&mut self, worker: usize, address: Address, contract: Contract, hold_ms: u64) {
        let Worker { process, engine } = &self.workers[worker];
        let doer = doer(process, &self.destination, &self.chance, contract);
        let call = Call {
            address: address.clone(),
            input: Json::null(),
            rule: Rule::All,
            declared: declared(contract),
            downstream_key: None,
            retry: RETRY,
            hold_ms,
            workflow: None,
            run: None,
            approval: None,
            undoes: None,
            derived: None,
            shape: None,
            guard: None,
        };
        let (engine, process) = (engine.clone(), process.clone());
        let task = tokio::spawn(async move { engine.call(call, doer).await });
        self.callers.push(Caller { address, process, task });
    }

    /// Somebody hangs up.
    fn leave(&mut self) {
        if !self.callers.is_empty() {
            let index = self.chance.below(self.callers.len() as u64);
            self.callers.swap_remove(usize::try_from(index).expect("few")).task.abort();
        }
    }

    /// A process is stopped, goes on, or is killed and replaced.
    fn disturb(&mut self) {
        let process = self.chance.pick(&self.workers).process.clone();
        match (process.mode(), self.chance.below(3)) {
            (Mode::Runs, 0 | 1) => process.set(Mode::Stopped),
            (Mode::Stopped, 0 | 1) => process.set(Mode::Runs),
            _ => process.set(Mode::Dead),
        }
    }

    async fn advance(&mut self, ms: u64) {
        let now = self.store.ground().now.steady;
        self.destination.pass_until(now.plus(ms).ms);
        self.clock.advance_ms(ms);
    }

    /// Lets everybody run who can, buries the dead, and hears what callers were told.
    async fn settle_down(&mut self) {
        for _ in 0..40 {
            tokio::task::yield_now().await;
        }
        for index in (0..self.workers.len()).rev() {
            if self.workers[index].process.mode() == Mode::Dead {
                self.workers.remove(index);
                self.start_worker();
            }
        }
        let (ended, waiting) = std::mem::take(&mut self.callers)
            .into_iter()
            .partition(|caller| caller.task.is_finished() || caller.process.mode() == Mode::Dead);
        self.callers = waiting;
        for Caller { address, process, task } in ended {
            if process.mode() == Mode::Dead {
                task.abort();
                continue;
            }
            self.hear(address, task.await.expect("no panic"));
        }
    }

    fn hear(&mut self, address: Address, answer: Result<Json, Error>) {
        let now = self.store.ground().now.steady.ms;
        match answer {
            Ok(receipt) => {
                self.trace.push(format!("{now} {address}: {}", receipt.text()));
                self.told.entry(address).or_default().push(receipt);
            }
            Err(error) => {
                assert_ne!(error.code(), Code::Internal, "{address}: {error}");
                self.trace.push(format!("{now} {address}: {}", error.code()));
            }
        }
    }

    /// A named person looks at the destination, when nothing can land any more, and says the truth.
    async fn person(&mut self) {
        for effect in check::rows(&self.store).await {
            if effect.superseded.is_some() {
                continue;
            }
            match effect.state(&self.store.ground().now) {
                State::InDoubt | State::Planned => self.resolve(&effect).await,
                State::Done | State::Failed if self.chance.fails(60) => {
                    let engine = self.chance.pick(&self.workers).engine.clone();
                    let (address, person) = (effect.address.clone(), person(&effect));
                    tokio::spawn(async move { engine.supersede(&address, &person).await });
                }
                State::Done | State::Failed | State::Pending | State::Void | State::Expired => {}
            }
        }
    }

    async fn resolve(&self, effect: &Effect) {
        let now = self.store.ground().now;
        let Some(plan) = &effect.plan else { return };
        let unknown = || effect.attempts.iter().filter(|attempt| attempt.is_unknown(&now));
        let can_land = unknown().any(|attempt| {
            let over = |doubt: &semel_core::record::Doubt| {
                now.reached(now.window_end(doubt.since, attempt.settle_ms))
            };
            !attempt.doubt.as_ref().is_some_and(over)
        });
        if can_land || (effect.due(&now).is_some() && !self.is_full(effect)) {
            return;
        }
        let applied = self.destination.applied(&plan.downstream_key);
        let how = match applied.into_iter().next() {
            Some(receipt) => Resolution::Done(receipt),
            None if self.is_full(effect) || self.chance.often(300) => Resolution::Failed,
            None => Resolution::Retry,
        };
        let engine = self.chance.pick(&self.workers).engine.clone();
        let (address, person) = (effect.address.clone(), person(effect));
        tokio::spawn(async move { engine.resolve(&address, &person, &how).await });
    }

    /// The row has no room for another attempt: only a person can end it.
    fn is_full(&self, effect: &Effect) -> bool {
        effect.attempts.len() + 1 >= semel_core::limits::ATTEMPTS_MAX as usize
    }

    async fn check(&self) {
        check::check(&self.store, &self.destination, &self.told).await;
    }

    /// The faults are over: all that can end does, whoever waits is answered, and all is well.
    async fn finish(&mut self) {
        self.chance.end_faults();
        self.workers.iter().for_each(|worker| worker.process.set(Mode::Runs));
        for round in 0..200 {
            self.settle_down().await;
            let now = self.store.ground().now;
            let rows = check::rows(&self.store).await;
            let is_open = |effect: &&Effect| {
                let state = effect.state(&now);
                let ended = matches!(state, State::Done | State::Failed | State::Void);
                !ended && effect.superseded.is_none()
            };
            let open: Vec<_> = rows.iter().filter(is_open).collect();
            let flights = self.workers.iter().map(|worker| worker.engine.keys_in_flight());
            let waiting = (self.callers.len(), flights.sum::<usize>());
            if open.is_empty() && waiting == (0, 0) {
                return self.check().await;
            }
            assert!(round < 199, "not ended: {open:#?}, callers and flights: {waiting:?}");
            for effect in open {
                let (_, contract) = named(effect.address.action.as_str());
                self.call(0, effect.address.clone(), contract, 0);
            }
            let engine = self.workers[0].engine.clone();
            tokio::spawn(async move { engine.turn().await });
            self.settle_down().await;
            self.person().await;
            self.advance(3_000).await;
            self.check().await;
        }
    }
}

/// No delay between tries: the engine's own jitter is not ours to seed.
const RETRY: Retry = Retry { attempts_max: 3, total_ms: 60_000, delay_ms: 0, delay_ms_max: 0 };

fn named(name: &str) -> (&'static str, Contract) {
    *CONTRACTS.iter().find(|(known, _)| *known == name).expect("one of ours")
}

fn person(effect: &Effect) -> Person {
    let version = effect.version;
    Person { actor: "ada".into(), reason: "I asked the destination".into(), version }
}

fn address(action: &str, key: &str) -> Address {
    Address {
        namespace: Namespace::default(),
        action: Action::new(action).expect("a name"),
        key: Key::from_text(key).expect("a key"),
    }
}

fn declared(contract: Contract) -> Declared {
    Declared {
        contract: Some(contract),
        lease_ms: Some(LEASE_MS),
        deadline_ms: Some(DEADLINE_MS),
        settle_ms: Some(SETTLE_MS),
        ..Declared::default()
    }
}
