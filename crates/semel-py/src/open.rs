//! Opening a ledger by its address.

use std::sync::Arc;

use semel::{Code, Error, Semel};
use semel_check::rehearsal::{Pointed, Points};
use semel_engine::Engine;
use semel_store::{Access, Opened};

/// Opens the ledger at an address. In a rehearsal the process dies at the point that its
/// environment names, and the store says which points it passes.
pub(crate) async fn open(url: &str, token: Option<&str>) -> Result<Semel, Error> {
    let Some(points) = Points::from_environment() else {
        return match token {
            Some(token) => Semel::open_with_token(url, token).await,
            None => Semel::open(url).await,
        };
    };
    crate::check::warn_of_rehearsal(&points);
    if !points.may_open(url) {
        let text = "a rehearsal that pushes the clock works only on SQLite: unset SEMEL_REHEARSE_…";
        return Err(Error::new(Code::InputInvalid, text));
    }
    let opened = Opened::open(url, Access::ReadWrite, points.clock()).await?;
    let points = Arc::new(points);
    crate::check::rehearse(&points);
    let store = Arc::new(Pointed { store: opened.store(), points });
    let engine = Engine::before(&opened, store, format!("rehearsal:{}", std::process::id()))?;
    engine.start();
    Ok(Semel::on(engine))
}
