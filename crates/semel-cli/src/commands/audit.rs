//! `semel audit`: what people decided, and whether the chain of it is whole.

use semel_core::audit::Entry;
use semel_core::limits;
use semel_core::wire::rfc3339;
use serde_json::json;

use super::effects::{listed, tell_unreadable};
use super::open::Place;
use super::verify;
use crate::args::{self, Audit};
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

pub(crate) async fn run(place: &Place, command: Audit, printer: &Printer) -> Result<(), Failed> {
    match command {
        Audit::Ls(options) => ls(place, &options, printer).await,
        Audit::Verify => check(place, printer).await,
    }
}

async fn ls(place: &Place, options: &args::AuditLs, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let limit = options.limit.min(limits::PAGE_ROWS_MAX);
    let page = engine.audit_entries(&place.namespace()?, options.after, limit).await?;
    if printer.wants_json() {
        let items: Vec<_> = page.entries.iter().map(view).collect();
        return printer.json(&listed(&items, page.next, &page.unreadable));
    }
    if page.entries.is_empty() && page.unreadable.is_empty() {
        printer.talk("nobody has decided anything yet");
    }
    let rows: Vec<_> = page.entries.iter().map(row).collect();
    printer.table(&["SEQ", "AT", "ACTOR", "VERB", "SUBJECT", "REASON"], &rows);
    tell_unreadable(&page.unreadable, printer);
    if let Some(next) = page.next {
        printer.talk(&format!("more: add --after {next}"));
    }
    Ok(())
}

fn view(entry: &Entry) -> serde_json::Value {
    let Entry { seq, previous, at, actor, verb, subject, reason, version, detail } = entry;
    json!({
        "seq": seq, "at": rfc3339(*at), "actor": actor, "verb": verb.as_str(),
        "subject": subject, "reason": reason, "version": version, "detail": detail,
        "previous": previous,
    })
}

fn row(entry: &Entry) -> Vec<String> {
    let texts = [&entry.actor, entry.verb.as_str(), &entry.subject, &entry.reason];
    let numbers = [entry.seq.to_string(), rfc3339(entry.at)];
    numbers.into_iter().chain(texts.map(plain)).collect()
}

async fn check(place: &Place, printer: &Printer) -> Result<(), Failed> {
    let store = place.look().await?;
    let (count, broken) = verify::check_chains(store.as_ref()).await?;
    if printer.wants_json() {
        printer.json(&json!({ "entries": count, "violations": broken }))?;
    } else {
        printer.line(&format!("{count} audit entries"));
        for what in &broken {
            printer.line(&format!("{} {}", printer.paint(Tone::Bad, "I22"), plain(what)));
        }
        if broken.is_empty() {
            printer.line(&printer.paint(Tone::Good, "every chain is whole"));
        }
    }
    match broken.len() {
        0 => Ok(()),
        count => Err(Failed::new(format!("{count} places of the audit chain are broken"))
            .hint("keep the store as it is; hold it against a head with `semel verify --against`")),
    }
}
