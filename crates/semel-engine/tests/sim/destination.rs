//! The world outside: it counts what really happened, and answers late, never or not at all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use semel_core::effect::Abort;
use semel_core::json::Json;
use semel_core::record::Contract;
use semel_engine::{Doer, Executor, Intent, Looked, Sent};
use semel_store::Store;

use super::chance::Chance;
use super::process::{Mode, Process};

/// How long a request may still land after its attempt ended.
pub(crate) const SETTLE_MS: u64 = 20_000;
pub(crate) const DEADLINE_MS: u64 = 10_000;
pub(crate) const LEASE_MS: u64 = 6_000;
/// How long the destination remembers a key.
pub(crate) const RETENTION_MS: u64 = 3_600_000;

pub(crate) const NATIVE: Contract = Contract::NativeKey { retention_ms: RETENTION_MS };

#[derive(Default)]
pub(crate) struct Destination {
    by_reference: Mutex<BTreeMap<String, Vec<Applied>>>,
    count: Mutex<u32>,
    in_flight: Mutex<Vec<Request>>,
}

/// On its way: its sender may be gone when it lands.
struct Request {
    due_ms: i64,
    from: Arc<Process>,
    contract: Contract,
    reference: String,
}

struct Applied {
    receipt: Json,
    at_ms: i64,
}

impl Destination {
    /// What happened under our reference, in order.
    pub(crate) fn applied(&self, reference: &str) -> Vec<Json> {
        let all = self.by_reference.lock().expect("no panic");
        let found = all.get(reference).map(|applied| applied.iter().map(|a| a.receipt.clone()));
        found.map(Iterator::collect).unwrap_or_default()
    }

    /// Time goes on to a point: what is due before it lands, each request at its own time.
    pub(crate) fn pass_until(&self, now_ms: i64) {
        let mut in_flight = self.in_flight.lock().expect("no panic");
        in_flight.sort_by_key(|request| request.due_ms);
        let due = in_flight.iter().take_while(|request| request.due_ms <= now_ms).count();
        for Request { due_ms, from, contract, reference } in in_flight.drain(..due) {
            // The sockets of a dead process are closed: nothing of it lands after D.
            let end_ms = from.died_ms().map(|died| died + SETTLE_MS.cast_signed());
            if end_ms.is_none_or(|end_ms| due_ms <= end_ms) {
                self.land(contract, &reference, due_ms);
            }
        }
    }

    /// A request arrives.
    fn land(&self, contract: Contract, reference: &str, now_ms: i64) -> Sent {
        let mut all = self.by_reference.lock().expect("no panic");
        let applied = all.entry(reference.to_owned()).or_default();
        match contract {
            Contract::NativeKey { retention_ms } => {
                let kept = |first: &&Applied| now_ms - first.at_ms < retention_ms.cast_signed();
                if let Some(first) = applied.last().filter(kept) {
                    return Sent::Receipt(first.receipt.clone());
                }
            }
            Contract::Conditional if !applied.is_empty() => {
                return Sent::NotApplied("exists already".into());
            }
            _ => {}
        }
        let mut count = self.count.lock().expect("no panic");
        *count += 1;
        let text = format!(r#"{{"id":{count},"reference":"{reference}"}}"#);
        let receipt = Json::from_text(text).expect("JSON");
        applied.push(Applied { receipt: receipt.clone(), at_ms: now_ms });
        Sent::Receipt(receipt)
    }
}

/// User code of one process for one contract.
pub(crate) fn doer(
    process: &Arc<Process>,
    destination: &Arc<Destination>,
    chance: &Arc<Chance>,
    contract: Contract,
) -> Arc<Doer> {
    let wire =
        Wire { process: process.clone(), destination: destination.clone(), chance: chance.clone() };
    let looks = matches!(contract, Contract::Probe { .. } | Contract::Conditional);
    let looking = wire.clone();
    let look = move |intent: Intent| looking.clone().look(intent).boxed();
    Arc::new(Doer {
        send: Box::new(move |intent| wire.clone().send(contract, intent).boxed()),
        look: looks.then(|| Box::new(look) as Box<_>),
        abort: Abort::Possible,
        executor: Executor::Task,
    })
}

/// The way from a process to the destination.
#[derive(Clone)]
struct Wire {
    process: Arc<Process>,
    destination: Arc<Destination>,
    chance: Arc<Chance>,
}

impl Wire {
    async fn send(self, contract: Contract, intent: Intent) -> Sent {
        let reference = intent.downstream_key().to_owned();
        let cut = || Sent::Unknown("the connection was cut".into());
        let chance = self.chance.clone();
        if !chance.fails(600) {
            return self.land(contract, &reference);
        }
        match chance.below(8) {
            0 => cut(),
            1 => {
                self.land(contract, &reference);
                cut()
            }
            2 => Sent::NotApplied("refused to connect".into()),
            3 if chance.often(300) => Sent::Refused("not like this".into()),
            3 | 4 => {
                // In flight for a while; nobody waits for the answer.
                self.land_later(contract, reference, SETTLE_MS);
                cut()
            }
            5 => {
                // No answer until the deadline, and it may land long after.
                self.land_later(contract, reference, DEADLINE_MS - 2_000 + SETTLE_MS);
                std::future::pending().await
            }
            6 => {
                let ms = chance.below(DEADLINE_MS);
                self.process.clock().sleep_ms(ms).await;
                self.land(contract, &reference)
            }
            _ => {
                if chance.often(600) {
                    self.land_later(contract, reference, SETTLE_MS);
                }
                self.process.set(Mode::Dead);
                std::future::pending().await
            }
        }
    }

    fn land(&self, contract: Contract, reference: &str) -> Sent {
        self.destination.land(contract, reference, self.process.ground().now.steady.ms)
    }

    fn land_later(&self, contract: Contract, reference: String, ms_max: u64) {
        let now = self.process.ground().now.steady;
        let due_ms = now.plus(self.chance.below(ms_max)).ms;
        let request = Request { due_ms, from: self.process.clone(), contract, reference };
        self.destination.in_flight.lock().expect("no panic").push(request);
    }

    async fn look(self, intent: Intent) -> Looked {
        let reference = intent.downstream_key().to_owned();
        if self.chance.fails(200) {
            match self.chance.below(4) {
                0 => return std::future::pending().await,
                1 => {
                    self.process.set(Mode::Dead);
                    return std::future::pending().await;
                }
                _ => return Looked::Unknown("the search is down".into()),
            }
        }
        let mut found = self.destination.applied(&reference);
        if found.is_empty() {
            return Looked::Absent;
        }
        let first = found.remove(0);
        Looked::Found(first, found)
    }
}
