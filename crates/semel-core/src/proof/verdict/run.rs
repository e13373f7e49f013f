//! The verdict on a run: that of its journal, and the worst of its effects.

use std::collections::BTreeSet;

use super::super::sentence::{Fact, Headline, Open, Sentence};
use super::super::statement::{Claim, EffectStatement, RunStatement, Verdict};
use super::super::{Finding, ReadRun, effect_named};
use super::{broken_rule, claim, short};
use crate::journal::{Event, Outcome, Value};
use crate::run::State;
use crate::time::Moment;
use crate::verify;

pub(crate) fn of_run(
    run: &RunStatement,
    effects: &[EffectStatement],
    read: &ReadRun,
    now: &Moment,
) -> Verdict {
    let broken = broken(run, effects, read, now);
    let of_effects = effects.iter().filter_map(|one| Finding::parse(one.verdict.finding)).max();
    let own = match read.run.state() {
        State::Done => Finding::Done,
        State::Failed | State::Cancelled => Finding::NotDone,
        State::Expired => Finding::Expired,
        State::Ready | State::Running | State::Waiting | State::Paused | State::Cancelling => {
            Finding::InProgress
        }
    };
    // An effect that failed or was taken back is part of a run that came to its end.
    let worst = of_effects.filter(|finding| *finding >= Finding::InProgress);
    let finding = match (broken.is_empty(), worst) {
        (false, _) => Finding::Broken,
        (true, Some(worst)) => worst.max(own),
        (true, None) => own,
    };
    Verdict {
        finding: finding.as_str(),
        says: sentence(run, effects).into(),
        proven: proven(run),
        not_proven: not_proven(run, effects),
        broken,
    }
}

fn broken(
    run: &RunStatement,
    effects: &[EffectStatement],
    read: &ReadRun,
    now: &Moment,
) -> Vec<Claim> {
    let mut broken = Vec::new();
    if let Some(what) = &run.chain.broken {
        broken.push(broken_rule(what, "the hash chain of the journal"));
    }
    if !run.id_derives {
        broken.push(broken_rule("the id of the run does not follow from its key", "derived again"));
    }
    // Behind a break nothing is read, so the last entry is not the run's last.
    if run.chain.verified {
        let last = read.entries.last().map(|(_, entry)| &entry.event);
        let found = verify::check_run(&read.run, last, now).into_iter();
        broken.extend(
            found.map(|one| broken_rule(one.what, format!("{} of the run", one.invariant))),
        );
    }
    broken.extend(unlike_journal(effects, read));
    for effect in effects {
        let name = format!("{}/{}", effect.action, effect.key);
        let found = effect.verdict.broken.iter().filter(|one| !broken.contains(one));
        let told: Vec<_> =
            found.map(|one| broken_rule(format!("{name}: {}", one.says), &one.evidence)).collect();
        broken.extend(told);
    }
    broken
}

/// What the run was given must be in the ledger, and nothing else is an effect of the run.
fn unlike_journal(effects: &[EffectStatement], read: &ReadRun) -> Vec<Claim> {
    let mut broken = Vec::new();
    let mut named = BTreeSet::new();
    for (seq, entry) in &read.entries {
        let Some(name) = effect_named(&entry.event) else { continue };
        named.insert(name);
        let Event::Effect { result: Outcome::Value(given), .. } = &entry.event else { continue };
        let found = effects.iter().find(|one| format!("{}/{}", one.action, one.key) == name);
        match found {
            None => broken.push(broken_rule(
                format!("{name} was settled, and the ledger has no such effect"),
                format!("entry {seq} of the journal"),
            )),
            Some(effect) if !holds(effect, given) => broken.push(broken_rule(
                format!("{name}: the ledger has another receipt than the run was given"),
                format!("entry {seq} of the journal"),
            )),
            Some(_) => {}
        }
    }
    // Behind a break nothing is read, so a name may stand there.
    let is_whole = read.chain.verified && !read.entries.is_empty();
    for effect in effects.iter().filter(|_| is_whole) {
        let name = format!("{}/{}", effect.action, effect.key);
        if !named.contains(name.as_str()) {
            broken.push(broken_rule(
                format!("{name} is shown as an effect of the run, which never asked for it"),
                "the journal of the run",
            ));
        }
    }
    broken
}

/// Whether a generation has this receipt, or has none any more.
fn holds(effect: &EffectStatement, given: &Value) -> bool {
    let Value::Json(given) = given else { return true };
    effect.generations.iter().any(|one| {
        one.expired_at.is_some() || one.receipt.as_ref().is_some_and(|receipt| receipt == given)
    })
}

fn sentence(run: &RunStatement, effects: &[EffectStatement]) -> Headline {
    let mut counts: Vec<String> = Vec::new();
    for finding in Finding::ALL {
        let count = effects.iter().filter(|one| one.verdict.finding == finding.as_str()).count();
        if count > 0 {
            counts.push(format!("{count} {}", finding.as_str()));
        }
    }
    Headline::Run { state: run.state, counts }
}

fn proven(run: &RunStatement) -> Vec<Claim> {
    let mut proven = Vec::new();
    if run.id_derives {
        let (workflow, key) = (run.workflow.clone(), run.key.clone());
        proven.push(claim(
            Fact::OneRun { workflow, key },
            "its id, derived again from namespace, workflow and key",
        ));
    }
    if run.chain.verified && run.chain.entries > 0 {
        let (entries, head) = (run.chain.entries, short(&run.chain.head));
        let evidence = format!("{entries} entries, each chained to the one before, up to {head}");
        proven.push(claim(Fact::JournalWhole, evidence));
    }
    if run.takes.len() > 1 && run.takes.is_sorted_by(|one, next| one.fence < next.fence) {
        let fences: Vec<_> = run.takes.iter().map(|take| take.fence.to_string()).collect();
        proven.push(claim(
            Fact::Workers { count: run.takes.len() },
            format!("fences {}", fences.join(" < ")),
        ));
    }
    let total: u64 = run.repeats.iter().fold(0, |sum, one| sum.saturating_add(one.at_least));
    if total > 0 {
        let doors: Vec<_> =
            run.repeats.iter().map(|one| format!("{} by {}", one.at_least, one.door)).collect();
        proven.push(claim(Fact::RunRepeats { total }, doors.join(", ")));
    }
    proven
}

fn not_proven(run: &RunStatement, effects: &[EffectStatement]) -> Vec<Claim> {
    let mut open = Vec::new();
    if run.chain.entries == 0 {
        open.push(claim(Open::RunHistory, "its journal is past its retention"));
    }
    for child in &run.children {
        open.push(claim(
            Open::Child { run: child.id.clone() },
            format!("it is {}; `semel proof {}` tells", child.state, child.id),
        ));
    }
    for effect in effects {
        let name = format!("{}/{}", effect.action, effect.key);
        for one in &effect.verdict.not_proven {
            let says = Sentence::Of(name.clone(), Box::new(one.says.clone()));
            open.push(claim(says, &one.evidence));
        }
    }
    open
}
