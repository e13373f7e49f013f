//! What must be true when the faults are over, whoever tells: destination, ledger, journals.

use std::collections::{BTreeMap, BTreeSet};

use semel::Run;
use semel_core::effect::State;
use semel_core::journal::{Entry, Event, decode};
use semel_core::record::{Effect, Kind};
use semel_core::verify;
use semel_store::{Query, RunQuery};

use crate::common::{Ticket, lines};
use crate::doubts::{number_of, receipt};
use crate::load::{Figures, key, word};
use crate::stage::Stage;
use crate::worker::{Order, declare, nap, reference};

const ACTIONS: [&str; 4] = ["native", "probe", "plain", "conditional"];

/// Everything that is wrong.
pub(crate) fn violations(stage: &Stage, figures: &Figures) -> Vec<String> {
    let mut oracle = Oracle { stage, figures, found: figures.failed.clone() };
    oracle.found.extend(stage.alarming_words());
    let tickets = tickets(stage);
    let effects = effects(figures);
    oracle.check_effects(&effects, &tickets);
    oracle.check_known(&effects, &tickets, &BTreeSet::new());
    oracle.check_sends(&effects);
    oracle.check_runs();
    oracle.check_values(&tickets);
    oracle.check_repeats();
    oracle.check_counts(&effects);
    oracle.found
}

/// What is wrong on a server that has forgotten its tail. What it has forgotten must be listed.
pub(crate) fn violations_after_loss(
    stage: &Stage,
    figures: &Figures,
    lost: &BTreeSet<String>,
) -> Vec<String> {
    let mut oracle = Oracle { stage, figures, found: figures.failed.clone() };
    oracle.found.extend(stage.alarming_words());
    let tickets = tickets(stage);
    let effects = effects(figures);
    oracle.check_effects(&effects, &tickets);
    oracle.check_known(&effects, &tickets, lost);
    oracle.check_runs();
    oracle.check_values(&tickets);
    oracle.found
}

struct Oracle<'a> {
    stage: &'a Stage,
    figures: &'a Figures,
    found: Vec<String>,
}

/// What the destination has, by reference.
pub(crate) fn tickets(stage: &Stage) -> BTreeMap<String, Vec<Ticket>> {
    let mut tickets: BTreeMap<String, Vec<Ticket>> = BTreeMap::new();
    for ticket in lines::<Ticket>(&stage.crm.dir.join("tickets.jsonl")) {
        tickets.entry(ticket.reference.clone()).or_default().push(ticket);
    }
    tickets
}

/// All effects of the ledger.
pub(crate) fn effects(figures: &Figures) -> Vec<Effect> {
    let engine = figures.semel.engine();
    let mut query = Query::everywhere(1_000);
    let mut effects = Vec::new();
    loop {
        let page = figures.runtime.block_on(engine.list(&query)).expect("a page");
        effects.extend(page.effects);
        query.after = page.next;
        if page.next.is_none() {
            return effects;
        }
    }
}

/// All runs of the store.
pub(crate) fn runs(figures: &Figures) -> Vec<Run> {
    let engine = figures.semel.engine();
    let mut query = RunQuery::everywhere(1_000);
    let mut runs = Vec::new();
    loop {
        let page = figures.runtime.block_on(engine.runs(&query)).expect("a page");
        runs.extend(page.runs);
        query.after = page.next;
        if page.next.is_none() {
            return runs;
        }
    }
}

impl Oracle<'_> {
    fn demand(&mut self, holds: bool, invariant: &str, what: impl FnOnce() -> String) {
        if !holds {
            self.found.push(format!("{invariant}: {}", what()));
        }
    }

    /// I1, I4, I6 to I8, I18, I19, and that nothing is left open.
    fn check_effects(&mut self, effects: &[Effect], tickets: &BTreeMap<String, Vec<Ticket>>) {
        let now = self.figures.semel.engine().store().ground().now;
        let mut addresses = BTreeSet::new();
        for effect in effects {
            let name = || effect.address.to_string();
            self.demand(addresses.insert(name()), "I1", || format!("two rows of {}", name()));
            for violation in verify::check(effect, &now) {
                self.found.push(format!("{}: {}: {}", violation.invariant, name(), violation.what));
            }
            let reference = reference(effect.address.action.as_str(), number_of(effect));
            let there = tickets.get(&reference).map(Vec::as_slice).unwrap_or_default();
            let count = there.len();
            let told = || format!("{count} at the destination: {effect:?}");
            self.demand(count <= 1, "I7", told);
            let state = effect.state(&now);
            let counts = match state {
                State::Done => count == 1,
                State::Failed => count == 0,
                State::Planned | State::Pending | State::InDoubt | State::Void | State::Expired => {
                    false
                }
            };
            self.demand(counts, "I8", || format!("{state:?}, {}", told()));
            self.demand(effect.alarms.is_empty(), "I6", || format!("alarmed, {}", told()));
            if let (State::Done, Some(ticket)) = (state, there.first()) {
                let is_its = effect.receipt() == Some(&receipt(ticket));
                self.demand(is_its, "I8", || format!("another receipt, {}", told()));
            }
        }
    }

    /// I3: whatever was applied has a row, or the row is listed as lost.
    fn check_known(
        &mut self,
        effects: &[Effect],
        tickets: &BTreeMap<String, Vec<Ticket>>,
        lost: &BTreeSet<String>,
    ) {
        let known: BTreeSet<String> = effects
            .iter()
            .map(|effect| reference(effect.address.action.as_str(), number_of(effect)))
            .collect();
        for (stray, there) in tickets.iter().filter(|(reference, _)| !known.contains(*reference)) {
            let told = || format!("{stray}: {} applied and no row", there.len());
            self.demand(lost.contains(stray) && there.len() == 1, "I3", told);
        }
    }

    /// I3: each request that arrived has an attempt of its process. I18: one key for all of them.
    fn check_sends(&mut self, effects: &[Effect]) {
        let mut arrived: BTreeMap<(String, String), usize> = BTreeMap::new();
        let mut keys: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for event in self.stage.crm.events().into_iter().filter(|event| event.kind == "arrived") {
            let worker = event.worker.expect("a worker says who it is");
            *arrived.entry((event.reference.clone(), worker)).or_default() += 1;
            keys.entry(event.reference).or_default().extend(event.key);
        }
        for effect in effects {
            let reference = reference(effect.address.action.as_str(), number_of(effect));
            let mut sends: BTreeMap<String, usize> = BTreeMap::new();
            for attempt in effect.attempts.iter().filter(|attempt| attempt.kind == Kind::Send) {
                let pid = attempt.worker.rsplit(':').next().unwrap_or_default().to_owned();
                *sends.entry(pid).or_default() += 1;
            }
            let all = (reference.clone(), String::new())..=(reference.clone(), "~".to_owned());
            for ((_, worker), count) in arrived.range(all) {
                let known = sends.get(worker).copied().unwrap_or_default();
                let told = || format!("{count} requests of {worker}, {known} attempts: {effect:?}");
                self.demand(*count <= known, "I3", told);
            }
            let plan = effect.plan.as_ref().expect("it was begun");
            let derived = BTreeSet::from([plan.downstream_key.clone()]);
            if let Some(keys) = keys.get(&reference).filter(|keys| !keys.is_empty()) {
                self.demand(*keys == derived, "I18", || format!("{reference}: {keys:?}"));
            }
        }
    }

    fn check_runs(&mut self) {
        let now = self.figures.semel.engine().store().ground().now;
        for run in runs(self.figures) {
            let journal = self.figures.semel.engine().journal(&run);
            let journal = match self.figures.runtime.block_on(journal) {
                Ok(journal) => journal,
                Err(error) => {
                    self.found.push(format!("I11: run {}: {error}", run.key));
                    continue;
                }
            };
            let entries: Vec<Entry> =
                journal.iter().map(|inked| decode(&inked.text).expect("an entry")).collect();
            let last = entries.last().map(|entry| &entry.event);
            for violation in verify::check_run(&run, last, &now) {
                let text = format!("{}: {}: {}", violation.invariant, run.key, violation.what);
                self.found.push(text);
            }
            self.check_journal(&run, &entries);
        }
    }

    /// I5, I11 to I13: each thing is told once, in the order of the code, and no timer was early.
    fn check_journal(&mut self, run: &Run, entries: &[Entry]) {
        let (mut told, mut fences) = (Vec::new(), Vec::new());
        for entry in entries {
            match &entry.event {
                Event::Taken { fence, .. } => fences.push(*fence),
                event => told.push(event.name()),
            }
        }
        let want = [
            "started", "step", "planned", "effect", "fired", "planned", "effect", "received",
            "planned", "effect", "planned", "effect", "finished",
        ];
        self.demand(told == want, "I11", || format!("{}: {told:?}", run.key));
        let rise = fences.is_sorted_by(|a, b| a < b);
        self.demand(rise, "I5", || format!("{}: fences {fences:?}", run.key));
        let number = run.key.trim_start_matches("order-").parse().expect("a number");
        let nap_ms = i64::try_from(nap(number).as_millis()).expect("short");
        // The code asked for it when it had the receipt.
        let asked = entries.iter().find(|entry| matches!(entry.event, Event::Effect { .. }));
        let fired = entries.iter().find(|entry| matches!(entry.event, Event::Fired { .. }));
        if let (Some(asked), Some(fired)) = (asked, fired) {
            let after_ms = fired.at.0.0 - asked.at.0.0;
            let text = || format!("{}: fired after {after_ms} of {nap_ms} ms", run.key);
            self.demand(after_ms >= nap_ms, "I13", text);
        }
        let deliveries: Vec<&str> = entries
            .iter()
            .filter_map(|entry| match &entry.event {
                Event::Received { delivery, .. } => Some(delivery.as_str()),
                _ => None,
            })
            .collect();
        let want = format!("go-{number}");
        self.demand(deliveries == [want.as_str()], "inbox", || {
            format!("{}: {deliveries:?}", run.key)
        });
    }

    /// Every client was told what its run came to, and that is what happened.
    fn check_values(&mut self, tickets: &BTreeMap<String, Vec<Ticket>>) {
        let ticket = |action: &str, number: u32| {
            let there = tickets.get(&reference(action, number)).and_then(|some| some.first());
            there.map(|one| crate::worker::Ticket {
                id: one.id.clone(),
                reference: one.reference.clone(),
            })
        };
        for (number, order) in &self.figures.orders {
            let number = *number;
            let Order { doubled, word: heard, native, probe, conditional, plain } = order;
            let is_right = (*doubled, heard) == (number * 2, &word(number))
                && Some(native) == ticket("native", number).as_ref()
                && Some(probe) == ticket("probe", number).as_ref()
                && Some(conditional) == ticket("conditional", number).as_ref()
                && *plain == ticket("plain", number);
            self.demand(is_right, "I9", || format!("{}: {order:?}", key(number)));
        }
        let (told, started) = (self.figures.orders.len(), self.figures.started);
        self.demand(told == started as usize, "I9", || format!("{told} of {started} runs told"));
    }

    /// I10: whoever asks again gets the first receipt, and nothing is sent.
    fn check_repeats(&mut self) {
        for (number, order) in self.figures.orders.iter().take(25) {
            for (action, first) in [("native", &order.native), ("probe", &order.probe)] {
                let effect = declare(self.figures.semel.effect(action), action, *number);
                let call = effect.call::<crate::worker::Ticket, _, _>(|intent| async move {
                    panic!("{} was sent again", intent.address())
                });
                let again = self.figures.runtime.block_on(call);
                let is_first = again.as_ref() == Ok(first);
                self.demand(is_first, "I10", || format!("{action} {number}: {again:?}"));
            }
        }
    }

    /// I20: created = the sum over all states, by the rows themselves.
    fn check_counts(&mut self, effects: &[Effect]) {
        let started = self.figures.started as usize;
        self.demand(effects.len() == ACTIONS.len() * started, "I20", || {
            format!("{} effects of {started} runs", effects.len())
        });
        let sql = "SELECT state, count(*) FROM semel.effects GROUP BY 1 ORDER BY 1";
        let counted = self.stage.cluster.psql(sql);
        let mut sum = 0;
        for line in counted.lines() {
            let (state, count) = line.split_once('|').expect("two columns");
            self.demand(["done", "failed"].contains(&state), "I20", || counted.clone());
            sum += count.parse::<usize>().expect("a count");
        }
        self.demand(sum == effects.len(), "I20", || counted.clone());
        let unread = self.stage.cluster.psql("SELECT count(*) FROM semel.inbox WHERE NOT consumed");
        self.demand(unread == "0", "inbox", || format!("{unread} signals were not taken"));
    }
}
