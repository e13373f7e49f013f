//! `semel verify`: every invariant that concerns effects, runs and cards, on a live store,
//! read-only, in bounded reads.

mod cards;
mod runs;

use std::collections::{BTreeMap, BTreeSet};

use indicatif::{ProgressBar, ProgressDrawTarget};
use semel_core::effect::State;
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::verify::check;
use serde::Serialize;
use serde_json::json;

use super::Place;
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

#[derive(Serialize)]
struct Finding {
    invariant: String,
    effect: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<String>,
    what: String,
}

#[derive(Default)]
struct Verified {
    states: BTreeMap<&'static str, u64>,
    findings: Vec<Finding>,
    effects: u64,
    run_states: BTreeMap<&'static str, u64>,
    runs: u64,
    cards: u64,
    /// Generations of keys that were done again: which exist, and how far their fences went.
    generations: BTreeMap<Address, BTreeMap<u32, (u64, u64, bool)>>,
}

pub(crate) async fn run(place: &Place, printer: &Printer) -> Result<(), Failed> {
    let store = place.look().await?;
    let mut verified = Verified::default();
    for problem in store.check_pages().await? {
        verified.find("I31", None, problem);
    }
    let progress = ProgressBar::no_length();
    if !printer.is_terminal() || printer.wants_json() {
        progress.set_draw_target(ProgressDrawTarget::hidden());
    }
    let mut after = i64::MIN;
    loop {
        let page = store.audit(after, limits::PAGE_ROWS_MAX).await?;
        let now = store.ground().now;
        for problem in page.problems {
            verified.find("I9", None, problem);
        }
        for effect in &page.effects {
            verified.take(effect, effect.state(&now));
            for violation in check(effect, &now) {
                verified.find(violation.invariant, Some(effect), violation.what);
            }
        }
        progress.inc(page.effects.len() as u64);
        let Some(next) = page.next else { break };
        after = next;
    }
    verified.check_generations();
    runs::check_all(store.as_ref(), &mut verified, &progress).await?;
    cards::check_all(store.as_ref(), &mut verified, &progress).await?;
    progress.finish_and_clear();
    report(&verified, printer)
}

impl Verified {
    fn find(&mut self, invariant: &str, effect: Option<&Effect>, what: String) {
        let effect = effect.map(|effect| effect.address.to_string());
        let invariant = invariant.to_owned();
        self.findings.push(Finding { invariant, effect, run: None, what });
    }

    fn find_run(&mut self, invariant: &str, run: Option<String>, what: String) {
        let invariant = invariant.to_owned();
        self.findings.push(Finding { invariant, effect: None, run, what });
    }

    fn take(&mut self, effect: &Effect, state: State) {
        self.effects += 1;
        *self.states.entry(state.as_str()).or_default() += 1;
        if effect.generation > 0 || effect.superseded.is_some() {
            let known = (effect.fence_floor, effect.last_fence(), effect.superseded.is_some());
            let generations = self.generations.entry(effect.address.clone()).or_default();
            generations.insert(effect.generation, known);
        }
    }

    /// Fences grow over all generations; every generation but the newest is superseded.
    fn check_generations(&mut self) {
        for (address, generations) in std::mem::take(&mut self.generations) {
            let numbers: BTreeSet<u32> = generations.keys().copied().collect();
            let newest = numbers.last().copied().unwrap_or_default();
            let mut fail = |what: &str| {
                self.findings.push(Finding {
                    invariant: "I1".to_owned(),
                    effect: Some(address.to_string()),
                    run: None,
                    what: what.to_owned(),
                });
            };
            if numbers.len() as u64 != u64::from(newest) + 1 {
                fail("a generation is missing");
            }
            let mut last_fence = 0;
            for (number, (floor, fence, superseded)) in &generations {
                if *floor < last_fence {
                    fail("fences do not grow over the generations");
                }
                if *superseded != (*number != newest) {
                    fail("the newest generation is not the one in force");
                }
                last_fence = *fence;
            }
        }
    }
}

fn report(verified: &Verified, printer: &Printer) -> Result<(), Failed> {
    let Verified { states, findings, effects, run_states, runs, cards, .. } = verified;
    if printer.wants_json() {
        printer.json(&json!({
            "effects": effects,
            "states": states,
            "runs": runs,
            "run_states": run_states,
            "cards": cards,
            "violations": findings,
        }))?;
    } else {
        printer.line(&format!("{effects} effects: {}", counts(states)));
        if *runs > 0 {
            printer.line(&format!("{runs} runs: {}", counts(run_states)));
        }
        if *cards > 0 {
            printer.line(&format!("{cards} cards"));
        }
        for finding in findings {
            let run = finding.run.as_ref().map(|id| format!("run {id}"));
            let subject = run.as_deref().or(finding.effect.as_deref()).unwrap_or("the store");
            let name = printer.paint(Tone::Bad, &finding.invariant);
            printer.line(&format!("{name} {}: {}", plain(subject), plain(&finding.what)));
        }
        if findings.is_empty() {
            printer.line(&printer.paint(Tone::Good, "every invariant holds"));
        }
    }
    // Conservation: each effect is in exactly one state.
    if states.values().sum::<u64>() != *effects {
        return Err(Failed::internal("an effect was counted in no state (I20)"));
    }
    match findings.len() {
        0 => Ok(()),
        count => Err(Failed::new(format!("{count} invariants are violated"))
            .hint("stop the workers, keep the files, and look at what is named above")),
    }
}

fn counts(states: &BTreeMap<&'static str, u64>) -> String {
    match states.is_empty() {
        true => "none".to_owned(),
        false => {
            let each = states.iter().map(|(state, count)| format!("{count} {state}"));
            each.collect::<Vec<_>>().join(", ")
        }
    }
}
