//! Rates: how many sends of an action there may be in any window of a length.

use super::{Meter, PolicyInvalid, Rate};
use crate::journal::At;
use crate::limits;
use crate::time::Moment;

/// What asking for a send came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Take {
    /// Write the meter: one send is taken.
    Sent(Meter),
    /// The rate is used up for so long. The meter is set when the clock was ahead and is right
    /// again: write it, so that the wait ends.
    Wait { ms: u64, corrected: Option<Meter> },
}

/// Sends of one window are counted one by one up to this many, then in as many slots.
const SLOTS: u32 = 100;

impl Rate {
    /// Refuses a rate that lets nothing through.
    pub fn check(&self) -> Result<(), PolicyInvalid> {
        if self.count == 0 || self.per_ms == 0 || self.per_ms > limits::DURATION_MS_MAX {
            return Err(PolicyInvalid(
                "a rate is at least one in some time, such as 10 in 1s".into(),
            ));
        }
        Ok(())
    }

    /// Takes one send, or says how long to wait for one.
    pub fn take(&self, meter: &Meter, by: &str, now: &Moment) -> Take {
        let mut sends = self.counted(meter, now);
        if let Some(ms) = self.wait_ms(&sends, now) {
            let is_ahead = meter.is_ahead(now);
            let corrected = is_ahead.then(|| Meter { sends, ..Meter::taken(by, now) });
            return Take::Wait { ms, corrected };
        }
        let slot_ms = self.slot_ms();
        match sends.last_mut() {
            // A slot counts as sent at its last send, so that it never ends too early.
            Some(last) if last.0.div_euclid(slot_ms) == now.steady.ms.div_euclid(slot_ms) => {
                *last = (now.steady.ms, last.1 + 1);
            }
            Some(_) | None => sends.push((now.steady.ms, 1)),
        }
        Take::Sent(Meter { sends, ..Meter::taken(by, now) })
    }

    /// How many sends may be made now.
    pub fn room(&self, meter: &Meter, now: &Moment) -> u32 {
        let used: u32 = self.counted(meter, now).iter().map(|(_, count)| count).sum();
        self.count.saturating_sub(used)
    }

    /// The sends that count now, on the steady clock of now. None of them lies ahead: a clock that
    /// was ahead makes nobody wait longer than one window.
    fn counted(&self, meter: &Meter, now: &Moment) -> Vec<(i64, u32)> {
        let steady = now.steady.ms;
        let per_ms = i64::try_from(self.per_ms).unwrap_or(i64::MAX);
        let mut sends = match meter.at {
            // After a restart the wall clock says how long ago it was.
            Some(at) if at.1.boot != now.steady.boot => {
                let since = i64::try_from(at.elapsed_ms(now)).unwrap_or(i64::MAX);
                let age = |ms: i64| at.1.ms.saturating_sub(ms).max(0).saturating_add(since);
                let shifted = |(ms, count): &(i64, u32)| (steady.saturating_sub(age(*ms)), *count);
                meter.sends.iter().map(shifted).collect()
            }
            Some(_) => meter.sends.clone(),
            None => vec![(steady, self.used_before(meter, now))],
        };
        sends.iter_mut().for_each(|(ms, _)| *ms = (*ms).min(steady));
        sends.retain(|(ms, count)| *count > 0 && ms.saturating_add(per_ms) > steady);
        sends
    }

    /// What a meter of an earlier version says is used up.
    fn used_before(&self, meter: &Meter, now: &Moment) -> u32 {
        let left = meter.until_ms.saturating_sub(now.wall.0);
        let left_ms = u64::try_from(left).unwrap_or(0).min(self.per_ms);
        let used = u128::from(left_ms) * u128::from(self.count) / u128::from(self.per_ms);
        u32::try_from(used).unwrap_or(self.count)
    }

    /// How long until one more send fits. `None`: it fits now.
    fn wait_ms(&self, sends: &[(i64, u32)], now: &Moment) -> Option<u64> {
        let mut used: u32 = sends.iter().map(|(_, count)| count).sum();
        let mut wait_ms = None;
        for (ms, count) in sends {
            if used < self.count {
                break;
            }
            used -= count;
            let left = ms.saturating_add_unsigned(self.per_ms).saturating_sub(now.steady.ms);
            wait_ms = Some(u64::try_from(left).unwrap_or(0).max(1));
        }
        wait_ms
    }

    fn slot_ms(&self) -> i64 {
        let slots = if self.count <= SLOTS { self.per_ms } else { u64::from(SLOTS) };
        i64::try_from(self.per_ms.div_ceil(slots)).unwrap_or(i64::MAX)
    }
}

impl Meter {
    /// Whether something was counted at a time that has not come yet.
    fn is_ahead(&self, now: &Moment) -> bool {
        match self.at {
            Some(at) if at.1.boot == now.steady.boot => at.1.ms > now.steady.ms,
            Some(_) | None => true,
        }
    }

    fn taken(by: &str, now: &Moment) -> Meter {
        Meter { by: by.to_owned(), at: Some(At::from(now)), ..Meter::default() }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::time::{Steady, Wall};

    fn moment(boot: u64, ms: i64, wall: i64) -> Moment {
        Moment { wall: Wall(wall), steady: Steady { boot, ms }, wall_is_behind: false }
    }

    fn at(ms: i64) -> Moment {
        moment(1, ms, 1_000_000 + ms)
    }

    /// Takes what there is now.
    fn drain(rate: &Rate, meter: &mut Meter, now: &Moment) -> (u32, u64) {
        for taken in 0.. {
            match rate.take(meter, "a", now) {
                Take::Sent(next) => *meter = next,
                Take::Wait { ms, corrected } => {
                    if let Some(corrected) = corrected {
                        *meter = corrected;
                    }
                    return (taken, ms);
                }
            }
        }
        unreachable!("a rate ends")
    }

    proptest! {
        #[test]
        fn req_r10_no_window_of_its_length_has_more_sends_than_the_rate(
            count in 1u32..250,
            per_ms in 1u64..5_000,
            arrivals in prop::collection::vec((0i64..2_000, 1u32..30), 1..200),
        ) {
            let rate = Rate { count, per_ms };
            let (mut meter, mut taken, mut ms) = (Meter::default(), Vec::new(), 1_000_000);
            for (later, asks) in arrivals {
                ms += later;
                for _ in 0..asks {
                    if let Take::Sent(next) = rate.take(&meter, "a", &at(ms)) {
                        meter = next;
                        taken.push(ms);
                    }
                }
                prop_assert!(meter.sends.len() <= 102, "{} entries", meter.sends.len());
            }
            let count = count as usize;
            for window in taken.windows(count + 1) {
                prop_assert!(window[count] - window[0] >= per_ms.cast_signed(), "{window:?}");
            }
        }
    }

    #[test]
    fn req_r10_ten_in_a_second_are_ten_in_every_second() {
        let rate = Rate { count: 10, per_ms: 1_000 };
        let mut meter = Meter::default();
        assert_eq!(drain(&rate, &mut meter, &at(5_000)), (10, 1_000));
        assert_eq!(drain(&rate, &mut meter, &at(5_999)), (0, 1));
        assert_eq!(rate.room(&meter, &at(5_999)), 0);
        assert_eq!(drain(&rate, &mut meter, &at(6_000)), (10, 1_000));
    }

    #[test]
    fn whoever_waits_as_told_gets_one() {
        for rate in [Rate { count: 3, per_ms: 700 }, Rate { count: 1_000, per_ms: 60_000 }] {
            let (mut meter, mut ms) = (Meter::default(), 0);
            for turn in 0..50 {
                let (taken, wait) = drain(&rate, &mut meter, &at(ms));
                assert!(taken > 0, "turn {turn}: nothing after the wait");
                ms += wait.cast_signed();
            }
        }
    }

    #[test]
    fn req_r10_a_clock_that_was_ahead_and_is_right_again_stops_nothing_for_ever() {
        let rate = Rate { count: 2, per_ms: 1_000 };
        let mut meter = Meter::default();
        assert_eq!(drain(&rate, &mut meter, &at(9_000_000)).0, 2);
        // Right again: one window, counted from the first refusal, which writes the meter back.
        assert_eq!(drain(&rate, &mut meter, &at(1_000)), (0, 1_000));
        assert_eq!(drain(&rate, &mut meter, &at(1_900)), (0, 100));
        assert_eq!(drain(&rate, &mut meter, &at(2_000)).0, 2);
    }

    #[test]
    fn req_r10_a_wall_clock_that_jumps_says_nothing_while_the_steady_one_runs() {
        let rate = Rate { count: 1, per_ms: 1_000 };
        let mut meter = Meter::default();
        assert_eq!(drain(&rate, &mut meter, &moment(1, 500, 9_000_000)).0, 1);
        assert_eq!(drain(&rate, &mut meter, &moment(1, 600, 1_000)), (0, 900));
        assert_eq!(drain(&rate, &mut meter, &moment(1, 700, 99_000_000)), (0, 800));
        assert_eq!(drain(&rate, &mut meter, &moment(1, 1_500, 1_000)).0, 1);
    }

    #[test]
    fn after_a_restart_the_wall_clock_counts() {
        let rate = Rate { count: 1, per_ms: 60_000 };
        let mut meter = Meter::default();
        assert_eq!(drain(&rate, &mut meter, &moment(1, 500_000, 1_000_000)).0, 1);
        let later = meter.clone();
        assert_eq!(drain(&rate, &mut meter, &moment(2, 5_000, 1_020_000)), (0, 40_000));
        assert_eq!(drain(&rate, &mut meter, &moment(2, 44_999, 1_059_999)), (0, 1));
        assert_eq!(drain(&rate, &mut meter, &moment(2, 45_000, 1_060_000)).0, 1);
        meter = later;
        // A wall clock that was ahead before the restart: no longer than one window.
        assert_eq!(drain(&rate, &mut meter, &moment(2, 5_000, 900_000)), (0, 60_000));
        assert_eq!(drain(&rate, &mut meter, &moment(2, 65_000, 900_001)).0, 1);
    }

    #[test]
    fn a_meter_of_an_earlier_version_still_counts() {
        let rate = Rate { count: 10, per_ms: 1_000 };
        let mut meter: Meter =
            serde_json::from_str(r#"{"until_ms":1000500,"by":"b"}"#).expect("JSON");
        assert_eq!(drain(&rate, &mut meter, &moment(1, 7, 1_000_000)).0, 5);
    }
}
