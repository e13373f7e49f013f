//! Views: how a schedule is shown. API, CLI and console render exactly these.

use serde::Serialize;

use crate::cron::{self, CronInvalid};
use crate::json::Json;
use crate::schedule::{self, Schedule};
use crate::time::{Moment, Wall, format_duration_ms};
use crate::wire::rfc3339;

/// One schedule, as everybody sees it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleView {
    pub namespace: String,
    pub name: String,
    /// `active` or `paused`.
    pub state: &'static str,
    pub version: u64,
    pub workflow: String,
    pub cron: String,
    pub zone: String,
    /// `skip`, `once` or `all`.
    pub catch_up: &'static str,
    pub input: Json,
    pub replay_window: String,
    pub created_at: String,
    /// The latest tick that was decided on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last: Option<TickView>,
    pub fired: u64,
    pub skipped: u64,
    /// The next ticks; none of them fires while it is paused.
    pub next: Vec<TickView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<PausedView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<TroubleView>,
}

/// A tick, in UTC and as the clocks of the time zone show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TickView {
    pub utc: String,
    pub local: String,
}

/// Who stopped a schedule.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PausedView {
    pub actor: String,
    pub reason: String,
    pub at: String,
}

/// The last tick whose run could not simply be started.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TroubleView {
    pub tick: String,
    pub code: String,
    pub detail: String,
}

/// Shows a schedule as it is at a moment, with so many of its next ticks.
pub fn schedule_view(
    (namespace, name, version): (&str, &str, u64),
    schedule: &Schedule,
    now: &Moment,
    ticks: usize,
) -> Result<ScheduleView, CronInvalid> {
    let content = &schedule.content;
    let tick = |at: Wall| tick_view(at, &content.zone);
    Ok(ScheduleView {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        state: if schedule.paused.is_some() { "paused" } else { "active" },
        version,
        workflow: content.workflow.clone(),
        cron: content.cron.clone(),
        zone: content.zone.clone(),
        catch_up: content.catch_up.as_str(),
        input: content.input.clone(),
        replay_window: format_duration_ms(content.window_ms),
        created_at: rfc3339(schedule.created),
        last: schedule.last.map(tick).transpose()?,
        fired: schedule.fired,
        skipped: schedule.skipped,
        next: next_ticks(schedule, now, ticks)?.into_iter().map(tick).collect::<Result<_, _>>()?,
        paused: schedule.paused.as_ref().map(|paused| PausedView {
            actor: paused.actor.clone(),
            reason: paused.reason.clone(),
            at: rfc3339(paused.at),
        }),
        trouble: schedule.trouble.as_ref().map(|trouble| TroubleView {
            tick: rfc3339(trouble.tick),
            code: trouble.code.clone(),
            detail: trouble.detail.clone(),
        }),
    })
}

/// The ticks to come. What was decided on, by a clock that was ahead, does not come again.
fn next_ticks(schedule: &Schedule, now: &Moment, most: usize) -> Result<Vec<Wall>, CronInvalid> {
    let mut ticks = Vec::new();
    let mut after = schedule.last.map_or(now.wall, |last| last.max(now.wall));
    while ticks.len() < most
        && let Some(tick) = schedule::next_tick(&schedule.content, after)?
    {
        ticks.push(tick);
        after = tick;
    }
    Ok(ticks)
}

fn tick_view(at: Wall, zone: &str) -> Result<TickView, CronInvalid> {
    let (_, zone) = cron::zone(zone)?;
    let utc = rfc3339(at);
    let local = jiff::Timestamp::from_millisecond(at.0)
        .map_or_else(|_| utc.clone(), |at| at.display_with_offset(zone.to_offset(at)).to_string());
    Ok(TickView { utc, local })
}
