//! `semel outbox`: intents that a user's transaction wrote and that are not effects yet.

use std::sync::Arc;

use semel_core::wire::rfc3339;
use semel_store::postgres::{OutboxRow, Postgres};
use semel_store::{Access, Opened};
use serde_json::json;

use super::open::Place;
use crate::args;
use crate::exit::Failed;
use crate::print::{Printer, plain};

pub(crate) async fn ls(
    place: &Place,
    options: &args::OutboxLs,
    printer: &Printer,
) -> Result<(), Failed> {
    let store = open(place, Access::ReadOnly).await?;
    let found = store.outbox(options.after, options.limit).await?;
    let next = found.last().filter(|_| found.len() == options.limit).map(|row| row.id);
    if printer.wants_json() {
        let items: Vec<_> = found.iter().map(view).collect();
        return printer.json(&json!({ "items": items, "next": next }));
    }
    if found.is_empty() {
        printer.talk("the outbox is empty: every intent is an effect");
    }
    let rows: Vec<_> = found.iter().map(row).collect();
    printer.table(&["ID", "ACTION/KEY", "NAMESPACE", "WRITTEN", "IT"], &rows);
    if let Some(next) = next {
        printer.talk(&format!("more: add --after {next}"));
    }
    Ok(())
}

/// Takes out an intent that cannot be delivered.
pub(crate) async fn drop_refused(place: &Place, id: i64, printer: &Printer) -> Result<(), Failed> {
    let store = open(place, Access::ReadWrite).await?;
    if !store.drop_refused(id).await? {
        let text = format!("no refused intent has the id {id}");
        let hint = "semel outbox ls; an intent that only waits is not dropped";
        return Err(Failed::from(semel::Error::new(semel::Code::NotFound, text)).hint(hint));
    }
    match printer.wants_json() {
        true => printer.json(&json!({ "dropped": id })),
        false => {
            printer.line(&format!("the refused intent {id} is dropped"));
            Ok(())
        }
    }
}

async fn open(place: &Place, access: Access) -> Result<Arc<Postgres>, Failed> {
    match place.open(access).await? {
        Opened::Postgres(store) => Ok(store),
        _ => Err(Failed::usage("an outbox is in Postgres only: --store postgres://…".to_owned())),
    }
}

fn view(row: &OutboxRow) -> serde_json::Value {
    let refused = row.refused.as_ref();
    json!({
        "id": row.id,
        "namespace": row.namespace,
        "action": row.action,
        "key": row.key,
        "written_at": rfc3339(row.created),
        "refused": refused.map(|refused| json!({ "code": refused.code, "text": refused.text })),
    })
}

fn row(row: &OutboxRow) -> Vec<String> {
    let state = match &row.refused {
        None => "waits for a handler".to_owned(),
        Some(refused) => format!("is refused: {} ({})", refused.text, refused.code),
    };
    vec![
        row.id.to_string(),
        plain(&format!("{}/{}", row.action, row.key)),
        plain(&row.namespace),
        rfc3339(row.created),
        plain(&state),
    ]
}
