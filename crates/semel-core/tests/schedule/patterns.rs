//! Which minutes a pattern means.

use semel_core::cron::{Cron, zone};
use semel_core::schedule::{CatchUp, Refusal, check, next_tick};
use semel_core::time::Wall;

use crate::oracle::{patterns, stretches};
use crate::{content, wall};

#[test]
fn ticks_are_those_a_clock_on_the_wall_shows_minute_by_minute() {
    for stretch in stretches() {
        for pattern in patterns() {
            let content = content(pattern.cron, stretch.zone, CatchUp::All);
            let mut found = Vec::new();
            let mut after = stretch.from;
            while let Some(tick) = next_tick(&content, after).unwrap()
                && tick <= stretch.to
            {
                found.push(tick);
                after = tick;
            }
            let want = stretch.ticks(&pattern);
            assert_eq!(found, want, "{} in {}", pattern.cron, stretch.zone);
        }
    }
}

/// From any moment, not only from the tick before.
#[test]
fn the_next_tick_is_the_first_one_after_any_moment() {
    for stretch in stretches() {
        for pattern in patterns() {
            let content = content(pattern.cron, stretch.zone, CatchUp::All);
            let ticks = stretch.ticks(&pattern);
            for ms in (stretch.from.0..stretch.to.0).step_by(17 * 60_000 + 13_001) {
                let Some(want) = ticks.iter().find(|tick| tick.0 > ms) else { break };
                let found = next_tick(&content, Wall(ms)).unwrap();
                assert_eq!(found, Some(*want), "{} in {}", pattern.cron, stretch.zone);
            }
        }
    }
}

fn next(cron: &str, zone_name: &str, after: &str, want: &[&str]) {
    let (_, zone) = zone(zone_name).unwrap();
    let cron_of = Cron::parse(cron).unwrap();
    let mut at = wall(after);
    for want in want {
        at = cron_of.next(&zone, at).unwrap();
        assert_eq!(at, wall(want), "{cron} in {zone_name}");
    }
}

#[test]
fn a_time_that_the_clock_leaves_out_comes_right_after_the_gap() {
    // In Rome 02:00 to 03:00 is left out on 29 March: at 01:00 UTC the clock shows 03:00.
    let day = ["2026-03-28T01:30:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:30:00Z"];
    next("30 2 * * *", "Europe/Rome", "2026-03-28T00:00:00Z", &day);
    // Also when the gap is long: three hours, or the day on which Samoa crossed the date line.
    let casey = ["2020-10-02T16:30:00Z", "2020-10-03T16:01:00Z", "2020-10-04T13:30:00Z"];
    next("30 0 * * *", "Antarctica/Casey", "2020-10-02T12:00:00Z", &casey);
    let samoa = ["2011-12-29T22:00:00Z", "2011-12-30T10:00:00Z", "2011-12-30T22:00:00Z"];
    next("0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", &samoa);
    // More than one time: what is left out does not come.
    let night = ["2026-03-29T00:40:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z"];
    next("*/20 1-3 * * *", "Europe/Rome", "2026-03-29T00:20:00Z", &night);
    let twice_a_day = ["2026-03-28T13:00:00Z", "2026-03-29T12:00:00Z"];
    next("0 2,14 * * *", "Europe/Rome", "2026-03-28T02:00:00Z", &twice_a_day);
}

#[test]
fn a_time_of_day_that_comes_twice_counts_the_first_time() {
    // In Rome 02:00 to 03:00 comes twice on 25 October, from 00:00 UTC and from 01:00 UTC.
    let day = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    next("30 2 * * *", "Europe/Rome", "2026-10-24T12:00:00Z", &day);
    // Also when somebody asks in between.
    next("30 2 * * *", "Europe/Rome", "2026-10-25T01:10:00Z", &["2026-10-26T01:30:00Z"]);
    // More than one time: both are ticks.
    let hours = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"];
    next("30 * * * *", "Europe/Rome", "2026-10-25T00:00:00Z", &hours);
    let twice_a_day = ["2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T13:00:00Z"];
    next("0 2,14 * * *", "Europe/Rome", "2026-10-24T23:00:00Z", &twice_a_day);
}

/// Ticks only go forward, in every zone there is, over every change of its clock in these years.
#[test]
fn in_no_zone_does_a_tick_come_again() {
    let patterns = ["30 0 * * *", "0 3 * * *", "*/30 * * * *", "15 0-4/2,23 * * *"];
    let (from, to) = (wall("2026-06-01T00:00:00Z"), wall("2028-06-01T00:00:00Z"));
    let mut changes = 0;
    for name in jiff::tz::TimeZoneDatabase::bundled().available() {
        let Ok((_, zone)) = zone(name.as_str()) else { continue };
        let from = jiff::Timestamp::from_millisecond(from.0).unwrap();
        for change in zone.following(from) {
            let at = change.timestamp().as_millisecond();
            if at > to.0 {
                break;
            }
            changes += 1;
            for cron in patterns {
                only_forward(&Cron::parse(cron).unwrap(), &zone, at);
            }
        }
    }
    assert!(changes > 500, "{changes} changes were seen");
}

/// Asks from moments around a change, and goes on from each answer: it is one row of ticks.
fn only_forward(cron: &Cron, zone: &jiff::tz::TimeZone, change: i64) {
    let (start, end) = (change - 5 * 3_600_000, change + 5 * 3_600_000);
    let mut row = vec![cron.next(zone, Wall(start)).unwrap()];
    while row.last().unwrap().0 <= end {
        let last = *row.last().unwrap();
        let tick = cron.next(zone, last).unwrap();
        assert!(tick > last, "{:?} after {last:?}", zone.iana_name());
        row.push(tick);
    }
    for ms in (start..end).step_by(3 * 17 * 60_000 + 13_001) {
        let want = row.iter().find(|tick| tick.0 > ms).copied();
        assert_eq!(cron.next(zone, Wall(ms)), want, "{:?} after {ms}", zone.iana_name());
    }
}

#[test]
fn the_day_of_a_leap_year_comes_even_after_eight_years() {
    let days = ["2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"];
    next("0 0 29 2 *", "UTC", "2092-03-01T00:00:00Z", &days);
    next("* * 29 2 *", "UTC", "2096-02-29T23:59:00Z", &["2104-02-29T00:00:00Z"]);
}

#[test]
fn at_the_end_of_time_there_is_no_next_tick() {
    let (_, zone) = zone("UTC").unwrap();
    for cron in ["* * * * *", "0 0 * * *"] {
        let cron = Cron::parse(cron).unwrap();
        assert_eq!(cron.next(&zone, wall("9999-12-30T22:00:00Z")), None);
        assert_eq!(cron.next(&zone, Wall(i64::MAX)), None);
    }
}

/// What is wrong with a pattern, or nothing.
fn refused(cron: &str, want: &str) {
    let found = match check("nightly", content(cron, "UTC", CatchUp::Skip)) {
        Ok(_) => String::new(),
        Err(refusal) => {
            assert_eq!(refusal.code().as_str(), "schedule_invalid");
            refusal.to_string()
        }
    };
    assert_eq!(found, want, "{cron:?}");
}

#[test]
fn a_bad_pattern_is_told_what_is_wrong() {
    let fields = "write minute, hour, day of month, month, day of week";
    for cron in ["* * * * *", " 0  3 * * * ", "@Daily", "0-59/7 0 1,15 jan-Jun sun", "0 0 * * 7"] {
        refused(cron, "");
    }
    refused("", &format!("the pattern is empty; {fields}"));
    refused("0 3 * *", &format!("the pattern has 4 fields; {fields}"));
    let seconds = "the pattern has 6 fields: seconds and years are not taken";
    refused("*/10 * * * * *", &format!("{seconds}; {fields}"));
    refused("60 * * * *", "minute `60`: number out of bounds; values are 0 to 59");
    refused("* 24 * * *", "hour `24`: number out of bounds; values are 0 to 23");
    refused("* * 0 * *", "day of month `0`: number out of bounds; values are 1 to 31");
    refused("* * * 13 *", "month `13`: number out of bounds; values are 1 to 12 or JAN to DEC");
    refused("* * * * 8", "day of week `8`: number out of bounds; values are 0 to 7 or SUN to SAT");
    refused("30-10 * * * *", "minute `30-10`: range out of bounds; values are 0 to 59");
    refused("*/99 * * * *", "minute `*/99`: the step is out of range");
    refused("*/0 * * * *", "minute `*/0`: the step is out of range");
    for (cron, field) in [("+5 * * * *", "minute `+5`: "), ("5/10 * * * *", "minute `5/10`: ")] {
        let error = Cron::parse(cron).unwrap_err();
        assert!(error.why.starts_with(field), "{error}");
    }
    let never = "never comes: there is no such day";
    for cron in ["0 0 30 2 *", "0 0 31 4,6 *", "0 0 30W 2 *", "0 0 8-31 * +MON#1"] {
        refused(cron, &format!("`{cron}` {never}"));
    }
    let names = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly";
    refused("@reboot", &format!("`@reboot` is none of {names}"));
    refused(&"1,".repeat(300), "the pattern has 600 bytes, the most is 500");
    refused("\u{1b}[2J * * * *", "minute `\u{fffd}[2J`: values are 0 to 59");
}

/// Croner takes these, and not for what they say.
#[test]
fn a_pattern_that_would_be_misread_is_refused() {
    refused("1,,2 * * * *", "minute ``: a value is missing");
    refused(", * * * *", "minute ``: a value is missing");
    refused("0 0 1 * +", "day of week ``: a value is missing");
    refused("MON * * * *", "minute `MON`: values are 0 to 59");
    refused("0 0 MON * *", "day of month `MON`: values are 1 to 31");
    refused("0 0 * * JAN", "day of week `JAN`: values are 0 to 7 or SUN to SAT");
    refused("0 0 * 1JAN *", "month `1JAN`: values are 1 to 12 or JAN to DEC");
    refused("0 0 15W9 * *", "day of month `15W9`: values are 1 to 31");
    refused("0 0 L,LW * *", "day of month `L,LW`: `L` and `LW` do not go together");
    refused("0 0 1 * L", "day of week `L`: say which day, such as 5L");
    refused("0 0 1 * 7L", "day of week `7L`: the last Sunday is 0L");
    refused("0 0 1 * sat-sun#L", "day of week `SAT-SUN#L`: the last Sunday is 0L");
}

#[test]
fn special_days_are_those_of_the_month() {
    next("0 0 L 2 *", "UTC", "2028-01-01T00:00:00Z", &["2028-02-29T00:00:00Z"]);
    next("0 0 LW * *", "UTC", "2026-05-01T00:00:00Z", &["2026-05-29T00:00:00Z"]);
    next("0 0 15W * *", "UTC", "2026-08-01T00:00:00Z", &["2026-08-14T00:00:00Z"]);
    next("0 0 * * FRI#2", "UTC", "2026-11-01T00:00:00Z", &["2026-11-13T00:00:00Z"]);
    next("0 0 * * SUNL", "UTC", "2026-11-01T00:00:00Z", &["2026-11-29T00:00:00Z"]);
    next("0 0 13 * +FRI", "UTC", "2026-03-14T00:00:00Z", &["2026-11-13T00:00:00Z"]);
    next("0 0 ? * MON", "UTC", "2026-11-17T00:00:00Z", &["2026-11-23T00:00:00Z"]);
    next("0 0 29 2 +MON", "UTC", "2044-03-01T00:00:00Z", &["2072-02-29T00:00:00Z"]);
}

/// The longest search there is: four hundred years without such a day.
#[test]
fn a_pattern_that_never_comes_is_refused_in_bounded_time() {
    // Bounded by croner's own limit: a search without one would never come back.
    assert!(Cron::parse("*/1 */1 31 2 *").is_err());
    assert!(Cron::parse("* * 8-31 * +MON#1").is_err());
}

#[test]
fn a_bad_zone_or_name_is_told_what_is_wrong() {
    let refused = |name: &str, zone: &str, want: &str| {
        let found = check(name, content("@daily", zone, CatchUp::Skip)).unwrap_err();
        assert_eq!(found, Refusal::Invalid(want.to_owned()), "{name} {zone}");
    };
    refused("a", "Europe/Atlantis", "there is no time zone `Europe/Atlantis`");
    refused("a", "", "there is no time zone ``");
    refused("a", "+02:00", "there is no time zone `+02:00`");
    refused("a", "Etc/Unknown", "there is no time zone `Etc/Unknown`");
    refused("a", "../../etc/passwd", "there is no time zone `../../etc/passwd`");
    refused("a b", "UTC", "the schedule's name has whitespace");
    refused("", "UTC", "the schedule's name is empty");
    refused(&",".repeat(100), "UTC", "the schedule's name is too long as a key");
    let known = check("a", content("@daily", "europe/ROME", CatchUp::Skip)).unwrap();
    assert_eq!(known.zone, "Europe/Rome");
}

/// A thousand hostile texts are read, each in time that its length bounds.
#[test]
fn reading_takes_no_longer_than_the_text_is() {
    for sign in ["*", "*/", ",", "-", "1-", "0-59/1,", "@", "L", "%", "\u{0}", "((((a+)+)+)+"] {
        for repeat in [1, 10, 100, 1_000, 100_000] {
            let text = sign.repeat(repeat);
            for cron in [text.clone(), format!("{text} * * * *"), format!("* * * * {text}")] {
                if let Ok(cron) = Cron::parse(&cron) {
                    let (_, zone) = zone("UTC").unwrap();
                    assert!(cron.next(&zone, Wall(0)).is_some());
                }
            }
        }
    }
}
