//! The five lines that each case prints.

use std::collections::BTreeSet;

use super::super::record::{
    AttemptSeen, Baseline, Case, EffectSeen, Line, LineState, Observation, Place,
};
use super::{Sight, keys};

pub(super) fn of(sight: &Sight<'_>) -> Vec<Line> {
    let Sight { baseline, case, seen } = *sight;
    vec![
        fault(case, seen),
        same_key(baseline, seen),
        one_object(sight),
        trace(baseline, case, seen),
        replay(seen),
    ]
}

fn line(what: &str, state: LineState, text: impl Into<String>) -> Line {
    Line { what: what.to_owned(), state, text: text.into() }
}

fn holds(is: bool) -> LineState {
    if is { LineState::Yes } else { LineState::No }
}

fn fault(case: &Case, seen: &Observation) -> Line {
    let missed = if seen.is_met { "" } else { " (never reached)" };
    line("fault", holds(seen.is_met), format!("{}{missed}", case.name()))
}

fn same_key(baseline: &Baseline, seen: &Observation) -> Line {
    let (usual, keys) = (keys(&baseline.requests), keys(&seen.requests));
    if keys.is_empty() {
        return line("same key", LineState::Silent, "no request carried a key");
    }
    let is_same = |(route, now): (&&str, &BTreeSet<&str>)| {
        usual.get(*route).is_none_or(|before| now.len() <= before.len())
    };
    let requests = seen.requests.iter().filter(|request| request.key.is_some()).count();
    let all: BTreeSet<&str> = keys.values().flatten().copied().collect();
    let text = format!("{} over {}", count(all.len(), "key"), count(requests, "request"));
    line("same key", holds(keys.iter().all(is_same)), text)
}

fn one_object(sight: &Sight<'_>) -> Line {
    let Sight { baseline, seen, .. } = *sight;
    if baseline.objects.is_empty() && seen.objects.is_empty() {
        return line("one object", LineState::Silent, "nothing is counted at any destination");
    }
    let places: BTreeSet<&String> = baseline.objects.keys().chain(seen.objects.keys()).collect();
    let at = |objects: &std::collections::BTreeMap<String, u64>, place: &String| {
        objects.get(place).copied().unwrap_or(0)
    };
    let text: Vec<String> = places
        .iter()
        .map(|place| {
            let (now, usual) = (at(&seen.objects, place), at(&baseline.objects, place));
            format!("{place}: {now} of {usual}")
        })
        .collect();
    // Fewer may be a doubt, which the outcome names; too many is wrong whatever the outcome.
    line("one object", holds(sight.too_many().is_none()), text.join(", "))
}

/// A fault at the destination of an effect that leaves no failed attempt was hidden by a client
/// which repeats by itself: no harm under one key, and worth knowing.
fn trace(baseline: &Baseline, case: &Case, seen: &Observation) -> Line {
    let cut: Vec<&EffectSeen> = seen.effects.iter().filter(|effect| effect.has_cut()).collect();
    if cut.is_empty() {
        return match sent_under(baseline, case) {
            Some(action) => {
                let text =
                    format!("{action} shows no failed attempt: its client repeats by itself");
                line("trace", LineState::No, text)
            }
            None => line("trace", LineState::Silent, "no attempt was cut"),
        };
    }
    let text: Vec<String> = cut.iter().map(|effect| effect.story()).collect();
    line("trace", LineState::Yes, text.join("; "))
}

/// The action whose key the disturbed request carried.
fn sent_under<'a>(baseline: &'a Baseline, case: &Case) -> Option<&'a str> {
    let Place::Send { number, .. } = &case.place else { return None };
    let at = usize::try_from(*number).ok()?.checked_sub(1)?;
    let key = baseline.requests.get(at)?.key.as_ref()?;
    let effect = baseline.effects.iter().find(|effect| effect.downstream_key == *key)?;
    Some(&effect.action)
}

fn replay(seen: &Observation) -> Line {
    match seen.replay_requests.map(|calls| calls + seen.replay_model_calls) {
        Some(0) => line("replay", LineState::Yes, "the same receipts, no outside call"),
        Some(calls) => line("replay", LineState::No, format!("{calls} outside calls")),
        None => line("replay", LineState::Silent, "not replayed: the run has not ended"),
    }
}

fn count(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

impl EffectSeen {
    pub(super) fn name(&self) -> String {
        format!("{}/{}", self.action, self.key)
    }

    fn has_cut(&self) -> bool {
        self.attempts.iter().any(AttemptSeen::is_cut)
    }

    /// `crm-ticket: unknown, then applied`.
    fn story(&self) -> String {
        let told: Vec<String> = self.attempts.iter().map(AttemptSeen::story).collect();
        format!("{}: {}", self.action, told.join(", then "))
    }
}

impl AttemptSeen {
    /// It did not simply end with a receipt.
    pub(super) fn is_cut(&self) -> bool {
        self.was_doubted || self.outcome != "applied"
    }

    fn story(&self) -> String {
        let doubted = self.was_doubted && self.outcome != "unknown";
        let first = if doubted { "unknown, found out " } else { "" };
        let look = if self.kind == "look" { "look " } else { "" };
        format!("{look}{first}{}", self.outcome)
    }
}
