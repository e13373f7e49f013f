//! Cron patterns: which minutes of a time zone are ticks. Croner reads and searches them; here is
//! what Semel refuses, and where a search ends.

mod refuse;

use croner::Cron as Pattern;
use croner::parser::{CronParser, Seconds, Year};
use jiff::civil::DateTime;
use jiff::tz::{TimeZone, TimeZoneDatabase};
use jiff::{SignedDuration, Timestamp};

use crate::time::Wall;

/// A pattern, read. There is a day that it comes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cron {
    pattern: Pattern,
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

/// The calendar repeats itself after 400 years, and croner looks no further than the year 5000:
/// what does not come in between never does.
const LAST_CYCLE: DateTime = DateTime::constant(4600, 1, 1, 0, 0, 0, 0);

/// Croner gives up on a time that is further than this from the end of its gap.
const CRONER_GAP_MAX: SignedDuration = SignedDuration::from_hours(2);

/// More changes of the clock than any zone has on record; those by rule are no long gaps.
const CHANGES_LOOKED_AT_MAX: usize = 1_000;

impl Cron {
    /// Reads five fields, or one of the names such as `@daily`.
    pub fn parse(text: &str) -> Result<Cron, CronInvalid> {
        let written_out = refuse::misread(text)?;
        let pattern = read(&written_out).map_err(|error| refuse::blame(&written_out, &error))?;
        if pattern.find_next_occurrence(&LAST_CYCLE, true).is_err() {
            return Err(refuse::never_comes(text));
        }
        Ok(Cron { pattern })
    }

    /// The first tick after a moment; `None` when there is none.
    pub fn next(&self, zone: &TimeZone, after: Wall) -> Option<Wall> {
        let mut from = Timestamp::from_millisecond(after.0).ok()?;
        let tick = loop {
            let Some(found) = self.search(zone, from, false) else {
                break self.behind_long_gap(zone, from)?;
            };
            // What is not later has been: better no tick than one that fires twice.
            if found <= from {
                return None;
            }
            if self.is_tick(zone, found) {
                break found;
            }
            from = found;
        };
        Some(Wall(tick.as_millisecond()))
    }

    fn search(&self, zone: &TimeZone, from: Timestamp, inclusive: bool) -> Option<Timestamp> {
        let from = from.to_zoned(zone.clone());
        let found = self.pattern.find_next_occurrence(&from, inclusive);
        found.ok().map(|tick| tick.timestamp())
    }

    /// Whether the clock shows a time of the pattern, or left one out right before. Croner 4.0.2
    /// also gives the end of a gap for a pattern whose time was in the hour before it: `0 1 * * *`
    /// would come at 01:00 and again at 03:00.
    fn is_tick(&self, zone: &TimeZone, found: Timestamp) -> bool {
        let shown = zone.to_datetime(found);
        self.pattern.is_time_matching(&shown).is_ok_and(|is_one| is_one)
            || gap(zone, found).is_some_and(|(from, to)| self.is_left_out(from, to))
    }

    /// Goes on where croner gave up: a clock that was put forward by more than two hours would
    /// otherwise end the schedule.
    fn behind_long_gap(&self, zone: &TimeZone, after: Timestamp) -> Option<Timestamp> {
        for change in zone.following(after).take(CHANGES_LOOKED_AT_MAX) {
            let end = change.timestamp();
            let (gap_from, gap_to) = gap(zone, end)?;
            if gap_to.duration_since(gap_from) <= CRONER_GAP_MAX {
                continue;
            }
            if self.is_left_out(gap_from, gap_to) {
                return Some(end);
            }
            if let Some(tick) = self.search(zone, end, true) {
                return Some(tick);
            }
        }
        None
    }

    /// Whether a time of the pattern falls into a gap that ends on one of its days: croner's rule.
    fn is_left_out(&self, gap_from: DateTime, gap_to: DateTime) -> bool {
        let Ok(time) = self.pattern.find_next_occurrence(&gap_from, true) else { return false };
        let that_day = gap_to.date().to_datetime(time.time());
        time < gap_to && self.pattern.is_time_matching(&that_day).is_ok_and(|is_one| is_one)
    }
}

/// Finds a time zone by its name, in the database that is built in: what a name means never depends
/// on the machine. Upper and lower case are the same; the name comes back as it is known.
pub fn zone(name: &str) -> Result<(String, TimeZone), CronInvalid> {
    let unknown =
        || CronInvalid { why: format!("there is no time zone `{}`", refuse::shown(name)) };
    let zone = TimeZoneDatabase::bundled().get(name).map_err(|_| unknown())?;
    match zone.iana_name() {
        Some(known) if !zone.is_unknown() => Ok((known.to_owned(), zone)),
        Some(_) | None => Err(unknown()),
    }
}

/// What the clock would show at this moment, had it not been changed now, and what it shows.
fn gap(zone: &TimeZone, end: Timestamp) -> Option<(DateTime, DateTime)> {
    let before = zone.to_offset(end.checked_sub(SignedDuration::from_secs(1)).ok()?);
    Some((before.to_datetime(end), zone.to_datetime(end)))
}

/// Five fields and nothing else: a tick is a minute.
fn read(text: &str) -> Result<Pattern, croner::errors::CronError> {
    let parser = CronParser::builder().seconds(Seconds::Disallowed).year(Year::Disallowed);
    parser.build().parse(text)
}
