//! Where the runs of a test are kept: at a server.

use semel::Semel;
use tempfile::TempDir;
use tokio::sync::OnceCell;

use crate::served::Served;

/// A store of a test's own, at a server of its own. Opened again, it is one more worker.
pub(crate) struct Place {
    folder: TempDir,
    served: OnceCell<Served>,
}

impl Place {
    pub(crate) fn new() -> Place {
        Place { folder: tempfile::tempdir().expect("a folder"), served: OnceCell::new() }
    }

    pub(crate) async fn open(&self) -> Semel {
        let url = format!("sqlite:{}/semel.db", self.folder.path().display());
        let served = self.served.get_or_init(|| Served::start(&url)).await;
        Semel::open(&served.url).await.expect("the server answers")
    }
}
