//! What the tests of the engine share: a world with a clock moved by hand, calls, and user code
//! that does as a script says and counts how often it was asked.

mod flaky;

pub(crate) use flaky::{Fault, Flaky};

use std::collections::VecDeque;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use semel_core::contract::Declared;
use semel_core::effect::{Abort, Begin, State};
use semel_core::fingerprint::Rule;
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::record::{Contract, Effect};
use semel_core::retry::Retry;
use semel_engine::{Call, Doer, Engine, Executor, Intent, Looked, Sent};
use semel_store::Access;
use semel_store::memory::Memory;
use semel_store::sqlite::Sqlite;
use semel_store::{Clock, ManualClock, Store};
use tokio::sync::Semaphore;

pub(crate) const HOUR: u64 = 3_600_000;
pub(crate) const DAY: u64 = 24 * HOUR;
pub(crate) const NATIVE: Contract = Contract::NativeKey { retention_ms: DAY };
pub(crate) const PROBE: Contract = Contract::Probe { first: false };
pub(crate) const PROBE_FIRST: Contract = Contract::Probe { first: true };

/// An engine on a store whose time moves by hand.
pub(crate) struct World {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) engine: Engine,
}

pub(crate) fn world() -> World {
    world_on(|clock| Arc::new(Memory::new(clock)))
}

pub(crate) fn world_on(open: impl FnOnce(Clock) -> Arc<dyn Store>) -> World {
    let clock = ManualClock::new(1_700_000_000_000);
    let store = open(Clock::Manual(clock.clone()));
    let engine = Engine::new(store.clone(), "worker-1").expect("an engine");
    World { clock, store, engine }
}

/// A real file. The folder goes with the value.
pub(crate) struct File {
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) folder: tempfile::TempDir,
}

impl File {
    pub(crate) fn new() -> File {
        let clock = ManualClock::new(1_700_000_000_000);
        File { clock, folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn open(&self) -> Arc<Sqlite> {
        let path = self.folder.path().join("semel.db");
        let clock = Clock::Manual(self.clock.clone());
        Arc::new(Sqlite::open(&path, Access::ReadWrite, clock).expect("a store"))
    }

    pub(crate) fn engine(&self) -> Engine {
        Engine::on_sqlite(self.open(), "worker-1").expect("an engine")
    }
}

impl World {
    /// A second worker on the same store.
    pub(crate) fn other(&self) -> Engine {
        Engine::new(self.store.clone(), "worker-2").expect("an engine")
    }

    pub(crate) async fn effect(&self, key: &str) -> Effect {
        self.engine.effect(&address(key)).await.expect("the effect exists")
    }

    pub(crate) async fn state(&self, key: &str) -> State {
        self.effect(key).await.state(&self.store.ground().now)
    }

    /// Runs a future while time passes, ten milliseconds whenever nothing else can happen.
    pub(crate) async fn drive<F: Future>(&self, future: F) -> F::Output {
        drive(&self.clock, 10, future).await
    }

    /// Lets time pass while everybody gets to act on it, a second at a time.
    pub(crate) async fn pass_ms(&self, ms: u64) {
        let mut left = ms;
        while left > 0 {
            let step = left.min(1_000);
            self.clock.advance_ms(step);
            left -= step;
            idle().await;
        }
    }
}

/// Runs a future while time passes by steps, each taken when nothing else can happen.
pub(crate) async fn drive<F: Future>(clock: &ManualClock, step_ms: u64, future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        for _ in 0..100 {
            if let Some(output) = future.as_mut().now_or_never() {
                return output;
            }
            tokio::task::yield_now().await;
        }
        clock.advance_ms(step_ms);
    }
}

/// Lets everybody run who can.
pub(crate) async fn idle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

/// Lets everybody run who can, threads of a store included.
pub(crate) async fn settle_down() {
    for _ in 0..10 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
}

pub(crate) fn address(key: &str) -> Address {
    Address {
        namespace: Namespace::default(),
        action: Action::new("charge").expect("a name"),
        key: Key::from_text(key).expect("a key"),
    }
}

pub(crate) fn declared(contract: Contract) -> Declared {
    Declared { contract: Some(contract), ..Declared::default() }
}

pub(crate) fn call(key: &str, contract: Contract) -> Call {
    Call {
        address: address(key),
        input: json(r#"{"amount":7}"#),
        rule: Rule::All,
        declared: declared(contract),
        downstream_key: None,
        retry: Retry::default(),
        hold_ms: limits::HOLD_MS,
        workflow: None,
        run: None,
        approval: None,
        undoes: None,
        derived: None,
        shape: None,
        guard: None,
    }
}

/// A call that sends at most once by itself.
pub(crate) fn single(key: &str, contract: Contract) -> Call {
    Call { retry: Retry::NONE, ..call(key, contract) }
}

pub(crate) fn ask(key: &str, contract: Contract) -> Begin {
    let Call { address, input, rule, declared, .. } = call(key, contract);
    Begin {
        address,
        input,
        rule,
        declared,
        downstream_key: None,
        attempt_id: String::new(),
        worker: String::new(),
        session: None,
        can_look: false,
        workflow: None,
        run: None,
        approval: None,
        undoes: None,
        derived: None,
        shape: None,
    }
}

pub(crate) fn json(text: &str) -> Json {
    Json::from_text(text).expect("JSON")
}

pub(crate) fn receipt(number: u32) -> Sent {
    Sent::Receipt(json(&format!(r#"{{"id":"ch-{number}"}}"#)))
}

pub(crate) fn unknown() -> Sent {
    Sent::Unknown("cut".into())
}

pub(crate) fn not_applied() -> Sent {
    Sent::NotApplied("refused to connect".into())
}

/// User code that answers by a script, then with receipts, and counts.
#[derive(Default)]
pub(crate) struct Script {
    sends: AtomicU32,
    looks: AtomicU32,
    answers: Mutex<VecDeque<Sent>>,
    found: Mutex<VecDeque<Looked>>,
    /// With a gate each send waits for the test.
    gate: Option<Gate>,
}

struct Gate {
    entered: Semaphore,
    open: Semaphore,
}

impl Script {
    pub(crate) fn new(answers: impl IntoIterator<Item = Sent>) -> Arc<Script> {
        Arc::new(Script { answers: Mutex::new(answers.into_iter().collect()), ..Script::default() })
    }

    /// Looks answer by the second script, then find nothing.
    pub(crate) fn looking(
        answers: impl IntoIterator<Item = Sent>,
        found: impl IntoIterator<Item = Looked>,
    ) -> Arc<Script> {
        Arc::new(Script {
            answers: Mutex::new(answers.into_iter().collect()),
            found: Mutex::new(found.into_iter().collect()),
            ..Script::default()
        })
    }

    pub(crate) fn gated(answers: impl IntoIterator<Item = Sent>) -> Arc<Script> {
        let gate = Gate { entered: Semaphore::new(0), open: Semaphore::new(0) };
        Arc::new(Script {
            answers: Mutex::new(answers.into_iter().collect()),
            gate: Some(gate),
            ..Script::default()
        })
    }

    pub(crate) fn sends(&self) -> u32 {
        self.sends.load(Ordering::SeqCst)
    }

    pub(crate) fn looks(&self) -> u32 {
        self.looks.load(Ordering::SeqCst)
    }

    /// Waits until a send is inside.
    pub(crate) async fn entered(&self) {
        let gate = self.gate.as_ref().expect("a gate");
        gate.entered.acquire().await.expect("open").forget();
    }

    /// Lets one send answer.
    pub(crate) fn release(&self) {
        self.gate.as_ref().expect("a gate").open.add_permits(1);
    }

    async fn send(&self) -> Sent {
        let number = self.sends.fetch_add(1, Ordering::SeqCst) + 1;
        if let Some(gate) = &self.gate {
            gate.entered.add_permits(1);
            gate.open.acquire().await.expect("open").forget();
        }
        let answer = self.answers.lock().expect("no panic").pop_front();
        answer.unwrap_or_else(|| receipt(number))
    }

    /// Code that passes its key on and cannot look.
    pub(crate) fn doer(self: &Arc<Script>) -> Arc<Doer> {
        let script = self.clone();
        sender(move |intent| {
            let script = script.clone();
            async move {
                assert!(!intent.downstream_key().is_empty());
                script.send().await
            }
        })
    }

    /// Code that can look, too.
    pub(crate) fn looker(self: &Arc<Script>) -> Arc<Doer> {
        let script = self.clone();
        let send = Arc::into_inner(self.doer()).expect("ours alone").send;
        let look = move |_: Intent| {
            let script = script.clone();
            async move {
                script.looks.fetch_add(1, Ordering::SeqCst);
                script.found.lock().expect("no panic").pop_front().unwrap_or(Looked::Absent)
            }
            .boxed()
        };
        Arc::new(Doer {
            send,
            look: Some(Box::new(look)),
            abort: Abort::Possible,
            executor: Executor::Task,
        })
    }
}

pub(crate) fn sender<F, Fut>(send: F) -> Arc<Doer>
where
    F: Fn(Intent) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Sent> + Send + 'static,
{
    let send = Box::new(move |intent| send(intent).boxed());
    Arc::new(Doer { send, look: None, abort: Abort::Possible, executor: Executor::Task })
}

/// No row may break an invariant.
pub(crate) fn check(effect: &Effect, store: &dyn Store) {
    let found = semel_core::verify::check(effect, &store.ground().now);
    assert!(found.is_empty(), "{found:?} in {effect:#?}");
}
