//! Schedules: which ticks of a pattern become runs, each of them once. State, wish and time in;
//! decision out.
//!
//! A tick is decided on once: at or below `last` none ever fires again, whatever the clock does.
//! What was decided is kept in `firing` until its runs have been started, so that nothing is lost
//! when whoever decided dies, and nothing changes its meaning when the schedule is changed.

mod change;

pub use change::{Change, pause, put, remove, resume};

use serde::{Deserialize, Serialize};

use crate::code::Code;
use crate::cron::{self, Cron, CronInvalid};
use crate::json::Json;
use crate::key::{Action, Key, KeyInvalid};
use crate::limits;
use crate::time::{Moment, Wall};
use crate::wire::rfc3339;

/// One schedule, as its card keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    pub content: Content,
    pub created: Wall,
    /// Ticks at or before it belong to an earlier content.
    pub since: Wall,
    /// The highest tick that was decided on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<Wall>,
    /// Ticks whose runs are to be started, or were by somebody who did not say so any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub firing: Vec<Wall>,
    /// Ticks that have a run.
    #[serde(default)]
    pub fired: u64,
    /// Ticks that have none: late, missed, paused over, or refused.
    #[serde(default)]
    pub skipped: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused: Option<Paused>,
    /// The last tick whose run could not simply be started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<Trouble>,
    /// Since when it is only a name that remembers its last tick.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed: Option<Wall>,
}

/// What its author says of a schedule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    pub workflow: String,
    /// What each run gets.
    pub input: Json,
    /// The pattern, as it was written.
    pub cron: String,
    /// The time zone, by its name.
    pub zone: String,
    pub catch_up: CatchUp,
    /// For how long the keys of its runs answer after their end.
    pub window_ms: u64,
}

/// What becomes of ticks that nobody was there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum CatchUp {
    /// None of them runs. A tick is missed when it is late by more than a minute.
    Skip,
    /// The latest of them runs.
    Once,
    /// Each of them runs.
    All,
}

/// Who stopped a schedule, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Paused {
    pub actor: String,
    pub reason: String,
    pub at: Wall,
}

/// A tick whose run could not simply be started.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trouble {
    pub tick: Wall,
    pub code: String,
    pub detail: String,
}

/// What to do about the ticks of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decided {
    /// Ticks whose runs are to be started, once `next` is written.
    pub fire: Vec<Wall>,
    /// Ticks that were passed over.
    pub skipped: u64,
    pub next: Schedule,
    /// When to look again.
    pub due: Option<Wall>,
}

/// Why a wish about a schedule was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound,
    /// Pattern, zone, name or a time is wrong; the text says which.
    Invalid(String),
    NotPaused,
    /// Who decides, and why, is part of the decision.
    ReasonMissing,
}

/// The kind of card that schedules are kept as.
pub const CARD: &str = "schedule";

impl CatchUp {
    /// All of them.
    pub const ALL: [CatchUp; 3] = [CatchUp::Skip, CatchUp::Once, CatchUp::All];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            CatchUp::Skip => "skip",
            CatchUp::Once => "once",
            CatchUp::All => "all",
        }
    }

    /// Reads a name back.
    pub fn parse(name: &str) -> Option<CatchUp> {
        CatchUp::ALL.into_iter().find(|catch_up| catch_up.as_str() == name)
    }
}

/// Checks what an author says of a schedule of this name, and writes the zone as it is known.
pub fn check(name: &str, content: Content) -> Result<Content, Refusal> {
    Action::new(name)
        .map_err(|error| Refusal::Invalid(format!("the schedule's name {}", error.why)))?;
    tick_key(name, Wall(0))
        .map_err(|_| Refusal::Invalid("the schedule's name is too long as a key".into()))?;
    Action::new(&content.workflow)
        .map_err(|error| Refusal::Invalid(format!("the workflow's name {}", error.why)))?;
    Cron::parse(&content.cron)?;
    let (zone, _) = cron::zone(&content.zone)?;
    if content.window_ms > limits::DURATION_MS_MAX {
        return Err(Refusal::Invalid("the replay window is longer than a hundred years".into()));
    }
    Ok(Content { zone, ..content })
}

/// The key of a tick's run: the same tick is the same run.
pub fn tick_key(name: &str, tick: Wall) -> Result<Key, KeyInvalid> {
    Key::from_parts([name, &rfc3339(tick)])
}

/// The first tick after a moment.
pub fn next_tick(content: &Content, after: Wall) -> Result<Option<Wall>, CronInvalid> {
    let (_, zone) = cron::zone(&content.zone)?;
    Ok(Cron::parse(&content.cron)?.next(&zone, after))
}

/// Says which ticks fire now. A paused schedule passes its ticks over. A clock that is behind
/// decides nothing: what it shows has been before.
pub fn decide(schedule: &Schedule, now: &Moment) -> Result<Decided, CronInvalid> {
    let (_, zone) = cron::zone(&schedule.content.zone)?;
    let cron = Cron::parse(&schedule.content.cron)?;
    let mut ticks = Vec::new();
    let mut next = cron.next(&zone, schedule.floor());
    let most = if schedule.paused.is_none() && schedule.content.catch_up == CatchUp::All {
        limits::TICKS_FIRED_MAX
    } else {
        limits::TICKS_SEEN_MAX
    };
    let is_idle = now.wall_is_behind || !schedule.firing.is_empty() || schedule.removed.is_some();
    while let Some(tick) = next.filter(|tick| *tick <= now.wall && !is_idle && ticks.len() < most) {
        ticks.push(tick);
        next = cron.next(&zone, tick);
    }
    let has_more = next.is_some_and(|tick| tick <= now.wall);
    let fire = firing(schedule, &ticks, has_more, now);
    let skipped = (ticks.len() - fire.len()) as u64;
    let next_schedule = Schedule {
        last: ticks.last().copied().or(schedule.last),
        firing: if fire.is_empty() { schedule.firing.clone() } else { fire.clone() },
        skipped: schedule.skipped + skipped,
        ..schedule.clone()
    };
    let due = due(&next_schedule, next);
    Ok(Decided { fire, skipped, next: next_schedule, due })
}

/// Which of the ticks that have come fire.
fn firing(schedule: &Schedule, ticks: &[Wall], has_more: bool, now: &Moment) -> Vec<Wall> {
    if schedule.paused.is_some() {
        return Vec::new();
    }
    let is_late = |tick: &Wall| now.wall.0.saturating_sub(tick.0) > limits::TICK_LATE_MS_MAX;
    match schedule.content.catch_up {
        CatchUp::Skip => ticks.iter().copied().filter(|tick| !is_late(tick)).collect(),
        // The latest is not among these.
        CatchUp::Once if has_more => Vec::new(),
        CatchUp::Once => ticks.last().copied().into_iter().collect(),
        CatchUp::All => ticks.to_vec(),
    }
}

/// When a schedule is to be looked at, if its next tick is this one.
fn due(schedule: &Schedule, next_tick: Option<Wall>) -> Option<Wall> {
    match schedule.removed {
        Some(removed) => Some(removed.plus(limits::TOMBSTONE_MS)),
        None => schedule.firing.first().copied().or(next_tick),
    }
}

/// When to look at a schedule next.
pub fn due_of(schedule: &Schedule) -> Result<Option<Wall>, CronInvalid> {
    Ok(due(schedule, next_tick(&schedule.content, schedule.floor())?))
}

/// What the start of a tick's run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    pub tick: Wall,
    /// Why it was refused.
    pub refused: Option<(Code, String)>,
}

/// The schedule after the runs of `firing` were started. A refusal is told, and no reason to stop.
pub fn started(schedule: &Schedule, starts: &[Start]) -> Schedule {
    let mut next = Schedule { firing: Vec::new(), ..schedule.clone() };
    for Start { tick, refused } in starts {
        let Some((code, detail)) = refused else {
            next.fired += 1;
            continue;
        };
        match code {
            // There was a run of this tick before, which is what was asked for.
            Code::InputChanged | Code::Expired => next.fired += 1,
            _ => next.skipped += 1,
        }
        let (code, detail) = (code.as_str().to_owned(), detail.clone());
        next.trouble = Some(Trouble { tick: *tick, code, detail });
    }
    next
}

/// Whether a name that was removed need not be remembered any more.
pub fn is_forgotten(schedule: &Schedule, now: &Moment) -> bool {
    let until = schedule.removed.map(|at| at.plus(limits::TOMBSTONE_MS));
    until.is_some_and(|until| until <= now.wall) && !now.wall_is_behind
}

/// Whether a start that failed so is tried again. Of all else the card tells, and the next tick
/// has its turn.
pub fn is_tried_again(code: Code) -> bool {
    let of_the_store = [
        Code::StoreBusy,
        Code::StoreFull,
        Code::StoreUnavailable,
        Code::StoreCorrupt,
        Code::StoreNewer,
        Code::StoreOlder,
        Code::Internal,
    ];
    of_the_store.contains(&code)
}

/// Writes a schedule for its card.
pub fn encode(schedule: &Schedule) -> String {
    serde_json::to_string(schedule).expect("a schedule is plain data")
}

/// Reads a schedule from its card. Builds data only, never code.
pub fn decode(text: &str) -> Result<Schedule, String> {
    serde_json::from_str(text).map_err(|error| error.to_string())
}

impl Schedule {
    /// No tick at or before it fires any more.
    fn floor(&self) -> Wall {
        self.last.map_or(self.since, |last| last.max(self.since))
    }
}

impl Refusal {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            Refusal::NotFound => Code::NotFound,
            Refusal::Invalid(_) => Code::ScheduleInvalid,
            Refusal::NotPaused => Code::NotPaused,
            Refusal::ReasonMissing => Code::InputInvalid,
        }
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Refusal::NotFound => f.write_str("there is no such schedule"),
            Refusal::Invalid(why) => f.write_str(why),
            Refusal::NotPaused => f.write_str("the schedule is not paused"),
            Refusal::ReasonMissing => {
                f.write_str("say who decides and why, each in at most 2000 bytes")
            }
        }
    }
}

impl std::error::Error for Refusal {}

impl From<CronInvalid> for Refusal {
    fn from(error: CronInvalid) -> Refusal {
        Refusal::Invalid(error.why)
    }
}
