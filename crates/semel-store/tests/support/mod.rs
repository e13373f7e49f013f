//! What the tests on real files and real processes share.
#![allow(dead_code, reason = "each test binary uses its part")]

pub(crate) mod chance;
pub(crate) mod child;
pub(crate) mod deck;
pub(crate) mod history;
pub(crate) mod sealed;
pub(crate) mod server;
pub(crate) mod snapshot;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use semel_core::effect::{self, Decision};
use semel_core::json::Json;
use semel_core::key::Address;
use semel_lab::Database;
use semel_store::Access;
use semel_store::conformance::{self, Subject};
use semel_store::postgres::Postgres;
use semel_store::sqlite::Sqlite;
use semel_store::{Clock, CommitError, ManualClock, Query, Store, StoreError, Upkeep};

/// A wall time to start manual clocks at.
pub(crate) const WALL_MS: i64 = 1_790_000_000_000;

/// How large a test is: larger where somebody asks for a campaign.
pub(crate) fn size(variable: &str, usual: i64) -> i64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// A new store on Postgres, on the same clock as one in memory.
pub(crate) async fn postgres(database: &Database, clock: Clock) -> Postgres {
    // With few connections it writes one group at a time, so in the order in which it was asked.
    let url = format!("{}&connections=4", database.url());
    Postgres::migrate(&url).await.expect("it is created");
    // What is decided on the memory's clock is written to this store as well.
    database.psql("UPDATE meta SET boot = 0");
    Postgres::open(&url, Access::ReadWrite, clock).await.expect("a store on Postgres")
}

/// A folder for one store, removed at the end.
pub(crate) struct Folder {
    folder: tempfile::TempDir,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path().join("semel.db")
    }

    /// A store on a clock that stands still.
    pub(crate) fn subject(&self) -> Subject {
        let clock = Clock::Manual(ManualClock::new(WALL_MS));
        Arc::new(self.try_open(Access::ReadWrite, clock).expect("a new store"))
    }

    pub(crate) fn open_on(&self, clock: Clock) -> Sqlite {
        self.try_open(Access::ReadWrite, clock).expect("the store opens")
    }

    /// The store, to write, on the real clock.
    pub(crate) fn open(&self) -> Sqlite {
        self.try_open(Access::ReadWrite, Clock::Real).expect("the store opens")
    }

    pub(crate) fn open_to_read(&self) -> Sqlite {
        self.try_open(Access::ReadOnly, Clock::Real).expect("the store opens")
    }

    pub(crate) fn try_open(&self, access: Access, clock: Clock) -> Result<Sqlite, StoreError> {
        Sqlite::open(&self.store(), access, clock)
    }

    /// Closes the store and waits until its threads have let go of the file. Nobody may touch the
    /// file from this process before: closing a second descriptor would drop SQLite's locks.
    pub(crate) fn close(&self, store: Sqlite) {
        drop(store);
        let open = || open_files().into_iter().any(|file| file.starts_with(self.path()));
        wait_until("the store is closed", || !open());
    }
}

impl Folder {
    /// Closes the store and makes sure that all of it is in the file. The last connection to close
    /// does that, but when two close at once it may be none.
    pub(crate) fn close_and_fold(&self, store: Sqlite) {
        self.close(store);
        let connection = rusqlite::Connection::open(self.store()).expect("a connection");
        let fold = "PRAGMA wal_checkpoint(TRUNCATE)";
        let busy = connection.query_row(fold, [], |row| row.get::<_, bool>(0));
        assert_eq!(busy, Ok(false), "the log was not copied");
    }
}

/// The migrations, as they were released.
const MIGRATIONS: [&str; 4] = [
    include_str!("../../src/sqlite/migrations/001_ledger.sql"),
    include_str!("../../src/sqlite/migrations/002_runs.sql"),
    include_str!("../../src/sqlite/migrations/003_returns.sql"),
    include_str!("../../src/sqlite/migrations/004_cards.sql"),
];

/// A closed store of an older format that holds the effect `k`.
pub(crate) fn old_store(format: usize) -> Folder {
    let folder = Folder::new();
    let store = folder.open();
    block_on(put(&store, "k", 10)).expect("a new key");
    folder.close_and_fold(store);
    let new = folder.path().join("new.db");
    std::fs::rename(folder.store(), &new).expect("it is moved away");
    let old = rusqlite::Connection::open(folder.store()).expect("a database");
    old.execute_batch(&MIGRATIONS[..format].concat()).expect("the older format");
    // The columns that are common to all formats. Formats before the third kept the quarantine in
    // `meta`, where it may be missing.
    let effects = "row, namespace, action, key, generation, version, state, workflow, created_at, \
         due_at, sweep_at, alarmed, sum, record";
    let meta = "id, store_id, epoch, commits, wall_high, boot_id, boot";
    let copy = format!(
        "ATTACH '{}' AS new; INSERT INTO effects ({effects}) SELECT {effects} FROM new.effects; \
         INSERT INTO meta ({meta}) SELECT {meta} FROM new.meta; DETACH new; \
         PRAGMA application_id = {}; PRAGMA user_version = {format}",
        new.display(),
        0x7365_6d4c
    );
    old.execute_batch(&copy).expect("what was in it");
    drop(old);
    std::fs::remove_file(new).expect("it was there");
    folder
}

/// The files that this process holds open.
pub(crate) fn open_files() -> Vec<PathBuf> {
    let entries = std::fs::read_dir("/proc/self/fd").expect("the open files");
    entries.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok()).collect()
}

/// Waits for something that must happen; the limit only ends a test that has failed.
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(30), "in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A file beside the store: `-wal`, `-semel/mark`.
pub(crate) fn beside(store: &Path, suffix: &str) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Runs one future to its end.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().build().expect("a runtime").block_on(future)
}

/// Commits a new effect under a key; its input has about this many bytes.
pub(crate) async fn put(store: &dyn Store, key: &str, bytes: usize) -> Result<(), CommitError> {
    let ground = store.ground();
    let mut ask = conformance::begin(&address(key), key);
    ask.input = Json::from_text(format!("\"{}\"", "x".repeat(bytes))).expect("JSON");
    let Ok(Decision::Arm(effect, _)) = effect::begin(None, &ask, &ground) else {
        panic!("a first begin arms");
    };
    store.commit(conformance::insert(&effect, &ground).into()).await
}

pub(crate) fn address(key: &str) -> Address {
    conformance::address("a", key)
}

/// Whether a key is in the store.
pub(crate) async fn has(store: &dyn Store, key: &str) -> bool {
    store.load(&address(key)).await.expect("a load").is_some()
}

/// All keys of a store, newest first.
pub(crate) async fn keys(store: &dyn Store) -> Vec<String> {
    let mut query = Query::everywhere(500);
    let mut keys = Vec::new();
    loop {
        let page = store.list(&query).await.expect("a page");
        keys.extend(page.effects.iter().map(|effect| effect.address.key.as_str().to_owned()));
        query.after = page.next;
        if page.next.is_none() {
            return keys;
        }
    }
}

/// What `semel verify` would say about the file and its rows.
pub(crate) async fn problems(store: &Sqlite) -> Vec<String> {
    let mut found = store.check_pages().await.expect("pages");
    let mut after = 0;
    loop {
        let audit = store.audit(after, 500).await.expect("an audit");
        found.extend(audit.problems);
        match audit.next {
            Some(next) => after = next,
            None => return found,
        }
    }
}
