//! Opening a store by its address.

use std::path::PathBuf;
use std::sync::Arc;

use crate::memory::Memory;
use crate::postgres::Postgres;
#[cfg(feature = "remote")]
use crate::remote::Remote;
use crate::sqlite::Sqlite;
use crate::{Clock, Store, StoreError, Upkeep, Veil};

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Creates it where that is allowed, holds a session, writes.
    ReadWrite,
    /// Looks at an existing one, also while others write it.
    ReadOnly,
}

/// A store of any kind. There may be more kinds, by the features that were built in.
#[derive(Clone)]
#[non_exhaustive]
pub enum Opened {
    Memory(Arc<Memory>),
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
    /// Somebody else keeps it: a server.
    #[cfg(feature = "remote")]
    Remote(Arc<Remote>),
}

impl Opened {
    /// Opens `memory:`, `sqlite:path/to/file.db`, `postgres://…` or the server at `http://…`, whose
    /// token is in `SEMEL_TOKEN` or in the address.
    ///
    /// Keys and secrets are those that the environment names.
    pub async fn open(url: &str, access: Access, clock: Clock) -> Result<Opened, StoreError> {
        Opened::open_veiled(url, access, clock, Veil::from_environment()?).await
    }

    /// The same, with these keys and secrets.
    pub async fn open_veiled(
        url: &str,
        access: Access,
        clock: Clock,
        veil: Veil,
    ) -> Result<Opened, StoreError> {
        Opened::open_by((url, None), access, clock, veil).await
    }

    /// The same with a token for a server.
    pub async fn open_as(
        url: &str,
        token: Option<&str>,
        access: Access,
        clock: Clock,
    ) -> Result<Opened, StoreError> {
        Opened::open_by((url, token), access, clock, Veil::from_environment()?).await
    }

    async fn open_by(
        (url, token): (&str, Option<&str>),
        access: Access,
        clock: Clock,
        veil: Veil,
    ) -> Result<Opened, StoreError> {
        match url.split_once(':') {
            Some(("http" | "https", _)) => open_remote((url, token), access, clock, &veil).await,
            Some(_) | None if token.is_some() => {
                let text = "a token is for the address of a server: http://… or https://…";
                Err(StoreError::UrlInvalid(text.into()))
            }
            Some(("sqlite", _)) => {
                let path = Opened::file_of(url)?;
                let open = move || Sqlite::open_veiled(&path, access, clock, veil);
                let opened = tokio::task::spawn_blocking(open).await;
                let stopped = |error| StoreError::Unavailable(format!("opening: {error}"));
                Ok(Opened::Sqlite(Arc::new(opened.map_err(stopped)??)))
            }
            Some(("postgres" | "postgresql", _)) => {
                let opened = Postgres::open_veiled(url, access, clock, veil).await?;
                Ok(Opened::Postgres(Arc::new(opened)))
            }
            Some(("memory", "")) => Ok(Opened::Memory(Arc::new(Memory::new(clock)))),
            Some(_) | None => {
                Err(StoreError::UrlInvalid(format!("`{url}` is not the address of a store")))
            }
        }
    }

    /// The file that the address of a SQLite store names.
    pub fn file_of(url: &str) -> Result<PathBuf, StoreError> {
        crate::sqlite::file_of(url)
    }

    /// Brings the store at an address to the format that this Semel writes, and creates it where
    /// there is none. Returns the format it had, zero for none.
    pub async fn migrate(url: &str) -> Result<i64, StoreError> {
        Opened::migrate_veiled(url, Veil::from_environment()?).await
    }

    /// The same, with these keys and secrets.
    pub async fn migrate_veiled(url: &str, veil: Veil) -> Result<i64, StoreError> {
        if let Some(("postgres" | "postgresql", _)) = url.split_once(':') {
            return Postgres::migrate(url).await;
        }
        let (access, clock) = (Access::ReadOnly, Clock::Real);
        let from = match Opened::open_veiled(url, access, clock, veil.clone()).await {
            Ok(opened) => opened.upkeep()?.format(),
            Err(StoreError::Missing(_)) => 0,
            Err(error) => return Err(error),
        };
        Opened::open_veiled(url, Access::ReadWrite, Clock::Real, veil).await.map(|_| from)
    }

    /// Why nothing is written any more, where that is known without asking.
    pub fn damage(&self) -> Option<StoreError> {
        match self {
            Opened::Sqlite(store) => store.damage(),
            Opened::Memory(_) | Opened::Postgres(_) => None,
            #[cfg(feature = "remote")]
            Opened::Remote(_) => None,
        }
    }

    /// As every store.
    pub fn store(&self) -> Arc<dyn Store> {
        match self {
            Opened::Memory(store) => store.clone(),
            Opened::Sqlite(store) => store.clone(),
            Opened::Postgres(store) => store.clone(),
            #[cfg(feature = "remote")]
            Opened::Remote(store) => store.clone(),
        }
    }

    /// The one namespace that can be seen, where the token of a server says which.
    pub fn namespace(&self) -> Option<&str> {
        match self {
            Opened::Memory(_) | Opened::Sqlite(_) | Opened::Postgres(_) => None,
            #[cfg(feature = "remote")]
            Opened::Remote(store) => Some(store.namespace()),
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
            Opened::Postgres(store) => Ok(store.clone()),
            #[cfg(feature = "remote")]
            Opened::Remote(store) => {
                let at = store.shown();
                let text = format!(
                    "this needs the store itself, not {at}: run it beside the server, with the \
                     address of the store that it serves"
                );
                Err(StoreError::UrlInvalid(text))
            }
        }
    }
}

#[cfg(feature = "remote")]
async fn open_remote(
    (url, token): (&str, Option<&str>),
    access: Access,
    clock: Clock,
    veil: &Veil,
) -> Result<Opened, StoreError> {
    let said = std::env::var("SEMEL_TOKEN").ok();
    // One in the address is meant for it; the environment is for all addresses.
    let said = said.as_deref().filter(|_| !url.contains('@'));
    let remote = Remote::open(url, token.or(said), access, clock).await?;
    Ok(Opened::Remote(Arc::new(remote.veiled(veil))))
}

#[cfg(not(feature = "remote"))]
async fn open_remote(
    _address: (&str, Option<&str>),
    _access: Access,
    _clock: Clock,
    _veil: &Veil,
) -> Result<Opened, StoreError> {
    let text = "this program was built without the feature `remote`, which speaks to servers";
    Err(StoreError::UrlInvalid(text.into()))
}
