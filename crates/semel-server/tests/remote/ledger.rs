//! Where the effects of a test are kept: at a server, on a file that strangers may read.

use std::path::PathBuf;

use semel::Semel;
use semel_core::record::Effect;
use semel_store::sqlite::Sqlite;
use semel_store::{Access, Clock, Store};
use tokio::sync::OnceCell;

use crate::served::Served;

/// A file that outlives the processes that open it.
pub(crate) struct Ledger {
    folder: tempfile::TempDir,
    served: OnceCell<Served>,
}

impl Ledger {
    pub(crate) fn new() -> Ledger {
        Ledger { folder: tempfile::tempdir().expect("a folder"), served: OnceCell::new() }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join("semel.db")
    }

    /// Opens it as one more worker would.
    pub(crate) async fn open(&self) -> Semel {
        let url = format!("sqlite:{}", self.path().display());
        let served = self.served.get_or_init(|| Served::start(&url)).await;
        Semel::open(&served.url).await.expect("the server answers")
    }

    /// What a stranger reads in the file.
    pub(crate) async fn read(&self, semel: &Semel, action: &str, key: &str) -> Option<Effect> {
        let store = Sqlite::open(&self.path(), Access::ReadOnly, Clock::Real).expect("a reader");
        let found = semel.find(action, key).await.expect("found or not")?;
        store.load(&found.address).await.expect("read")
    }
}
