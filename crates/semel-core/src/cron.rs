//! Cron patterns: which minutes of a time zone are ticks.
//!
//! Five fields: minute, hour, day of month, month, day of week. Reading one takes time in
//! proportion to its length and builds five sets of bits; nothing in it is evaluated.
//!
//! A pattern that names hours speaks of the time of day. A time that the clock leaves out, because
//! it is put forward, comes right after the gap; one that comes twice, because it is put back,
//! counts the first time. A pattern for every hour speaks of the clock as it runs: what is left out
//! does not come, and what comes twice is two ticks.

mod parse;

use jiff::Timestamp;
use jiff::civil::{Date, DateTime};
use jiff::tz::{AmbiguousOffset, TimeZone, TimeZoneDatabase};

use crate::time::Wall;

/// A pattern, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cron {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    /// Sunday is 0.
    weekdays: u64,
    /// Both kinds of day are named: either of them is enough, as cron has always had it.
    either_day: bool,
}

/// Why a text is not a pattern, or not a time zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CronInvalid {
    /// What is wrong, as a sentence for people.
    pub why: String,
}

impl std::fmt::Display for CronInvalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.why)
    }
}

impl std::error::Error for CronInvalid {}

/// Twenty-four bits: the pattern is for every hour.
const EVERY_HOUR: u64 = (1 << 24) - 1;

/// From one 29 February to the next it may be eight years; what does not come in nine never does.
const DAYS_LOOKED_AT_MAX: usize = 9 * 366;

impl Cron {
    /// Reads five fields, or one of the names such as `@daily`.
    pub fn parse(text: &str) -> Result<Cron, CronInvalid> {
        parse::pattern(text)
    }

    /// The first tick after a moment; `None` when there is none.
    pub fn next(&self, zone: &TimeZone, after: Wall) -> Option<Wall> {
        let after = Timestamp::from_millisecond(after.0).ok()?;
        let found = if self.hours == EVERY_HOUR {
            self.next_by_clock(zone, after)
        } else {
            self.next_by_day(zone, after)
        };
        found.map(|tick| Wall(tick.as_millisecond()))
    }

    /// Goes along the times of day. Later ones never come before earlier ones, so the first that
    /// comes after the moment is the one.
    fn next_by_day(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let mut time = zone.to_datetime(after);
        loop {
            time = self.time_of_day(time)?;
            let tick = moment_of(zone, time)?;
            if tick > after {
                return Some(tick);
            }
            time = next_minute(time)?;
        }
    }

    /// The first time of day that matches, from this one on.
    fn time_of_day(&self, from: DateTime) -> Option<DateTime> {
        let mut date = from.date();
        let mut clock = Some((number(from.hour()), number(from.minute())));
        for _ in 0..DAYS_LOOKED_AT_MAX {
            if self.has_day(date)
                && let Some((hour, minute)) = self.on_a_day(clock.unwrap_or((0, 0)))
            {
                return Some(date.at(small(hour), small(minute), 0, 0));
            }
            clock = None;
            date = date.tomorrow().ok()?;
        }
        None
    }

    /// The first hour and minute of a day, not before these.
    fn on_a_day(&self, (hour, minute): (u32, u32)) -> Option<(u32, u32)> {
        let first = bit_from(self.hours, hour)?;
        if first == hour
            && let Some(minute) = bit_from(self.minutes, minute)
        {
            return Some((hour, minute));
        }
        let later = if first == hour { bit_from(self.hours, hour + 1)? } else { first };
        Some((later, self.minutes.trailing_zeros()))
    }

    /// Goes along the clock as it runs, and looks at what it shows.
    fn next_by_clock(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        let shown = zone.to_datetime(after);
        let into_minute_ms = i64::from(shown.second()) * 1_000 + i64::from(shown.millisecond());
        let mut at = later(after, 60_000 - into_minute_ms)?;
        let mut days = 0;
        while days < DAYS_LOOKED_AT_MAX {
            let shown = zone.to_datetime(at);
            let minute = number(shown.minute());
            let minutes = if !self.has_day(shown.date()) {
                days += 1;
                24 * 60 - number(shown.hour()) * 60 - minute
            } else {
                match bit_from(self.minutes, minute) {
                    Some(found) if found == minute => return Some(at),
                    Some(found) => found - minute,
                    None => 60 - minute,
                }
            };
            at = along(zone, at, i64::from(minutes) * 60_000)?;
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        if !has_bit(self.months, date.month()) {
            return false;
        }
        let (by_date, by_weekday) = (
            has_bit(self.days, date.day()),
            has_bit(self.weekdays, date.weekday().to_sunday_zero_offset()),
        );
        if self.either_day { by_date || by_weekday } else { by_date && by_weekday }
    }
}

/// Finds a time zone by its name, in the database that is built in: what a name means never depends
/// on the machine. Upper and lower case are the same; the name comes back as it is known.
pub fn zone(name: &str) -> Result<(String, TimeZone), CronInvalid> {
    let unknown = || CronInvalid { why: format!("there is no time zone `{}`", parse::shown(name)) };
    let zone = TimeZoneDatabase::bundled().get(name).map_err(|_| unknown())?;
    match zone.iana_name() {
        Some(known) if !zone.is_unknown() => Ok((known.to_owned(), zone)),
        Some(_) | None => Err(unknown()),
    }
}

/// When a time of day comes: the first time, where it comes twice; right after the gap, where it is
/// left out.
fn moment_of(zone: &TimeZone, time: DateTime) -> Option<Timestamp> {
    let ambiguous = zone.to_ambiguous_timestamp(time);
    match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(time).ok()
        }
        AmbiguousOffset::Gap { after, .. } => {
            let before_gap = after.to_timestamp(time).ok()?;
            let mut changes = zone.following(before_gap);
            changes.find(|change| change.offset() == after).map(|change| change.timestamp())
        }
    }
}

/// So many milliseconds later, but not beyond a change of the clock: there it shows something else.
fn along(zone: &TimeZone, at: Timestamp, ms: i64) -> Option<Timestamp> {
    let target = later(at, ms)?;
    if zone.to_offset(at) == zone.to_offset(target) {
        return Some(target);
    }
    let change = zone.following(at).find(|change| change.offset() != zone.to_offset(at))?;
    Some(change.timestamp().min(target))
}

fn later(at: Timestamp, ms: i64) -> Option<Timestamp> {
    Timestamp::from_millisecond(at.as_millisecond().checked_add(ms)?).ok()
}

fn next_minute(time: DateTime) -> Option<DateTime> {
    let minute = time.date().at(time.hour(), time.minute(), 0, 0);
    minute.checked_add(jiff::SignedDuration::from_mins(1)).ok()
}

fn has_bit(set: u64, bit: i8) -> bool {
    set >> number(bit) & 1 == 1
}

/// The first bit that is set, from this one on.
fn bit_from(set: u64, bit: u32) -> Option<u32> {
    let rest = set.checked_shr(bit)?;
    (rest != 0).then(|| bit + rest.trailing_zeros())
}

fn number(part: i8) -> u32 {
    u32::try_from(part).expect("no part of a date is negative")
}

fn small(part: u32) -> i8 {
    i8::try_from(part).expect("no part of a date is above 59")
}
