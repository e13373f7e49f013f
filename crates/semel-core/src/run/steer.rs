//! What people may decide about a run. Each decision may be repeated safely.

use super::{Cancel, Ended, How, Pause, Refusal, Run, next, open};
use crate::fingerprint::says_the_same;
use crate::journal::{Event, Fault, Value};
use crate::limits;
use crate::time::Moment;

/// What a decision changes: the row, and what the journal says of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steered {
    pub run: Run,
    pub events: Vec<Event>,
}

/// Asks for the end of a run. `None`: it was asked for before, the first asker stands. Whoever
/// holds the run carries it out; nobody's code is needed for one that is parked or paused.
pub fn cancel(run: &Run, actor: &str, reason: &str, now: &Moment) -> Result<Option<Run>, Refusal> {
    end(run, actor, reason, None, now)
}

/// Asks for the end of a paused run as failed, where there is more to do than to say so: children
/// to end, effects to take back. `None`: an end was asked for before.
pub fn fail_in_order(
    run: &Run,
    actor: &str,
    reason: &str,
    now: &Moment,
) -> Result<Option<Run>, Refusal> {
    if run.cancel.is_some() {
        return Ok(None);
    }
    paused(run)?;
    end(run, actor, reason, run.paused.as_ref().map(fault_of), now)
}

/// What a run paused for, as its journal says it.
pub fn fault_of(pause: &Pause) -> Fault {
    let (code, detail) = (pause.code.clone(), pause.detail.clone());
    Fault { code, detail, raised: pause.raised.clone(), receipts: None }
}

fn end(
    run: &Run,
    actor: &str,
    reason: &str,
    fault: Option<Fault>,
    now: &Moment,
) -> Result<Option<Run>, Refusal> {
    if run.cancel.is_some() {
        return Ok(None);
    }
    open(run)?;
    let (actor, reason) = (actor.to_owned(), reason.to_owned());
    let cancel = Cancel { actor, reason, at: now.wall, fault: fault.map(Box::new) };
    // A parked run is ready at once: whatever it waited for does not matter any more.
    let waits = if run.lease.is_some() { run.waits.clone() } else { Vec::new() };
    Ok(Some(Run { cancel: Some(cancel), paused: None, waits, ..next(run) }))
}

/// What a delivery from outside is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivery {
    New,
    /// It came before; this one changes nothing.
    Repeat,
}

/// Judges a delivery: its name and payload, those of the first one of its identity, and how many
/// wait in the inbox. A repeat is answered for ever, also by a run that has ended.
pub fn deliver(
    run: &Run,
    sent: (&str, &str),
    before: Option<(&str, &str)>,
    waiting: usize,
) -> Result<Delivery, Refusal> {
    match before {
        Some((name, payload)) if name == sent.0 && says_the_same(payload, sent.1) => {
            return Ok(Delivery::Repeat);
        }
        // The first one stands; whoever says something else is told.
        Some(_) => return Err(Refusal::DeliveryChanged),
        None => open(run)?,
    }
    if waiting >= limits::INBOX_MAX {
        return Err(Refusal::InboxFull);
    }
    Ok(Delivery::New)
}

/// Lets a paused run try again what it could not do.
pub fn retry(run: &Run, actor: &str, reason: &str) -> Result<Steered, Refusal> {
    paused(run)?;
    let events = vec![resumed(actor, reason)];
    Ok(Steered { run: Run { paused: None, ..next(run) }, events })
}

/// Gives the step on which a run is paused its value.
pub fn skip(
    run: &Run,
    id: &str,
    value: Value,
    actor: &str,
    reason: &str,
) -> Result<Steered, Refusal> {
    let paused_on = paused(run)?;
    if paused_on != Some(id) {
        let paused_on = paused_on.map(str::to_owned);
        return Err(Refusal::NotPausedOn { asked: id.to_owned(), paused_on });
    }
    let skipped = Event::Skipped {
        id: id.to_owned(),
        actor: actor.to_owned(),
        reason: reason.to_owned(),
        value,
    };
    Ok(Steered { run: Run { paused: None, ..next(run) }, events: vec![skipped] })
}

/// Ends a paused run as failed.
pub fn fail(run: &Run, actor: &str, reason: &str, now: &Moment) -> Result<Steered, Refusal> {
    paused(run)?;
    let fault = fault_of(run.paused.as_ref().expect("it is paused"));
    let end = crate::journal::Ending::Failed(fault);
    let events = vec![resumed(actor, reason), Event::Finished { end }];
    let ended = Some(Ended { how: How::Failed, at: now.wall });
    Ok(Steered { run: Run { paused: None, ended, ..next(run) }, events })
}

fn resumed(actor: &str, reason: &str) -> Event {
    Event::Resumed { actor: actor.to_owned(), reason: reason.to_owned() }
}

fn paused(run: &Run) -> Result<Option<&str>, Refusal> {
    open(run)?;
    match &run.paused {
        Some(pause) => Ok(pause.id.as_deref()),
        None => Err(Refusal::NotPaused(run.state())),
    }
}
