//! Opening a ledger by its address.

use std::sync::Arc;

use semel::{Error, Semel};
use semel_check::rehearsal::{Pointed, Points};
use semel_engine::Engine;
use semel_store::{Access, Opened};

/// Opens the ledger at an address. In a rehearsal the process dies at the point that its
/// environment names, and the store says which points it passes.
pub(crate) async fn open(url: &str) -> Result<Semel, Error> {
    let Some(points) = Points::from_environment() else { return Semel::open(url).await };
    let opened = Opened::open(url, Access::ReadWrite, points.clock()).await?;
    let points = Arc::new(points);
    crate::check::rehearse(&points);
    let store = Arc::new(Pointed { store: opened.store(), points });
    let engine = Engine::new(store, format!("rehearsal:{}", std::process::id()))?;
    engine.start();
    Ok(Semel::on(engine))
}
