//! The tools that workflows under test are written with, and the destination that counts.

#![allow(dead_code, reason = "not every module uses every helper")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use semel_core::contract::Declared;
use semel_core::effect::Abort;
use semel_core::effect::approve::Ask;
use semel_core::fingerprint::Rule;
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::limits;
use semel_core::record::Contract;
use semel_core::retry::{Retry, Trouble};
use semel_engine::{
    Call, Doer, Error, Executor, Exhausted, Intent, Looked, OnDoubt, Port, Sent, StepFault,
    StepTry, Undo, Work,
};
use semel_store::Store;

use super::life::Life;

pub(crate) const NATIVE: Contract = Contract::NativeKey { retention_ms: 24 * 3_600_000 };
pub(crate) const PROBE: Contract = Contract::Probe { first: false };
/// Again at once, so that nothing depends on drawn delays.
pub(crate) const AT_ONCE: Retry =
    Retry { attempts_max: 4, total_ms: 600_000, delay_ms: 0, delay_ms_max: 0 };

/// The code of a workflow, written against the tools of the process it runs in.
pub(crate) type Flow = fn(Port, Kit) -> BoxFuture<'static, Result<Json, Error>>;

/// What really happened, over all lives.
#[derive(Default)]
pub(crate) struct There {
    /// By reference: input and receipt of each application.
    applied: Mutex<BTreeMap<String, Vec<(Json, Json)>>>,
    sends: AtomicU32,
    /// How often each step was run.
    ran: Mutex<BTreeMap<String, u32>>,
    /// What each step and send was given: the same in all lives.
    given: Mutex<BTreeMap<String, String>>,
}

impl There {
    /// Nothing was applied more than once.
    pub(crate) fn check(&self) {
        for (reference, applied) in &*self.applied.lock().expect("no panic") {
            assert_eq!(applied.len(), 1, "{reference} was applied more than once: {applied:?}");
        }
    }

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

    /// Counts something that is no step.
    pub(crate) fn note_run(&self, what: &str) {
        self.run_step(what);
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
    /// After a person's yes.
    Asked,
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
        let run = move |turn: StepTry| {
            let (kit, given) = (kit.clone(), given.clone());
            let (step, place) = (step.clone(), place.clone());
            async move {
                kit.life.point().await;
                kit.there.give(&place, &given);
                let count = kit.there.run_step(&step);
                kit.life.point().await;
                if turn.attempt <= failures {
                    return Err(no_luck());
                }
                Ok(json(&format!("\"{step} run {count}\"")))
            }
            .boxed()
        };
        let work = Work::Step {
            run: Arc::new(run),
            executor: Executor::Task,
            retry: AT_ONCE,
            exhausted: Exhausted::Pause,
        };
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
        let work = Work::Step {
            run: Arc::new(run),
            executor: Executor::Task,
            retry: AT_ONCE,
            exhausted: Exhausted::Pause,
        };
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
        self.effect_with(port, key, contract, input, sending, None)
    }

    /// An effect that another one takes back, under this key and the same contract.
    pub(crate) fn undoable(
        &self,
        port: &Port,
        (key, undo): (&str, &str),
        contract: Contract,
        input: Json,
    ) -> BoxFuture<'static, Result<Json, Error>> {
        self.effect_with(port, key, contract, input, Sending::Quick, Some(undo))
    }

    fn effect_with(
        &self,
        port: &Port,
        key: &str,
        contract: Contract,
        input: Json,
        sending: Sending,
        undo: Option<&str>,
    ) -> BoxFuture<'static, Result<Json, Error>> {
        let address = address(key);
        let deadline_ms = match sending {
            Sending::Slow(ms) => 2 * ms + 20_000,
            Sending::Quick | Sending::Refused | Sending::Asked => 20_000,
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
            approval: (sending == Sending::Asked).then(|| question(key)),
            undoes: None,
            derived: None,
            shape: None,
            guard: None,
        };
        let doer = self.doer(contract, sending);
        let what = format!("effect {address}");
        let undo = undo.map(|key| Undo {
            call: Box::new(Call { address: crate::kit::address(key), ..call.clone() }),
            doer: doer.clone(),
            receipt_as: "receipt".to_owned(),
        });
        let work = Work::Effect { call: Box::new(call), doer, on_doubt: OnDoubt::Wait, undo };
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
                    Sending::Quick | Sending::Asked => {}
                    Sending::Slow(ms) => kit.life.clock().sleep_ms(ms).await,
                    Sending::Refused => return Sent::Refused("not like this".into()),
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
        Arc::new(Doer {
            send: Box::new(send),
            look,
            abort: Abort::Possible,
            executor: Executor::Task,
        })
    }
}

/// Nobody answers what is called `late`.
fn question(key: &str) -> Ask {
    Ask { expires_ms: (key == "late").then_some(30_000), ..Ask::default() }
}

fn no_luck() -> StepFault {
    StepFault { detail: "no luck".into(), trouble: Trouble::Passing, raised: None }
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
    let work = Work::Wait { name: name.to_owned(), timeout_ms, note: None };
    port.command(id, format!("signal {name}"), work).await
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
