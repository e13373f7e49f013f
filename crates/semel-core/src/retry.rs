//! When to try again: exponential backoff with full jitter, capped in attempts and in total time.

use crate::limits;
pub use crate::record::Retry;

/// What a failed try of a step says about the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It may go better next time.
    Passing,
    /// The code raised a programming error: the same code would raise it again.
    Programming,
    /// An answer: another try would not help, and the code of the run gets to see it.
    Final,
}

impl Default for Retry {
    fn default() -> Retry {
        Retry { attempts_max: 10, total_ms: 10 * 60_000, delay_ms: 500, delay_ms_max: 30_000 }
    }
}

impl Retry {
    /// One send, no retry.
    pub const NONE: Retry = Retry { attempts_max: 1, total_ms: 0, delay_ms: 0, delay_ms_max: 0 };

    /// Sends in all that a row can hold.
    pub fn attempts(&self) -> u32 {
        self.attempts_max.clamp(1, limits::ATTEMPTS_MAX)
    }

    /// The delay before the next try after this trouble, or `None` when there is none.
    pub fn after(&self, trouble: Trouble, made: u32, elapsed_ms: u64, chance: u32) -> Option<u64> {
        match trouble {
            Trouble::Passing => self.delay_ms(made, elapsed_ms, chance),
            Trouble::Programming | Trouble::Final => None,
        }
    }

    /// The delay before the next send, or `None` when the caps are reached. `chance` is drawn by
    /// the caller, uniformly from all of `u32`.
    pub fn delay_ms(&self, attempts_made: u32, elapsed_ms: u64, chance: u32) -> Option<u64> {
        if attempts_made >= self.attempts_max.min(limits::ATTEMPTS_MAX) {
            return None;
        }
        let doublings = attempts_made.saturating_sub(1).min(40);
        let ceiling = self.delay_ms.saturating_mul(1 << doublings).min(self.delay_ms_max);
        let delay = u128::from(ceiling) * u128::from(chance) / u128::from(u32::MAX);
        let delay = u64::try_from(delay).expect("a fraction of a u64 is a u64");
        (elapsed_ms.saturating_add(delay) <= self.total_ms).then_some(delay)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Retry =
        Retry { attempts_max: 4, total_ms: 10_000, delay_ms: 100, delay_ms_max: 300 };

    #[test]
    fn req_r3_delays_double_up_to_a_cap_with_full_jitter() {
        let delays =
            |chance| (1..=4).map(|made| POLICY.delay_ms(made, 0, chance)).collect::<Vec<_>>();
        assert_eq!(delays(u32::MAX), [Some(100), Some(200), Some(300), None]);
        assert_eq!(delays(0), [Some(0), Some(0), Some(0), None]);
        assert_eq!(delays(u32::MAX / 2), [Some(49), Some(99), Some(149), None]);
    }

    #[test]
    fn req_r3_total_time_ends_the_retries_before_the_attempts_do() {
        assert_eq!(POLICY.delay_ms(1, 9_900, u32::MAX), Some(100));
        assert_eq!(POLICY.delay_ms(1, 9_901, u32::MAX), None);
        assert_eq!(Retry::NONE.delay_ms(1, 0, 0), None);
    }

    #[test]
    fn req_r10_a_programming_error_of_a_step_is_never_retried() {
        assert_eq!(POLICY.after(Trouble::Passing, 1, 0, u32::MAX), Some(100));
        assert_eq!(POLICY.after(Trouble::Programming, 1, 0, u32::MAX), None);
        assert_eq!(POLICY.after(Trouble::Final, 1, 0, u32::MAX), None);
    }

    #[test]
    fn req_r3_no_policy_is_endless() {
        let greedy = Retry { attempts_max: u32::MAX, total_ms: u64::MAX, ..POLICY };
        assert_eq!(greedy.delay_ms(limits::ATTEMPTS_MAX, 0, 0), None);
    }
}
