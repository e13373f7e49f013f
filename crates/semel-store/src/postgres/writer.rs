//! Group commit: all batches that wait become one transaction.
//!
//! Two tasks take turns, so that one gathers while the other waits for the disk. The model decides
//! whether the guards of a batch hold, on rows that are locked; a batch whose guards fail leaves
//! nothing, and the others of its group stand.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use semel_core::limits;
use tokio::sync::{Mutex, Notify, Semaphore, mpsc, oneshot};

use super::address::PgAddress;
use super::connect::{Door, Session, in_time};
use super::group::{Stop, try_group};
use super::{Shared, lock};
use crate::model::Applied;
use crate::{Batch, CommitError, StoreError, Write, read_record};

/// How many groups of one process are on their way at once: one is put together and read while the
/// other one is written.
const GROUPS: usize = 2;
/// A process with fewer connections needs the others for its reads.
const CONNECTIONS_MIN: usize = 6;
/// How many groups are looked at in full after an index refused a row that was taken for new.
const CARE: u32 = 64;
/// Batches of one process that wait for a held row at once: each needs a connection for itself.
const WAITING_MAX: usize = 2;
/// How long a batch waits for its turn to wait.
const WAITING: Duration = Duration::from_secs(2);
/// A group waits no longer for a held row than other groups take: somebody may hold it for seconds,
/// and all that come behind would wait as well.
pub(super) const HASTY: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 200";
/// Whoever must have a held row waits for it, alone.
const PATIENT: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = 2000";
/// How often a group is tried anew when another process was quicker with one of its rows.
const RACES_MAX: usize = 20;

type Answer = oneshot::Sender<Result<(), CommitError>>;

pub(super) struct Writer {
    jobs: mpsc::Sender<(Batch, Answer)>,
}

impl Writer {
    pub(super) fn start(door: &Door, bell: &Arc<Notify>, address: &PgAddress) -> Writer {
        let (jobs, inbox) = mpsc::channel(limits::COMMIT_QUEUE_MAX);
        let inbox = Arc::new(Mutex::new(inbox));
        let care = Arc::new(AtomicU32::new(0));
        let tasks = match address.connections {
            // Ungrouped they would else wait for each other's disk.
            all if address.group == 1 => all,
            few if few < CONNECTIONS_MIN => 1,
            _ => GROUPS,
        };
        let waiting = Arc::new(Semaphore::new(WAITING_MAX));
        let (door, bell) = (door.clone(), bell.clone());
        let task = Task { door, bell, care, waiting, group: address.group };
        for _ in 0..tasks {
            tokio::spawn(task.clone().run(inbox.clone()));
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

#[derive(Clone)]
struct Task {
    door: Door,
    bell: Arc<Notify>,
    /// How many more groups are looked at in full.
    care: Arc<AtomicU32>,
    waiting: Arc<Semaphore>,
    /// Batches in one transaction, at most.
    group: usize,
}

impl Task {
    async fn run(self, inbox: Arc<Mutex<mpsc::Receiver<(Batch, Answer)>>>) {
        let mut jobs = Vec::with_capacity(self.group);
        loop {
            let count = inbox.lock().await.recv_many(&mut jobs, self.group).await;
            if count == 0 {
                return;
            }
            let (batches, answers): (Vec<Batch>, Vec<Answer>) = jobs.drain(..).unzip();
            let results = self.commit(&batches).await;
            for ((batch, answer), result) in batches.into_iter().zip(answers).zip(results) {
                match result {
                    // A caller that has gone away has detached; its batch stands all the same.
                    Some(result) => drop(answer.send(result)),
                    None => drop(tokio::spawn(self.clone().wait_for_row(batch, answer))),
                }
            }
        }
    }

    /// `None` for a batch that meets a row that somebody holds.
    async fn commit(&self, batches: &[Batch]) -> Vec<Option<Result<(), CommitError>>> {
        match self.commit_group(batches, HASTY).await {
            Ok(applied) => applied
                .into_iter()
                .map(|applied| Some(answer(&self.door.shared, applied)))
                .collect(),
            Err(Stop::Blocked(_) | Stop::Raced | Stop::Failed(StoreError::Corrupt(_)))
                if batches.len() > 1 =>
            {
                // Only the batch that meets the held row waits for it, or hears of the broken one.
                let mut results = Vec::with_capacity(batches.len());
                for batch in batches {
                    results.push(self.commit_alone(batch, HASTY).await);
                }
                results
            }
            Err(Stop::Blocked(_)) => batches.iter().map(|_| None).collect(),
            Err(stop) => {
                let error = CommitError::from(stop);
                batches.iter().map(|_| Some(Err(error.clone()))).collect()
            }
        }
    }

    async fn commit_alone(
        &self,
        batch: &Batch,
        begin: &'static str,
    ) -> Option<Result<(), CommitError>> {
        match self.commit_group(std::slice::from_ref(batch), begin).await {
            Ok(mut applied) => Some(answer(&self.door.shared, applied.remove(0))),
            Err(Stop::Blocked(_)) => None,
            Err(stop) => Some(Err(stop.into())),
        }
    }

    /// Beside the groups, so that these go on.
    async fn wait_for_row(self, batch: Batch, answer: Answer) {
        let busy = || StoreError::Busy("somebody else holds one of the rows".into());
        let turn = tokio::time::timeout(WAITING, self.waiting.acquire()).await;
        let result = match turn {
            Ok(Ok(_turn)) => self.commit_alone(&batch, PATIENT).await,
            Ok(Err(_)) | Err(_) => None,
        };
        // A caller that has gone away has detached; its batch stands all the same.
        let _ = answer.send(result.unwrap_or_else(|| Err(busy().into())));
    }

    async fn commit_group(
        &self,
        batches: &[Batch],
        begin: &'static str,
    ) -> Result<Vec<Applied>, Stop> {
        for tries in 0..RACES_MAX {
            let session = self.door.enter().await.map_err(Stop::Failed)?;
            // What an index refused is looked at; so are the groups that come next.
            let is_careful = tries > 0 || self.care.load(Ordering::Relaxed) > 0;
            // Nobody knows how far a server got that does not answer.
            let tried = in_time(try_group(&session, batches, begin, is_careful)).await;
            match tried.unwrap_or(Err(Stop::Unknown)) {
                Ok((applied, epoch)) => {
                    let less = |care: u32| care.checked_sub(1);
                    let _ = self.care.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
                    self.tell(&session, epoch, batches, &applied);
                    return Ok(applied);
                }
                Err(Stop::Raced) => self.care.store(CARE, Ordering::Relaxed),
                Err(Stop::Replaced) => session.look_anew().await.map_err(Stop::Failed)?,
                Err(stop @ Stop::Blocked(_)) => return Err(stop),
                Err(stop @ (Stop::Unknown | Stop::Failed(_))) => {
                    lock(&session.shared().ends).forget();
                    session.discard();
                    return Err(stop);
                }
            }
        }
        Err(Stop::Raced)
    }

    /// Remembers what was written, and rings for those who wait elsewhere.
    fn tell(&self, session: &Session, epoch: u64, batches: &[Batch], applied: &[Applied]) {
        let shared = session.shared();
        let now = shared.ground().now;
        let mut rings = false;
        for (batch, applied) in batches.iter().zip(applied) {
            shared.looks.wrote(&batch.writes, now.steady);
            match applied {
                Applied::Written => {
                    shared.memory.note(epoch, &batch.writes, now.wall);
                    lock(&shared.ends).note(epoch, &batch.writes);
                    rings |= batch.writes.iter().any(may_be_awaited);
                }
                // Its own answer was lost: from now on its caller counts on it.
                Applied::Already => shared.memory.note(epoch, &batch.writes, now.wall),
                Applied::Stale(_) => {}
            }
        }
        if rings {
            self.bell.notify_one();
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
        | Write::Touch { .. }
        | Write::Card(_)
        | Write::DropCard { .. } => true,
        Write::InEpoch(_)
        | Write::Append(_)
        | Write::Holds { .. }
        | Write::Consume { .. }
        | Write::Blob { .. } => false,
    }
}

fn answer(shared: &Shared, applied: Applied) -> Result<(), CommitError> {
    match applied {
        Applied::Written | Applied::Already => Ok(()),
        Applied::Stale(rows) => {
            let read = |row: &crate::Row| {
                read_record(&shared.veil, row.address.namespace.as_str(), &row.record, row.sum)
            };
            let current = rows.iter().map(|row| row.as_ref().map(read).transpose());
            Err(CommitError::Stale(current.collect::<Result<_, _>>()?))
        }
    }
}
