//! Models: asked again only where their answer was lost before it was on record.

use super::super::record::{Fault, Place};
use super::Sight;

impl Sight<'_> {
    /// A model that was asked more often than in the undisturbed run, and how much more.
    pub(super) fn paid_again(&self) -> Option<(&str, u64)> {
        let usual = |model: &String| self.baseline.model_calls.get(model).copied().unwrap_or(0);
        let mut calls = self.seen.model_calls.iter();
        calls.find_map(|(model, calls)| {
            let extra = calls.saturating_sub(usual(model));
            (extra > 0).then_some((model.as_str(), extra))
        })
    }

    /// Whether the fault lies between the question and the record of the answer: there, and only
    /// there, a model is paid again.
    pub(super) fn is_model_window(&self) -> bool {
        match (&self.case.place, self.case.fault) {
            (Place::Send { route, .. }, _) => self.baseline.model_calls.contains_key(route),
            (Place::Point(point), Fault::Kill | Fault::NewRelease) => {
                self.is_open_at(point, 0)
                    || self.case.then.as_ref().is_some_and(|at| self.is_open_at(at, 0))
            }
            // Whoever stood right before the question asks it when it goes on, and learns only by
            // its record that somebody else has.
            (Place::Point(point), Fault::PauseBeyondLease) => self.is_open_at(point, 1),
            (Place::Point(_) | Place::Wait(_) | Place::Run, _) => false,
        }
    }

    fn is_open_at(&self, point: &str, earlier: usize) -> bool {
        let points = self.points();
        let Some(at) = points.iter().position(|name| name == point) else { return false };
        self.windows(&points).any(|(from, to)| (from.saturating_sub(earlier)..=to).contains(&at))
    }

    /// For each question: the points from there to its record. Of steps that were under way
    /// together, the first record counts for the first question.
    fn windows(&self, points: &[String]) -> impl Iterator<Item = (usize, usize)> {
        let mut taken = Vec::new();
        let mut windows = Vec::new();
        let models = &self.baseline.model_calls;
        let asked = self.baseline.requests.iter().filter(|one| models.contains_key(&one.route));
        for from in asked.filter_map(|request| request.after_points) {
            let records = points.iter().enumerate().skip(from);
            let record = records.map(|(at, name)| (at, name.starts_with("before step ")));
            if let Some((to, _)) = record.into_iter().find(|(at, is)| *is && !taken.contains(at)) {
                taken.push(to);
                windows.push((from, to));
            }
        }
        if taken.is_empty() {
            windows.extend(Self::any_window(points));
        }
        windows.into_iter()
    }

    /// Nobody knows when the questions were asked. Models may be asked at once, so until the last
    /// step is on record one of them may be under way; a model whose answer is not kept at all is
    /// found by the replay.
    fn any_window(points: &[String]) -> Option<(usize, usize)> {
        let last = points.iter().rposition(|name| name.starts_with("before step "))?;
        let started = points.iter().position(|name| name == "after started");
        Some((started.map_or(0, |at| at + 1).min(last), last))
    }
}
