//! `semel verify`: every invariant that concerns effects, runs and cards, on a live store,
//! read-only, in bounded reads.

mod cards;
mod chains;
mod heads;
mod parts;
mod runs;

use std::collections::BTreeMap;
use std::path::Path;

use indicatif::{ProgressBar, ProgressDrawTarget};
use semel_core::effect::State;
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::verify::check;
use semel_store::Upkeep;
use serde::Serialize;
use serde_json::json;

use super::Place;
use crate::args;
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};
use chains::{Deeds, Untold};

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
    /// Large values.
    values: u64,
    /// What waits in the outbox.
    intents: u64,
    approvals: u64,
    /// Lines of a head.
    compared: u64,
    deeds: Deeds,
    untold: Vec<Untold>,
    /// Effects, runs and cards whose key was dropped: only counts, seals and chains can be judged.
    dropped: u64,
    /// Generations of keys that were done again: which exist, and how far their fences went.
    generations: BTreeMap<Address, Generations>,
}

pub(crate) async fn run(
    place: &Place,
    options: &args::Verify,
    printer: &Printer,
) -> Result<(), Failed> {
    let store = place.look().await?;
    let progress = ProgressBar::no_length();
    if !printer.is_terminal() || printer.wants_json() {
        progress.set_draw_target(ProgressDrawTarget::hidden());
    }
    let mut verified = check_all(store.as_ref(), &progress).await?;
    if let Some(file) = &options.against {
        heads::compare(store.as_ref(), file, &mut verified).await?;
    }
    progress.finish_and_clear();
    report(&verified, printer)?;
    // Only of a store that is whole: a head of a damaged one would vouch for the damage.
    if let Some(file) = &options.export {
        let lines = heads::export(store.as_ref(), file).await?;
        printer.talk(&format!("{lines} heads written to {}", file.display()));
    }
    Ok(())
}

/// What `semel verify` finds in a store, held against a head if there is one; for tests.
#[doc(hidden)]
pub async fn problems(store: &dyn Upkeep, against: Option<&Path>) -> Result<Vec<String>, String> {
    let told = |failed: Failed| failed.message;
    let mut verified = check_all(store, &ProgressBar::hidden()).await.map_err(told)?;
    if let Some(file) = against {
        heads::compare(store, file, &mut verified).await.map_err(told)?;
    }
    let line = |finding: Finding| {
        let subject = finding.run.or(finding.effect).unwrap_or_default();
        format!("{} {subject}: {}", finding.invariant, finding.what)
    };
    Ok(verified.findings.into_iter().map(line).collect())
}

/// What `semel verify --export` writes; for tests.
#[doc(hidden)]
pub async fn export_head(store: &dyn Upkeep, file: &Path) -> Result<u64, String> {
    heads::export(store, file).await.map_err(|failed| failed.message)
}

/// The audit chains alone: how many entries, and what is wrong with them.
pub(super) async fn check_chains(store: &dyn Upkeep) -> Result<(u64, Vec<String>), Failed> {
    let mut verified = Verified::default();
    cards::check_all(store, &mut verified, &ProgressBar::hidden()).await?;
    let broken = verified.findings.into_iter().filter(|finding| finding.invariant == "I22");
    Ok((verified.deeds.count, broken.map(|finding| finding.what).collect()))
}

async fn check_all(store: &dyn Upkeep, progress: &ProgressBar) -> Result<Verified, Failed> {
    let mut verified = Verified::default();
    for problem in store.check_pages().await? {
        verified.find("I31", None, problem);
    }
    // First, so that it is known what was decided.
    cards::check_all(store, &mut verified, progress).await?;
    let mut after = i64::MIN;
    loop {
        let page = store.audit(after, limits::PAGE_ROWS_MAX).await?;
        let now = store.ground().now;
        verified.dropped += page.dropped;
        for problem in page.problems {
            verified.find("I9", None, problem);
        }
        for effect in &page.effects {
            verified.take(effect, effect.state(&now));
            for violation in check(effect, &now) {
                verified.find(violation.invariant, Some(effect), violation.what);
            }
            let untold = verified.deeds.untold_of(effect);
            verified.untold.extend(untold);
        }
        progress.inc(page.effects.len() as u64);
        let Some(next) = page.next else { break };
        after = next;
    }
    verified.check_generations(store).await?;
    runs::check_all(store, &mut verified, progress).await?;
    parts::check_all(store, &mut verified).await?;
    let untold = std::mem::take(&mut verified.untold);
    for what in verified.deeds.still_untold(store, untold).await? {
        verified.find("I22", None, what);
    }
    Ok(verified)
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
        self.approvals += u64::from(effect.approval.is_some());
        *self.states.entry(state.as_str()).or_default() += 1;
        if effect.generation > 0 || effect.superseded.is_some() {
            let generations = self.generations.entry(effect.address.clone()).or_default();
            generations.insert(effect.generation, generation_of(effect));
        }
    }

    /// Fences grow over all generations; every generation but the newest is superseded. What seems
    /// wrong is read again: somebody may have opened a generation between two pages.
    async fn check_generations(&mut self, store: &dyn Upkeep) -> Result<(), Failed> {
        for (address, seen) in std::mem::take(&mut self.generations) {
            if wrong_generations(&seen).is_empty() {
                continue;
            }
            for what in wrong_generations(&read_generations(store, &address).await?) {
                self.findings.push(Finding {
                    invariant: "I1".to_owned(),
                    effect: Some(address.to_string()),
                    run: None,
                    what: what.to_owned(),
                });
            }
        }
        Ok(())
    }
}

/// By number: how far the fences of the ones before went, how far its own did, and whether a newer
/// one was opened.
type Generations = BTreeMap<u32, (u64, u64, bool)>;

fn generation_of(effect: &Effect) -> (u64, u64, bool) {
    (effect.fence_floor, effect.last_fence(), effect.superseded.is_some())
}

async fn read_generations(store: &dyn Upkeep, address: &Address) -> Result<Generations, Failed> {
    let mut generations = Generations::new();
    let Some(newest) = store.load(address).await? else { return Ok(generations) };
    for number in 0..newest.generation {
        if let Some(effect) = store.load_generation(address, number).await? {
            generations.insert(number, generation_of(&effect));
        }
    }
    generations.insert(newest.generation, generation_of(&newest));
    Ok(generations)
}

fn wrong_generations(generations: &Generations) -> Vec<&'static str> {
    let mut wrong = Vec::new();
    let Some(newest) = generations.keys().last().copied() else { return wrong };
    if generations.len() as u64 != u64::from(newest) + 1 {
        wrong.push("a generation is missing");
    }
    let mut last_fence = 0;
    for (number, (floor, fence, superseded)) in generations {
        if *floor < last_fence {
            wrong.push("fences do not grow over the generations");
        }
        if *superseded != (*number != newest) {
            wrong.push("the newest generation is not the one in force");
        }
        last_fence = *fence;
    }
    wrong
}

const DROPPED_ONE: &str = "row whose key was dropped: its seal and its place were checked";
const DROPPED_MANY: &str = "rows whose key was dropped: seals, counts and chains were checked";

fn report(verified: &Verified, printer: &Printer) -> Result<(), Failed> {
    let Verified { states, findings, effects, run_states, runs, cards, .. } = verified;
    let others = [
        (verified.approvals, "approval", "approvals"),
        (*cards, "card", "cards"),
        (verified.values, "large value", "large values"),
        (verified.intents, "intent in the outbox", "intents in the outbox"),
        (verified.deeds.count, "audit entry", "audit entries"),
        (verified.compared, "line of the head", "lines of the head"),
        (verified.dropped, DROPPED_ONE, DROPPED_MANY),
    ];
    if printer.wants_json() {
        printer.json(&json!({
            "effects": effects,
            "states": states,
            "runs": runs,
            "run_states": run_states,
            "cards": cards,
            "approvals": verified.approvals,
            "large_values": verified.values,
            "outbox": verified.intents,
            "audit_entries": verified.deeds.count,
            "head_lines": verified.compared,
            "key_dropped": verified.dropped,
            "violations": findings,
        }))?;
    } else {
        printer.line(&format!("{effects} effects: {}", counts(states)));
        if *runs > 0 {
            printer.line(&format!("{runs} runs: {}", counts(run_states)));
        }
        for (count, one, many) in others.iter().filter(|(count, ..)| *count > 0) {
            printer.line(&format!("{count} {}", if *count == 1 { one } else { many }));
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
