//! `semel triggers`: webhooks that start runs.

mod test;

use std::io::Read;
use std::path::Path;

use semel_core::hook::{self, Content};
use semel_core::key::Namespace;
use semel_core::limits;
use semel_core::wire_trigger::{DeliveryView, TriggerView, deliveries_view, trigger_view};
use semel_engine::Triggered;
use serde_json::{Map, Value, json};

use super::effects::{listed, tell_unreadable};
use super::open::Place;
use crate::args::{self, Triggers};
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

pub(crate) async fn run(place: &Place, command: Triggers, printer: &Printer) -> Result<(), Failed> {
    place.needs_the_store("triggers are kept")?;
    match command {
        Triggers::Ls(options) => ls(place, options, printer).await,
        Triggers::Show(options) => show(place, &options.name, printer).await,
        Triggers::Put(options) => put(place, &options, printer).await,
        Triggers::Rm(options) => remove(place, &options, printer).await,
        Triggers::Deliveries(options) => deliveries(place, &options, printer).await,
        Triggers::Test(options) => test::run(place, &options, printer).await,
    }
}

async fn ls(place: &Place, options: args::TriggerLs, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let limit = options.limit.min(limits::PAGE_ROWS_MAX);
    let page = engine.triggers(&place.namespace()?, options.after, limit).await?;
    let views: Vec<_> = page.triggers.iter().map(view).collect();
    if printer.wants_json() {
        return printer.json(&listed(&views, &page.next, &page.unreadable));
    }
    let rows: Vec<_> = views.iter().map(row).collect();
    printer.table(&["NAME", "WORKFLOW", "SCHEME", "SECRET", "POSTED TO"], &rows);
    tell_unreadable(&page.unreadable, printer);
    if views.is_empty() && page.unreadable.is_empty() {
        printer.talk("no triggers; `semel triggers put FILE.toml` makes some");
    }
    if let Some(next) = page.next {
        printer.talk(&format!("more: add --after {}", plain(&next)));
    }
    Ok(())
}

fn row(view: &TriggerView) -> Vec<String> {
    vec![
        plain(&view.name),
        plain(&view.declared.workflow),
        scheme_of(view),
        plain(&view.declared.secret),
        plain(&view.path),
    ]
}

fn scheme_of(view: &TriggerView) -> String {
    json!(view.declared.scheme).as_str().unwrap_or_default().to_owned()
}

async fn show(place: &Place, name: &str, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let found = engine.trigger(&place.namespace()?, name).await;
    print(&view(&found.map_err(Failed::about_trigger)?), printer)
}

async fn put(place: &Place, options: &args::TriggerPut, printer: &Printer) -> Result<(), Failed> {
    let declared = read_file(&options.file)?;
    let engine = place.engine_to_decide().await?;
    // All of them are checked before one is written.
    for (name, content) in &declared {
        let plan = hook::check(name, content).map_err(semel::Error::from);
        plan.map_err(|error| Failed::about_trigger(about(name, &error)))?;
    }
    let mut answers = Vec::new();
    for (name, content) in &declared {
        let namespace = match &content.namespace {
            Some(said) => Namespace::new(said).map_err(semel::Error::from)?,
            None => place.namespace_to_begin()?,
        };
        let put = engine.put_trigger(&namespace, name, content, &options.actor).await;
        let (found, is_changed) = put.map_err(Failed::about_trigger)?;
        answers.push((view(&found), is_changed));
    }
    if printer.wants_json() {
        let items = answers.iter().map(|(view, is_changed)| {
            let mut answer = json!(view);
            answer["changed"] = json!(is_changed);
            answer
        });
        return printer.json(&json!({ "items": items.collect::<Vec<_>>() }));
    }
    for (view, is_changed) in &answers {
        let what = match (is_changed, view.version) {
            (false, _) => "unchanged",
            (true, 1) => "put",
            (true, _) => "changed",
        };
        printer.line(&format!("{} {what}: POST {}", plain(&view.name), plain(&view.path)));
    }
    Ok(())
}

fn about(name: &str, error: &semel::Error) -> semel::Error {
    semel::Error::new(error.code(), format!("[triggers.{}] {}", plain(name), error.detail()))
}

/// The tables `[triggers.NAME]` of a file, each as the rules read it.
fn read_file(file: &Path) -> Result<Vec<(String, Content)>, Failed> {
    let text = read_bytes(file)?;
    let text = String::from_utf8(text)
        .map_err(|_| Failed::usage(format!("{} is not UTF-8", file.display())))?;
    let whole: Map<String, Value> = toml::from_str(&text)
        .map_err(|error| Failed::usage(format!("{}: {error}", file.display())))?;
    let missing = || Failed::usage("the file has no table [triggers.NAME]".to_owned());
    if let Some(other) = whole.keys().find(|key| *key != "triggers") {
        return Err(Failed::usage(format!("`{other}` is no trigger: write [triggers.NAME]")));
    }
    let tables = whole.get("triggers").and_then(Value::as_object).ok_or_else(missing)?;
    if tables.is_empty() {
        return Err(missing());
    }
    let read = |(name, table): (&String, &Value)| {
        let content = hook::parse(&table.to_string()).map_err(semel::Error::from);
        let content = content.map_err(|error| Failed::about_trigger(about(name, &error)))?;
        Ok((name.clone(), content))
    };
    tables.iter().map(read).collect()
}

/// A file, or stdin, as bytes.
fn read_bytes(file: &Path) -> Result<Vec<u8>, Failed> {
    let failed = |error| Failed::usage(format!("{}: {error}", file.display()));
    if file != Path::new("-") {
        return std::fs::read(file).map_err(failed);
    }
    let mut bytes = Vec::new();
    std::io::stdin().read_to_end(&mut bytes).map_err(failed)?;
    Ok(bytes)
}

async fn remove(
    place: &Place,
    options: &args::TriggerRemove,
    printer: &Printer,
) -> Result<(), Failed> {
    let engine = place.engine_to_decide().await?;
    let removed = engine.remove_trigger(&place.namespace()?, &options.name, &options.actor).await;
    removed.map_err(Failed::about_trigger)?;
    if printer.wants_json() {
        return printer.json(&json!({ "removed": options.name }));
    }
    printer.line(&format!("{} is removed; its runs stay", plain(&options.name)));
    Ok(())
}

async fn deliveries(
    place: &Place,
    options: &args::TriggerDeliveries,
    printer: &Printer,
) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let kept = engine.deliveries(&place.namespace()?, &options.name).await;
    let mut view = deliveries_view(&kept.map_err(Failed::about_trigger)?);
    view.items.truncate(options.limit);
    if printer.wants_json() {
        return printer.json(&view);
    }
    let rows: Vec<_> = view.items.iter().map(|delivery| delivery_row(delivery, printer)).collect();
    printer.table(&["AT", "VERDICT", "KEY", "RUN", "BYTES", "DETAIL"], &rows);
    printer.talk(&format!("{} genuine and {} refused in all", view.verified, view.refused));
    Ok(())
}

fn delivery_row(delivery: &DeliveryView, printer: &Printer) -> Vec<String> {
    let tone = match delivery.verdict {
        "started" | "repeated" | "challenged" => Tone::Good,
        "refused" | "failed" => Tone::Bad,
        _ => Tone::Doubt,
    };
    let text = |text: &Option<String>| plain(text.as_deref().unwrap_or_default());
    vec![
        delivery.at.clone(),
        printer.paint(tone, delivery.verdict),
        text(&delivery.key),
        text(&delivery.run),
        delivery.bytes.to_string(),
        text(&delivery.detail),
    ]
}

fn view(found: &Triggered) -> TriggerView {
    let named = (found.namespace.as_str(), found.name.as_str(), found.version);
    trigger_view(named, &found.trigger)
}

fn print(view: &TriggerView, printer: &Printer) -> Result<(), Failed> {
    if printer.wants_json() {
        return printer.json(view);
    }
    printer.line(&format!("{} starts {}", plain(&view.name), plain(&view.declared.workflow)));
    let field = |name: &str, value: &str| {
        let name = printer.paint(Tone::Quiet, &format!("{name:12}"));
        printer.line(&format!("  {name} {}", plain(value)));
    };
    field("posted to", &view.path);
    let declared = json!(view.declared);
    for (name, value) in declared.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        field(name, &text);
    }
    field("created", &view.created_at);
    field("changed", &view.changed_at);
    Ok(())
}
