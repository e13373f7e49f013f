//! A store for one measurement that another program makes, gone afterwards, and the raw limit
//! beside it: what the Python package measures itself with.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use semel::Semel;
use semel_engine::Engine;
use semel_store::postgres::Postgres;
use semel_store::{Access, Clock};
use tempfile::TempDir;

use super::postgres::{Kind, Schema};
use super::{raw, runs};
use crate::exit::Failed;

/// A store that nobody else uses.
pub struct Place {
    semel: Semel,
    kept: Kept,
}

enum Kept {
    Sqlite { file: PathBuf, commits: f64, _folder: TempDir },
    Postgres { schema: Schema, store: Arc<Postgres> },
}

impl Place {
    /// Makes one: a file that is deleted afterwards, or a schema on the server that is named.
    pub async fn create(server: Option<&str>) -> anyhow::Result<Place> {
        let Some(url) = server else { return Place::file().await };
        let schema = Schema::create(url).await.map_err(told)?;
        let store = Arc::new(Postgres::open(&schema.url, Access::ReadWrite, Clock::Real).await?);
        let engine = Engine::on_postgres(store.clone(), "bench")?;
        engine.start();
        Ok(Place { semel: Semel::on(engine), kept: Kept::Postgres { schema, store } })
    }

    async fn file() -> anyhow::Result<Place> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("bench.db");
        let semel = Semel::open(&format!("sqlite:{}", file.display())).await?;
        let commits = runs::commits(&file)?;
        Ok(Place { semel, kept: Kept::Sqlite { file, commits, _folder: folder } })
    }

    /// The ledger there.
    pub fn semel(&self) -> Semel {
        self.semel.clone()
    }

    /// Rows per commit so far, when so many rows were written, and rows a second of bare inserts
    /// with the same bytes and rows a transaction.
    pub async fn beside(&self, rows: f64) -> anyhow::Result<(f64, f64)> {
        match &self.kept {
            Kept::Sqlite { file, commits, .. } => {
                let per_commit = rows / (runs::commits(file)? - commits).max(1.0);
                let bytes = runs::entry_bytes(file)?;
                let file = file.clone();
                let raw = move || raw::inserts(&file, per_commit, bytes);
                let raw_per_s = tokio::task::spawn_blocking(raw).await.context("raw inserts")??;
                Ok((per_commit, raw_per_s))
            }
            Kept::Postgres { schema, store } => {
                let per_commit = rows / store.commits().max(1) as f64;
                let bytes = schema.bytes(Kind::Runs).await?;
                Ok((per_commit, schema.raw(1, per_commit, bytes).await?))
            }
        }
    }

    /// Leaves nothing behind.
    pub async fn remove(self) -> anyhow::Result<()> {
        match self.kept {
            Kept::Sqlite { .. } => Ok(()),
            Kept::Postgres { schema, .. } => schema.remove().await.map_err(told),
        }
    }
}

fn told(failed: Failed) -> anyhow::Error {
    anyhow::Error::msg(failed.message)
}
