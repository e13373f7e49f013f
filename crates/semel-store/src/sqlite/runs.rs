//! The runs of a store in a file, as every store keeps them.

use async_trait::async_trait;
use rusqlite::Connection;
use semel_core::run::Run;

use super::cards::CARDS_FORMAT;
use super::reader::ReadError;
use super::run_rows::codeless_lanes;
use super::{Sqlite, run_rows};
use crate::upkeep::RawJournal;
use crate::veil::{Place, Veil};
use crate::{Batch, Delivery, DueRuns, Inked, RunPage, RunQuery, Runs, StoreError};

/// The format that brought the tables of runs.
pub(super) const RUNS_FORMAT: i64 = 2;

impl Sqlite {
    /// Reads about runs. A file of an older format that is only looked at has none, until somebody
    /// opens it to write.
    pub(super) async fn read_runs<T, F>(&self, read: F) -> Result<T, StoreError>
    where
        T: Default + Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    {
        self.read_since(RUNS_FORMAT, read).await
    }

    /// Reads about what came with a format.
    pub(super) async fn read_since<T, F>(&self, since: i64, read: F) -> Result<T, StoreError>
    where
        T: Default + Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    {
        self.readers.points.run(self.unless_older(since, read)).await
    }

    /// The same about many rows: nobody who needs one of them waits behind it.
    pub(super) async fn list_since<T, F>(&self, since: i64, read: F) -> Result<T, StoreError>
    where
        T: Default + Send + 'static,
        F: FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    {
        self.readers.lists.run(self.unless_older(since, read)).await
    }

    fn unless_older<T, F>(
        &self,
        since: i64,
        read: F,
    ) -> impl FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static
    where
        T: Default,
        F: FnOnce(&Connection) -> Result<T, ReadError> + Send + 'static,
    {
        let is_old = self.format < since;
        move |connection: &Connection| {
            if is_old && format(connection)? < since {
                return Ok(T::default());
            }
            read(connection)
        }
    }

    pub(super) fn veil(&self) -> Veil {
        self.shared.veil.clone()
    }

    /// Covers a batch: the runs that it speaks of are looked up where nobody knows whose they are.
    pub(super) async fn cover(&self, batch: Batch) -> Result<Batch, StoreError> {
        let veil = &self.shared.veil;
        for run in veil.unknown_runs(&batch) {
            let read = move |connection: &Connection| Ok(run_rows::namespace_of(connection, run)?);
            if let Some(namespace) = self.readers.points.run(read).await? {
                veil.learn(run, &namespace);
            }
        }
        veil.cover(batch)
    }
}

fn format(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

#[async_trait]
impl RawJournal for Sqlite {
    async fn raw_journal(
        &self,
        run: i64,
        from: u64,
        limit: usize,
    ) -> Result<Vec<Inked>, StoreError> {
        self.read_runs(move |connection| run_rows::journal(connection, run, from, limit)).await
    }
}

#[async_trait]
impl Runs for Sqlite {
    async fn run(&self, namespace: &str, id: &str) -> Result<Option<Run>, StoreError> {
        let (namespace, id) = (namespace.to_owned(), id.to_owned());
        let veil = self.veil();
        self.read_runs(move |connection| run_rows::run(connection, &veil, &namespace, &id)).await
    }

    async fn namespace_of(&self, run: i64) -> Result<Option<String>, StoreError> {
        self.read_runs(move |connection| Ok(run_rows::namespace_of(connection, run)?)).await
    }

    async fn journal(&self, run: i64, from: u64, limit: usize) -> Result<Vec<Inked>, StoreError> {
        let entries = self.raw_journal(run, from, limit).await?;
        entries.into_iter().map(|entry| entry.revealed(&self.shared.veil, run)).collect()
    }

    async fn last_entry(&self, run: i64) -> Result<Option<Inked>, StoreError> {
        let read = move |connection: &Connection| run_rows::last_entry(connection, run);
        let last = self.read_runs(read).await?;
        last.map(|entry| entry.revealed(&self.shared.veil, run)).transpose()
    }

    async fn inbox(&self, run: i64) -> Result<Vec<Delivery>, StoreError> {
        let found = self.read_runs(move |connection| run_rows::inbox(connection, run)).await?;
        found.into_iter().map(|delivery| delivery.revealed(&self.shared.veil)).collect()
    }

    async fn delivery(&self, run: i64, identity: &str) -> Result<Option<Delivery>, StoreError> {
        let identity = identity.to_owned();
        let read = move |connection: &Connection| run_rows::delivery(connection, run, &identity);
        let found = self.read_runs(read).await?;
        found.map(|delivery| delivery.revealed(&self.shared.veil)).transpose()
    }

    async fn blob(&self, namespace: &str, digest: &str) -> Result<Option<String>, StoreError> {
        let asked = (namespace.to_owned(), digest.to_owned());
        let read = move |connection: &Connection| run_rows::blob(connection, &asked.0, &asked.1);
        let found = self.read_runs(read).await?;
        let reveal =
            |text| self.shared.veil.reveal_owned(Some(namespace), Place::Blob(digest), text);
        found.map(reveal).transpose()
    }

    async fn due_runs(&self, lane: &str, limit: usize) -> Result<DueRuns, StoreError> {
        let (now, lane, veil) = (self.shared.now().steady, lane.to_owned(), self.veil());
        self.read_runs(move |connection| run_rows::due(connection, &veil, now, &lane, limit)).await
    }

    async fn codeless_lanes(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let after = after.to_owned();
        let read = move |connection: &Connection| codeless_lanes(connection, &after, limit);
        self.read_runs(read).await
    }

    async fn next_queued(&self, queue: &str) -> Result<Option<Run>, StoreError> {
        let (queue, veil) = (queue.to_owned(), self.veil());
        let read = move |connection: &Connection| run_rows::next_queued(connection, &veil, &queue);
        self.read_since(CARDS_FORMAT, read).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<RunPage, StoreError> {
        let (query, veil) = (query.clone(), self.veil());
        let read = move |connection: &Connection| run_rows::list(connection, &veil, &query);
        self.list_since(RUNS_FORMAT, read).await
    }

    async fn sweepable_runs(&self, limit: usize) -> Result<Vec<Run>, StoreError> {
        let (now, veil) = (self.shared.now().wall, self.veil());
        self.read_runs(move |connection| run_rows::sweepable(connection, &veil, now, limit)).await
    }
}
