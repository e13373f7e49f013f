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
    // Several that are left out are one tick, together with the one that is there anyway.
    let night = ["2026-03-29T00:40:00Z", "2026-03-29T01:00:00Z", "2026-03-29T01:20:00Z"];
    next("*/20 1-3 * * *", "Europe/Rome", "2026-03-29T00:20:00Z", &night);
    // For every hour: what is left out does not come.
    let hours = ["2026-03-29T00:35:00Z", "2026-03-29T01:05:00Z"];
    next("5,35 * * * *", "Europe/Rome", "2026-03-29T00:05:00Z", &hours);
}

#[test]
fn a_time_that_comes_twice_counts_the_first_time() {
    // In Rome 02:00 to 03:00 comes twice on 25 October, from 00:00 UTC and from 01:00 UTC.
    let day = ["2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"];
    next("30 2 * * *", "Europe/Rome", "2026-10-24T12:00:00Z", &day);
    // Also when somebody asks in between.
    next("30 2 * * *", "Europe/Rome", "2026-10-25T01:10:00Z", &["2026-10-26T01:30:00Z"]);
    // For every hour: both are ticks.
    let hours = ["2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-25T02:30:00Z"];
    next("30 * * * *", "Europe/Rome", "2026-10-25T00:00:00Z", &hours);
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
    refused("60 * * * *", "minute `60`: values are 0 to 59");
    refused("* 24 * * *", "hour `24`: values are 0 to 23");
    refused("* * 0 * *", "day of month `0`: values are 1 to 31");
    refused("* * * 13 *", "month `13`: values are 1 to 12 or JAN to DEC");
    refused("* * * * 8", "day of week `8`: values are 0 to 7 or SUN to SAT");
    refused("* * L * *", "day of month `L`: values are 1 to 31");
    refused("+5 * * * *", "minute `+5`: values are 0 to 59");
    refused("1,,2 * * * *", "minute ``: values are 0 to 59");
    refused("30-10 * * * *", "minute `30-10`: a range goes from the smaller to the larger");
    refused("5/10 * * * *", "minute `5/10`: a step follows `*` or a range, such as 0-59/15");
    refused("*/0 * * * *", "minute `*/0`: the step is out of range");
    refused("*/99 * * * *", "minute `*/99`: the step is out of range");
    refused("0 0 30 2 *", "`0 0 30 2 *` never comes: no such month has that day");
    refused("0 0 31 4,6 *", "`0 0 31 4,6 *` never comes: no such month has that day");
    let names = "@yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly";
    refused("@reboot", &format!("`@reboot` is none of {names}"));
    refused(&"1,".repeat(300), "the pattern has 600 bytes, the most is 500");
    refused("\u{1b}[2J * * * *", "minute `\u{fffd}[2J`: values are 0 to 59");
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
