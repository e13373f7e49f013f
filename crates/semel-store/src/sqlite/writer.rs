//! The one writer of a process. It drains all waiting batches into one transaction, so that many
//! callers share one sync of the disk.

use std::sync::{Arc, OnceLock};

use rusqlite::{Connection, params};
use semel_core::limits;
use tokio::sync::mpsc;

use super::apply::{Applied, Applier};
use super::call::{Call, Waiting};
use super::guard::Guard;
use super::reader::{ReadError, spawn};
use super::room::Room;
use super::rows::Stored;
use super::standing::{self, Closing, Standing};
use super::turnstile::{Patience, Turnstile};
use super::{Shared, process, stop_if_the_disk_failed, store_error, transaction};
use crate::{Batch, Closed, CommitError, StoreError, Veil};

type Group = Vec<(Batch, Call<Result<Applied, StoreError>>)>;

pub(super) enum Job {
    Commit(Batch, Call<Result<Applied, StoreError>>),
    /// Runs alone, in a transaction of its own.
    Transaction(transaction::Job),
    /// Ends the quarantine of an epoch, alone, too.
    Close(u64, Closed, Call<Result<Closing, StoreError>>),
}

/// The handle to the writer thread.
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
    turnstile: Turnstile,
    shared: Arc<Shared>,
    damage: Arc<OnceLock<StoreError>>,
}

impl Writer {
    pub(super) fn start(
        connection: Connection,
        turnstile: Turnstile,
        guard: Guard,
        shared: Arc<Shared>,
    ) -> Result<Writer, StoreError> {
        let (jobs, inbox) = mpsc::channel(limits::COMMIT_QUEUE_MAX);
        let damage = Arc::new(OnceLock::new());
        let thread = Thread {
            room: Room::of(&connection),
            connection,
            turnstile: turnstile.clone(),
            guard,
            shared: shared.clone(),
            damage: damage.clone(),
        };
        spawn("semel-writer", move || thread.run(inbox))?;
        Ok(Writer { jobs, turnstile, shared, damage })
    }

    /// Why nothing is written any more.
    pub(super) fn damage(&self) -> Option<StoreError> {
        let ended = || self.jobs.is_closed().then(gone);
        self.damage.get().cloned().or_else(ended)
    }

    /// Queues a batch and waits until it is durable.
    pub(super) async fn commit(&self, batch: Batch, veil: &Veil) -> Result<(), CommitError> {
        // The thread ended without a word: nobody knows whether it had committed.
        let answer = self.ask(|call| Job::Commit(batch, call)).await?;
        match answer.ok_or(CommitError::Unknown)?? {
            Applied::Written | Applied::Already => Ok(()),
            Applied::Stale(rows) => {
                let read = |row: Option<Stored>| row.map(|row| row.read(veil)).transpose();
                let current: Result<_, _> = rows.into_iter().map(read).collect();
                Err(CommitError::Stale(current?))
            }
        }
    }

    /// Ends the quarantine of an epoch, durably.
    pub(super) async fn close_quarantine(
        &self,
        epoch: u64,
        closed: Closed,
    ) -> Result<Closing, CommitError> {
        let answer = self.ask(|call| Job::Close(epoch, closed, call)).await?;
        Ok(answer.ok_or(CommitError::Unknown)??)
    }

    /// Gives a job to the thread and waits for its answer; `None` when the thread ended without a
    /// word. A caller who waits for a turn that another process does not end takes the job back.
    pub(super) async fn ask<T>(
        &self,
        job: impl FnOnce(Call<T>) -> Job,
    ) -> Result<Option<T>, StoreError> {
        process::refuse_if_forked()?;
        let (call, Waiting { claim, mut answer }) = Call::new();
        let done = async {
            self.jobs.send(job(call)).await.map_err(|_| gone())?;
            Ok((&mut answer).await.ok())
        };
        let busy = tokio::select! {
            biased;
            done = done => return done,
            busy = self.lose_patience() => busy,
        };
        match claim.win() {
            true => Err(busy),
            false => Ok(answer.await.ok()),
        }
    }

    /// Ends when another process has kept its turn for too long.
    async fn lose_patience(&self) -> StoreError {
        let mut patience = Patience::default();
        loop {
            self.shared.clock.sleep_ms(limits::TURN_MS_MAX).await;
            if let Err(busy) = patience.look(&self.turnstile) {
                return busy;
            }
        }
    }
}

/// The thread ends only when the store is closed.
pub(super) fn gone() -> StoreError {
    StoreError::Unavailable("the writer has stopped".into())
}

pub(super) struct Thread {
    pub(super) connection: Connection,
    room: Room,
    turnstile: Turnstile,
    pub(super) guard: Guard,
    pub(super) shared: Arc<Shared>,
    /// Once the file was found damaged or replaced: the answer to everything that follows.
    damage: Arc<OnceLock<StoreError>>,
}

impl Thread {
    fn run(mut self, mut inbox: mpsc::Receiver<Job>) {
        let mut jobs = Vec::with_capacity(limits::GROUP_MAX);
        while inbox.blocking_recv_many(&mut jobs, limits::GROUP_MAX) > 0 {
            let mut group = Vec::with_capacity(jobs.len());
            for job in jobs.drain(..) {
                match job {
                    Job::Commit(batch, call) => group.push((batch, call)),
                    Job::Transaction(job) => {
                        self.commit_group(std::mem::take(&mut group));
                        self.commit_transaction(job);
                    }
                    Job::Close(epoch, closed, call) => {
                        self.commit_group(std::mem::take(&mut group));
                        self.close(epoch, &closed, call);
                    }
                }
            }
            self.commit_group(group);
        }
    }

    /// Commits all batches in one transaction and answers each, once that is durable. Callers who
    /// went away while it waited for its turn are left out.
    fn commit_group(&mut self, mut group: Group) {
        if group.is_empty() {
            return;
        }
        let shared = self.shared.clone();
        let mut epoch = 0;
        let outcome = self.in_turn(|connection, standing| {
            epoch = standing.epoch;
            group.retain(|(_, call)| call.take_up());
            let mut results = Vec::with_capacity(group.len());
            let mut applier = Applier::prepare(connection, shared.now().steady, standing.epoch)?;
            for (batch, _) in &group {
                results.push(applier.apply(batch)?);
            }
            let wrote = results.iter().any(|result| matches!(result, Applied::Written));
            Ok((results, wrote))
        });
        match outcome {
            Ok(results) => {
                let at = self.shared.now().wall;
                for ((batch, call), result) in group.into_iter().zip(results) {
                    if !matches!(result, Applied::Stale(_)) {
                        self.guard.memory.note(epoch, &batch.writes, at);
                    }
                    call.answer(Ok(result));
                }
            }
            Err(error) => {
                for (_, call) in group {
                    call.answer(Err(error.clone()));
                }
            }
        }
    }

    fn close(&mut self, epoch: u64, closed: &Closed, call: Call<Result<Closing, StoreError>>) {
        let outcome = self.in_turn(|connection, standing| {
            // Taken back, it has nobody to answer: whatever is said here is not heard.
            if !call.take_up() {
                return Ok((Closing::Stale, false));
            }
            let closing = standing::close(connection, epoch, closed)?;
            if closing == Closing::Done {
                standing.quarantine = None;
            }
            Ok((closing, closing == Closing::Done))
        });
        call.answer(outcome);
    }

    /// Takes a turn, runs `work` in a transaction and commits it if it wrote anything. `work` is
    /// told where the file stands and may move it; so is the whole process afterwards.
    pub(super) fn in_turn<T>(
        &mut self,
        work: impl FnOnce(&mut Connection, &mut Standing) -> Result<(T, bool), ReadError>,
    ) -> Result<T, StoreError> {
        if let Some(damage) = self.damage.get() {
            return Err(damage.clone());
        }
        let _turn = self.turnstile.enter()?;
        if let Err(error) = self.guard.check_place() {
            let _ = self.damage.set(error.clone());
            return Err(error);
        }
        let now = self.shared.now();
        self.room.make(&self.connection);
        let (connection, guard, shared) = (&mut self.connection, &mut self.guard, &self.shared);
        let room = &self.room;
        let done = (|| {
            connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            let standing = standing::standing(connection)?;
            let mut standing = guard.check(connection, shared, standing)?;
            let (value, wrote) = work(connection, &mut standing)?;
            if !wrote {
                // A statement of the user may have rolled back already.
                if !connection.is_autocommit() {
                    connection.prepare_cached("ROLLBACK")?.execute([])?;
                }
                return Ok((value, standing, wrote));
            }
            standing.commits += 1;
            standing.wall_high = standing.wall_high.max(now.wall.0);
            let counted = params![standing.commits, standing.wall_high];
            connection.prepare_cached(COUNT)?.execute(counted)?;
            room.check(connection)?;
            connection.prepare_cached("COMMIT")?.execute([])?;
            Ok((value, standing, wrote))
        })();
        match done {
            Ok((value, standing, false)) => {
                self.shared.learn(standing);
                Ok(value)
            }
            Ok((value, standing, true)) => {
                self.shared.learn(standing);
                self.guard.written(&standing);
                Ok(value)
            }
            Err(error) => Err(give_up(&self.connection, &self.damage, error)),
        }
    }
}

/// Undoes the transaction. On damaged pages nothing is written any more.
fn give_up(connection: &Connection, damage: &OnceLock<StoreError>, error: ReadError) -> StoreError {
    use rusqlite::ErrorCode::{DatabaseCorrupt, NotADatabase};
    if !connection.is_autocommit() {
        let _ = connection.execute_batch("ROLLBACK");
    }
    let ReadError::Sqlite(error) = error else { return error.into() };
    stop_if_the_disk_failed(&error);
    let is_damaged = matches!(error.sqlite_error_code(), Some(DatabaseCorrupt | NotADatabase));
    let error = store_error(&error);
    if is_damaged {
        let _ = damage.set(error.clone());
    }
    error
}

const COUNT: &str = "UPDATE meta SET commits = ?1, wall_high = ?2, \
     seal = semel_seal('meta', store_id, epoch, ?1, ?2, boot_id, boot)";
