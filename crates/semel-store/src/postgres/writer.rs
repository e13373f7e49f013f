//! Group commit: all batches that wait become one transaction.
//!
//! Two tasks take turns, so that one gathers while the other waits for the disk. The model decides
//! whether the guards of a batch hold, on rows that are locked; a batch whose guards fail leaves
//! nothing, and the others of its group stand.

use std::collections::BTreeSet;
use std::sync::Arc;

use semel_core::effect::Ground;
use semel_core::limits;
use tokio::sync::{Mutex, Notify, mpsc, oneshot};
use tokio_postgres::error::SqlState;

use super::connect::{Door, Session};
use super::flush::Flush;
use super::load::{self, Wanted};
use super::{meta, store_error};
use crate::model::{Applied, Rows};
use crate::{Batch, CommitError, StoreError, Write, read_record};

/// How many groups of one process are on their way at once.
const GROUPS: usize = 1;
/// How often a group is tried anew when another process was quicker with one of its rows.
const RACES_MAX: usize = 20;

type Answer = oneshot::Sender<Result<(), CommitError>>;

pub(super) struct Writer {
    jobs: mpsc::Sender<(Batch, Answer)>,
}

/// Why a group was not committed.
enum Stop {
    /// Another process inserted a row of this group meanwhile: look again.
    Raced,
    /// Somebody holds one of its rows.
    Blocked(StoreError),
    Unknown,
    Failed(StoreError),
}

impl Writer {
    pub(super) fn start(door: &Door, bell: Arc<Notify>) -> Writer {
        let (jobs, inbox) = mpsc::channel(limits::COMMIT_QUEUE_MAX);
        let inbox = Arc::new(Mutex::new(inbox));
        for _ in 0..GROUPS {
            let task = Task { door: door.clone(), bell: bell.clone() };
            tokio::spawn(task.run(inbox.clone()));
        }
        Writer { jobs }
    }

    /// Queues a batch and waits until it is durable.
    pub(super) async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        let (answer, answered) = oneshot::channel();
        let gone = |_| StoreError::Unavailable("the writer has stopped".into());
        self.jobs.send((batch, answer)).await.map_err(gone)?;
        // The task ended without a word: nobody knows whether it had committed.
        answered.await.map_err(|_| CommitError::Unknown)?
    }
}

struct Task {
    door: Door,
    bell: Arc<Notify>,
}

impl Task {
    async fn run(self, inbox: Arc<Mutex<mpsc::Receiver<(Batch, Answer)>>>) {
        let mut jobs = Vec::with_capacity(limits::GROUP_MAX);
        loop {
            let count = inbox.lock().await.recv_many(&mut jobs, limits::GROUP_MAX).await;
            if count == 0 {
                return;
            }
            let (batches, answers): (Vec<Batch>, Vec<Answer>) = jobs.drain(..).unzip();
            let results = self.commit(&batches).await;
            for (answer, result) in answers.into_iter().zip(results) {
                // A caller that has gone away has detached; its batch stands all the same.
                let _ = answer.send(result);
            }
        }
    }

    async fn commit(&self, batches: &[Batch]) -> Vec<Result<(), CommitError>> {
        match self.commit_group(batches).await {
            Ok(applied) => applied.into_iter().map(answer).collect(),
            Err(Stop::Blocked(_) | Stop::Raced) if batches.len() > 1 => {
                // Only the batch that meets the held row waits for it.
                let mut results = Vec::with_capacity(batches.len());
                for batch in batches {
                    let alone = self.commit_group(std::slice::from_ref(batch)).await;
                    let mut applied = match alone {
                        Ok(applied) => applied,
                        Err(stop) => {
                            results.push(Err(stop.into()));
                            continue;
                        }
                    };
                    results.push(answer(applied.remove(0)));
                }
                results
            }
            Err(stop) => {
                let error = CommitError::from(stop);
                batches.iter().map(|_| Err(error.clone())).collect()
            }
        }
    }

    async fn commit_group(&self, batches: &[Batch]) -> Result<Vec<Applied>, Stop> {
        for _ in 0..RACES_MAX {
            let session = self.door.enter().await.map_err(Stop::Failed)?;
            match try_group(&session, batches).await {
                Ok(applied) => {
                    self.tell(&session, batches, &applied);
                    return Ok(applied);
                }
                Err(Stop::Raced) => {}
                Err(stop @ Stop::Blocked(_)) => return Err(stop),
                Err(stop @ (Stop::Unknown | Stop::Failed(_))) => {
                    session.discard();
                    return Err(stop);
                }
            }
        }
        Err(Stop::Raced)
    }

    /// Remembers what was written, and rings for those who wait elsewhere.
    fn tell(&self, session: &Session, batches: &[Batch], applied: &[Applied]) {
        let shared = session.shared();
        let ground = shared.ground();
        let mut rings = false;
        for (batch, applied) in batches.iter().zip(applied) {
            if matches!(applied, Applied::Written) {
                shared.memory.note(ground.epoch, &batch.writes, ground.now.wall);
                rings |= batch.writes.iter().any(may_be_awaited);
            }
        }
        if rings {
            self.bell.notify_one();
        }
    }
}

impl From<Stop> for CommitError {
    fn from(stop: Stop) -> CommitError {
        match stop {
            Stop::Raced => {
                StoreError::Busy("other processes kept writing the same rows".into()).into()
            }
            Stop::Blocked(error) | Stop::Failed(error) => error.into(),
            Stop::Unknown => CommitError::Unknown,
        }
    }
}

/// Whether somebody in another process may wait for it. Nobody waits for an entry.
fn may_be_awaited(write: &Write) -> bool {
    match write {
        Write::Insert(_)
        | Write::Update(_)
        | Write::Remove { .. }
        | Write::StartRun(_)
        | Write::UpdateRun(_)
        | Write::DropRun { .. }
        | Write::Deliver(_)
        | Write::Touch { .. } => true,
        Write::InEpoch(_)
        | Write::Append(_)
        | Write::Holds { .. }
        | Write::Consume { .. }
        | Write::Blob { .. } => false,
    }
}

fn answer(applied: Applied) -> Result<(), CommitError> {
    match applied {
        Applied::Written | Applied::Already => Ok(()),
        Applied::Stale(rows) => {
            let read = |row: &crate::Row| read_record(&row.record, row.sum);
            let current = rows.iter().map(|row| row.as_ref().map(read).transpose());
            Err(CommitError::Stale(current.collect::<Result<_, _>>()?))
        }
    }
}

/// One transaction: look, apply, write.
async fn try_group(session: &Session, batches: &[Batch]) -> Result<Vec<Applied>, Stop> {
    let (mut rows, ground, log) = look(session, batches).await?;
    let applied: Vec<Applied> =
        batches.iter().map(|batch| rows.apply(&batch.writes, &ground)).collect();
    let written = batches.iter().zip(&applied);
    let written = written.filter(|(_, applied)| matches!(applied, Applied::Written));
    let dropped: BTreeSet<i64> = written
        .flat_map(|(batch, _)| batch.writes.iter())
        .filter_map(|write| match write {
            Write::DropRun { number, .. } => Some(*number),
            _ => None,
        })
        .collect();
    let flush = Flush::of(&rows, &dropped);
    if flush.is_empty() {
        let ended = session.client().batch_execute("ROLLBACK").await;
        ended.map_err(|error| Stop::Failed(store_error(&error)))?;
        return Ok(applied);
    }
    // Nothing was asked to commit yet: a failure here has written nothing.
    flush.prepare(session).await.map_err(|error| Stop::Failed(store_error(&error)))?;
    let sent = flush.send(session).await;
    match (sent.written, sent.committed) {
        (Ok(_), Ok(())) => {
            session.shared().committed(ground.epoch, log);
            Ok(applied)
        }
        // The server answered that a statement failed: it undid everything, whatever came behind.
        (Err(error), Ok(())) if error.as_db_error().is_some() => Err(stop(&error)),
        // It may have got as far as the COMMIT.
        (Err(_) | Ok(_), _) => Err(Stop::Unknown),
    }
}

/// Begins the transaction and reads, in one go, what the batches touch; also where the server's log
/// stands.
async fn look(session: &Session, batches: &[Batch]) -> Result<(Rows, Ground, i64), Stop> {
    let shared = session.shared();
    let failed = |error: tokio_postgres::Error| Stop::Failed(store_error(&error));
    session.prepare(&load::STATEMENTS).await.map_err(failed)?;
    session.prepare(&[(meta::HEAD, &[])]).await.map_err(failed)?;
    let wanted = Wanted::of(batches);
    let asked_ms = shared.time.local_ms();
    let (begun, head, found) = tokio::join!(
        session.client().batch_execute("BEGIN"),
        session.query(meta::HEAD, &[]),
        load::ask(session, &wanted),
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
    let (meta, reading) = meta::read_head(head).map_err(failed)?;
    let (boot, epoch, quarantine) = (meta.boot, meta.epoch, meta.quarantine);
    shared.learn(meta, reading, asked_ms);
    let rows = found.rows(boot).map_err(Stop::Failed)?;
    // By what this very transaction has read: others may have learned more meanwhile.
    Ok((rows, Ground { epoch, quarantine, ..shared.ground() }, reading.log))
}

/// What an answer of the server means for a group.
fn stop(error: &tokio_postgres::Error) -> Stop {
    match error.code() {
        Some(&SqlState::UNIQUE_VIOLATION | &SqlState::T_R_DEADLOCK_DETECTED) => Stop::Raced,
        Some(&SqlState::LOCK_NOT_AVAILABLE) => Stop::Blocked(store_error(error)),
        Some(_) | None => Stop::Failed(store_error(error)),
    }
}
