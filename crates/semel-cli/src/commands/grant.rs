//! `semel effects grant`: another retry budget for effects that have used theirs up.

use std::io::{BufRead, IsTerminal};

use semel_core::effect::{Person, State};
use semel_core::limits;
use semel_core::record::Effect;
use semel_engine::Engine;
use semel_store::Query;
use serde_json::json;

use super::effects::{print_effect, tell_unreadable};
use super::open::Place;
use crate::args;
use crate::exit::Failed;
use crate::print::{Printer, plain};

pub(crate) async fn run(
    place: &Place,
    options: &args::Grant,
    printer: &Printer,
) -> Result<(), Failed> {
    let engine = place.engine_to_decide().await?;
    let Some(name) = &options.effect else {
        return several(place, &engine, options, printer).await;
    };
    let address = place.address(name)?;
    let effect = engine.effect(&address).await?;
    let now = engine.store().ground().now;
    if options.dry_run {
        let found = if effect.is_exhausted(None, &now) { vec![effect] } else { Vec::new() };
        return told(&found, 0, options, printer);
    }
    let person = person(options, options.version.unwrap_or(effect.version));
    let granted = engine.grant(&address, &person).await?;
    print_effect(&granted, &now, printer)
}

async fn several(
    place: &Place,
    engine: &Engine,
    options: &args::Grant,
    printer: &Printer,
) -> Result<(), Failed> {
    let found = exhausted(place, engine, options, printer).await?;
    if options.dry_run || found.is_empty() {
        return told(&found, 0, options, printer);
    }
    if !options.yes && !agreed(&found, printer)? {
        return told(&found, 0, options, printer);
    }
    let mut granted = 0;
    for effect in &found {
        match engine.grant(&effect.address, &person(options, effect.version)).await {
            Ok(_) => granted += 1,
            // Somebody was quicker, or it is tried already: the others are granted all the same.
            Err(error) => {
                printer.talk(&plain(&format!("{} was not granted: {error}", effect.address)));
            }
        }
    }
    told(&found, granted, options, printer)
}

/// The effects that the filters choose and that have used up their budget.
async fn exhausted(
    place: &Place,
    engine: &Engine,
    options: &args::Grant,
    printer: &Printer,
) -> Result<Vec<Effect>, Failed> {
    let states: &[State] = match options.state.as_deref() {
        None => &[State::Planned, State::InDoubt],
        Some("planned") => &[State::Planned],
        Some("in_doubt") => &[State::InDoubt],
        Some(other) => {
            let text = format!("`{other}`: only planned and in_doubt effects have a budget");
            return Err(Failed::usage(text));
        }
    };
    let action = options.action.as_deref().map(semel::Action::new).transpose();
    let action = action.map_err(semel::Error::from)?;
    let all = Query::all(place.namespace()?, limits::PAGE_ROWS_MAX);
    let prefix = options.key_prefix.as_deref().unwrap_or_default();
    let now = engine.store().ground().now;
    let mut found = Vec::new();
    for state in states {
        let mut query = Query { action: action.clone(), state: Some(*state), ..all.clone() };
        loop {
            let page = engine.list(&query).await?;
            tell_unreadable(&page.unreadable, printer);
            found.extend(page.effects.into_iter().filter(|effect| {
                effect.is_exhausted(None, &now) && effect.address.key.as_str().starts_with(prefix)
            }));
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
    }
    Ok(found)
}

fn agreed(found: &[Effect], printer: &Printer) -> Result<bool, Failed> {
    if !std::io::stdin().is_terminal() {
        let text = format!("{} effects would be granted: add --yes to do it", found.len());
        return Err(Failed::usage(text));
    }
    printer.talk(&format!("Grant {} effects another retry budget? [y/N]", found.len()));
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Failed::new(format!("the answer could not be read: {error}")))?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

fn told(
    found: &[Effect],
    granted: usize,
    options: &args::Grant,
    printer: &Printer,
) -> Result<(), Failed> {
    if printer.wants_json() {
        let names: Vec<_> = found.iter().map(|effect| effect.address.to_string()).collect();
        let dry_run = options.dry_run;
        return printer.json(&json!({
            "exhausted": found.len(), "granted": granted, "dry_run": dry_run, "effects": names,
        }));
    }
    found.iter().for_each(|effect| printer.line(&plain(&effect.address.to_string())));
    printer.talk(&format!("{} exhausted, {granted} granted another retry budget", found.len()));
    Ok(())
}

fn person(options: &args::Grant, version: u64) -> Person {
    Person { actor: options.actor.clone(), reason: options.reason.clone(), version }
}
