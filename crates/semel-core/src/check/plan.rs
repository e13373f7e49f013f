//! Which cases are tried, and in which order.

use std::collections::{BTreeMap, BTreeSet};

use super::record::{Baseline, Case, Fault, Place};

/// How much may be tried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Budget {
    /// At most so many cases; `None`: all.
    pub cases_max: Option<usize>,
    /// Two deaths, too: at each point, and at each point after it.
    pub pairs: bool,
}

/// The cases to try, the most telling first, and how many did not fit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub cases: Vec<Case>,
    pub left_out: usize,
}

const AT_DESTINATION: [Fault; 6] = [
    Fault::CutAfter,
    Fault::ErrorAfter,
    Fault::Timeout,
    Fault::CutBefore,
    Fault::ErrorBefore,
    Fault::RefuseAfter,
];

/// All cases that the undisturbed run suggests. Kinds of faults take turns, and each kind jumps
/// over the run, so that a small budget meets every kind and no stretch of the run alone.
pub fn plan(baseline: &Baseline, budget: Budget) -> Plan {
    let points = name_points(&baseline.points);
    let mut turns: Vec<Vec<Case>> = vec![at_points(Fault::Kill, &points)];
    for (number, fault) in AT_DESTINATION.into_iter().enumerate() {
        turns.push(at_sends(fault, baseline));
        match number {
            0 => turns.extend([whole(Fault::RepeatTrigger), whole(Fault::Duplicates)]),
            1 => turns.push(at_points(Fault::PauseBeyondLease, &points)),
            2 => turns.push(at_waits(Fault::RepeatApproval, &baseline.approvals)),
            3 => turns.extend([
                at_waits(Fault::RepeatSignal, &baseline.signals),
                at_waits(Fault::RepeatCallback, &baseline.callbacks),
            ]),
            4 => turns.push(at_points(Fault::NewRelease, &points)),
            _ => {}
        }
    }
    let mut cases = take_turns(turns);
    if budget.pairs {
        cases.extend(pairs(&points));
    }
    let kept = budget.cases_max.unwrap_or(usize::MAX).min(cases.len());
    let left_out = cases.len() - kept;
    cases.truncate(kept);
    Plan { cases, left_out }
}

/// The case of this name, as `--only` gives it.
pub fn find(baseline: &Baseline, name: &str) -> Option<Case> {
    let all = plan(baseline, Budget { cases_max: None, pairs: true });
    all.cases.into_iter().find(|case| case.name() == name)
}

/// One name for each point that has any: the first of its names, and how often it came before.
pub fn name_points(points: &[Vec<String>]) -> Vec<String> {
    let mut times: BTreeMap<&str, u32> = BTreeMap::new();
    let mut named = Vec::new();
    for names in points {
        let counted: Vec<String> = names.iter().map(|name| counted(&mut times, name)).collect();
        named.extend(counted.into_iter().next());
    }
    named
}

fn counted<'a>(times: &mut BTreeMap<&'a str, u32>, name: &'a str) -> String {
    let times = times.entry(name).or_default();
    *times += 1;
    if *times == 1 { name.to_owned() } else { format!("{name} ({times})") }
}

impl Case {
    /// The name that people see and type.
    pub fn name(&self) -> String {
        let fault = self.fault.as_str();
        let name = match &self.place {
            Place::Point(point) => format!("{fault} {point}"),
            Place::Send { number, route } => format!("{fault} send {number}: {route}"),
            Place::Wait(name) => format!("{fault} {name}"),
            Place::Run => fault.to_owned(),
        };
        match &self.then {
            Some(point) => format!("{name}, then {point}"),
            None => name,
        }
    }
}

impl Fault {
    pub fn as_str(self) -> &'static str {
        match self {
            Fault::Kill => "kill",
            Fault::CutBefore => "cut_before",
            Fault::CutAfter => "cut_after",
            Fault::Timeout => "timeout",
            Fault::ErrorBefore => "error_before",
            Fault::ErrorAfter => "error_after",
            Fault::RefuseAfter => "refuse_after",
            Fault::RepeatTrigger => "repeat_trigger",
            Fault::RepeatApproval => "repeat_approval",
            Fault::RepeatCallback => "repeat_callback",
            Fault::RepeatSignal => "repeat_signal",
            Fault::Duplicates => "duplicates",
            Fault::PauseBeyondLease => "pause_beyond_lease",
            Fault::NewRelease => "new_release",
        }
    }
}

fn whole(fault: Fault) -> Vec<Case> {
    vec![Case { fault, place: Place::Run, then: None }]
}

fn at_points(fault: Fault, points: &[String]) -> Vec<Case> {
    let (telling, others): (Vec<&String>, Vec<&String>) =
        points.iter().partition(|point| is_telling(point));
    let order = spread(telling.len()).into_iter().map(|at| telling[at]);
    let order = order.chain(spread(others.len()).into_iter().map(|at| others[at]));
    order.map(|point| Case { fault, place: Place::Point(point.clone()), then: None }).collect()
}

/// Between the world's answer and its record: where a careless workflow does it again.
fn is_telling(point: &str) -> bool {
    let Some(rest) = point.strip_prefix("before ") else { return false };
    let name = rest.split(" (").next().unwrap_or(rest);
    name.starts_with("step ") || name.ends_with(" done")
}

fn at_sends(fault: Fault, baseline: &Baseline) -> Vec<Case> {
    // A refusal comes after an earlier call, so never at the first.
    let is_late = |at: &usize| *at > 0 || fault != Fault::RefuseAfter;
    let order = spread(baseline.requests.len()).into_iter().filter(is_late);
    let case = |at: usize| {
        let number = u32::try_from(at + 1).unwrap_or(u32::MAX);
        let route = baseline.requests[at].route.clone();
        Case { fault, place: Place::Send { number, route }, then: None }
    };
    order.map(case).collect()
}

/// A wait that comes several times is repeated at its first.
fn at_waits(fault: Fault, names: &[String]) -> Vec<Case> {
    let names: BTreeSet<&String> = names.iter().collect();
    let case = |name: &String| Case { fault, place: Place::Wait(name.clone()), then: None };
    names.into_iter().map(case).collect()
}

/// The second death is at a point of the undisturbed run, too: whoever goes on passes it, or has
/// it behind already and is not met there.
fn pairs(points: &[String]) -> Vec<Case> {
    let all = |first: usize| {
        points.iter().skip(first).map(move |then| Case {
            fault: Fault::Kill,
            place: Place::Point(points[first].clone()),
            then: Some(then.clone()),
        })
    };
    spread(points.len()).into_iter().flat_map(all).collect()
}

fn take_turns(turns: Vec<Vec<Case>>) -> Vec<Case> {
    let longest = turns.iter().map(Vec::len).max().unwrap_or(0);
    let mut turns: Vec<_> = turns.into_iter().map(Vec::into_iter).collect();
    (0..longest)
        .flat_map(|_| turns.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>())
        .collect()
}

/// All places of `count`, each far from those before: the middle, then the middles of the halves.
fn spread(count: usize) -> Vec<usize> {
    let mut places = Vec::with_capacity(count);
    let mut stretches = std::collections::VecDeque::from([(0, count)]);
    while let Some((from, to)) = stretches.pop_front() {
        if from < to {
            let middle = usize::midpoint(from, to);
            places.push(middle);
            stretches.extend([(from, middle), (middle + 1, to)]);
        }
    }
    places
}

#[cfg(test)]
mod tests;
