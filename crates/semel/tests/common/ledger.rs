//! Where the effects of a test are kept. Another file of this name keeps them at a server.

use std::path::PathBuf;

use semel::Semel;
use semel_core::record::Effect;
use semel_store::sqlite::Sqlite;
use semel_store::{Access, Clock, Store};

/// A file that outlives the processes that open it.
pub(crate) struct Ledger {
    folder: tempfile::TempDir,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("semel.db")
    }

    /// Opens it as one more process would.
    pub(crate) async fn open(&self) -> Semel {
        Semel::open(&format!("sqlite:{}", self.path().display())).await.expect("a ledger")
    }

    /// What a stranger reads in the file.
    pub(crate) async fn read(&self, semel: &Semel, action: &str, key: &str) -> Option<Effect> {
        let store = Sqlite::open(&self.path(), Access::ReadOnly, Clock::Real).expect("a reader");
        let found = semel.find(action, key).await.expect("found or not")?;
        store.load(&found.address).await.expect("read")
    }
}
