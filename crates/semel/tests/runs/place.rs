//! Where the runs of a test are kept. Another file of this name keeps them at a server.

use semel::Semel;
use tempfile::TempDir;

/// A store of a test's own. Opened again, it is what a restarted process would find.
pub(crate) struct Place {
    folder: TempDir,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) async fn open(&self) -> Semel {
        let url = format!("sqlite:{}/semel.db", self.folder.path().display());
        Semel::open(&url).await.expect("the store opens")
    }
}
