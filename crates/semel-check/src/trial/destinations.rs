//! What the workflow under test reaches: doubles, and counters of destinations that are the user's
//! own.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use semel_core::check::{Fault, Request};

use super::gate::{CountRequests, Point};
use crate::double::{self, Double, Kind, When};

/// How often something has happened at a destination, ever.
pub(super) type Count = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Clone)]
pub(super) struct Counter {
    pub(super) name: String,
    pub(super) is_model: bool,
    pub(super) count: Count,
}

#[derive(Clone, Default)]
pub(super) struct Destinations {
    pub(super) doubles: Vec<Arc<Double>>,
    pub(super) counters: Vec<Counter>,
    pub(super) resets: Vec<Arc<dyn Fn() + Send + Sync>>,
    /// A request hangs, or will.
    hangs: Arc<AtomicBool>,
}

/// What the counters said when a case began.
pub(super) struct Mark(Vec<u64>);

impl Destinations {
    /// A new case: doubles forget everything, counters are read.
    pub(super) fn begin(&self) -> Mark {
        self.hangs.store(false, Ordering::SeqCst);
        for double in &self.doubles {
            double.reset();
        }
        for reset in &self.resets {
            reset();
        }
        Mark(self.counters.iter().map(|counter| (counter.count)()).collect())
    }

    /// Lets a request go wrong: that with this number, counted over one double after the other.
    pub(super) fn arm(
        &self,
        fault: Fault,
        number: u32,
        usual: &[usize],
    ) -> Result<(), double::FaultInvalid> {
        let mut number = number as usize;
        for (double, count) in self.doubles.iter().zip(usual) {
            if number <= *count {
                let kind = match fault {
                    Fault::CutBefore => Kind::CutBefore,
                    Fault::CutAfter => Kind::CutAfter,
                    Fault::ErrorBefore | Fault::RefuseAfter => Kind::ErrorBefore,
                    Fault::ErrorAfter => Kind::ErrorAfter,
                    _ => Kind::Hang,
                };
                let status = (fault == Fault::RefuseAfter).then_some(403);
                let fault = double::Fault { status, ..double::Fault::at(kind, number as u64) };
                let hangs = kind == Kind::Hang;
                self.hangs.store(hangs, Ordering::SeqCst);
                return double.arm(if hangs { fault.when(When::After) } else { fault });
            }
            number -= count;
        }
        Err(double::FaultInvalid("there is no such request".into()))
    }

    /// Whether a fault has met its request.
    pub(super) fn has_fired(&self) -> bool {
        self.doubles.iter().any(|double| double.counts().faults_fired > 0)
    }

    pub(super) fn is_hanging(&self) -> bool {
        self.hangs.load(Ordering::SeqCst) && self.has_fired()
    }

    pub(super) fn release(&self) {
        self.hangs.store(false, Ordering::SeqCst);
        for double in &self.doubles {
            double.release();
        }
    }

    /// Whether a request has arrived and is not settled yet.
    pub(super) fn is_busy(&self) -> bool {
        self.doubles.iter().any(|double| double.counts().open > 0)
    }

    pub(super) fn count_requests(&self) -> CountRequests {
        let doubles = self.doubles.clone();
        Arc::new(move || doubles.iter().map(|double| double.book().len()).sum())
    }

    /// How many requests each double has seen.
    pub(super) fn counts(&self) -> Vec<usize> {
        self.doubles.iter().map(|double| double.book().len()).collect()
    }

    /// All requests, one double after the other. Of one double it is known between which points
    /// each came.
    pub(super) fn requests(&self, points: &[Point]) -> Vec<Request> {
        let after = |number: usize| {
            let before = points.iter().filter(|point| point.requests < number);
            (self.doubles.len() == 1 && !points.is_empty()).then(|| before.count())
        };
        let entries = self.doubles.iter().flat_map(|double| double.book());
        let request = |(at, entry): (usize, double::Entry)| Request {
            route: entry.route,
            key: entry.key,
            after_points: after(at + 1),
        };
        entries.enumerate().map(request).collect()
    }

    /// How many writes took effect, by route or counter.
    pub(super) fn objects(&self, mark: &Mark) -> BTreeMap<String, u64> {
        let mut objects = self.counted(mark, false);
        for (route, counts) in self.routes() {
            if counts.applied > 0 {
                *objects.entry(route).or_default() += counts.applied;
            }
        }
        objects
    }

    /// How often each model was asked.
    pub(super) fn model_calls(&self, mark: &Mark) -> BTreeMap<String, u64> {
        let mut calls = self.counted(mark, true);
        for (route, counts) in self.routes() {
            if counts.model_calls > 0 {
                *calls.entry(route).or_default() += counts.model_calls;
            }
        }
        calls
    }

    /// Requests at doubles and whatever counters saw, in one number.
    pub(super) fn all(&self) -> u64 {
        let requests: usize = self.counts().iter().sum();
        self.counters.iter().map(|counter| (counter.count)()).sum::<u64>() + requests as u64
    }

    fn counted(&self, mark: &Mark, is_model: bool) -> BTreeMap<String, u64> {
        let counters = self.counters.iter().zip(&mark.0);
        let counters = counters.filter(|(counter, _)| counter.is_model == is_model);
        let since = |(counter, before): (&Counter, &u64)| {
            (counter.name.clone(), (counter.count)().saturating_sub(*before))
        };
        counters.map(since).collect()
    }

    fn routes(&self) -> impl Iterator<Item = (String, double::RouteCounts)> {
        self.doubles.iter().flat_map(|double| double.counts().routes)
    }
}
