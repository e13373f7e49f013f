//! Batches of a worker: each is read, held against what its sender may write, and committed.

use std::collections::HashSet;

use semel_core::code::Code;
use semel_core::journal::Link;
use semel_core::{audit, limits, reach, record, run, schedule};
use semel_store::remote::protocol::{ErrorShape, ResultShape, WriteShape};
use semel_store::{Append, Batch, Card, CommitError, Row, RunRow, StoreError, Write};

use super::Desk;

/// Why a batch is not handed to the store.
enum Stop {
    /// A run that it names is not there, as far as its sender may know.
    Stale,
    Refused(Code, String),
    Store(StoreError),
}

impl From<StoreError> for Stop {
    fn from(error: StoreError) -> Stop {
        Stop::Store(error)
    }
}

pub(super) async fn commit(desk: &Desk, text: &str) -> ResultShape {
    let now = desk.store().ground().now;
    let batch = match WriteShape::decode(text, &now) {
        Ok(batch) => batch,
        Err(why) => return refused(Code::RequestInvalid, why.to_string()),
    };
    match check(desk, &batch).await {
        Ok(()) => {}
        Err(Stop::Refused(code, detail)) => return refused(code, detail),
        Err(Stop::Store(error)) => return Err(CommitError::Failed(error)).into(),
        Err(Stop::Stale) => return stale(desk, &batch).await.into(),
    }
    let committed = desk.store().commit(batch.clone()).await;
    if committed.is_ok() {
        batch.writes.iter().for_each(|write| learn(desk, write));
    }
    committed.into()
}

fn refused(code: Code, detail: String) -> ResultShape {
    ResultShape::Failed(ErrorShape { code: code.as_str().to_owned(), detail })
}

fn learn(desk: &Desk, write: &Write) {
    match write {
        Write::StartRun(row) => desk.app.owners.learn(row.number, &row.namespace),
        Write::DropRun { number, row: None, .. } => desk.app.owners.forget(*number),
        _ => {}
    }
}

/// The answer that a failed guard would have given.
async fn stale(desk: &Desk, batch: &Batch) -> Result<(), CommitError> {
    let mut rows = Vec::new();
    for address in batch.writes.iter().filter_map(Write::address) {
        rows.push(desk.store().load(address).await?);
    }
    Err(CommitError::Stale(rows))
}

/// Every name first, so that nothing is asked of the store on behalf of a stranger.
async fn check(desk: &Desk, batch: &Batch) -> Result<(), Stop> {
    batch.writes.iter().try_for_each(|write| check_names(desk, write))?;
    if !desk.reach.may_decide() {
        batch.writes.iter().try_for_each(|write| check_run(batch, write))?;
    }
    let started = batch.writes.iter().filter_map(|write| match write {
        Write::StartRun(row) => Some(row.number),
        _ => None,
    });
    let started: HashSet<i64> = started.collect();
    for write in batch.writes.iter() {
        if let Some(run) = run_of(write)
            && !started.contains(&run)
            && !desk.sees_run(run).await?
        {
            return Err(Stop::Stale);
        }
        match write {
            Write::Insert(row) | Write::Update(row) => check_word(desk, row).await?,
            Write::Card(card) if card.kind == audit::CARD => check_entry(desk, card).await?,
            _ => {}
        }
    }
    Ok(())
}

/// The run that a write names by its number alone. A row of a run says its namespace, and its guard
/// compares it.
fn run_of(write: &Write) -> Option<i64> {
    match write {
        Write::Append(Append { run, .. })
        | Write::Holds { run, .. }
        | Write::Consume { run, .. }
        | Write::Blob { run, .. } => Some(*run),
        Write::Deliver(delivery) => Some(delivery.run),
        Write::InEpoch(_)
        | Write::Insert(_)
        | Write::Update(_)
        | Write::Remove { .. }
        | Write::StartRun(_)
        | Write::UpdateRun(_)
        | Write::DropRun { .. }
        | Write::Touch { .. }
        | Write::Card(_)
        | Write::DropCard { .. } => None,
    }
}

fn check_names(desk: &Desk, write: &Write) -> Result<(), Stop> {
    let reach = &desk.reach;
    match write {
        Write::InEpoch(_) | Write::Holds { .. } | Write::Deliver(_) | Write::Consume { .. } => {
            Ok(())
        }
        Write::Insert(row) | Write::Update(row) => sees(desk, row.address.namespace.as_str()),
        Write::StartRun(row) | Write::UpdateRun(row) => sees(desk, &row.namespace),
        Write::Touch { namespace, .. } | Write::Blob { namespace, .. } => sees(desk, namespace),
        Write::Remove { address, .. } => {
            sees(desk, address.namespace.as_str())?;
            allowed(reach.may_remove(), "remove an effect")
        }
        Write::DropRun { namespace, .. } => {
            sees(desk, namespace)?;
            allowed(reach.may_remove(), "remove a run")
        }
        Write::Append(append) => check_link(append),
        Write::Card(card) => {
            check_card(desk, &card.namespace, &card.kind)?;
            check_record(card)?;
            // A chain only grows.
            allowed(card.kind != audit::CARD || card.version == 1, "change what was decided")
        }
        Write::DropCard { namespace, kind, .. } => {
            check_card(desk, namespace, kind)?;
            allowed(kind != audit::CARD, "remove what was decided")
        }
    }
}

fn sees(desk: &Desk, namespace: &str) -> Result<(), Stop> {
    let own = desk.reach.namespace();
    match desk.reach.sees(namespace) {
        true => Ok(()),
        false => Err(Stop::Refused(
            Code::Forbidden,
            format!("who asks reaches the namespace `{own}`, and no other"),
        )),
    }
}

fn check_card(desk: &Desk, namespace: &str, kind: &str) -> Result<(), Stop> {
    sees(desk, namespace)?;
    allowed(desk.reach.may_write_kind(kind), "write cards of this kind")?;
    allowed(kind != audit::CARD || desk.reach.may_audit(), "decide")
}

/// What the server itself acts upon must be readable, or it would be in the way of all others.
fn check_record(card: &Card) -> Result<(), Stop> {
    if card.kind != schedule::CARD {
        return Ok(());
    }
    let unreadable = |why| Stop::Refused(Code::RequestInvalid, why);
    let read = schedule::decode(&card.record).map_err(unreadable)?;
    match read.firing.len() <= limits::TICKS_FIRED_MAX {
        true => Ok(()),
        false => Err(unreadable("a schedule fires too many ticks at once".to_owned())),
    }
}

/// An entry of the audit chain stands behind the last one, and says so: anything else would end
/// the chain for everybody.
async fn check_entry(desk: &Desk, card: &Card) -> Result<(), Stop> {
    match desk.app.engine.is_next_entry(card).await {
        Ok(true) => Ok(()),
        Ok(false) => Err(Stop::Stale),
        Err(error) => Err(Stop::Refused(error.code(), error.detail().to_owned())),
    }
}

/// What the server itself takes up must be what an engine writes: anything else could neither go on
/// nor be ended, and would be tried for ever.
fn check_run(batch: &Batch, write: &Write) -> Result<(), Stop> {
    let refused = |run: &str, why: &str| {
        let text = format!("run {run} is not one that an engine writes: {why}");
        Err(Stop::Refused(Code::RequestInvalid, text))
    };
    if let Write::StartRun(row) | Write::UpdateRun(row) = write
        && !reach::is_run_id(&row.id, &row.namespace, &row.workflow, &row.key)
    {
        return refused(&row.id, "its id is not made of its workflow and key");
    }
    match write {
        Write::StartRun(row) => {
            let read = run::decode(&row.record, row.version)
                .map_err(|why| Stop::Refused(Code::RequestInvalid, why))?;
            let first = first_entry(batch, row).and_then(|text| reach::read_entry(text).ok());
            reach::check_start(&read, first.as_ref()).or_else(|why| refused(&row.id, why))
        }
        Write::Append(append) => match reach::read_entry(&append.text) {
            Ok(_) => Ok(()),
            Err(why) => refused(&append.run.to_string(), &format!("entry {}: {why}", append.seq)),
        },
        _ => Ok(()),
    }
}

/// The entry that a run starts with, from the same batch.
fn first_entry<'a>(batch: &'a Batch, row: &RunRow) -> Option<&'a str> {
    let start = Link::of_run(&row.namespace, &row.id);
    batch.writes.iter().find_map(|write| match write {
        Write::Append(append)
            if append.run == row.number && append.seq == 0 && append.after == start =>
        {
            Some(append.text.as_str())
        }
        _ => None,
    })
}

/// A chain that is broken from the start would be found by whoever verifies it, and not by whoever
/// goes on from there.
fn check_link(append: &Append) -> Result<(), Stop> {
    let Append { after, link, text, .. } = append;
    match Link::then(after, text) == *link {
        true => Ok(()),
        false => Err(Stop::Stale),
    }
}

fn allowed(may: bool, what: &str) -> Result<(), Stop> {
    match may {
        true => Ok(()),
        false => Err(Stop::Refused(Code::Forbidden, format!("this token may not {what}"))),
    }
}

/// Whether an effect says something that only people may say, or leaves out what they said. The
/// guard of the write makes sure that it was compared with the right one.
async fn check_word(desk: &Desk, row: &Row) -> Result<(), Stop> {
    if desk.reach.may_decide() {
        return Ok(());
    }
    let unreadable = |why| Stop::Refused(Code::RequestInvalid, why);
    let next = record::decode(&row.record).map_err(unreadable)?;
    if row.version == 1 && !reach::has_said(&next) {
        return Ok(());
    }
    let stored = desk.store().load_generation(&row.address, row.generation).await?;
    allowed(desk.reach.may_write(stored.as_ref(), &next), "decide about an effect")
}
