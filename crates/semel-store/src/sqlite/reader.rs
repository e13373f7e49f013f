//! Reads run on threads with connections of their own, so that they neither wait for the writer nor
//! block the caller's runtime. Lists and audits have threads apart: whoever begins, settles, probes
//! or asks whether the store is well never waits behind one.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{Shared, process, store_error};
use crate::StoreError;

type Job = Box<dyn FnOnce(&Connection) + Send>;

/// Threads for lists, counts and audits, which pass over many rows.
pub(super) const LIST_READERS: usize = 2;

/// How a queue of reads is worked off.
#[derive(Clone, Copy)]
struct Pace {
    threads: usize,
    /// Reads that a thread takes at once. Before them it looks where the file stands.
    batch: usize,
}

/// Reads of a few rows that an index leads to. One thread answers many callers in a row, so that
/// their writes meet in one commit: with two threads the commits were half as large.
const POINTS: Pace = Pace { threads: 1, batch: 64 };
const LISTS: Pace = Pace { threads: LIST_READERS, batch: 1 };

/// All readers of a store.
pub(super) struct Readers {
    pub(super) points: Reader,
    pub(super) lists: Reader,
}

impl Readers {
    pub(super) fn start(
        mut connect: impl FnMut() -> Result<Connection, StoreError>,
        shared: &Arc<Shared>,
    ) -> Result<Readers, StoreError> {
        Ok(Readers {
            points: Reader::start("semel-reader", POINTS, &mut connect, shared)?,
            lists: Reader::start("semel-lister", LISTS, &mut connect, shared)?,
        })
    }
}

/// The threads that work off one queue.
pub(super) struct Reader {
    jobs: mpsc::Sender<Job>,
}

impl Reader {
    /// Each read also says where the file stands by then: whoever only looks, or has had nothing
    /// to write for a while, knows it from that.
    fn start(
        name: &str,
        pace: Pace,
        connect: &mut impl FnMut() -> Result<Connection, StoreError>,
        shared: &Arc<Shared>,
    ) -> Result<Reader, StoreError> {
        let (jobs, inbox) = mpsc::channel::<Job>(semel_core::limits::COMMIT_QUEUE_MAX);
        let inbox = Arc::new(Mutex::new(inbox));
        for _ in 0..pace.threads {
            let (connection, shared, inbox) = (connect()?, shared.clone(), inbox.clone());
            let next = move |jobs: &mut Vec<Job>| {
                let mut inbox = inbox.lock().unwrap_or_else(PoisonError::into_inner);
                inbox.blocking_recv_many(jobs, pace.batch)
            };
            let run = move || {
                let mut jobs = Vec::with_capacity(pace.batch);
                while next(&mut jobs) > 0 {
                    shared.look(&connection);
                    jobs.drain(..).for_each(|job| job(&connection));
                }
            };
            spawn(name, run)?;
        }
        Ok(Reader { jobs })
    }

    /// Runs one read.
    pub(super) async fn run<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    {
        process::refuse_if_forked()?;
        let (answer, answered) = oneshot::channel();
        let job: Job = Box::new(move |connection| {
            // Nobody waits any more: the answer may go.
            let _ = answer.send(read(connection));
        });
        let gone = |_| StoreError::Unavailable("the reader has stopped".into());
        self.jobs.send(job).await.map_err(|_| gone(()))?;
        answered.await.map_err(|_| gone(()))?.map_err(StoreError::from)
    }
}

/// A read failed in SQLite, or what it read made no sense.
pub(super) enum ReadError {
    Sqlite(rusqlite::Error),
    Store(StoreError),
}

impl From<rusqlite::Error> for ReadError {
    fn from(error: rusqlite::Error) -> ReadError {
        ReadError::Sqlite(error)
    }
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> ReadError {
        ReadError::Store(error)
    }
}

impl From<ReadError> for StoreError {
    fn from(error: ReadError) -> StoreError {
        match error {
            ReadError::Sqlite(error) => store_error(&error),
            ReadError::Store(error) => error,
        }
    }
}

/// Starts a named thread.
pub(super) fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> Result<(), StoreError> {
    let failed = |error| StoreError::Unavailable(format!("no thread for {name}: {error}"));
    std::thread::Builder::new().name(name.to_owned()).spawn(run).map(|_| ()).map_err(failed)
}
