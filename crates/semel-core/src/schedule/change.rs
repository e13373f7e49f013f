//! What people may change about a schedule. Each wish may be repeated safely.

use super::{Content, Paused, Refusal, Schedule, due_of};
use crate::json::Json;
use crate::limits;
use crate::time::{Moment, Wall};

/// What a wish does to a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// It is so already.
    Nothing,
    /// What is due must be decided and started first, as the schedule was when it became due.
    SettleFirst,
    To(Box<Schedule>),
}

/// Puts a schedule, whose content was checked. Another content begins now, behind the last tick.
pub fn put(before: Option<&Schedule>, content: &Content, now: &Moment) -> Change {
    let Some(before) = before else {
        return Change::To(Box::new(Schedule {
            content: content.clone(),
            created: now.wall,
            since: now.wall,
            last: None,
            firing: Vec::new(),
            fired: 0,
            skipped: 0,
            paused: None,
            trouble: None,
            removed: None,
        }));
    };
    if before.removed.is_some() {
        let Change::To(new) = put(None, content, now) else { return Change::Nothing };
        let since = before.since.max(now.wall);
        return Change::To(Box::new(Schedule { since, last: before.last, ..*new }));
    }
    if before.content == *content {
        return Change::Nothing;
    }
    let since = before.since.max(now.wall);
    settled(before, now, Schedule { content: content.clone(), since, ..before.clone() })
}

/// Stops a schedule. Of one that is stopped, the first who asked for it stands.
pub fn pause(
    schedule: &Schedule,
    actor: &str,
    reason: &str,
    now: &Moment,
) -> Result<Change, Refusal> {
    there(schedule)?;
    named(actor, reason)?;
    if schedule.paused.is_some() {
        return Ok(Change::Nothing);
    }
    let paused = Paused { actor: actor.to_owned(), reason: reason.to_owned(), at: now.wall };
    Ok(settled(schedule, now, Schedule { paused: Some(paused), ..schedule.clone() }))
}

/// Lets a schedule go on, with the first tick from now on.
pub fn resume(schedule: &Schedule, now: &Moment) -> Result<Change, Refusal> {
    there(schedule)?;
    if schedule.paused.is_none() {
        return Err(Refusal::NotPaused);
    }
    let since = schedule.since.max(now.wall);
    Ok(settled(schedule, now, Schedule { paused: None, since, ..schedule.clone() }))
}

/// Removes a schedule. Its name remembers the last tick for as long as a tombstone stays, so that
/// one of the same name does not begin before it.
pub fn remove(schedule: &Schedule, now: &Moment) -> Result<Change, Refusal> {
    there(schedule)?;
    let content = Content { input: Json::null(), ..schedule.content.clone() };
    let (paused, trouble) = (None, None);
    let removed = Some(now.wall);
    let gone = Schedule { content, paused, trouble, removed, ..schedule.clone() };
    Ok(settled(schedule, now, gone))
}

/// The change, once nothing is due any more under what was before.
fn settled(before: &Schedule, now: &Moment, to: Schedule) -> Change {
    let has_come = |due: Option<Wall>| due.is_some_and(|due| due <= now.wall);
    // A zone that is not known any more is due never, and must not hold up who corrects it.
    let is_due = !now.wall_is_behind && due_of(before).is_ok_and(has_come);
    if is_due || !before.firing.is_empty() { Change::SettleFirst } else { Change::To(to.into()) }
}

fn there(schedule: &Schedule) -> Result<(), Refusal> {
    if schedule.removed.is_some() { Err(Refusal::NotFound) } else { Ok(()) }
}

fn named(actor: &str, reason: &str) -> Result<(), Refusal> {
    let is_named = |text: &str| !text.trim().is_empty() && text.len() <= limits::REASON_BYTES_MAX;
    if is_named(actor) && is_named(reason) { Ok(()) } else { Err(Refusal::ReasonMissing) }
}
