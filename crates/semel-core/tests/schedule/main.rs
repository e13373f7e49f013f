//! Schedules: patterns, the clock's changes, and which ticks fire.

mod oracle;
mod patterns;
mod rules;
mod walk;

use semel_core::json::Json;
use semel_core::schedule::{CatchUp, Change, Content, Schedule, put};
use semel_core::time::{Moment, Steady, Wall};

/// A time, as people write it.
pub(crate) fn wall(text: &str) -> Wall {
    Wall(text.parse::<jiff::Timestamp>().expect("a time").as_millisecond())
}

pub(crate) fn at(wall: Wall) -> Moment {
    Moment { wall, steady: Steady { boot: 1, ms: wall.0 }, wall_is_behind: false }
}

pub(crate) fn content(cron: &str, zone: &str, catch_up: CatchUp) -> Content {
    Content {
        workflow: "report".to_owned(),
        input: Json::null(),
        cron: cron.to_owned(),
        zone: zone.to_owned(),
        catch_up,
        window_ms: semel_core::limits::WINDOW_MS,
    }
}

pub(crate) fn schedule(cron: &str, zone: &str, catch_up: CatchUp, created: Wall) -> Schedule {
    changed(put(None, &content(cron, zone, catch_up), &at(created)))
}

/// What a schedule was changed to.
pub(crate) fn changed(change: Change) -> Schedule {
    match change {
        Change::To(schedule) => *schedule,
        Change::Nothing | Change::SettleFirst => panic!("not changed: {change:?}"),
    }
}
