//! One group in one transaction: look at the rows it touches, let the model apply its batches,
//! write what has changed.

use std::collections::BTreeSet;

use semel_core::effect::Ground;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connect::Session;
use super::flush::{Flush, Sent};
use super::load::{self, Found};
use super::wanted::{End, Wanted};
use super::wire::Param;
use super::{lock, meta, store_error};
use crate::model::{Applied, Rows};
use crate::{Batch, CommitError, StoreError, Write};

/// Why a group was not committed.
pub(super) enum Stop {
    /// Another process inserted a row of this group meanwhile: look again.
    Raced,
    /// Somebody holds one of its rows.
    Blocked(StoreError),
    /// The tables are not those that were looked at, or are in another epoch: look at them first.
    Replaced,
    Unknown,
    Failed(StoreError),
}

impl From<Stop> for CommitError {
    fn from(stop: Stop) -> CommitError {
        match stop {
            Stop::Raced => {
                StoreError::Busy("other processes kept writing the same rows".into()).into()
            }
            Stop::Replaced => StoreError::Busy("the tables kept being replaced".into()).into(),
            Stop::Blocked(error) | Stop::Failed(error) => error.into(),
            Stop::Unknown => CommitError::Unknown,
        }
    }
}

/// One transaction: look, apply, write. What is known needs no look.
pub(super) async fn try_group(
    session: &Session,
    batches: &[Batch],
    begin: &'static str,
    is_careful: bool,
) -> Result<(Vec<Applied>, u64), Stop> {
    let shared = session.shared();
    // In this order: if it is replaced in between, the tables do not fit, and it is looked at.
    let seen = shared.meta();
    let before = shared.ground();
    let (wanted, known) = match is_careful {
        true => (Wanted::all(batches), Vec::new()),
        false => Wanted::unknown(batches, &lock(&shared.ends), before.epoch),
    };
    // Behind a pooler the server may be another by now: that is looked at before a write.
    if wanted.is_empty() && !shared.unnamed {
        return write_at_once(session, batches, begin, &known, (before, seen.tables())).await;
    }
    let (found, ground, tables) = look(session, &wanted, begin).await?;
    let mut rows = found.rows(ground.now.steady.boot, &known).map_err(Stop::Failed)?;
    let (applied, dropped) = apply(&mut rows, batches, &ground);
    // What was known before a return need not be there any more.
    let is_outdated = !known.is_empty() && before.epoch != ground.epoch;
    let raced = !is_careful && (is_outdated || is_unsure(batches, &applied));
    let flush = Flush::of(&rows, &dropped, ground.now.steady.boot);
    if raced || flush.is_empty() {
        let ended = session.client().batch_execute("ROLLBACK").await;
        ended.map_err(|error| Stop::Failed(store_error(&error)))?;
        return if raced { Err(Stop::Raced) } else { Ok((applied, ground.epoch)) };
    }
    // Nothing was asked to commit yet: a failure here has written nothing.
    flush.prepare(session).await.map_err(|error| Stop::Failed(store_error(&error)))?;
    committed(session, ground.epoch, flush.send(session, &tables).await)?;
    Ok((applied, ground.epoch))
}

/// All guards hold by what is known: everything goes out in one go. Only entries and new runs are
/// written so, and a unique index has the last word on both. What is known, and the times that are
/// written, are of one epoch: in another one nothing is written.
async fn write_at_once(
    session: &Session,
    batches: &[Batch],
    begin: &'static str,
    known: &[(i64, End)],
    (ground, tables): (Ground, &str),
) -> Result<(Vec<Applied>, u64), Stop> {
    let shared = session.shared();
    let rows = Found::default().rows(ground.now.steady.boot, known);
    let mut rows = rows.map_err(Stop::Failed)?;
    let (applied, dropped) = apply(&mut rows, batches, &ground);
    if is_unsure(batches, &applied) {
        return Err(Stop::Raced);
    }
    let flush = Flush::of(&rows, &dropped, ground.now.steady.boot);
    if flush.is_empty() {
        return Ok((applied, ground.epoch));
    }
    let failed = |error: tokio_postgres::Error| Stop::Failed(store_error(&error));
    session.prepare(&[(meta::HEAD, &[]), (meta::IN_EPOCH, &[Type::INT8])]).await.map_err(failed)?;
    flush.prepare(session).await.map_err(failed)?;
    let epoch = load::signed(ground.epoch);
    let only_in: [Param<'_>; 1] = [(&epoch, Type::INT8)];
    let asked_ms = shared.time.local_ms();
    let (begun, head, in_epoch, sent) = tokio::join!(
        session.client().batch_execute(begin),
        session.query(meta::HEAD, &[]),
        session.query(meta::IN_EPOCH, &only_in),
        flush.send(session, tables),
    );
    match (committed(session, ground.epoch, sent), in_epoch) {
        // It is in another epoch, and has written nothing: look.
        (Err(Stop::Failed(_)), Err(error)) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
            return Err(Stop::Replaced);
        }
        (ended, _) => ended?,
    }
    // It is committed; what the server told along the way is only good to know.
    if let (Ok(()), Ok(head)) = (begun, head)
        && let Some(Ok((meta, reading))) = head.first().map(meta::read_head)
    {
        shared.follow(meta, &reading, asked_ms);
    }
    Ok((applied, ground.epoch))
}

fn apply(rows: &mut Rows, batches: &[Batch], ground: &Ground) -> (Vec<Applied>, BTreeSet<i64>) {
    let applied: Vec<Applied> =
        batches.iter().map(|batch| rows.apply(&batch.writes, ground)).collect();
    let written = batches.iter().zip(&applied);
    let written = written.filter(|(_, applied)| matches!(applied, Applied::Written));
    let dropped =
        written.flat_map(|(batch, _)| batch.writes.iter()).filter_map(|write| match write {
            Write::DropRun { number, .. } => Some(*number),
            _ => None,
        });
    let dropped = dropped.collect();
    (applied, dropped)
}

/// Whether a refusal may be wrong: of what was not looked at, nobody knows whether it is there.
fn is_unsure(batches: &[Batch], applied: &[Applied]) -> bool {
    let refused = batches.iter().zip(applied).filter(|(_, applied)| match applied {
        Applied::Written => false,
        Applied::Already | Applied::Stale(_) => true,
    });
    let mut writes = refused.flat_map(|(batch, _)| batch.writes.iter());
    writes.any(|write| matches!(write, Write::StartRun(_) | Write::Append(_)))
}

/// What the answers to a group's writes and to its COMMIT mean.
pub(super) fn committed(session: &Session, epoch: u64, sent: Sent) -> Result<(), Stop> {
    match (sent.written, sent.guarded, sent.committed) {
        (Ok(_), Ok(log), Ok(())) => {
            session.shared().committed(epoch, log);
            Ok(())
        }
        // The server answered that a statement failed: it undid everything, whatever came behind.
        (Err(error), _, Ok(())) if error.as_db_error().is_some() => Err(stop(&error)),
        (Ok(_), Err(error), Ok(())) if error.code() == Some(&SqlState::DIVISION_BY_ZERO) => {
            Err(Stop::Replaced)
        }
        (Ok(_), Err(error), Ok(())) if error.as_db_error().is_some() => Err(stop(&error)),
        // It may have got as far as the COMMIT.
        (Err(_) | Ok(_), ..) => Err(Stop::Unknown),
    }
}

/// Begins the transaction and reads, in one go, what the batches touch.
async fn look(
    session: &Session,
    wanted: &Wanted<'_>,
    begin: &'static str,
) -> Result<(Found, Ground, String), Stop> {
    let shared = session.shared();
    let failed = |error: tokio_postgres::Error| Stop::Failed(store_error(&error));
    session.prepare(&load::STATEMENTS).await.map_err(failed)?;
    session.prepare(&[(meta::HEAD, &[])]).await.map_err(failed)?;
    let asked_ms = shared.time.local_ms();
    let (begun, head, found) = tokio::join!(
        session.client().batch_execute(begin),
        session.query(meta::HEAD, &[]),
        load::ask(session, wanted),
    );
    begun.map_err(failed)?;
    let head = head.map_err(failed)?;
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            let stop = stop(&error);
            session.client().batch_execute("ROLLBACK").await.map_err(failed)?;
            return Err(stop);
        }
    };
    let head = head.first().ok_or_else(|| Stop::Failed(StoreError::Corrupt("no meta".into())))?;
    let (meta, reading) = meta::read_head(head).map_err(Stop::Failed)?;
    if shared.is_elsewhere(&reading) {
        // Behind a pooler the server was replaced, or restarted: a new connection looks at it.
        let another = StoreError::Unavailable("the server behind the pooler is another".into());
        return Err(Stop::Failed(another));
    }
    let (epoch, quarantine, tables) = (meta.epoch, meta.quarantine, reading.tables.clone());
    if !shared.follow(meta, &reading, asked_ms) {
        session.client().batch_execute("ROLLBACK").await.map_err(failed)?;
        return Err(Stop::Replaced);
    }
    // By what this very transaction has read: others may have learned more meanwhile.
    Ok((found, Ground { epoch, quarantine, ..shared.ground() }, tables))
}

/// What an answer of the server means for a group.
pub(super) fn stop(error: &tokio_postgres::Error) -> Stop {
    match error.code() {
        Some(&SqlState::UNIQUE_VIOLATION | &SqlState::T_R_DEADLOCK_DETECTED) => Stop::Raced,
        Some(&SqlState::LOCK_NOT_AVAILABLE) => Stop::Blocked(store_error(error)),
        Some(_) | None => Stop::Failed(store_error(error)),
    }
}
