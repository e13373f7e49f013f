//! SQLite: the embedded default. Real files, shared by the processes of one machine.
//!
//! One writer thread per process group-commits; a turnstile orders the processes; a held file lock
//! proves a process alive; one elected process checkpoints. Beside `semel.db` lies a folder
//! `semel.db-semel` with the locks and a mark that reveals a store that went back in time.
//!
//! No second SQLite library may open the file inside this process: closing any of its descriptors
//! would drop the locks of ours.

mod address;
mod apply;
mod backup;
mod call;
mod cards;
mod checkpoint;
mod guard;
mod keys;
mod lock;
mod lost;
mod mark;
mod open;
mod process;
mod reader;
mod room;
mod rows;
mod run_audit;
mod run_rows;
mod run_writes;
mod runs;
mod seals;
mod session;
mod standing;
mod tally;
mod transaction;
mod turnstile;
mod upkeep;
mod walk;
mod watch;
mod writer;

pub(crate) use address::file_of;
pub use open::FORMAT;
pub use transaction::{TransactionError, Work};
pub use turnstile::Holder;

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use async_trait::async_trait;
use semel_core::effect::Ground;
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::redact::Redactor;
use semel_core::time::{Moment, Steady, Wall};

use crate::{
    Batch, Clock, CommitError, DueCursor, DuePage, Page, Query, Return, Store, StoreError, Veil,
    measure,
};
use reader::Readers;
use session::Session;
use standing::Standing;
use writer::Writer;

/// A ledger, its runs and their cards in a SQLite file.
pub struct Sqlite {
    path: PathBuf,
    /// As it was found; one that is open to write is of the newest.
    format: i64,
    shared: Arc<Shared>,
    /// A return that whoever only looks has found, and that nobody has recorded yet.
    foreseen: Option<Return>,
    readers: Readers,
    writer: Option<Writer>,
    session: Option<Session>,
    watcher: watch::Watcher,
    _checkpointer: Option<checkpoint::Checkpointer>,
}

/// What the threads of one open store have in common.
pub(crate) struct Shared {
    clock: Clock,
    veil: Veil,
    store_id: String,
    boot: u64,
    /// The newest that any thread has read.
    standing: RwLock<Standing>,
}

impl Shared {
    fn now(&self) -> Moment {
        let reading = self.clock.read();
        let high = self.standing().wall_high;
        Moment {
            wall: Wall(reading.wall_ms),
            steady: Steady { boot: self.boot, ms: reading.boot_ms },
            wall_is_behind: reading.wall_ms + limits::WALL_SLACK_MS < high,
        }
    }

    fn ground(&self) -> Ground {
        let Standing { epoch, quarantine, .. } = self.standing();
        Ground { now: self.now(), epoch, quarantine }
    }

    fn standing(&self) -> Standing {
        *self.standing.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up what the file says, unless another thread has read it later.
    fn learn(&self, read: Standing) {
        if read.is_newer(&self.standing()) {
            let mut standing = self.standing.write().unwrap_or_else(PoisonError::into_inner);
            if read.is_newer(&standing) {
                *standing = read;
            }
        }
    }

    /// Looks where the file stands. What cannot be read is no news.
    fn look(&self, connection: &rusqlite::Connection) {
        if let Ok(standing) = standing::any_standing(connection) {
            self.learn(standing);
        }
    }
}

impl Sqlite {
    /// The file of this store.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The version of the SQLite library in use.
    pub fn library_version() -> &'static str {
        rusqlite::version()
    }

    /// Why nothing is written any more: the file was found damaged, or the writer has ended.
    pub fn damage(&self) -> Option<StoreError> {
        self.writer.as_ref().and_then(Writer::damage)
    }

    /// The other process that has the turn to write the store at a path, whether or not it opens.
    pub fn holder(path: &Path) -> Result<Option<Holder>, StoreError> {
        let folder = side_folder(&open::resolve(path)?);
        if !folder.join("turn").exists() {
            return Ok(None);
        }
        Ok(turnstile::Turnstile::open(&folder)?.holder())
    }

    fn writer(&self) -> Result<&Writer, StoreError> {
        let closed = || StoreError::Unavailable("the store is open for reading only".into());
        self.writer.as_ref().ok_or_else(closed)
    }
}

#[async_trait]
impl Store for Sqlite {
    fn ground(&self) -> Ground {
        self.shared.ground()
    }

    fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        let writer = self.writer()?;
        let batch = self.cover(batch).await?;
        measure::commit("sqlite", writer.commit(batch, &self.shared.veil)).await
    }

    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError> {
        let address = address.clone();
        let found =
            self.readers.points.run(move |connection| rows::newest(connection, &address)).await?;
        found.map(|row| row.read(&self.shared.veil)).transpose()
    }

    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError> {
        let address = address.clone();
        let load = move |connection: &_| rows::generation(connection, &address, generation);
        let found = self.readers.points.run(load).await?;
        found.map(|row| row.read(&self.shared.veil)).transpose()
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        let (query, veil) = (query.clone(), self.veil());
        let since = if query.held { cards::CARDS_FORMAT } else { 0 };
        self.list_since(since, move |connection| rows::list(connection, &veil, &query)).await
    }

    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError> {
        let (now, veil) = (self.shared.now().steady, self.veil());
        self.readers
            .points
            .run(move |connection| rows::due(connection, &veil, now, after, limit))
            .await
    }

    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError> {
        let (now, veil) = (self.shared.now().wall, self.veil());
        self.readers
            .points
            .run(move |connection| rows::sweepable(connection, &veil, now, limit))
            .await
    }

    fn session(&self) -> Option<&str> {
        self.session.as_ref().map(Session::id)
    }

    fn is_dead(&self, session: &str) -> bool {
        session::is_dead(&self.path, session)
    }

    fn dead_sessions(&self) -> Vec<String> {
        session::dead(&self.path)
    }

    fn bury(&self, session: &str) {
        session::bury(&self.path, session);
    }

    fn redactor(&self) -> Option<&Redactor> {
        Some(self.shared.veil.redactor())
    }

    fn hints(&self) -> tokio::sync::watch::Receiver<u64> {
        self.watcher.subscribe()
    }
}

/// The folder of locks and marks that belongs to a file.
fn side_folder(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-semel");
    PathBuf::from(name)
}

/// Sorts SQLite's errors by what the caller may do.
fn store_error(error: &rusqlite::Error) -> StoreError {
    use rusqlite::ErrorCode;
    let text = error.to_string();
    match error.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full(text),
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Busy(text),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => StoreError::Corrupt(text),
        _ if is_unreadable(error) => StoreError::Corrupt(text),
        _ => StoreError::Unavailable(text),
    }
}

/// A column holds what nobody wrote: text that is no text, a number beyond its type.
fn is_unreadable(error: &rusqlite::Error) -> bool {
    use rusqlite::Error;
    matches!(
        error,
        Error::FromSqlConversionFailure(..)
            | Error::IntegralValueOutOfRange(..)
            | Error::InvalidColumnType(..)
            | Error::Utf8Error(..)
    )
}

/// Ends the process when the disk itself failed. Nobody knows then what is on it, and a second sync
/// would lie: recovery starts from what is durable.
fn stop_if_the_disk_failed(error: &rusqlite::Error) {
    if error.sqlite_error_code() == Some(rusqlite::ErrorCode::SystemIoFailure) {
        stop_the_process(error);
    }
}

#[expect(clippy::print_stderr, reason = "the process ends here; no log may be set up")]
fn stop_the_process(error: &rusqlite::Error) -> ! {
    tracing::error!(%error, "the disk failed: stopping, nothing unsynced was acknowledged");
    eprintln!("semel: the disk failed ({error}); stopping so that nothing is acknowledged wrongly");
    std::process::exit(70);
}

fn io_error(what: &str, error: &std::io::Error) -> StoreError {
    let text = format!("{what}: {error}");
    match error.kind() {
        std::io::ErrorKind::StorageFull => StoreError::Full(text),
        _ => StoreError::Unavailable(text),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::conformance::{address, armed, done, insert, update};
    use crate::{Access, Cards, Runs, Upkeep};

    /// Ends a test that hangs.
    const LONG: Duration = Duration::from_secs(60);

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_begins_settles_or_probes_never_waits_behind_a_list() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("semel.db");
        let store = Sqlite::open(&path, Access::ReadWrite, Clock::Real).expect("a store");
        let store = Arc::new(store);
        // Every thread that reads lists is busy until it is told.
        let (started, has_started) = mpsc::channel();
        let mut busy = Vec::new();
        for _ in 0..reader::LIST_READERS {
            let (release, released) = mpsc::channel::<()>();
            let (store, started) = (store.clone(), started.clone());
            let read = tokio::spawn(async move {
                let read = move |_: &rusqlite::Connection| {
                    started.send(()).expect("somebody waits");
                    let _ = released.recv();
                    Ok(())
                };
                store.readers.lists.run(read).await
            });
            busy.push((release, read));
        }
        for _ in &busy {
            has_started.recv_timeout(LONG).expect("a list is read");
        }
        let listing = store.clone();
        let list = tokio::spawn(async move { listing.list(&Query::everywhere(9)).await });
        let others = async {
            let ground = store.ground();
            let effect = armed(&address("mail", "k"), "1", &ground);
            store.commit(insert(&effect, &ground).into()).await.expect("begun");
            assert!(store.load(&effect.address).await.expect("a load").is_some());
            let settled = done(&effect, "1", &ground);
            store.commit(update(&settled, &ground).into()).await.expect("settled");
            store.identity().await.expect("it is well");
            store.due(None, 9).await.expect("due effects");
            store.due_runs("/default", 9).await.expect("due runs");
            store.codeless_lanes("", 9).await.expect("lanes");
            store.sweepable(9).await.expect("sweepable effects");
            store.run("default", "none").await.expect("a run");
            store.card("default", "gate", "none").await.expect("a card");
            store.due_cards("schedule", 9).await.expect("due cards");
        };
        tokio::time::timeout(LONG, others).await.expect("nothing waits behind a list");
        assert!(!list.is_finished());
        for (release, read) in busy {
            release.send(()).expect("it waits");
            read.await.expect("no panic").expect("a read");
        }
        assert_eq!(list.await.expect("no panic").expect("a list").effects.len(), 1);
    }
}
