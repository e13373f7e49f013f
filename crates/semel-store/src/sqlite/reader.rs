//! Reads run on a thread with a connection of its own, so that they neither wait for the writer
//! nor block the caller's runtime.

use std::sync::Arc;

use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::{Shared, process, store_error};
use crate::StoreError;

type Job = Box<dyn FnOnce(&Connection) + Send>;

pub(super) struct Reader {
    jobs: mpsc::Sender<Job>,
}

impl Reader {
    /// Each read also says where the file stands by then: whoever only looks, or has had nothing
    /// to write for a while, knows it from that.
    pub(super) fn start(connection: Connection, shared: Arc<Shared>) -> Result<Reader, StoreError> {
        let (jobs, mut inbox) = mpsc::channel::<Job>(semel_core::limits::COMMIT_QUEUE_MAX);
        let run = move || {
            while let Some(job) = inbox.blocking_recv() {
                shared.look(&connection);
                job(&connection);
            }
        };
        spawn("semel-reader", run)?;
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
