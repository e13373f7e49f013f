//! What the ticks are, found without the rules: every minute of a stretch of time is looked at, one
//! after the other, as a clock on the wall would show it.

use jiff::civil::DateTime;
use semel_core::time::Wall;

/// A pattern in words that no parser reads.
pub(crate) struct Pattern {
    pub(crate) cron: &'static str,
    pub(crate) matches: fn(DateTime) -> bool,
    /// One minute of one hour: it follows the time of day, instead of the clock as it runs.
    pub(crate) is_fixed: bool,
}

/// One minute on a wall.
#[derive(Clone, Copy)]
struct Minute {
    at: Wall,
    shown: DateTime,
    /// The clock has shown this before: it was put back.
    is_again: bool,
    /// What the clock would have shown next, had it not been put forward.
    expected: DateTime,
}

/// A stretch of time in one zone.
pub(crate) struct Stretch {
    pub(crate) zone: &'static str,
    pub(crate) from: Wall,
    pub(crate) to: Wall,
    minutes: Vec<Minute>,
}

const MINUTE_MS: i64 = 60_000;

impl Stretch {
    pub(crate) fn new(zone: &'static str, from: &str, days: i64) -> Stretch {
        let from = crate::wall(from);
        let to = Wall(from.0 + days * 24 * 60 * MINUTE_MS);
        let clock = jiff::tz::TimeZoneDatabase::bundled().get(zone).expect("a zone");
        let shown = |at: i64| clock.to_datetime(jiff::Timestamp::from_millisecond(at).unwrap());
        let minute = jiff::SignedDuration::from_mins(1);
        let mut latest = shown(from.0);
        let mut before = latest;
        let mut minutes = Vec::new();
        for at in (from.0 + MINUTE_MS..=to.0).step_by(60_000) {
            let now = shown(at);
            let expected = before.checked_add(minute).unwrap();
            minutes.push(Minute { at: Wall(at), shown: now, is_again: now <= latest, expected });
            latest = latest.max(now);
            before = now;
        }
        Stretch { zone, from, to, minutes }
    }

    /// All ticks after the beginning.
    pub(crate) fn ticks(&self, pattern: &Pattern) -> Vec<Wall> {
        let is_tick = |minute: &Minute| {
            let counts = !pattern.is_fixed || !minute.is_again;
            let is_shown = counts && (pattern.matches)(minute.shown);
            is_shown || (pattern.is_fixed && was_left_out(minute, pattern.matches))
        };
        self.minutes.iter().filter(|minute| is_tick(minute)).map(|minute| minute.at).collect()
    }
}

/// Whether the clock was put forward to this minute, over one that matches, and into a day on which
/// its time matches too.
fn was_left_out(minute: &Minute, matches: fn(DateTime) -> bool) -> bool {
    let mut left_out = minute.expected;
    while left_out < minute.shown {
        if matches(left_out) && matches(minute.shown.date().to_datetime(left_out.time())) {
            return true;
        }
        left_out = left_out.checked_add(jiff::SignedDuration::from_mins(1)).unwrap();
    }
    false
}

/// Stretches in which clocks are changed, and some in which they are not.
pub(crate) fn stretches() -> Vec<Stretch> {
    vec![
        Stretch::new("UTC", "2026-02-25T00:00:00Z", 10),
        Stretch::new("Europe/Rome", "2026-03-25T00:00:00Z", 8),
        Stretch::new("Europe/Rome", "2026-10-21T00:00:00Z", 8),
        Stretch::new("America/New_York", "2026-03-04T00:00:00Z", 8),
        Stretch::new("America/New_York", "2026-10-28T00:00:00Z", 8),
        // Half an hour.
        Stretch::new("Australia/Lord_Howe", "2026-04-01T00:00:00Z", 8),
        Stretch::new("Australia/Lord_Howe", "2026-10-01T00:00:00Z", 8),
        // At midnight, and a minute after it: another day comes twice.
        Stretch::new("America/Sao_Paulo", "2018-10-31T00:00:00Z", 8),
        Stretch::new("America/Sao_Paulo", "2018-02-14T00:00:00Z", 8),
        Stretch::new("America/St_Johns", "2006-10-26T00:00:00Z", 8),
        // Into the next day.
        Stretch::new("Asia/Dhaka", "2009-06-17T00:00:00Z", 8),
        // Three hours.
        Stretch::new("Antarctica/Casey", "2020-10-01T00:00:00Z", 8),
        // A whole day was left out.
        Stretch::new("Pacific/Apia", "2011-12-26T00:00:00Z", 8),
    ]
}

pub(crate) fn patterns() -> Vec<Pattern> {
    let of = |cron, is_fixed, matches| Pattern { cron, matches, is_fixed };
    vec![
        of("* * * * *", false, |_| true),
        of("*/15 * * * *", false, |t| t.minute() % 15 == 0),
        of("5,35 * * * *", false, |t| t.minute() == 5 || t.minute() == 35),
        of("@hourly", false, |t| t.minute() == 0),
        of("59 * 28-31 * *", false, |t| t.minute() == 59 && t.day() >= 28),
        of("* * * * SAT", false, |t| t.weekday().to_sunday_zero_offset() == 6),
        of("* * 29 10 *", false, |t| t.month() == 10 && t.day() == 29),
        of("0 3 * * *", true, |t| t.hour() == 3 && t.minute() == 0),
        of("30 2 * * *", true, |t| t.hour() == 2 && t.minute() == 30),
        of("*/20 1-3 * * *", false, |t| (1..=3).contains(&t.hour()) && t.minute() % 20 == 0),
        of("0 1 * * *", true, |t| (t.hour(), t.minute()) == (1, 0)),
        of("15 0 * * *", true, |t| (t.hour(), t.minute()) == (0, 15)),
        of("30 23 19 6 *", true, |t| (t.month(), t.day(), t.hour(), t.minute()) == (6, 19, 23, 30)),
        of("30 23 * * *", true, |t| (t.hour(), t.minute()) == (23, 30)),
        of("0 12 30 12 *", true, |t| (t.month(), t.day(), t.hour(), t.minute()) == (12, 30, 12, 0)),
        of("0 2,14 * * *", false, |t| t.minute() == 0 && matches!(t.hour(), 2 | 14)),
        of("0 5 L * *", true, |t| {
            t.day() == t.date().days_in_month() && (t.hour(), t.minute()) == (5, 0)
        }),
        of("0 5 29W * *", true, |t| {
            let day = t.date().with().day(29.min(t.date().days_in_month())).build().unwrap();
            let moved = match day.weekday().to_sunday_zero_offset() {
                6 => 28,
                0 if day.days_in_month() > 29 => 30,
                0 => 27,
                _ => 29,
            };
            let has_29 = t.date().days_in_month() >= 29;
            has_29 && t.day() == moved && (t.hour(), t.minute()) == (5, 0)
        }),
        of("*/30 2 * * SUN#L,SAT#1", false, |t| {
            let is_last = t.day() + 7 > t.date().days_in_month();
            let is_day = match t.weekday().to_sunday_zero_offset() {
                0 => is_last,
                6 => t.day() <= 7,
                _ => false,
            };
            is_day && t.hour() == 2 && t.minute() % 30 == 0
        }),
        of("0 1 25-31 * +SUN", true, |t| {
            let is_day = t.day() >= 25 && t.weekday().to_sunday_zero_offset() == 0;
            is_day && (t.hour(), t.minute()) == (1, 0)
        }),
        of("* 2 * * *", false, |t| t.hour() == 2),
        of("@daily", true, |t| t.hour() == 0 && t.minute() == 0),
        of("0 0,23 * * 7", false, |t| {
            t.weekday().to_sunday_zero_offset() == 0
                && t.minute() == 0
                && matches!(t.hour(), 0 | 23)
        }),
        of("30 23 29 10 *", true, |t| {
            (t.month(), t.day(), t.hour(), t.minute()) == (10, 29, 23, 30)
        }),
        of("0 */2 * * *", false, |t| t.minute() == 0 && t.hour() % 2 == 0),
        of("15 9 * * MON-FRI", true, |t| {
            t.weekday().to_monday_one_offset() <= 5 && (t.hour(), t.minute()) == (9, 15)
        }),
        of("0 12 30 * FRI", true, |t| {
            let is_day = t.day() == 30 || t.weekday().to_sunday_zero_offset() == 5;
            is_day && (t.hour(), t.minute()) == (12, 0)
        }),
        of("7 9-17/4 * mar,OCT *", false, |t| {
            let is_month = t.month() == 3 || t.month() == 10;
            is_month && t.minute() == 7 && [9, 13, 17].contains(&t.hour())
        }),
    ]
}
