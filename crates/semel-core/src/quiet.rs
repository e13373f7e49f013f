//! How often the same trouble is told: a few lines for each namespace and period, and how many were
//! left out. One tenant's rows must not fill everybody's log.

use std::collections::BTreeMap;

/// What was told lately.
#[derive(Debug, Default)]
pub struct Quiet {
    told: BTreeMap<(&'static str, String), Told>,
}

#[derive(Debug)]
struct Told {
    since_ms: i64,
    lines: u32,
    left_out: u64,
}

/// How long a count lasts.
pub const PERIOD_MS: i64 = 60_000;
/// Lines for one kind of trouble in one namespace and period.
pub const LINES_MAX: u32 = 3;
/// Names that are counted apart; all others are counted together.
const NAMES_MAX: usize = 1_000;

impl Quiet {
    /// Whether a line may be written now; with how many were left out since the last one.
    pub fn ask(&mut self, what: &'static str, namespace: &str, now_ms: i64) -> Option<u64> {
        let mut name = (what, namespace.to_owned());
        if self.told.len() >= NAMES_MAX && !self.told.contains_key(&name) {
            self.told.retain(|_, told| told.is_fresh(now_ms));
            if self.told.len() >= NAMES_MAX {
                name.1.clear();
            }
        }
        let new = || Told { since_ms: now_ms, lines: 0, left_out: 0 };
        let told = self.told.entry(name).or_insert_with(new);
        if !told.is_fresh(now_ms) {
            (told.since_ms, told.lines) = (now_ms, 0);
        }
        if told.lines >= LINES_MAX {
            told.left_out += 1;
            return None;
        }
        told.lines += 1;
        Some(std::mem::take(&mut told.left_out))
    }
}

impl Told {
    fn is_fresh(&self, now_ms: i64) -> bool {
        (0..PERIOD_MS).contains(&now_ms.saturating_sub(self.since_ms))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_trouble_of_a_namespace_is_told_a_few_times_a_period() {
        let mut quiet = Quiet::default();
        let told = (0..1_000).filter(|_| quiet.ask("run", "a", 5).is_some()).count();
        assert_eq!(told, 3);
        assert_eq!(quiet.ask("run", "b", 5), Some(0), "another namespace has its own lines");
        assert_eq!(quiet.ask("card", "a", 5), Some(0), "and so has other trouble");
        assert_eq!(quiet.ask("run", "a", 5 + PERIOD_MS), Some(997), "what was left out is told");
        assert_eq!(quiet.ask("run", "a", 5), Some(0), "a clock that was set back hides nothing");
    }

    #[test]
    fn names_are_counted_apart_up_to_a_bound() {
        let mut quiet = Quiet::default();
        let told = (0..5_000).filter(|n| quiet.ask("run", &n.to_string(), 5).is_some()).count();
        assert_eq!(told, NAMES_MAX + LINES_MAX as usize);
        assert!(quiet.told.len() <= NAMES_MAX + 1);
        assert_eq!(quiet.ask("run", "later", 5 + PERIOD_MS), Some(0));
        assert_eq!(quiet.told.len(), 1, "what is over is forgotten");
    }
}
