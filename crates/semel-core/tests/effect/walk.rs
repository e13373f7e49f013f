//! A random walk over the whole machine, against a destination that counts. Whatever happens, in
//! whatever order, the promises of the contract hold after every step.

mod people;
mod proofs;
mod workers;

use std::collections::BTreeMap;

use semel_core::effect::approve::{self, Ask};
use semel_core::effect::{
    Abort, Begin, Decision, Ground, Permit, Person, Refusal, Report, Resolution, Settle, State,
    Sweep,
};
use semel_core::fingerprint::Rule;
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::record::{self, Answer as Word, Contract, Effect, Kind};
use semel_core::time::Moment;
use semel_core::{effect, verify};

use crate::world::{Answer, RETENTION_MS, SETTLE_MS, Worker, World};

const SEEDS: u64 = 50;
const STEPS: usize = 130;

#[test]
fn inv_i7_native_key_applies_once_through_any_fault_while_the_key_is_kept() {
    walk_all(Contract::NativeKey { retention_ms: RETENTION_MS }, Honesty::Truthful);
}

#[test]
fn inv_i7_probe_applies_once_through_any_fault_given_the_settle_window() {
    walk_all(Contract::Probe { first: false }, Honesty::Truthful);
    walk_all(Contract::Probe { first: true }, Honesty::Truthful);
}

#[test]
fn inv_i7_at_most_once_applies_once_when_people_tell_the_truth() {
    walk_all(Contract::AtMostOnce, Honesty::Truthful);
}

#[test]
fn inv_i7_at_most_once_applies_once_per_authorisation_when_people_do_not_look() {
    walk_all(Contract::AtMostOnce, Honesty::Careless);
}

#[test]
fn inv_i8_conditional_and_harmless_are_done_only_when_applied() {
    walk_all(Contract::Conditional, Honesty::Truthful);
    walk_all(Contract::Harmless, Honesty::Truthful);
}

#[test]
fn inv_i17_nothing_is_sent_before_a_yes_or_after_a_no_through_any_fault() {
    for contract in [
        Contract::NativeKey { retention_ms: RETENTION_MS },
        Contract::Probe { first: false },
        Contract::Probe { first: true },
        Contract::AtMostOnce,
        Contract::Conditional,
        Contract::Harmless,
    ] {
        let (mut asked, mut sent) = (0, 0);
        for seed in 1..=SEEDS {
            let walk =
                walk_one(Walk { asks: true, ..Walk::new(seed, contract, Honesty::Truthful) });
            asked += walk.asked;
            sent += walk.sent;
        }
        assert!(asked > SEEDS as usize && sent > SEEDS as usize / 2, "{asked} asked, {sent} sent");
    }
}

/// Whether people look at the destination before they say that nothing happened.
#[derive(Clone, Copy, PartialEq)]
enum Honesty {
    Truthful,
    Careless,
}

fn walk_all(contract: Contract, honesty: Honesty) {
    for seed in 1..=SEEDS {
        walk_one(Walk::new(seed, contract, honesty));
    }
}

fn walk_one(mut walk: Walk) -> Walk {
    let start = walk.at.clone();
    for step in 0..STEPS {
        walk.at = format!("{start}, step {step}");
        if walk.asks && walk.world.chance.percent(8) {
            walk.judge();
        }
        walk.step();
        walk.check();
    }
    if !walk.world.drops_key {
        walk.settle_down();
    }
    walk
}

struct Walk {
    world: World,
    honesty: Honesty,
    calls: u32,
    /// Where we are, for the message of a failed check.
    at: String,
    fence_max: u64,
    /// The first receipt of each generation.
    receipts: BTreeMap<u32, Json>,
    /// Retries that people granted without looking, for all keys.
    blind_retries: usize,
    /// The version that was last written and read back.
    stored: Option<(u32, u64)>,
    /// A person has to approve every effect.
    asks: bool,
    /// What people said yes to, by generation: contract and input, as they saw them.
    yes: BTreeMap<u32, (&'static str, Json)>,
    asked: usize,
    sent: usize,
    /// Requests that had left when a proof said that none follows, by downstream key.
    last_words: BTreeMap<String, usize>,
    /// What proofs said, by the start of the sentence.
    said: BTreeMap<String, usize>,
}

impl Walk {
    fn new(seed: u64, contract: Contract, honesty: Honesty) -> Walk {
        Walk {
            world: World::new(seed * 7_919, contract),
            honesty,
            calls: 0,
            at: format!("seed {seed}, {contract:?}"),
            fence_max: 0,
            receipts: BTreeMap::new(),
            blind_retries: 0,
            stored: None,
            asks: false,
            yes: BTreeMap::new(),
            asked: 0,
            sent: 0,
            last_words: BTreeMap::new(),
            said: BTreeMap::new(),
        }
    }

    fn step(&mut self) {
        match self.world.chance.below(100) {
            0..=17 => self.begin(),
            18..=21 => self.begin_with_other_input(),
            22..=37 => self.let_somebody(Self::act),
            38..=49 => self.let_somebody(Self::report),
            50..=53 => self.let_somebody(Self::renew),
            54..=56 => self.let_somebody(Self::ask_again),
            57..=63 => self.world.land_any(),
            64..=66 => self.let_somebody(Self::crash),
            67..=69 => self.let_somebody(Self::prove_death),
            70..=72 => self.lapse(),
            73..=75 => self.decide(),
            76..=77 => self.supersede_or_void(),
            78 => self.sweep(),
            79 => self.world.reboot(),
            80..=81 => self.world.step_wall(),
            82..=83 => self.restore(),
            84 => self.close_quarantine(),
            85..=92 => self.wait_until_due(),
            _ => self.wait(),
        }
    }

    /// Waits until something becomes due, to the millisecond: there the mistakes are.
    fn wait_until_due(&mut self) {
        let now = self.world.now();
        let Some(effect) = self.world.rows.last() else { return };
        let due = effect.due(&now).map(|due| now.until(due));
        let horizon = effect.first_sent.map(|first| {
            let at = first.plus(RETENTION_MS - SETTLE_MS);
            u64::try_from(at.0 - now.wall.0).unwrap_or(0)
        });
        let past_the_horizon = self.world.chance.percent(20);
        let ms = if past_the_horizon { horizon } else { due };
        let early = self.world.chance.below(2);
        self.world.pass(ms.unwrap_or(0).saturating_sub(early));
    }

    fn wait(&mut self) {
        let chance = &mut self.world.chance;
        let ms = match chance.below(20) {
            0..=6 => chance.below(3_000),
            7..=11 => chance.below(40_000),
            12..=16 => chance.below(200_000),
            17..=18 => chance.below(1_500_000),
            _ if chance.percent(10) => 800 * 86_400_000,
            _ => chance.below(3 * 3_600_000),
        };
        self.world.pass(ms);
    }

    fn ground(&self) -> Ground {
        let World { epoch, quarantine, .. } = self.world;
        Ground { now: self.world.now(), epoch, quarantine }
    }

    /// The oracle: whoever may send has a yes to exactly this.
    fn check_permit(&mut self, effect: &Effect, permit: &Permit) {
        if self.asks && permit.kind == Kind::Send {
            self.sent += 1;
            let seen = (permit.contract.name(), permit.input.clone());
            assert_eq!(self.yes.get(&effect.generation), Some(&seen), "{}: unapproved", self.at);
        }
    }

    fn ask(&mut self) -> Begin {
        self.calls += 1;
        let approval = self.approval();
        Begin {
            address: address(),
            input: json(r#"{"order":42}"#),
            rule: Rule::All,
            declared: self.world.declared(),
            downstream_key: None,
            attempt_id: format!("a{}", self.calls),
            worker: format!("w{}", self.calls),
            session: Some(format!("s{}", self.calls)),
            can_look: self.world.chance.percent(10),
            workflow: None,
            run: None,
            approval,
            undoes: None,
            derived: None,
            shape: None,
        }
    }

    fn begin(&mut self) {
        if self.world.chance.percent(15) {
            self.world.back_up(); // the backup that misses just what comes now
        }
        let ask = self.ask();
        self.check_due(&ask);
        match effect::begin(self.world.rows.last(), &ask, &self.ground()) {
            Ok(Decision::Arm(effect, permit)) => {
                assert!(permit.fence > self.fence_max, "{}: fences grow", self.at);
                self.check_permit(&effect, &permit);
                self.fence_max = permit.fence;
                let session = ask.session.clone().expect("set above");
                self.world.arm(&ask.attempt_id, &session, effect.generation, permit);
                self.keep(*effect);
            }
            Ok(Decision::Doubt(effect)) => {
                self.fence_max = self.fence_max.max(effect.last_fence());
                self.keep(*effect);
            }
            Ok(Decision::Resume(_)) => panic!("{}: resumed a new id", self.at),
            Ok(Decision::Hold(effect)) if self.asks => {
                self.asked += usize::from(effect.is_held(&self.world.now()));
                self.keep(*effect);
            }
            Ok(Decision::Hold(_) | Decision::Undone(..)) => panic!("{}: nobody asked", self.at),
            Ok(Decision::Replay(_) | Decision::Failed(_)) | Err(_) => {}
        }
    }

    fn begin_with_other_input(&mut self) {
        let ask = Begin { input: json(r#"{"order":43}"#), ..self.ask() };
        let Some(effect) = self.world.rows.last() else { return };
        if effect.plan.is_some() {
            let refusal = effect::begin(Some(effect), &ask, &self.ground());
            assert_eq!(refusal, Err(Refusal::InputChanged), "{}", self.at);
        }
    }

    /// The job must wake exactly when a `begin` could do something.
    fn check_due(&self, ask: &Begin) {
        let now = self.world.now();
        let doubted = |effect: &&Effect| effect.state(&now) == State::InDoubt;
        let Some(effect) = self.world.rows.last().filter(doubted) else { return };
        if self.world.quarantine.is_some() {
            return; // `due` is about the row alone
        }
        let due_ms = effect.due(&now).map(|due| now.until(due));
        let plain = Begin { can_look: false, ..ask.clone() };
        let answer_ms = match effect::begin(Some(effect), &plain, &self.ground()) {
            Ok(Decision::Arm(..)) => Some(0),
            Err(Refusal::InDoubt { retry_after_ms, .. }) => retry_after_ms,
            Err(Refusal::InProgress { retry_after_ms }) => Some(retry_after_ms),
            Err(Refusal::AttemptsExhausted) => return,
            other => panic!("{}: {other:?}", self.at),
        };
        assert_eq!(due_ms, answer_ms, "{}: due and begin disagree", self.at);
    }

    fn sweep(&mut self) {
        let now = self.world.now();
        let Some(effect) = self.world.rows.last() else { return };
        match effect::sweep(effect, &now) {
            Sweep::Keep => {}
            Sweep::Tombstone(tombstone) => {
                self.receipts.remove(&tombstone.generation);
                self.keep(*tombstone);
            }
            Sweep::Remove => {
                self.world.forget();
                self.receipts.clear();
                self.yes.clear();
                self.fence_max = 0;
            }
        }
    }

    fn restore(&mut self) {
        self.world.restore();
        self.receipts.clear();
        self.last_words.clear();
        // A yes that the store has forgotten is none.
        let rows = &self.world.rows;
        self.yes.retain(|generation, _| {
            let row = rows.iter().find(|row| row.generation == *generation);
            row.and_then(|row| row.approval.as_ref()?.judgement.as_ref()).is_some()
        });
    }

    /// The operator closes a quarantine when nothing is under way and all that exists is known.
    fn close_quarantine(&mut self) {
        let now = self.world.now();
        let known = |key: &String| {
            self.world.rows.iter().any(|row| {
                let has_key = row.plan.as_ref().is_some_and(|plan| plan.downstream_key == *key);
                has_key && matches!(row.state(&now), State::Done)
            })
        };
        if self.world.is_quiet() && self.world.applied_keys().iter().all(known) {
            self.world.quarantine = None;
        }
    }

    fn keep(&mut self, effect: Effect) {
        match self.world.rows.iter_mut().find(|row| row.generation == effect.generation) {
            Some(row) => {
                assert_eq!(effect.version, row.version + 1, "{}: one version a write", self.at);
                *row = effect;
            }
            None => self.world.rows.push(effect),
        }
    }

    fn check(&mut self) {
        let now = self.world.now();
        for row in &self.world.rows {
            assert_eq!(verify::check(row, &now), [], "{}: {row:#?}", self.at);
            let name = (row.generation, row.version);
            if self.stored != Some(name) {
                self.stored = Some(name);
                assert_eq!(record::decode(&record::encode(row)).as_ref(), Ok(row), "{}", self.at);
            }
            if let Some(receipt) = row.receipt() {
                let first = self.receipts.entry(row.generation).or_insert_with(|| receipt.clone());
                assert_eq!(first, receipt, "{}: a receipt changed", self.at);
            }
            let Some(plan) = &row.plan else { continue };
            let applied = self.world.objects(&plan.downstream_key).len();
            if !self.world.drops_key {
                self.check_counts(row, row.state(&now), applied);
            }
        }
        self.check_proof();
    }

    fn check_counts(&self, row: &Effect, state: State, applied: usize) {
        let at = &self.at;
        let bound = match self.world.contract {
            Contract::NativeKey { .. } | Contract::Probe { .. } | Contract::Conditional => 1,
            Contract::AtMostOnce => 1 + self.blind_retries,
            Contract::Harmless | Contract::Transaction => usize::MAX,
        };
        assert!(applied <= bound, "{at}: applied {applied} times");
        match state {
            State::Done => assert!(applied >= 1, "{at}: done, but nothing was applied"),
            State::Failed if row.is_disputed() || self.blind_retries > 0 => {}
            State::Void if self.world.quarantine.is_some() => {} // begun again, and forgotten
            // Approved and sent, which was forgotten; asked again, a person said no.
            State::Failed if self.world.quarantine.is_some() && row.approval.is_some() => {}
            State::Failed | State::Void => assert_eq!(applied, 0, "{at}: {state}, but applied"),
            State::Planned | State::Pending | State::InDoubt | State::Expired => {}
        }
    }

    /// The faults stop. With workers that work and people who look, every effect ends: nothing
    /// goes round for ever.
    fn settle_down(&mut self) {
        self.world.calm_down();
        for round in 0..40 {
            self.at = format!("{}, calm {round}", self.at);
            self.world.pass(10 * 60_000);
            let now = self.world.now();
            let state = self.world.rows.last().map(|row| row.state(&now));
            if matches!(state, Some(State::Done | State::Failed | State::Expired)) {
                return;
            }
            self.begin();
            if let Some(worker) = self.world.workers.last_mut() {
                worker.waits_for_answer = false;
            }
            if let Some(last) = self.world.workers.len().checked_sub(1) {
                self.act(last);
                self.world.land_any();
                self.report(last);
            }
            self.check();
            self.decide();
            self.check();
            if let Some(effect) = self.world.rows.last().cloned() {
                self.answer(&effect, Word::Approved, &self.world.now());
            }
        }
        panic!("{}: it goes round for ever: {:#?}", self.at, self.world.rows.last());
    }
}

fn address() -> Address {
    Address {
        namespace: Namespace::default(),
        action: Action::new("crm-ticket").expect("a name"),
        key: Key::from_text("42").expect("a key"),
    }
}

fn json(text: &str) -> Json {
    Json::from_text(text).expect("valid JSON")
}
