//! `semel effects`: what happened, and what a person decides about it.

use semel::Json;
use semel_core::effect::{Person, Resolution, State};
use semel_core::record::Effect;
use semel_core::time::Moment;
use semel_core::wire::{ApprovalView, AttemptView, EffectView, effect_view};
use semel_store::{Query, Unreadable};
use serde::Serialize;
use serde_json::json;

use super::open::Place;
use crate::args;
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

pub(crate) async fn ls(place: &Place, options: &args::Ls, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let now = engine.store().ground().now;
    let (effects, next, unreadable) = if options.unattended {
        let mut effects = engine.unattended(options.limit).await?;
        let namespace = place.namespace()?;
        effects.retain(|effect| effect.address.namespace == namespace);
        (effects, None, Vec::new())
    } else {
        let page = engine.list(&query(place, options)?).await?;
        (page.effects, page.next, page.unreadable)
    };
    let is_shown = |effect: &&Effect| {
        let is_overdue = effect.attempts.iter().any(|attempt| attempt.is_overdue(&now));
        (!options.overdue || is_overdue) && (!options.exhausted || effect.is_exhausted(None, &now))
    };
    let views: Vec<_> =
        effects.iter().filter(is_shown).map(|effect| effect_view(effect, &now)).collect();
    if printer.wants_json() {
        return printer.json(&listed(&views, next, &unreadable));
    }
    let rows: Vec<_> = views.iter().map(|view| row(view, printer)).collect();
    let headings = ["ACTION/KEY", "STATE", "ATTEMPTS", "CONTRACT", "CREATED", "NOTE"];
    printer.table(&headings, &rows);
    tell_unreadable(&unreadable, printer);
    let is_empty = views.is_empty() && unreadable.is_empty();
    match next {
        Some(next) if is_empty => {
            printer.talk(&format!("none so far; to search on, add --after {next}"));
        }
        Some(next) => printer.talk(&format!("more: add --after {next}")),
        None if is_empty => {
            printer.talk("no effects; `semel demo` shows how they come about");
        }
        None => {}
    }
    Ok(())
}

/// A page of a list, with the rows that cannot be read where there are any.
pub(super) fn listed<V: Serialize>(
    views: &[V],
    next: impl Serialize,
    unreadable: &[Unreadable],
) -> serde_json::Value {
    let mut page = json!({ "items": views, "next": next });
    if !unreadable.is_empty() {
        let one = |row: &Unreadable| {
            let code = row.code.as_str();
            json!({ "name": row.name, "code": code, "detail": row.why })
        };
        page["unreadable"] = unreadable.iter().map(one).collect();
    }
    page
}

pub(super) fn tell_unreadable(unreadable: &[Unreadable], printer: &Printer) {
    for row in unreadable {
        printer.talk(&format!("{} cannot be read: {} ({})", row.name, row.why, row.code));
    }
}

fn query(place: &Place, options: &args::Ls) -> Result<Query, Failed> {
    let state = match options.state.as_deref() {
        None if options.overdue => Some(State::Pending),
        None => None,
        Some(text) => Some(State::parse(text).ok_or_else(|| {
            let all = State::ALL.map(State::as_str).join(", ");
            Failed::usage(format!("`{text}` is no state; there are {all}"))
        })?),
    };
    let invalid = |error: semel::Error| Failed::from(error);
    let action = options.action.as_deref().map(semel::Action::new).transpose();
    let key = options.key.as_deref().map(semel::Key::parse).transpose();
    Ok(Query {
        action: action.map_err(|error| invalid(error.into()))?,
        key: key.map_err(|error| invalid(error.into()))?,
        state,
        alarmed: options.alarmed,
        after: options.after,
        ..Query::all(place.namespace()?, options.limit)
    })
}

fn row(view: &EffectView, printer: &Printer) -> Vec<String> {
    let generation = match view.generation {
        0 => String::new(),
        generation => format!(" (generation {generation})"),
    };
    let contract = view.contract.as_ref().map_or("", |contract| contract.name);
    vec![
        plain(&format!("{}/{}{generation}", view.action, view.key)),
        printer.paint(tone(view.state), view.state),
        view.attempts.len().to_string(),
        contract.to_owned(),
        view.created_at.clone(),
        note(view),
    ]
}

fn note(view: &EffectView) -> String {
    let mut notes: Vec<&str> = view.alarms.iter().map(|alarm| alarm.kind).collect();
    if view.overdue {
        notes.push("overdue");
    }
    if view.exhausted {
        notes.push("exhausted");
    }
    if view.approval.as_ref().is_some_and(|approval| approval.held) {
        notes.push("held");
    }
    if let Some(undo) = &view.undo {
        notes.push(if undo.receipt.is_some() { "undone" } else { "undoing" });
    }
    notes.join(", ")
}

fn tone(state: &str) -> Tone {
    match state {
        "done" => Tone::Good,
        "failed" => Tone::Bad,
        "in_doubt" | "pending" => Tone::Doubt,
        _ => Tone::Quiet,
    }
}

pub(crate) async fn show(
    place: &Place,
    options: &args::Show,
    printer: &Printer,
) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let address = place.address(&options.effect)?;
    let effect = match options.generation {
        Some(generation) => engine.generation(&address, generation).await?,
        None => engine.effect(&address).await?,
    };
    let now = engine.store().ground().now;
    print_effect(&engine.judged(effect, &now), &now, printer)
}

/// The whole account of one effect.
pub(crate) fn print_effect(effect: &Effect, now: &Moment, printer: &Printer) -> Result<(), Failed> {
    let view = effect_view(effect, now);
    if printer.wants_json() {
        return printer.json(&view);
    }
    let name = plain(&format!("{}/{}", view.action, view.key));
    let state = printer.paint(tone(view.state), view.state);
    printer.line(&format!("{} is {state}", printer.paint(Tone::Strong, &name)));
    let field = |name: &str, value: &str| {
        printer.line(&format!(
            "  {} {}",
            printer.paint(Tone::Quiet, &format!("{name:15}")),
            plain(value)
        ));
    };
    field("id", &view.id);
    field("version", &view.version.to_string());
    if view.generation > 0 {
        field("generation", &view.generation.to_string());
    }
    if let Some(contract) = &view.contract {
        field("contract", contract.name);
        field("promise", contract.promise);
    }
    let optional = [
        ("downstream key", &view.downstream_key),
        ("workflow", &view.workflow),
        ("settled", &view.settled_at),
        ("replays until", &view.replays_until),
        ("failure", &view.failure),
        ("takes back", &view.undoes),
        ("taken back", &taken_back(&view)),
    ];
    field("created", &view.created_at);
    for (name, value) in optional {
        if let Some(value) = value {
            field(name, value);
        }
    }
    if let Some(receipt) = &view.receipt {
        field("receipt", receipt.text());
    }
    if let Some(approval) = &view.approval {
        field("approval", &approval_line(approval));
    }
    view.warnings.iter().for_each(|warning| field("warning", warning));
    let has_key = view.contract.as_ref().is_some_and(|contract| contract.name == "native_key");
    for attempt in &view.attempts {
        field("attempt", &attempt_line(attempt));
        if attempt.key_not_used && has_key {
            let text = "its code never read the downstream key, so it is not sent again by itself";
            field("", text);
        }
    }
    for decision in &view.decisions {
        let decision = format!(
            "{} by {}: {} ({})",
            decision.verdict, decision.actor, decision.reason, decision.at
        );
        field("decision", &decision);
    }
    for alarm in &view.alarms {
        field("alarm", &format!("{} at {}: {}", alarm.kind, alarm.at, alarm.receipt.text()));
    }
    print_next(&view, &name, printer);
    Ok(())
}

/// What an operator can do about it.
fn print_next(view: &EffectView, name: &str, printer: &Printer) {
    if view.exhausted {
        printer.line("");
        printer.line("Its retry budget is used up. Correct the cause, then:");
        printer.line(&format!(
            "  semel effects grant '{name}' --version {} --reason '…'",
            view.version
        ));
    }
    if view.state == State::InDoubt.as_str() {
        printer.line("");
        printer.line("Nobody knows whether this happened. Look at the destination, then one of:");
        let command = |how: &str| {
            printer.line(&format!(
                "  semel effects resolve '{name}' {how} --version {} --reason '…'",
                view.version
            ));
        };
        command("--done --receipt '{…}'");
        command("--failed");
        command("--retry");
    }
}

/// What takes an effect back, and how far that is.
fn taken_back(view: &EffectView) -> Option<String> {
    let undo = view.undo.as_ref()?;
    Some(match &undo.receipt {
        Some(receipt) => format!("by {}: {}", undo.by, receipt.text()),
        None => format!("by {}, which is not done yet", undo.by),
    })
}

/// Where the question to a person stands, in one line.
pub(super) fn approval_line(approval: &ApprovalView) -> String {
    let note = |note: &str| if note.is_empty() { String::new() } else { format!(": {note}") };
    match (approval.answer, &approval.answered_by, &approval.answered_at) {
        (Some(answer), Some(by), Some(at)) => {
            let said = note(approval.answer_note.as_deref().unwrap_or_default());
            format!("{answer} by {by} at {at}{said}")
        }
        _ if approval.held => {
            let expires = approval.expires_at.as_ref().map(|at| format!(", until {at}"));
            format!("waits for a person{}; see `semel approvals`", expires.unwrap_or_default())
        }
        _ => "a person will be asked when it is begun".to_owned(),
    }
}

pub(super) fn attempt_line(attempt: &AttemptView) -> String {
    let mut line = format!(
        "{} {} {} under fence {} by {} at {}",
        attempt.number,
        attempt.kind,
        attempt.outcome,
        attempt.fence,
        if attempt.worker.is_empty() { "nobody here" } else { &attempt.worker },
        attempt.began_at,
    );
    if let Some(reason) = &attempt.reason {
        line.push_str(&format!(": {reason}"));
    }
    if let Some(by) = attempt.by.filter(|by| *by != "worker") {
        line.push_str(&format!(" [closed by {by}]"));
    }
    line
}

fn person(person: &args::Person) -> Person {
    Person { actor: person.actor.clone(), reason: person.reason.clone(), version: person.version }
}

pub(crate) async fn resolve(
    place: &Place,
    options: &args::Resolve,
    printer: &Printer,
) -> Result<(), Failed> {
    let address = place.address(&options.effect)?;
    let resolution = match (options.done, options.failed) {
        (true, _) => {
            let text = options.receipt.as_deref().unwrap_or("null");
            let receipt =
                Json::from_text(text).map_err(|error| Failed::usage(error.to_string()))?;
            Resolution::Done(receipt)
        }
        (false, true) => Resolution::Failed,
        (false, false) => Resolution::Retry,
    };
    let engine = place.engine_to_decide().await?;
    let effect = engine.resolve(&address, &person(&options.person), &resolution).await?;
    print_effect(&effect, &engine.store().ground().now, printer)
}

pub(crate) async fn supersede(
    place: &Place,
    options: &args::Decision,
    printer: &Printer,
) -> Result<(), Failed> {
    let address = place.address(&options.effect)?;
    let engine = place.engine_to_decide().await?;
    let effect = engine.supersede(&address, &person(&options.person)).await?;
    print_effect(&effect, &engine.store().ground().now, printer)
}

pub(crate) async fn void(
    place: &Place,
    options: &args::Decision,
    printer: &Printer,
) -> Result<(), Failed> {
    let address = place.address(&options.effect)?;
    let engine = place.engine_to_decide().await?;
    let effect = engine.void(&address, &person(&options.person)).await?;
    print_effect(&effect, &engine.store().ground().now, printer)
}
