//! Runs that cannot be taken up: each is left alone for a while, longer with every try, so that it
//! is in nobody's way.

use super::{Refusal, Run, SetAside, next, open};
use crate::journal::At;
use crate::limits;
use crate::time::Moment;

/// Leaves a run alone for a while. Nobody else may hold it: `fence` is the one that the caller has,
/// or zero.
pub fn set_aside(run: &Run, fence: u64, why: &str, now: &Moment) -> Result<Run, Refusal> {
    open(run)?;
    if run.paused.is_some() {
        return Err(Refusal::NotDue);
    }
    if let Some(lease) = &run.lease
        && lease.fence != fence
        && !now.reached(lease.until)
    {
        return Err(Refusal::Held { until: lease.until });
    }
    let tries = run.set_aside.as_ref().map_or(0, |before| before.tries).saturating_add(1);
    let until = At::from(now).plus(pause_ms(tries));
    let why = shortened(why);
    Ok(Run { lease: None, set_aside: Some(SetAside { tries, until, why }), ..next(run) })
}

/// Twice as long each time, up to a bound.
fn pause_ms(tries: u32) -> u64 {
    let doublings = tries.saturating_sub(1).min(20);
    (limits::SET_ASIDE_MS_MIN << doublings).min(limits::SET_ASIDE_MS_MAX)
}

/// It lies in the row, which is rewritten with each try.
fn shortened(why: &str) -> String {
    let mut end = why.len().min(limits::SET_ASIDE_BYTES_MAX);
    while !why.is_char_boundary(end) {
        end -= 1;
    }
    why[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::tests::{at, new, running, worker};
    use crate::run::{take, watch};

    #[test]
    fn a_run_set_aside_waits_longer_each_time_up_to_a_bound() {
        let mut run = new();
        let mut now = 0;
        let mut pauses = Vec::new();
        for tries in 1..=40 {
            run = set_aside(&run, 0, "no entry", &at(now)).unwrap();
            let due = run.wake_at(&at(now)).unwrap();
            pauses.push(due.ms - now);
            now = due.ms;
            assert_eq!(run.set_aside.as_ref().unwrap().tries, tries);
            assert_eq!(run.waits_on().as_deref(), Some("another try: no entry"));
            // Somebody who takes it has it; should that fail as well, the next pause is longer.
            let taken = take(&run, &worker("a"), &at(now)).unwrap();
            assert_eq!(taken.wake_at(&at(now)).unwrap().ms, now + 100);
            run = Run { lease: None, ..taken };
        }
        let longest = i64::try_from(limits::SET_ASIDE_MS_MAX).unwrap();
        assert_eq!(pauses[..3], [1_000, 2_000, 4_000]);
        assert!(pauses[15..].iter().all(|pause| *pause == longest), "{pauses:?}");
    }

    #[test]
    fn a_run_is_set_aside_by_its_holder_or_by_nobody_while_it_is_held() {
        let held = running();
        assert!(matches!(set_aside(&held, 0, "w", &at(5)), Err(Refusal::Held { .. })));
        assert_eq!(set_aside(&held, 1, "w", &at(5)).unwrap().lease, None);
        assert_eq!(set_aside(&held, 0, "w", &at(100)).unwrap().lease, None, "it has lapsed");
        let ended = crate::run::finish(&held, 1, crate::run::How::Done, &at(5)).unwrap();
        assert!(set_aside(&ended, 1, "w", &at(5)).is_err());
        let parked = crate::run::park(&held, 1, Vec::new()).unwrap();
        assert_eq!(parked.set_aside, None, "it got on");
        let watched = watch(&set_aside(&held, 1, "w", &at(5)).unwrap(), "r").unwrap().unwrap();
        assert!(watched.set_aside.is_some(), "others change nothing about it");
    }

    #[test]
    fn a_long_reason_is_shortened_between_characters() {
        let why = "\u{e9}".repeat(limits::SET_ASIDE_BYTES_MAX);
        let run = set_aside(&new(), 0, &why, &at(0)).unwrap();
        let kept = run.set_aside.unwrap().why;
        assert!(kept.len() <= limits::SET_ASIDE_BYTES_MAX && why.starts_with(&kept));
    }
}
