//! Opening a ledger by its address.

use semel::{Error, Semel};

/// Opens the ledger at an address.
pub(crate) async fn open(url: &str) -> Result<Semel, Error> {
    Semel::open(url).await
}
