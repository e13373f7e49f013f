//! `semel migrate`: brings a store to the format that this Semel writes.

use semel_store::Opened;
use serde_json::json;

use super::open::Place;
use crate::exit::Failed;
use crate::print::{Printer, plain};

pub(crate) async fn run(place: &Place, printer: &Printer) -> Result<(), Failed> {
    let from = Some(Opened::migrate_veiled(&place.store, place.veil.clone()).await?)
        .filter(|from| *from > 0);
    let store = place.look().await?;
    let (at, to) = (store.place(), store.format());
    if printer.wants_json() {
        return printer.json(&json!({ "store": at, "from": from, "to": to }));
    }
    let at = plain(&at);
    printer.line(&match from {
        None => format!("{at} was created, of format {to}"),
        Some(from) if from == to => format!("{at} is of format {to} already"),
        Some(from) => format!("{at} was brought from format {from} to format {to}"),
    });
    Ok(())
}
