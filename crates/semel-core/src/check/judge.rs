//! Whether the promise held: the undisturbed run beside what was seen after a fault.

mod lines;
mod model;
mod more;

use std::collections::{BTreeMap, BTreeSet};

use super::plan::name_points;
use super::record::{
    Baseline, Case, EffectSeen, Fault, Observation, Outcome, Place, Request, Verdict,
};

/// Judges one case. `command` plays it again, with `{case}` where its name belongs.
pub fn judge(baseline: &Baseline, case: &Case, seen: &Observation, command: &str) -> Verdict {
    let sight = Sight { baseline, case, seen };
    let Found { outcome, is_ok, detail } = sight.outcome();
    let name = case.name();
    let reproduce = (!is_ok).then(|| command.replace("{case}", &quoted(&name)));
    let lines = lines::of(&sight);
    Verdict { name, case: case.clone(), outcome, is_ok, detail, lines, reproduce, ms: seen.ms }
}

/// What the judge looks at.
struct Sight<'a> {
    baseline: &'a Baseline,
    case: &'a Case,
    seen: &'a Observation,
}

struct Found {
    outcome: Outcome,
    is_ok: bool,
    detail: String,
}

fn bad(outcome: Outcome, detail: impl Into<String>) -> Found {
    Found { outcome, is_ok: false, detail: detail.into() }
}

impl Sight<'_> {
    /// The worst finding first: what reached the world before what only the ledger says.
    fn outcome(&self) -> Found {
        let findings = [
            self.not_carried_out(),
            self.key_changed(),
            self.twice(),
            self.diverged(),
            self.paid_twice(),
            self.in_doubt(),
            self.stuck(),
            self.other_end(),
            self.lost(),
            self.not_shown(),
        ];
        let once = || Found { outcome: Outcome::Once, is_ok: true, detail: self.once() };
        findings.into_iter().flatten().next().unwrap_or_else(once)
    }

    fn not_carried_out(&self) -> Option<Found> {
        if let Some(error) = &self.seen.error {
            return Some(bad(Outcome::Error, error.clone()));
        }
        // A fault that never happened proves nothing, and must not look as if it did.
        let text = "its place was never reached: the workflow went another way than before";
        (!self.seen.is_met).then(|| bad(Outcome::Error, text))
    }

    fn key_changed(&self) -> Option<Found> {
        if self.seen.code.as_deref() == Some("unstable_key") {
            return Some(bad(Outcome::KeyChanged, self.seen.detail.clone()));
        }
        let (before, after) = (keys(&self.baseline.requests), keys(&self.seen.requests));
        for (route, keys) in after {
            let usual = before.get(route).map_or(0, BTreeSet::len);
            if usual > 0 && keys.len() > usual {
                let text = format!("{route} saw {} keys instead of {usual}", keys.len());
                return Some(bad(Outcome::KeyChanged, text));
            }
        }
        let (before, after) = (rows(&self.baseline.effects), rows(&self.seen.effects));
        for (action, count) in after {
            // What the undisturbed run never did has no key that could have changed.
            let usual = before.get(action).copied().unwrap_or(0);
            if usual > 0 && count > usual {
                let text = format!("{action} has {count} keys in the ledger instead of {usual}");
                return Some(bad(Outcome::KeyChanged, text));
            }
        }
        None
    }

    fn twice(&self) -> Option<Found> {
        if let Some(more) = self.too_many() {
            return Some(bad(Outcome::Twice, more.to_string()));
        }
        let is_twice = |effect: &&EffectSeen| effect.applied_twice && !effect.is_harmless();
        if let Some(effect) = self.seen.effects.iter().find(is_twice) {
            let text = format!("{} has two different receipts", effect.name());
            return Some(bad(Outcome::Twice, text));
        }
        let calls = self.seen.replay_requests.unwrap_or(0);
        (calls > 0).then(|| bad(Outcome::Twice, format!("a replay made {calls} outside calls")))
    }

    fn diverged(&self) -> Option<Found> {
        if matches!(self.seen.code.as_deref(), Some("diverged" | "foreign_await")) {
            return Some(bad(Outcome::Diverged, self.seen.detail.clone()));
        }
        let others = self.seen.other_answers;
        (others > 0)
            .then(|| bad(Outcome::Diverged, format!("{others} repeats were told otherwise")))
    }

    fn paid_twice(&self) -> Option<Found> {
        let asked = self.seen.replay_model_calls;
        if asked > 0 {
            let text = format!("a replay asked models {asked} times");
            return Some(bad(Outcome::PaidTwice, text));
        }
        let (model, extra) = self.paid_again()?;
        if self.is_model_window() {
            return None;
        }
        let text = format!("{model} was asked {extra} times more, its answer was on record");
        Some(bad(Outcome::PaidTwice, text))
    }

    /// A doubt is the honest end where the destination offers nothing to find out by.
    fn in_doubt(&self) -> Option<Found> {
        let doubted = self.doubted();
        let names: Vec<String> = doubted.iter().map(|effect| effect.name()).collect();
        let (first, names) = (doubted.first()?, names.join(", "));
        if let Some(effect) = doubted.iter().find(|effect| !effect.may_stay_in_doubt()) {
            let text =
                format!("{} is in doubt, and {} settles that", effect.name(), effect.contract);
            return Some(bad(Outcome::InDoubt, text));
        }
        let why = if first.key_not_used { "its key was not used" } else { &first.contract };
        let detail = format!("{names} waits for a person ({why}); nothing was sent again");
        Some(Found { outcome: Outcome::InDoubt, is_ok: true, detail })
    }

    fn doubted(&self) -> Vec<&EffectSeen> {
        let was = |effect: &EffectSeen| {
            self.before(effect).is_some_and(|before| before.state == "in_doubt")
        };
        let effects = self.seen.effects.iter();
        effects.filter(|effect| effect.state == "in_doubt" && !was(effect)).collect()
    }

    fn stuck(&self) -> Option<Found> {
        let seen = self.seen;
        if is_final(&seen.state) || seen.state == self.baseline.state {
            return None;
        }
        let waits = seen.waits_on.as_ref().map(|on| format!(", waits on {on}"));
        let code = seen.code.as_ref().map(|code| format!(": {} ({code})", seen.detail));
        let text =
            format!("{}{}{}", seen.state, waits.unwrap_or_default(), code.unwrap_or_default());
        Some(bad(Outcome::Stuck, text))
    }

    fn other_end(&self) -> Option<Found> {
        let (seen, usual) = (&self.seen.state, &self.baseline.state);
        if seen == usual {
            return self.other_result();
        }
        let detail = &self.seen.detail;
        let why = if detail.is_empty() { String::new() } else { format!(": {detail}") };
        Some(bad(Outcome::Diverged, format!("ended {seen} instead of {usual}{why}")))
    }

    /// The result is compared where it is the same in every undisturbed run, which whoever gives
    /// the baseline knows, and where nothing that it may be made of was asked for once more.
    fn other_result(&self) -> Option<Found> {
        let (seen, usual) = (self.seen.result.as_ref()?, self.baseline.result.as_ref()?);
        // How often something was tried may be part of an error's words.
        let is_result = self.seen.state == "done";
        let is_explained =
            self.paid_again().is_some() || self.has_later_receipt() || self.has_settled_doubt();
        if !is_result || seen == usual || is_explained {
            return None;
        }
        let text = format!("came to {} instead of {}", brief(seen), brief(usual));
        Some(bad(Outcome::Diverged, text))
    }

    /// The first receipt of an effect was lost, and that of another attempt reads otherwise.
    fn has_later_receipt(&self) -> bool {
        self.seen.effects.iter().any(|effect| {
            let before = self.before(effect);
            effect.attempts.len() > 1
                && before.is_some_and(|before| before.receipt != effect.receipt)
        })
    }

    /// The run may have gone on in doubt before the late word of whoever stood still settled it.
    fn has_settled_doubt(&self) -> bool {
        let was_doubted = |effect: &&EffectSeen| effect.attempts.iter().any(|it| it.was_doubted);
        self.seen.effects.iter().filter(was_doubted).any(EffectSeen::may_stay_in_doubt)
    }

    /// The same effect in the undisturbed run.
    fn before(&self, effect: &EffectSeen) -> Option<&EffectSeen> {
        self.baseline.effects.iter().find(|other| other.name() == effect.name())
    }

    fn lost(&self) -> Option<Found> {
        for (place, usual) in &self.baseline.objects {
            let count = self.seen.objects.get(place).copied().unwrap_or(0);
            if count < *usual {
                let text = format!("{place} has {count} instead of {usual}, and the run is over");
                return Some(bad(Outcome::Lost, text));
            }
        }
        None
    }

    /// A process died while an attempt was under way: the ledger must say so.
    fn not_shown(&self) -> Option<Found> {
        let action = self.cut_action()?;
        let effects = self.seen.effects.iter().filter(|effect| effect.action == action);
        let cut = effects.flat_map(|effect| &effect.attempts).any(|attempt| attempt.is_cut());
        let text = format!("the attempt of {action} that was cut is not in the ledger");
        (!cut).then(|| bad(Outcome::Error, text))
    }

    /// Whose attempt a death at this point cuts.
    fn cut_action(&self) -> Option<&str> {
        let Place::Point(point) = &self.case.place else { return None };
        if !matches!(self.case.fault, Fault::Kill | Fault::NewRelease) {
            return None;
        }
        let action =
            point.strip_prefix("after ").and_then(|rest| rest.strip_suffix(" pending")).or_else(
                || point.strip_prefix("before ").and_then(|rest| rest.strip_suffix(" done")),
            )?;
        // One that has only an approval, or only a transaction, has no attempt to be cut.
        let effects = self.baseline.effects.iter();
        let mut sent =
            effects.filter(|effect| effect.action == action && !effect.attempts.is_empty());
        // A row of several may be at another's point.
        (sent.next().is_some() && sent.next().is_none()).then_some(action)
    }

    fn once(&self) -> String {
        if let Some((model, _)) = self.paid_again() {
            return format!("{model} was asked again: the answer was lost before its record");
        }
        match self.more_allowed() {
            0 => "as if nothing had happened".to_owned(),
            more => format!("harmless: {more} more"),
        }
    }

    fn points(&self) -> Vec<String> {
        name_points(&self.baseline.points)
    }
}

fn is_final(state: &str) -> bool {
    matches!(state, "done" | "failed" | "cancelled")
}

/// The keys that each route saw.
fn keys(requests: &[Request]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for request in requests {
        if let Some(key) = &request.key {
            all.entry(&request.route).or_default().insert(key);
        }
    }
    all
}

/// How many keys each action has in the ledger.
fn rows(effects: &[EffectSeen]) -> BTreeMap<&str, usize> {
    let mut all: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for effect in effects {
        all.entry(&effect.action).or_default().insert(&effect.key);
    }
    all.into_iter().map(|(action, keys)| (action, keys.len())).collect()
}

/// The beginning of a value: enough to see what differs in small ones.
fn brief(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text.to_owned(),
    }
}

/// As one word for a shell.
fn quoted(name: &str) -> String {
    format!("'{}'", name.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests;
