//! Whether the file is still the one that this process works on. It may be put back by SQLite's own
//! `.restore`, or another file may be moved into its place, while the process lives: every
//! transaction asks before it writes anything.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OptionalExtension, params};

use super::mark::{Mark, MarkFile};
use super::reader::ReadError;
use super::standing::Standing;
use super::{Shared, lost, open, side_folder};
use crate::StoreError;
use crate::written::{Memory, Written};

pub(super) struct Guard {
    path: PathBuf,
    /// Where on the disk the open file lies. `None`: nobody can tell.
    place: Option<(u64, u64)>,
    mark_file: MarkFile,
    /// The last commit of this process.
    mark: Mark,
    pub(super) memory: Memory,
}

impl Guard {
    pub(super) fn new(path: &Path, mark_file: MarkFile, mark: Mark) -> Guard {
        let memory = Memory::default();
        Guard { path: path.to_owned(), place: place(path), mark_file, mark, memory }
    }

    /// Refuses to write when the path leads to another file by now. What is written to ours is lost
    /// with it, and the log beside both would be played into the other one. The mark is raised, so
    /// that whoever opens that file knows.
    pub(super) fn check_place(&mut self) -> Result<(), StoreError> {
        if self.place.is_none() || place(&self.path) == self.place {
            return Ok(());
        }
        let mut mark = self.newest_mark();
        mark.commits += 1;
        self.mark_file.write(&mark)?;
        self.list(mark.epoch + 1, |_| Ok(true))?;
        let text = "the file was replaced or removed under this process: stop every process that \
             has it open, restore as the page about the quarantine says, and start them again";
        tracing::error!(file = %self.path.display(), "{text}");
        Err(StoreError::Unavailable(text.into()))
    }

    /// Compares the file, inside a transaction, with the last commit that anybody remembers. If it
    /// went back, that is recorded before anything else, and the transaction begun anew.
    pub(super) fn check(
        &mut self,
        connection: &Connection,
        shared: &Shared,
        standing: Standing,
    ) -> Result<Standing, ReadError> {
        let text = "SELECT store_id FROM meta";
        let store_id: String = connection.prepare_cached(text)?.query_row([], |row| row.get(0))?;
        let known = self.newest_mark();
        let is_same = known.store_id == store_id;
        let stands = (standing.epoch, standing.commits);
        if is_same && stands >= (known.epoch, known.commits) {
            if standing.epoch > self.mark.epoch {
                // Another process has recorded it.
                self.list(standing.epoch, |row| is_lost(connection, row))?;
            }
            return Ok(standing);
        }
        let epoch = standing.epoch.max(known.epoch) + 1;
        let Some(recorded) = open::record_return(connection, shared, &known)? else {
            self.list(epoch, |row| is_lost(connection, row))?;
            let text = "the file was replaced by one of another store, or of a time before this \
                 machine was started: start this process again";
            return Err(StoreError::Unavailable(text.into()).into());
        };
        connection.prepare_cached("COMMIT")?.execute([])?;
        self.mark.store_id = store_id;
        self.written(&recorded);
        self.list(epoch, |row| is_lost(connection, row))?;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        Ok(recorded)
    }

    /// Notes a commit, for every process of this file.
    pub(super) fn written(&mut self, standing: &Standing) {
        self.mark.epoch = standing.epoch;
        self.mark.commits = standing.commits;
        // The commit stands; a mark that cannot be written only weakens a warning.
        if let Err(error) = self.mark_file.write(&self.mark) {
            tracing::warn!(%error, "the mark beside the store was not written");
        }
    }

    /// What is on the disk is of all processes; it may be gone, or have been put back as well.
    fn newest_mark(&self) -> Mark {
        let newest = |mark: &Mark| (mark.epoch, mark.commits);
        let found = self.mark_file.read().filter(|found| newest(found) >= newest(&self.mark));
        found.unwrap_or_else(|| self.mark.clone())
    }

    /// Lists what this process wrote before an epoch, and what is gone of it.
    fn list(
        &self,
        epoch: u64,
        is_lost: impl Fn(&Written) -> rusqlite::Result<bool>,
    ) -> Result<(), StoreError> {
        let mut taken = self.memory.take_before(epoch);
        let mut gone = Vec::new();
        for row in &taken.rows {
            if is_lost(row).map_err(|error| super::store_error(&error))? {
                gone.push(row);
            }
        }
        lost::append(&side_folder(&self.path), epoch, &gone)?;
        taken.rows.clear();
        Ok(())
    }
}

/// The device and the number of a file.
fn place(path: &Path) -> Option<(u64, u64)> {
    std::fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

const EFFECT: &str = "SELECT 1 FROM effects WHERE namespace = ?1 AND action = ?2 AND key = ?3 \
     AND generation = ?4 AND (version > ?5 OR (version = ?5 AND sum = ?6))";

const RUN: &str = "SELECT 1 FROM runs WHERE namespace = ?1 AND id = ?2 \
     AND (version > ?3 OR (version = ?3 AND sum = ?4))";

/// A row is there when it is at this version as it was written, or at a later one.
fn is_lost(connection: &Connection, row: &Written) -> rusqlite::Result<bool> {
    let Written { namespace, action, name, generation, version, sum, .. } = row;
    let found: Option<i64> = match action {
        Some(action) => connection
            .prepare_cached(EFFECT)?
            .query_row(params![namespace, action, name, generation, version, sum], |row| row.get(0))
            .optional()?,
        None => connection
            .prepare_cached(RUN)?
            .query_row(params![namespace, name, version, sum], |row| row.get(0))
            .optional()?,
    };
    Ok(found.is_none())
}
