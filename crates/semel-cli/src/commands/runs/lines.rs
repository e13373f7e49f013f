//! A run in lines of text: its head, one line an entry, what it waits for.

use semel_core::journal::{At, Ending, Entry, Event, Fault, Outcome, Raised, Value};
use semel_core::wire::{EffectView, rfc3339};
use semel_core::wire_run::{ChildView, RunView, WaitView};

use super::super::effects::attempt_line;
use crate::print::{Printer, Tone, plain};

/// How much of a value a line shows.
const SHORT: usize = 72;
/// How many of the runs before a waiting one are named.
const BEHIND: usize = 3;
/// Where the words of an entry begin.
const INDENT: &str = "                             ";

/// An entry, with when the run began.
pub(super) struct Told {
    pub(super) seq: u64,
    pub(super) began: At,
    pub(super) entry: Entry,
}

pub(super) fn tone(state: &str) -> Tone {
    match state {
        "done" => Tone::Good,
        "failed" | "cancelled" => Tone::Bad,
        "paused" | "cancelling" => Tone::Doubt,
        _ => Tone::Quiet,
    }
}

pub(super) fn field(name: &str, value: &str, printer: &Printer) {
    let name = printer.paint(Tone::Quiet, &format!("{name:10}"));
    printer.line(&format!("  {name} {}", plain(value)));
}

/// Who it is and where it stands.
pub(super) fn print_head(view: &RunView, printer: &Printer) {
    let name = plain(&format!("{}/{}", view.workflow, view.key));
    let state = printer.paint(tone(view.state), view.state);
    printer.line(&format!("{} is {state}", printer.paint(Tone::Strong, &name)));
    field("id", &view.id, printer);
    field("workflow", &view.workflow, printer);
    field("key", &view.key, printer);
    let pinned = if view.strict { " (pinned strictly)" } else { "" };
    let release = view.release.as_ref().map(|release| format!("{release}{pinned}"));
    let held = view.held.as_ref().map(|held| format!("{} under fence {}", held.worker, held.fence));
    let cancel = view
        .cancel
        .as_ref()
        .map(|cancel| format!("asked for by {} at {}: {}", cancel.actor, cancel.at, cancel.reason));
    for (name, value) in [
        ("release", release.as_ref()),
        ("parent", view.parent.as_ref()),
        ("waits on", view.waits_on.as_ref()),
        ("held by", held.as_ref()),
        ("cancel", cancel.as_ref()),
        ("created", Some(&view.created_at)),
        ("deadline", view.deadline.as_ref()),
        ("ended", view.ended_at.as_ref()),
    ] {
        if let Some(value) = value {
            field(name, value, printer);
        }
    }
}

/// One entry: its place, when, what, and what it came to.
pub(super) fn print_entry(told: &Told, printer: &Printer) {
    let event = &told.entry.event;
    let since = since(told.began, told.entry.at);
    let kind = printer.paint(entry_tone(event), &format!("{:11}", event.name()));
    let mut words = words(event).into_iter();
    let first = words.next().unwrap_or_default();
    let line = format!("{:>4}  {since:>8}  {kind}  {}", told.seq, plain(&first));
    printer.line(line.trim_end());
    words.for_each(|more| printer.line(&format!("{INDENT}{}", plain(&more))));
}

/// Where an exception was raised, below the entry that tells of it.
pub(super) fn print_trace(raised: &Raised, printer: &Printer) {
    for line in raised.trace.lines() {
        let line = format!("{INDENT}  {}", plain(line));
        printer.line(&printer.paint(Tone::Quiet, line.trim_end()));
    }
}

fn entry_tone(event: &Event) -> Tone {
    match event {
        Event::Finished { end: Ending::Done(_) } => Tone::Good,
        Event::StepFailed { .. }
        | Event::Step { result: Outcome::Fault(_), .. }
        | Event::Effect { result: Outcome::Fault(_), .. }
        | Event::Child { result: Outcome::Fault(_), .. }
        | Event::Finished { end: Ending::Failed(_) | Ending::Cancelled(_) } => Tone::Bad,
        Event::Paused { .. }
        | Event::Cancelling { .. }
        | Event::Undoing { .. }
        | Event::TimedOut { .. } => Tone::Doubt,
        Event::Started { .. }
        | Event::Taken { .. }
        | Event::Step { result: Outcome::Value(_), .. }
        | Event::Planned { .. }
        | Event::Effect { result: Outcome::Value(_), .. }
        | Event::Child { result: Outcome::Value(_), .. }
        | Event::Entered { .. }
        | Event::Left { .. }
        | Event::Moved { .. }
        | Event::Fired { .. }
        | Event::Received { .. }
        | Event::Resumed { .. }
        | Event::Skipped { .. } => Tone::Quiet,
    }
}

/// What an entry says: one line, and more where a reason has more.
fn words(event: &Event) -> Vec<String> {
    let one = match event {
        Event::Started { input, .. } => format!("input {}", value(input)),
        Event::Taken { fence, worker, release, .. } => {
            format!("by {worker} under fence {fence}, release {release}")
        }
        Event::Step { id, attempts, result, .. } => {
            let count = if *attempts == 1 { "attempt" } else { "attempts" };
            return outcome(&format!("{id}  {attempts} {count}"), result);
        }
        Event::StepFailed { id, attempt, fault, retry_at, .. } => {
            let again = match retry_at {
                Some(at) => format!(", again at {}", rfc3339(at.0)),
                None => String::new(),
            };
            return with_fault(&format!("{id}  attempt {attempt}{again}"), fault);
        }
        Event::Planned { id, what, .. }
        | Event::Fired { id, what }
        | Event::TimedOut { id, what }
        | Event::Left { id, what } => format!("{id}  {what}"),
        Event::Child { id, what, run, result } => {
            return outcome(&format!("{id}  {what}, run {run}"), result);
        }
        Event::Entered { id, what, fence } => format!("{id}  {what} under fence {fence}"),
        Event::Undoing { ids, fault } => {
            let start = format!("taking back {}", ids.join(", "));
            match fault {
                Some(fault) => return with_fault(&start, fault),
                None => start,
            }
        }
        Event::Moved { from, to, actor, reason } => {
            let from = from.as_deref().unwrap_or("none");
            format!("from release {from} to {to} by {actor}: {reason}")
        }
        Event::Effect { id, what, result, repeat } => {
            let caught = if *repeat { ", answered from the record" } else { "" };
            return outcome(&format!("{id}  {what}{caught}"), result);
        }
        Event::Received { id, delivery, payload, .. } => {
            format!("{id}  delivery {delivery}: {}", value(payload))
        }
        Event::Cancelling { actor, reason } | Event::Resumed { actor, reason } => {
            format!("by {actor}: {reason}")
        }
        Event::Paused { id, fault, .. } => {
            return with_fault(id.as_deref().unwrap_or("the run"), fault);
        }
        Event::Skipped { id, actor, reason, value: given } => {
            format!("{id}  by {actor}: {reason}; its value is {}", value(given))
        }
        Event::Finished { end: Ending::Done(result) } => format!("done: {}", value(result)),
        Event::Finished { end: Ending::Failed(fault) } => return with_fault("failed", fault),
        Event::Finished { end: Ending::Cancelled(reason) } => format!("cancelled: {reason}"),
    };
    vec![one]
}

fn outcome(start: &str, result: &Outcome) -> Vec<String> {
    match result {
        Outcome::Value(found) => vec![format!("{start}: {}", value(found))],
        Outcome::Fault(fault) => with_fault(start, fault),
    }
}

/// A reason may have several lines, such as the two sides of a divergence.
fn with_fault(start: &str, fault: &Fault) -> Vec<String> {
    let mut lines = fault.detail.lines();
    let first = lines.next().unwrap_or_default();
    let mut said = vec![format!("{start}: {first} ({})", fault.code)];
    said.extend(lines.map(str::to_owned));
    said
}

fn value(value: &Value) -> String {
    match value {
        Value::Json(json) => shorten(json.text()),
        Value::Blob { bytes, .. } => format!("a value of {} KiB", bytes.div_ceil(1024)),
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(SHORT) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// How long after the start, in two units at most.
fn since(began: At, at: At) -> String {
    let ms = match began.1.boot == at.1.boot {
        true => at.1.ms.saturating_sub(began.1.ms),
        false => at.0.0.saturating_sub(began.0.0),
    };
    let ms = u64::try_from(ms).unwrap_or(0);
    match ms {
        0..1_000 => format!("+{ms}ms"),
        1_000..60_000 => format!("+{}.{}s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("+{}m{}s", ms / 60_000, ms % 60_000 / 1_000),
        3_600_000..86_400_000 => format!("+{}h{}m", ms / 3_600_000, ms % 3_600_000 / 60_000),
        _ => format!("+{}d{}h", ms / 86_400_000, ms % 86_400_000 / 3_600_000),
    }
}

/// The effect that a command names, as ACTION/KEY.
pub(super) fn effect_name(what: &str) -> Option<&str> {
    what.strip_prefix("effect ")
}

/// What the ledger knows of an effect.
pub(super) fn print_account(effect: Option<&EffectView>, printer: &Printer) {
    let Some(effect) = effect else {
        return printer.line(&format!("{INDENT}the ledger does not have it"));
    };
    let contract = effect.contract.as_ref().map_or("no contract yet", |contract| contract.name);
    let undoes =
        effect.undoes.as_ref().map_or(String::new(), |name| format!(", takes back {name}"));
    let undone = effect.undo.as_ref().map_or(String::new(), |undo| {
        let is_done = undo.receipt.is_some();
        format!(", {} by {}", if is_done { "taken back" } else { "being taken back" }, undo.by)
    });
    let more = plain(&format!("{undoes}{undone}"));
    printer.line(&format!("{INDENT}{contract}, {} in the ledger{more}", effect.state));
    for attempt in &effect.attempts {
        printer.line(&format!("{INDENT}attempt {}", plain(&attempt_line(attempt))));
    }
}

/// What it waits for now, until when, and what a person can do about it.
pub(super) fn print_waits(view: &RunView, printer: &Printer) {
    if view.waits.is_empty() {
        return;
    }
    printer.line("");
    for wait in &view.waits {
        let until = wait.until.as_ref().map_or(String::new(), |until| format!(" until {until}"));
        printer.line(&plain(&format!("It waits on {}{until} ({})", wait.on, wait.id)));
        for line in wait.note.iter().flat_map(|note| note.text().lines()) {
            printer.line(&format!("  {}", plain(line)));
        }
        for command in next_commands(view, wait) {
            printer.line(&plain(&format!("  {command}")));
        }
    }
}

/// What a person can do, or look at, about one wait.
fn next_commands(view: &RunView, wait: &WaitView) -> Vec<String> {
    if wait.on.starts_with("signal callback ") {
        return vec!["semel signals callback TOKEN --payload '{…}'".to_owned()];
    }
    if let Some(name) = wait.on.strip_prefix("signal ") {
        return vec![format!("semel signals send {} '{name}' --payload '{{…}}'", view.id)];
    }
    if let Some(name) = effect_name(&wait.on) {
        return vec![format!("semel effects show '{name}'")];
    }
    let shown = wait.behind.iter().take(BEHIND).map(|run| format!("semel runs show {run}"));
    let more = wait.behind.len().saturating_sub(BEHIND);
    let rest = (more > 0).then(|| format!("and {more} more runs are before it"));
    shown.chain(rest).collect()
}

/// A run that this one asked for.
pub(super) fn print_child(child: &ChildView, printer: &Printer) {
    let state = printer.paint(tone(child.state), child.state);
    let name = plain(&format!("{}/{}", child.workflow, child.key));
    let command = plain(&child.command);
    printer.line(&format!("  child      {name} is {state} ({command}): {}", child.id));
}

/// That nobody offers its release, and who may do what about it.
pub(super) fn print_stranded(view: &RunView, printer: &Printer) {
    let (Some(why), Some(release)) = (&view.stranded, &view.release) else { return };
    printer.line("");
    printer.line(&plain(&format!("It waits for its release {release}: {why}. One of:")));
    printer.line(&plain(&format!("  start a worker that offers {release} of {}", view.workflow)));
    printer.line(&plain(&format!("  semel releases show {}", view.workflow)));
    printer.line(&format!("  semel runs move {} --to RELEASE --reason '…'", view.id));
    printer.line(&format!("  semel runs cancel {} --reason '…'", view.id));
}

/// Why it stands still, and who may do what about it.
pub(super) fn print_pause(view: &RunView, printer: &Printer) {
    let Some(pause) = &view.paused else { return };
    printer.line("");
    let on = pause.id.as_ref().map_or(String::new(), |id| format!(" on {id}"));
    let why = pause.hint.map_or(String::new(), |hint| format!(": {hint}"));
    printer.line(&plain(&format!("It is paused{on} ({}){why}. One of:", pause.code)));
    let command = |verb: &str, rest: &str| {
        let line = format!("  semel runs {verb} {}{rest} --reason '…'", view.id);
        printer.line(&plain(&line));
    };
    command("retry", "");
    if let Some(id) = &pause.id {
        command("skip", &format!(" '{id}' --value '{{…}}'"));
    }
    if pause.code == "diverged" && view.release.is_some() {
        command("move", " --to RELEASE");
    }
    command("fail", "");
    command("cancel", "");
}
