//! Random histories: wishes put to the rules, and what the rules want written.

use std::sync::Arc;

use semel_core::contract::Declared;
use semel_core::effect::approve::{self, Ask};
use semel_core::effect::{
    self, Abort, Begin, Decision, Ground, Imported, Person, Report, Resolution, Settle, Sweep,
};
use semel_core::fingerprint::Rule;
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::record::{Answer, Contract, Effect};
use semel_store::{Batch, ManualClock, Row, Write};

use super::chance::Chance;

/// Everything that a history must have done at least once.
pub(crate) const OPERATIONS: [&str; 28] = [
    "begin: first",
    "begin: next attempt",
    "begin: held",
    "judge",
    "settle: receipt",
    "settle: late receipt",
    "settle: not applied",
    "settle: final",
    "settle: unknown",
    "settle: several found",
    "renew",
    "lapse",
    "died",
    "resolve: done",
    "resolve: failed",
    "resolve: retry",
    "supersede",
    "void",
    "import",
    "sweep: tombstone",
    "sweep: remove",
    "repeat",
    "wrong: insert",
    "wrong: version",
    "wrong: remove",
    "wrong: epoch",
    "in epoch",
    "mixed",
];

/// Batches with more writes than this are not mixed again.
pub(crate) const MIXED_MAX: usize = 40;
const DAY_MS: u64 = 24 * 3_600_000;
const SECOND_MS: i64 = 1_000;

pub(crate) struct History {
    pub(crate) chance: Chance,
    /// Batches that were planned before, to be repeated.
    past: Vec<Batch>,
    count: u64,
}

type Planned = Option<(&'static str, Batch)>;

impl History {
    pub(crate) fn new(seed: u64) -> History {
        History { chance: Chance::new(seed), past: Vec::new(), count: 0 }
    }

    /// Mostly moments, sometimes longer than a lease, a settle window, a retention, a tombstone.
    pub(crate) fn pass_time(&mut self, clock: &Arc<ManualClock>) {
        match self.chance.up_to(40) {
            0 => clock.advance_ms(31 * DAY_MS),
            1 => clock.advance_ms(731 * DAY_MS),
            2 => clock.step_wall_ms(-SECOND_MS * 3_600),
            3..8 => clock.advance_ms(130_000),
            8..16 => clock.advance_ms(31_000),
            _ => clock.advance_ms(self.chance.next() % 2_000),
        }
    }

    /// Few names, so that wishes meet.
    pub(crate) fn address(&mut self) -> Address {
        address(&mut self.chance)
    }

    /// The next batch for an effect as it is stored; `None` when the rules refuse the wish.
    pub(crate) fn next(
        &mut self,
        address: &Address,
        stored: Option<&Effect>,
        ground: &Ground,
    ) -> Planned {
        self.count += 1;
        let planned = match self.chance.up_to(20) {
            0 => self.repeat(),
            1 => self.wrong(address, stored, ground),
            2 => self.mixed(),
            3 if self.chance.one_in(3) => self.import(address, ground),
            3..9 => self.begin(address, stored, ground),
            _ => self.go_on(stored?, ground),
        };
        let planned = planned.map(|(operation, batch)| match self.chance.up_to(24) {
            0 => ("in epoch", in_epoch(ground.epoch, &batch)),
            1 => ("wrong: epoch", in_epoch(ground.epoch + 1, &batch)),
            _ => (operation, batch),
        });
        // Mixes of mixes would double without end.
        if let Some((operation, batch)) = &planned
            && *operation != "repeat"
            && batch.writes.len() <= MIXED_MAX
        {
            self.past.push(batch.clone());
        }
        planned
    }

    fn begin(&mut self, address: &Address, stored: Option<&Effect>, ground: &Ground) -> Planned {
        let contract = *self.chance.pick(&[
            Contract::Harmless,
            Contract::Conditional,
            Contract::AtMostOnce,
            Contract::Probe { first: false },
            Contract::Probe { first: true },
            Contract::NativeKey { retention_ms: DAY_MS },
        ]);
        let ask = Begin {
            address: address.clone(),
            input: Json::from_text(r#"{"n": 1}"#).expect("JSON"),
            rule: Rule::All,
            declared: Declared {
                contract: Some(contract),
                attempts_max: Some(6),
                ..Declared::default()
            },
            downstream_key: None,
            attempt_id: format!("attempt-{}", self.count),
            worker: "worker".to_owned(),
            session: Some(format!("session-{}", self.chance.up_to(3))),
            can_look: self.chance.one_in(2),
            workflow: self.chance.one_in(2).then(|| "billing".to_owned()),
            run: None,
            approval: self.chance.one_in(8).then(|| self.ask()),
            undoes: None,
            derived: None,
            shape: None,
        };
        let operation = if stored.is_none() { "begin: first" } else { "begin: next attempt" };
        match effect::begin(stored, &ask, ground).ok()? {
            Decision::Arm(effect, _) | Decision::Doubt(effect) => one(operation, &effect, ground),
            Decision::Hold(effect) => one("begin: held", &effect, ground),
            Decision::Resume(_)
            | Decision::Replay(_)
            | Decision::Undone(..)
            | Decision::Failed(_) => None,
        }
    }

    /// A question to a person, who may be too late.
    fn ask(&mut self) -> Ask {
        Ask { expires_ms: self.chance.one_in(2).then_some(DAY_MS), ..Ask::default() }
    }

    fn judge(&mut self, stored: &Effect, ground: &Ground) -> Planned {
        let answer = *self.chance.pick(&[Answer::Approved, Answer::Denied]);
        let digest = &stored.approval.as_ref()?.digest;
        let judged = approve::judge(stored, &self.person(stored), answer, digest, &ground.now);
        one("judge", &judged.ok()?.effect?, ground)
    }

    /// A wish about an effect that exists.
    fn go_on(&mut self, stored: &Effect, ground: &Ground) -> Planned {
        let now = &ground.now;
        match self.chance.up_to(20) {
            16..20 => self.judge(stored, ground),
            0..6 => self.settle(stored, ground),
            6 => {
                let renewed = effect::renew(stored, stored.last_fence(), Abort::Possible, now);
                one("renew", &renewed.ok()?, ground)
            }
            7 => one("lapse", &effect::lapse(stored, now)?, ground),
            8 => {
                let session = format!("session-{}", self.chance.up_to(3));
                one("died", &effect::died(stored, &session, now)?, ground)
            }
            9 | 10 => self.resolve(stored, ground),
            11 | 12 => {
                let (old, new) = effect::supersede(stored, &self.person(stored), now).ok()?;
                let writes = [old, new].map(|effect| Write::effect(&effect, now));
                Some(("supersede", Batch { writes: writes.into() }))
            }
            13 => one("void", &effect::void(stored, &self.person(stored), now).ok()?, ground),
            _ => match effect::sweep(stored, now) {
                Sweep::Keep => None,
                Sweep::Tombstone(effect) => one("sweep: tombstone", &effect, ground),
                Sweep::Remove => Some(("sweep: remove", remove(stored, stored.version).into())),
            },
        }
    }

    fn settle(&mut self, stored: &Effect, ground: &Ground) -> Planned {
        let last = stored.last_fence();
        let attempt = stored.attempts.get(self.chance.up_to(stored.attempts.len().max(1)))?;
        let fence = if self.chance.one_in(3) { attempt.fence } else { last };
        let receipt = |chance: &mut Chance| {
            Json::from_text(format!("{{\"id\": {}}}", chance.up_to(2))).expect("JSON")
        };
        let reason = "because".to_owned();
        let chance = &mut self.chance;
        let (operation, report) = match chance.up_to(6) {
            0 | 1 => ("settle: receipt", Report::Receipt(receipt(chance))),
            2 => ("settle: not applied", Report::NotApplied { reason, last: false }),
            3 => ("settle: final", Report::NotApplied { reason, last: true }),
            4 => {
                let key_not_used = chance.one_in(4);
                ("settle: unknown", Report::Unknown { reason, key_not_used })
            }
            _ => {
                let found = Report::Receipts(receipt(chance), vec![receipt(chance)]);
                ("settle: several found", found)
            }
        };
        let retry_after_ms = chance.one_in(2).then(|| chance.next() % 10_000);
        let ask = Settle { fence, report, retry_after_ms };
        let settled = effect::settle(stored, &ask, &ground.now).ok()?;
        let late = settled.kept_as_evidence && operation == "settle: receipt";
        let operation = if late { "settle: late receipt" } else { operation };
        one(operation, &settled.effect?, ground)
    }

    fn resolve(&mut self, stored: &Effect, ground: &Ground) -> Planned {
        let (operation, resolution) = match self.chance.up_to(3) {
            0 => ("resolve: done", Resolution::Done(Json::null())),
            1 => ("resolve: failed", Resolution::Failed),
            _ => ("resolve: retry", Resolution::Retry),
        };
        let person = self.person(stored);
        let resolved = effect::resolve(stored, &person, &resolution, &ground.now).ok()?;
        one(operation, &resolved, ground)
    }

    fn import(&mut self, address: &Address, ground: &Ground) -> Planned {
        let imported = Imported {
            address: address.clone(),
            workflow: None,
            created: ground.now.wall,
            receipt: self.chance.one_in(2).then(Json::null),
        };
        let person = Person { actor: "ada".into(), reason: "import".into(), version: 0 };
        one("import", &effect::import(&imported, &person, &ground.now).ok()?, ground)
    }

    fn repeat(&mut self) -> Planned {
        let recent = self.past.len().saturating_sub(40);
        let past = &self.past[recent..];
        (!past.is_empty()).then(|| ("repeat", self.chance.pick(past).clone()))
    }

    fn wrong(&mut self, address: &Address, stored: Option<&Effect>, ground: &Ground) -> Planned {
        let Some(stored) = stored else {
            // Nothing is there: to remove it is done already, to update it is stale.
            if self.chance.one_in(2) {
                let gone = Write::Remove { address: address.clone(), generation: 0, version: 1 };
                return Some(("wrong: remove", gone.into()));
            }
            let (_, batch) = self.import(address, ground)?;
            let Some(Write::Insert(row)) = batch.writes.last().cloned() else { return None };
            let effect = semel_core::record::decode(&row.record).expect("a record");
            let row = Row::new(&Effect { version: 2, ..effect }, &ground.now);
            return Some(("wrong: version", Write::Update(row).into()));
        };
        let off = [0, 2, 7][self.chance.up_to(3)];
        Some(match self.chance.up_to(3) {
            0 => {
                let other = Effect { run: Some("another".into()), ..stored.clone() };
                ("wrong: insert", Write::Insert(Row::new(&other, &ground.now)).into())
            }
            1 => {
                let wrong = Effect { version: stored.version + off, ..stored.clone() };
                let row = Row::new(&wrong, &ground.now);
                ("wrong: version", Write::Update(row).into())
            }
            _ => ("wrong: remove", remove(stored, stored.version + 1 + off).into()),
        })
    }

    /// Writes of several earlier batches as one: some guards hold and others do not.
    fn mixed(&mut self) -> Planned {
        let recent = self.past.len().saturating_sub(6);
        let writes: Vec<_> =
            self.past[recent..].iter().flat_map(|batch| batch.writes.to_vec()).collect();
        Some(("mixed", Batch { writes: writes.into() }))
    }

    fn person(&self, stored: &Effect) -> Person {
        let reason = format!("reason {}", self.count);
        Person { actor: "ada".into(), reason, version: stored.version }
    }
}

pub(crate) fn address(chance: &mut Chance) -> Address {
    let namespace = Namespace::default();
    let namespace = if chance.one_in(3) { namespace.draft() } else { namespace };
    let action = if chance.one_in(2) { "ticket" } else { "e-mail" };
    Address {
        namespace,
        action: Action::new(action).expect("a valid action"),
        key: Key::from_text(&format!("k{}", chance.up_to(20))).expect("a valid key"),
    }
}

/// The same writes, for a store in this epoch.
pub(crate) fn in_epoch(epoch: u64, batch: &Batch) -> Batch {
    let writes = std::iter::once(Write::InEpoch(epoch)).chain(batch.writes.iter().cloned());
    Batch { writes: writes.collect() }
}

fn one(operation: &'static str, effect: &Effect, ground: &Ground) -> Planned {
    Some((operation, Write::effect(effect, &ground.now).into()))
}

fn remove(effect: &Effect, version: u64) -> Write {
    let address = effect.address.clone();
    Write::Remove { address, generation: effect.generation, version }
}
