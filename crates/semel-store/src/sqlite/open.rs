//! Opening a store: the library's version, the file's format, the migrations, and whether the file
//! went back in time since it was last seen here.

use std::path::{Path, PathBuf};
use std::sync::{Arc, RwLock};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior, params};
use semel_core::effect::{Quarantine, Rows};
use semel_core::time::Wall;

use super::checkpoint::Checkpointer;
use super::guard::Guard;
use super::mark::{self, Mark, MarkFile};
use super::reader::Readers;
use super::session::Session;
use super::standing::{self, Standing};
use super::turnstile::Turnstile;
use super::watch::Watcher;
use super::writer::Writer;
use super::{Shared, Sqlite, io_error, keys, process, seals, side_folder, store_error};
use crate::{Access, Clock, Return, StoreError, Veil, random_hex};

/// The format this Semel writes: the number of its newest migration.
pub const FORMAT: i64 = 5;

/// Forward only: a released file never changes.
const MIGRATIONS: [(i64, &str); 5] = [
    (1, include_str!("migrations/001_ledger.sql")),
    (2, include_str!("migrations/002_runs.sql")),
    (3, include_str!("migrations/003_returns.sql")),
    (4, include_str!("migrations/004_cards.sql")),
    (5, include_str!("migrations/005_seals.sql")),
];

/// Marks the file as ours: "semL".
const APPLICATION_ID: i64 = 0x7365_6d4c;

/// Below this a race could corrupt the log when it was reset.
const SQLITE_MIN: i32 = 3_051_003;

impl Sqlite {
    /// Opens the store in a file.
    pub fn open(path: &Path, access: Access, clock: Clock) -> Result<Sqlite, StoreError> {
        Sqlite::open_veiled(path, access, clock, Veil::default())
    }

    /// Opens the store in a file, with keys and secrets.
    pub fn open_veiled(
        path: &Path,
        access: Access,
        clock: Clock,
        veil: Veil,
    ) -> Result<Sqlite, StoreError> {
        process::refuse_if_forked()?;
        check_library(rusqlite::version_number(), rusqlite::version())?;
        let path = resolve(path)?;
        match access {
            Access::ReadWrite => open_to_write(&path, clock, veil),
            Access::ReadOnly => open_to_read(&path, clock, veil),
        }
    }
}

/// The file's own path. Through a link it would have a second folder of locks beside it, and two
/// processes would each take the other's sessions for dead.
pub(super) fn resolve(path: &Path) -> Result<PathBuf, StoreError> {
    let failed = |error: std::io::Error| io_error(&format!("the file {}", path.display()), &error);
    let is_missing = |error: &std::io::Error| error.kind() == std::io::ErrorKind::NotFound;
    match path.canonicalize() {
        Err(error) if is_missing(&error) => std::path::absolute(path).map_err(failed),
        found => found.map_err(failed),
    }
}

fn open_to_write(path: &Path, clock: Clock, veil: Veil) -> Result<Sqlite, StoreError> {
    let folder = side_folder(path);
    create_private(path, &folder)?;
    let turnstile = Turnstile::open(&folder)?;
    let mark_file = MarkFile::open(&folder)?;
    let (connection, meta, mark) = {
        let _turn = turnstile.enter_in_time(&clock)?;
        let mut connection = connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
        leave_untouched(&connection, true)?;
        check_format(&connection)?;
        // Before anything is written, and before it is migrated.
        keys::check(&connection, &veil, Access::ReadOnly)?;
        leave_untouched(&connection, false)?;
        let configured = configure(&connection).and_then(|()| seals::register(&connection));
        let configured = configured.and_then(|()| migrate(&mut connection, &clock));
        configured.map_err(|error| store_error(&error))?;
        keys::check(&connection, &veil, Access::ReadWrite)?;
        let (meta, mark) = reconcile(&mut connection, &mark_file, &clock)?;
        (connection, meta, mark)
    };
    let session = Session::open(path)?;
    let shared = Arc::new(meta.shared(clock, veil));
    let open = || connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let checkpointer = Checkpointer::start(path, open()?)?;
    let readers = Readers::start(|| read_only(open()?), &shared)?;
    let watcher = Watcher::start(read_only(open()?)?, shared.clone())?;
    let guard = Guard::new(path, mark_file, mark);
    let writer = Writer::start(connection, turnstile, guard, shared.clone())?;
    Ok(Sqlite {
        path: path.to_owned(),
        format: FORMAT,
        shared,
        foreseen: None,
        readers,
        writer: Some(writer),
        session: Some(session),
        watcher,
        _checkpointer: Some(checkpointer),
    })
}

fn open_to_read(path: &Path, clock: Clock, veil: Veil) -> Result<Sqlite, StoreError> {
    if !path.is_file() {
        return Err(StoreError::Missing(path.display().to_string()));
    }
    // A reader of a live log needs its shared memory, so the file is opened to write and then
    // held to reading by SQLite itself.
    let connect = || connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE);
    let connection = connect()?;
    leave_untouched(&connection, true)?;
    let found = check_format(&connection)?;
    if found == 0 {
        return Err(StoreError::Foreign(path.display().to_string()));
    }
    let connection = read_only(connection)?;
    keys::check(&connection, &veil, Access::ReadOnly)?;
    // The mark first: commits that come between the two reads must not look like lost ones.
    let mark = mark::peek(&side_folder(path));
    let mut meta = Meta::load(&connection).map_err(|error| store_error(&error))?;
    // Whoever opens it to write will record this; whoever looks should see it at once.
    let behind = mark.filter(|mark| meta.is_behind(mark));
    let foreseen = behind.map(|mark| meta.return_to(&mark, clock.read().wall_ms));
    let shared = Arc::new(meta.shared(clock, veil));
    let look_on = || {
        let connection = connect()?;
        leave_untouched(&connection, true)?;
        read_only(connection)
    };
    let watcher = Watcher::start(look_on()?, shared.clone())?;
    Ok(Sqlite {
        path: path.to_owned(),
        format: found,
        readers: Readers::start(look_on, &shared)?,
        shared,
        foreseen,
        writer: None,
        session: None,
        watcher,
        _checkpointer: None,
    })
}

fn check_library(number: i32, version: &str) -> Result<(), StoreError> {
    if number < SQLITE_MIN {
        return Err(StoreError::SqliteTooOld { found: version.to_owned() });
    }
    Ok(())
}

/// The file and its folder are for their owner only: they hold inputs and receipts.
fn create_private(path: &Path, folder: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::OpenOptionsExt;
    create_private_folder(folder)?;
    let mut options = std::fs::File::options();
    match options.write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(io_error(&format!("the file {}", path.display()), &error)),
    }
}

pub(super) fn create_private_folder(folder: &Path) -> Result<(), StoreError> {
    use std::os::unix::fs::DirBuilderExt;
    let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| io_error(&format!("the folder {}", folder.display()), &error))
}

pub(super) fn connect(path: &Path, flags: OpenFlags) -> Result<Connection, StoreError> {
    let connection = Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX);
    let connection = connection.map_err(|error| store_error(&error))?;
    // The turnstile orders the writers; this only rides out a checkpoint or a recovery.
    let waits = connection.busy_timeout(std::time::Duration::from_secs(10));
    connection.set_prepared_statement_cache_capacity(64);
    waits.map(|()| connection).map_err(|error| store_error(&error))
}

pub(super) fn read_only(connection: Connection) -> Result<Connection, StoreError> {
    let set = connection.pragma_update(None, "query_only", true);
    set.map(|()| connection).map_err(|error| store_error(&error))
}

/// Whether closing the last connection leaves the log as it is. SQLite would copy it into the file.
pub(super) fn leave_untouched(connection: &Connection, untouched: bool) -> Result<(), StoreError> {
    let set = connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, untouched);
    set.map(|_| ()).map_err(|error| store_error(&error))
}

/// Looks before it touches: a newer or foreign file is left as it is.
pub(super) fn check_format(connection: &Connection) -> Result<i64, StoreError> {
    let pragma = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    let read = || Ok((pragma("user_version")?, pragma("application_id")?, tables(connection)?));
    let (found, application, tables) =
        read().map_err(|error: rusqlite::Error| store_error(&error))?;
    let is_empty = found == 0 && application == 0 && tables == 0;
    if !is_empty && application != APPLICATION_ID {
        return Err(StoreError::Foreign(connection.path().unwrap_or("the file").to_owned()));
    }
    if found > FORMAT {
        return Err(StoreError::Newer { found, known: FORMAT });
    }
    Ok(found)
}

fn tables(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
}

fn configure(connection: &Connection) -> rusqlite::Result<()> {
    let mode = |row: &rusqlite::Row<'_>| row.get::<_, String>(0);
    let mode = connection.pragma_update_and_check(None, "journal_mode", "WAL", mode)?;
    if mode != "wal" {
        // A file system without shared memory: SQLite stays in another mode and says no more.
        return Err(rusqlite::Error::InvalidParameterName(format!("no WAL here, only {mode}")));
    }
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    connection.pragma_update(None, "cache_size", -64 * 1024)?;
    connection.pragma_update(None, "foreign_keys", true)
}

fn migrate(connection: &mut Connection, clock: &Clock) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for (number, text) in MIGRATIONS.iter().filter(|(number, _)| *number > found) {
        transaction.execute_batch(text)?;
        transaction.pragma_update(None, "user_version", number)?;
    }
    if found == 0 {
        transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
        let store_id = random_hex()
            .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
        transaction.execute(
            "INSERT INTO meta (id, store_id, epoch, commits, wall_high, boot_id, boot) \
             VALUES (1, ?1, 0, 0, 0, ?2, 1)",
            params![store_id, clock.boot_id()],
        )?;
    }
    transaction.commit()
}

struct Meta {
    store_id: String,
    boot_id: String,
    boot: u64,
    standing: Standing,
}

impl Meta {
    fn load(connection: &Connection) -> rusqlite::Result<Meta> {
        let standing = standing::any_standing(connection)?;
        connection.query_row("SELECT store_id, boot_id, boot FROM meta", [], |row| {
            Ok(Meta { store_id: row.get(0)?, boot_id: row.get(1)?, boot: row.get(2)?, standing })
        })
    }

    /// The mark remembers more than the file, or another file.
    fn is_behind(&self, mark: &Mark) -> bool {
        mark.store_id != self.store_id || mark.commits > self.standing.commits
    }

    /// The file went back behind its mark: a new epoch, in quarantine.
    fn return_to(&mut self, mark: &Mark, wall_ms: i64) -> Return {
        let evidence = match mark.store_id == self.store_id {
            true => format!(
                "the mark remembers commit {}, the file has {}",
                mark.commits, self.standing.commits
            ),
            false => format!(
                "the mark is of another file: it remembers store {}, this is {}",
                mark.store_id, self.store_id
            ),
        };
        self.go_back(mark.epoch, evidence, wall_ms)
    }

    /// A new epoch, in quarantine.
    fn go_back(&mut self, epoch: u64, evidence: String, wall_ms: i64) -> Return {
        let standing = &mut self.standing;
        standing.epoch = standing.epoch.max(epoch) + 1;
        let recovered = Wall(standing.wall_high.min(wall_ms));
        // One that is still open keeps its earlier point: its lost tail is still lost.
        let earlier = standing.quarantine.map(|quarantine| quarantine.recovered);
        let recovered = earlier.map_or(recovered, |earlier| earlier.min(recovered));
        let opened = Wall(wall_ms);
        standing.quarantine = Some(Quarantine { opened, recovered, rows: Rows::WentBack });
        Return { epoch: standing.epoch, opened, recovered, evidence, closed: None }
    }

    fn shared(self, clock: Clock, veil: Veil) -> Shared {
        Shared {
            clock,
            veil,
            store_id: self.store_id,
            boot: self.boot,
            standing: RwLock::new(self.standing),
        }
    }
}

/// Compares the file with the boot it was last used in and with the mark beside it.
fn reconcile(
    connection: &mut Connection,
    mark_file: &MarkFile,
    clock: &Clock,
) -> Result<(Meta, Mark), StoreError> {
    let failed = |error: rusqlite::Error| store_error(&error);
    let begun = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    let transaction = begun.map_err(failed)?;
    let mut meta = Meta::load(&transaction).map_err(failed)?;
    let reading = clock.read();
    let boot_id = clock.boot_id();
    if meta.boot_id != boot_id {
        // The points in these belong to a clock that is gone: all of them are due.
        meta.boot += 1;
        meta.boot_id = boot_id;
        for due in [
            "UPDATE effects SET due_at = ?1 WHERE due_at IS NOT NULL",
            "UPDATE runs SET wake_at = ?1 WHERE wake_at IS NOT NULL",
        ] {
            transaction.execute(due, [reading.boot_ms]).map_err(failed)?;
        }
        for reseal in seals::RESEAL_DUE {
            transaction.execute(reseal, []).map_err(failed)?;
        }
    }
    if let Some(mark) = mark_file.read().filter(|mark| meta.is_behind(mark)) {
        let found = meta.return_to(&mark, reading.wall_ms);
        standing::record(&transaction, &found).map_err(failed)?;
        warn_of(&found);
    }
    meta.standing.commits += 1;
    save(&transaction, &meta).map_err(failed)?;
    transaction.commit().map_err(failed)?;
    let Standing { epoch, commits, .. } = meta.standing;
    let mark = Mark { store_id: meta.store_id.clone(), epoch, commits };
    mark_file.write(&mark)?;
    Ok((meta, mark))
}

/// Records in a file that nobody has opened yet that it went back, and brings it to our format.
pub(super) fn went_back(
    connection: &mut Connection,
    clock: &Clock,
    evidence: &str,
) -> Result<(), StoreError> {
    let record = |connection: &mut Connection| -> rusqlite::Result<()> {
        seals::register(connection)?;
        migrate(connection, clock)?;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut meta = Meta::load(&transaction)?;
        let found = meta.go_back(0, evidence.to_owned(), clock.read().wall_ms);
        standing::record(&transaction, &found)?;
        meta.standing.commits += 1;
        save(&transaction, &meta)?;
        transaction.commit()
    };
    record(connection).map_err(|error| store_error(&error))
}

/// Records that the file of a live process went back behind a mark, inside its transaction. `None`:
/// it is of another store, or its times are of another clock, which this process cannot take up.
pub(super) fn record_return(
    connection: &Connection,
    shared: &Shared,
    mark: &Mark,
) -> rusqlite::Result<Option<Standing>> {
    let mut meta = Meta::load(connection)?;
    let is_ours = meta.store_id == shared.store_id && meta.boot == shared.boot;
    if !is_ours || meta.boot_id != shared.clock.boot_id() {
        return Ok(None);
    }
    let found = meta.return_to(mark, shared.clock.read().wall_ms);
    standing::record(connection, &found)?;
    warn_of(&found);
    meta.standing.commits += 1;
    save(connection, &meta)?;
    Ok(Some(meta.standing))
}

fn warn_of(found: &Return) {
    tracing::warn!(
        epoch = found.epoch,
        evidence = found.evidence,
        "the store went back in time: quarantine opened, see `semel quarantine show`"
    );
}

fn save(connection: &Connection, meta: &Meta) -> rusqlite::Result<()> {
    let Meta { boot_id, boot, standing: Standing { epoch, commits, .. }, .. } = meta;
    let text = "UPDATE meta SET epoch = ?1, commits = ?2, boot_id = ?3, boot = ?4";
    connection.execute(text, params![epoch, commits, boot_id, boot])?;
    connection.execute(seals::RESEAL_META, []).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_with_the_log_reset_race_is_refused() {
        assert!(check_library(3_051_003, "3.51.3").is_ok());
        assert_eq!(
            check_library(3_051_002, "3.51.2"),
            Err(StoreError::SqliteTooOld { found: "3.51.2".into() })
        );
        assert!(check_library(rusqlite::version_number(), rusqlite::version()).is_ok());
    }
}
