//! The mark: the latest commit that this folder has seen, kept outside the database. A database
//! that knows less than its mark went back in time: a restored backup, or a damaged log.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::io_error;
use super::lock::private_file;
use crate::StoreError;

/// What the mark says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) store_id: String,
    pub(super) epoch: u64,
    pub(super) commits: i64,
}

pub(super) struct MarkFile {
    file: File,
}

/// One write of one fixed size: a later mark covers an earlier one whole.
const WIDTH: usize = 32 + 1 + 20 + 1 + 20 + 1;

impl MarkFile {
    pub(super) fn open(folder: &Path) -> Result<MarkFile, StoreError> {
        let failed = |error: std::io::Error| io_error("the mark beside the store", &error);
        Ok(MarkFile { file: private_file(&folder.join("mark")).map_err(failed)? })
    }

    /// Reads the mark; `None` when none was written yet, or it cannot be read.
    pub(super) fn read(&self) -> Option<Mark> {
        read(&self.file)
    }

    /// Written after the commit is durable and before the turn ends, so it never runs ahead of
    /// the database and never backwards. It is not synced: losing it loses only a warning.
    pub(super) fn write(&self, mark: &Mark) -> Result<(), StoreError> {
        let text = format!("{:32} {:20} {:20}\n", mark.store_id, mark.epoch, mark.commits);
        self.file
            .write_all_at(text.as_bytes(), 0)
            .map_err(|error| io_error("the mark beside the store", &error))
    }
}

/// Reads the mark without touching anything.
pub(super) fn peek(folder: &Path) -> Option<Mark> {
    read(&File::open(folder.join("mark")).ok()?)
}

fn read(file: &File) -> Option<Mark> {
    let mut bytes = [0; WIDTH];
    file.read_exact_at(&mut bytes, 0).ok()?;
    let text = std::str::from_utf8(&bytes).ok()?;
    let mut fields = text.trim_end().split(' ').filter(|field| !field.is_empty());
    let store_id = fields.next()?.to_owned();
    let epoch = fields.next()?.parse().ok()?;
    let commits = fields.next()?.parse().ok()?;
    Some(Mark { store_id, epoch, commits })
}
