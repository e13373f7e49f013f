//! A backup of a file: its pages at one moment, copied by SQLite itself while others write; and the
//! way back, into a place where nothing is.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;

use rusqlite::backup::{Backup, StepResult};
use rusqlite::{Connection, OpenFlags};
use semel_core::time::Wall;
use semel_core::wire::rfc3339;

use super::open::{self, FORMAT};
use super::{Sqlite, rows, standing, store_error};
use crate::backup::{Beside, Event, Kind, Manifest, Progress, Reader, Writer, failed};
use crate::{Clock, StoreError};

/// Pages that are copied between two words about progress.
const PAGES: std::ffi::c_int = 2_000;

/// The part that holds the pages.
const PART: &str = "pages";

const COUNTS: [(&str, &str); 7] = [
    ("effects", "SELECT count(*) FROM effects"),
    ("runs", "SELECT count(*) FROM runs"),
    ("journal", "SELECT count(*) FROM journal"),
    ("inbox", "SELECT count(*) FROM inbox"),
    ("blobs", "SELECT count(*) FROM blobs"),
    ("cards", "SELECT count(*) FROM cards"),
    ("returns", "SELECT count(*) FROM returns"),
];

impl Sqlite {
    /// Copies the store at a path into a new file.
    pub(crate) fn write_backup(
        path: &Path,
        target: &Path,
        progress: &Progress,
    ) -> Result<Manifest, StoreError> {
        let mut writer = Writer::create(target)?;
        let (pages, mut file) = Beside::create(target, ".pages")?;
        let manifest = copy_pages(path, pages.path(), progress)?;
        writer.begin(PART, Vec::new())?;
        let mut block = vec![0; 1024 * 1024];
        loop {
            let count = file.read(&mut block).map_err(|error| failed(pages.path(), &error))?;
            if count == 0 {
                break;
            }
            writer.add(&block[..count])?;
        }
        writer.end_part()?;
        writer.finish(manifest)
    }

    /// Puts a backup that was found whole where no store is, in quarantine.
    pub(crate) fn restore(
        backup: &Path,
        path: &Path,
        manifest: &Manifest,
        clock: &Clock,
        progress: &Progress,
    ) -> Result<(), StoreError> {
        if manifest.format > FORMAT {
            return Err(StoreError::Newer { found: manifest.format, known: FORMAT });
        }
        // A log that was left behind would be played into the file that is put beside it.
        for suffix in ["", "-wal", "-shm", "-journal"] {
            let mut rest = path.as_os_str().to_owned();
            rest.push(suffix);
            if Path::new(&rest).exists() {
                return Err(StoreError::NotEmpty(Path::new(&rest).display().to_string()));
            }
        }
        let (pages, mut file) = Beside::create(path, ".restoring")?;
        write_pages(backup, &mut file, pages.path(), manifest, progress)?;
        drop(file);
        check_and_mark(pages.path(), manifest, clock)?;
        let synced = File::open(pages.path()).and_then(|file| file.sync_all());
        synced.map_err(|error| failed(pages.path(), &error))?;
        pages.settle(path)
    }
}

/// All pages as they are at one moment. The read stays open over all steps: writers go on in the
/// log, and nothing of what they write begins the copy anew.
fn copy_pages(path: &Path, to: &Path, progress: &Progress) -> Result<Manifest, StoreError> {
    let from = open::connect(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    open::leave_untouched(&from, true)?;
    let from = open::read_only(from)?;
    let mut copy = open::connect(to, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    let mut copied = || -> rusqlite::Result<Manifest> {
        from.execute_batch("BEGIN; SELECT count(*) FROM sqlite_schema")?;
        let steps = Backup::new(&from, &mut copy)?;
        loop {
            let step = steps.step(PAGES)?;
            let (all, left) = (steps.progress().pagecount, steps.progress().remaining);
            let [all, left] = [all, left].map(|count| u64::try_from(count).unwrap_or_default());
            progress(all - left, all);
            match step {
                StepResult::Done => break,
                StepResult::More => {}
                _ => std::thread::sleep(std::time::Duration::from_millis(5)),
            }
        }
        drop(steps);
        // One file: a log of its own would be left beside it.
        copy.pragma_update(None, "journal_mode", "DELETE")?;
        manifest(&copy)
    };
    copied().map_err(|error| store_error(&error))
}

fn manifest(copy: &Connection) -> rusqlite::Result<Manifest> {
    let format = copy.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let standing = standing::any_standing(copy)?;
    let store = copy.query_row("SELECT store_id FROM meta", [], |row| row.get(0))?;
    Ok(Manifest {
        kind: Kind::Sqlite,
        store,
        format,
        epoch: standing.epoch,
        created: Wall(Clock::Real.read().wall_ms),
        rows: counts(copy)?,
        parts: Vec::new(),
        counters: Vec::new(),
    })
}

/// How many rows each table has, of those that the format knows.
fn counts(connection: &Connection) -> rusqlite::Result<Vec<(String, u64)>> {
    let mut counts = Vec::new();
    for (table, text) in COUNTS {
        if connection.table_exists(None, table)? {
            let count = connection.query_row(text, [], |row| row.get(0))?;
            counts.push((table.to_owned(), count));
        }
    }
    Ok(counts)
}

fn write_pages(
    backup: &Path,
    file: &mut File,
    path: &Path,
    manifest: &Manifest,
    progress: &Progress,
) -> Result<(), StoreError> {
    let all = manifest.parts.iter().map(|part| part.bytes).sum();
    let (mut reader, mut done) = (Reader::open(backup)?, 0);
    loop {
        match reader.next()? {
            Event::Block(block) => {
                file.write_all(&block).map_err(|error| failed(path, &error))?;
                done += block.len() as u64;
                progress(done, all);
            }
            Event::Part(_) | Event::PartEnd => {}
            // It was whole a moment ago; somebody may have changed it since.
            Event::End(found) if found == *manifest => return Ok(()),
            Event::End(_) => {
                let text = format!("{}: it was changed meanwhile", backup.display());
                return Err(StoreError::BackupInvalid(text));
            }
        }
    }
}

/// The pages must be the store that the manifest speaks of; and before anybody can open it, it says
/// that it went back.
fn check_and_mark(pages: &Path, manifest: &Manifest, clock: &Clock) -> Result<(), StoreError> {
    let mut connection = open::connect(pages, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    open::check_format(&connection)?;
    let wrong = |what: &str| StoreError::BackupInvalid(format!("its pages are damaged: {what}"));
    let damage = rows::quick_check(&connection).map_err(StoreError::from)?;
    if let Some(damage) = damage.first() {
        return Err(wrong(damage));
    }
    let found = counts(&connection).map_err(|error| store_error(&error))?;
    if found != manifest.rows {
        return Err(wrong("they hold other rows than the manifest says"));
    }
    let taken = rfc3339(manifest.created);
    open::went_back(&mut connection, clock, &format!("restored from a backup of {taken}"))
}
