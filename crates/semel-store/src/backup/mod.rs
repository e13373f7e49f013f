//! Backups: a whole store in one file, taken while others write, and put into an empty place.
//!
//! A restored store opens its quarantine: what was sent after the backup is not known to it, and
//! is not sent again without evidence.

mod file;
mod manifest;

use std::path::Path;
use std::sync::Arc;

pub(crate) use file::{Beside, Event, Reader, Writer, failed};
pub use manifest::{Kind, Manifest, Part};

use crate::postgres::Postgres;
use crate::sqlite::Sqlite;
use crate::{Access, Clock, Opened, StoreError, Veil};

/// Told how much is done, and of how much; zero when nobody knows.
pub type Progress = Arc<dyn Fn(u64, u64) + Send + Sync>;

impl Opened {
    /// Writes all that the store holds at one moment into a new file.
    pub async fn backup(&self, file: &Path, progress: Progress) -> Result<Manifest, StoreError> {
        match self {
            Opened::Memory(_) => Err(gone_with_its_process()),
            Opened::Sqlite(store) => {
                let (path, file) = (store.path().to_owned(), file.to_owned());
                let backup = move || Sqlite::write_backup(&path, &file, &progress);
                join(tokio::task::spawn_blocking(backup).await)
            }
            Opened::Postgres(store) => store.write_backup(file, &progress).await,
            #[cfg(feature = "remote")]
            Opened::Remote(_) => self.upkeep().map(|_| unreachable!("a server has none")),
        }
    }

    /// Puts a backup where no store is, and opens it: in quarantine.
    pub async fn restore(
        file: &Path,
        url: &str,
        clock: Clock,
        veil: Veil,
        progress: Progress,
    ) -> Result<(Opened, Manifest), StoreError> {
        let kind = match url.split_once(':') {
            Some(("sqlite", _)) => Kind::Sqlite,
            Some(("postgres" | "postgresql", _)) => Kind::Postgres,
            Some(_) | None => return Err(gone_with_its_process()),
        };
        let manifest = verify(file).await?;
        if manifest.kind != kind {
            let (name, found) = (file.display(), manifest.kind);
            let text = format!("{name}: it is a backup of {found}, and {kind} is wanted");
            return Err(StoreError::BackupInvalid(text));
        }
        match kind {
            Kind::Sqlite => {
                let path = Opened::file_of(url)?;
                let (file, clock, backup) = (file.to_owned(), clock.clone(), manifest.clone());
                let restore = move || Sqlite::restore(&file, &path, &backup, &clock, &progress);
                join(tokio::task::spawn_blocking(restore).await)?;
            }
            Kind::Postgres => Postgres::restore(file, url, &manifest, &progress).await?,
        }
        let opened = Opened::open_veiled(url, Access::ReadWrite, clock, veil).await?;
        Ok((opened, manifest))
    }
}

/// Reads a backup from end to end: whether it is whole, and what it holds.
pub async fn verify(file: &Path) -> Result<Manifest, StoreError> {
    let file = file.to_owned();
    let read = move || {
        let mut reader = Reader::open(&file)?;
        loop {
            if let Event::End(manifest) = reader.next()? {
                return Ok(manifest);
            }
        }
    };
    join(tokio::task::spawn_blocking(read).await)
}

fn join<T>(joined: Result<Result<T, StoreError>, tokio::task::JoinError>) -> Result<T, StoreError> {
    joined.map_err(|error| StoreError::Unavailable(format!("the backup stopped: {error}")))?
}

fn gone_with_its_process() -> StoreError {
    StoreError::UrlInvalid("backups are of stores in SQLite and in Postgres".into())
}
