//! Opening a store by its address.

use std::path::Path;
use std::sync::Arc;

use crate::memory::Memory;
use crate::sqlite::Sqlite;
use crate::{Clock, Store, StoreError, Upkeep};

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Creates it where that is allowed, holds a session, writes.
    ReadWrite,
    /// Looks at an existing one, also while others write it.
    ReadOnly,
}

/// A store of any kind.
#[derive(Clone)]
pub enum Opened {
    Memory(Arc<Memory>),
    Sqlite(Arc<Sqlite>),
}

impl Opened {
    /// Opens `memory:` or `sqlite:path/to/file.db`.
    pub async fn open(url: &str, access: Access, clock: Clock) -> Result<Opened, StoreError> {
        match url.split_once(':') {
            Some(("sqlite", path)) if !path.is_empty() => {
                let path = path.strip_prefix("//").unwrap_or(path).to_owned();
                let open = move || Sqlite::open(Path::new(&path), access, clock);
                let opened = tokio::task::spawn_blocking(open).await;
                let stopped = |error| StoreError::Unavailable(format!("opening: {error}"));
                Ok(Opened::Sqlite(Arc::new(opened.map_err(stopped)??)))
            }
            Some(("memory", "")) => Ok(Opened::Memory(Arc::new(Memory::new(clock)))),
            Some(_) | None => {
                Err(StoreError::UrlInvalid(format!("`{url}` is not the address of a store")))
            }
        }
    }

    /// As every store.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Opened::Memory(store) => store.clone(),
            Opened::Sqlite(store) => store.clone(),
        }
    }

    /// As an operator sees it. A store in memory has none: it is gone with its process.
    pub fn upkeep(&self) -> Result<Arc<dyn Upkeep>, StoreError> {
        match self {
            Opened::Memory(_) => {
                let text = "a store in memory is seen by its own process only";
                Err(StoreError::UrlInvalid(text.into()))
            }
            Opened::Sqlite(store) => Ok(store.clone()),
        }
    }
}
