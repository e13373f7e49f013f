//! `semel schedules`: runs that start by the clock.

use semel::{CatchUp, Code, Scheduled};
use semel_core::limits;
use semel_core::schedule::Content;
use semel_core::time::{Moment, parse_duration_ms};
use semel_core::wire_schedule::{ScheduleView, TickView, schedule_view};
use serde_json::json;

use super::effects::{listed, tell_unreadable};
use super::open::Place;
use super::runs::{json_of, read_input};
use crate::args::{self, Schedules};
use crate::exit::Failed;
use crate::print::{Printer, Tone, plain};

/// The next ticks that an answer to a change shows.
const TICKS: usize = 3;
/// Nobody reads more of them.
const TICKS_MAX: usize = 1_000;

pub(crate) async fn run(
    place: &Place,
    command: Schedules,
    printer: &Printer,
) -> Result<(), Failed> {
    match command {
        Schedules::Ls(options) => ls(place, options, printer).await,
        Schedules::Show(options) => show(place, &options, printer).await,
        Schedules::Put(options) => put(place, &options, printer).await,
        Schedules::Pause(options) => pause(place, &options, printer).await,
        Schedules::Resume(options) => resume(place, &options.name, printer).await,
        Schedules::Remove(options) => remove(place, &options.name, printer).await,
    }
}

async fn ls(place: &Place, options: args::ScheduleLs, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let limit = options.limit.min(limits::PAGE_ROWS_MAX);
    let page = engine.schedules(&place.namespace()?, options.after, limit).await?;
    let now = engine.store().ground().now;
    let views = page.schedules.iter().map(|one| view(one, &now, 1));
    let views = views.collect::<Result<Vec<_>, Failed>>()?;
    if printer.wants_json() {
        return printer.json(&listed(&views, &page.next, &page.unreadable));
    }
    let rows: Vec<_> = views.iter().map(|view| row(view, printer)).collect();
    let headings = [
        "NAME", "WORKFLOW", "CRON", "ZONE", "CATCH UP", "STATE", "NEXT", "THERE", "FIRED",
        "SKIPPED",
    ];
    printer.table(&headings, &rows);
    tell_unreadable(&page.unreadable, printer);
    if views.is_empty() && page.unreadable.is_empty() {
        printer.talk("no schedules; `semel schedules put` makes one");
    }
    if let Some(next) = page.next {
        printer.talk(&format!("more: add --after {}", plain(&next)));
    }
    Ok(())
}

fn row(view: &ScheduleView, printer: &Printer) -> Vec<String> {
    let next = view.next.first();
    vec![
        plain(&view.name),
        plain(&view.workflow),
        plain(&view.cron),
        plain(&view.zone),
        view.catch_up.to_owned(),
        state(view, printer),
        next.map_or_else(String::new, |tick| tick.utc.clone()),
        next.map_or_else(String::new, |tick| tick.local.clone()),
        view.fired.to_string(),
        view.skipped.to_string(),
    ]
}

fn state(view: &ScheduleView, printer: &Printer) -> String {
    let tone = if view.paused.is_some() { Tone::Doubt } else { Tone::Good };
    printer.paint(tone, view.state)
}

async fn show(
    place: &Place,
    options: &args::ScheduleShow,
    printer: &Printer,
) -> Result<(), Failed> {
    let engine = place.engine_to_look().await?;
    let found = engine.schedule(&place.namespace()?, &options.name).await;
    let found = found.map_err(Failed::about_schedule)?;
    let now = engine.store().ground().now;
    print(&view(&found, &now, options.ticks.min(TICKS_MAX))?, printer)
}

async fn put(place: &Place, options: &args::SchedulePut, printer: &Printer) -> Result<(), Failed> {
    let content = content(options)?;
    let engine = place.engine_to_decide().await?;
    let put = engine.put_schedule(&place.namespace_to_begin()?, &options.name, content).await;
    let (found, is_changed) = put.map_err(Failed::about_schedule)?;
    let view = view(&found, &engine.store().ground().now, TICKS)?;
    if printer.wants_json() {
        let mut answer = json!(view);
        answer["changed"] = json!(is_changed);
        return printer.json(&answer);
    }
    printer.talk(match (is_changed, found.version) {
        (false, _) => "unchanged: it says the same",
        (true, 1) => "put",
        (true, _) => "changed, from now on",
    });
    print(&view, printer)
}

fn content(options: &args::SchedulePut) -> Result<Content, Failed> {
    let catch_up = CatchUp::parse(&options.catch_up).ok_or_else(|| {
        let all = CatchUp::ALL.map(CatchUp::as_str).join(", ");
        Failed::usage(format!("`{}` is no way to catch up; there are {all}", options.catch_up))
    })?;
    let input = match &options.input_file {
        Some(file) => read_input(file)?,
        None => options.input.clone(),
    };
    let window_ms = parse_duration_ms(&options.replay_window).map_err(|error| {
        Failed::from(semel::Error::new(Code::DurationInvalid, error.to_string()))
    })?;
    Ok(Content {
        workflow: options.workflow.clone(),
        input: json_of(input.trim())?,
        cron: options.cron.clone(),
        zone: options.zone.clone(),
        catch_up,
        window_ms,
    })
}

async fn pause(
    place: &Place,
    options: &args::SchedulePause,
    printer: &Printer,
) -> Result<(), Failed> {
    let args::Operator { actor, reason } = &options.operator;
    let engine = place.engine_to_decide().await?;
    let paused = engine.pause_schedule(&place.namespace()?, &options.name, actor, reason).await;
    let paused = paused.map_err(Failed::about_schedule)?;
    print(&view(&paused, &engine.store().ground().now, TICKS)?, printer)
}

async fn resume(place: &Place, name: &str, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_decide().await?;
    let resumed = engine.resume_schedule(&place.namespace()?, name).await;
    let resumed = resumed.map_err(Failed::about_schedule)?;
    print(&view(&resumed, &engine.store().ground().now, TICKS)?, printer)
}

async fn remove(place: &Place, name: &str, printer: &Printer) -> Result<(), Failed> {
    let engine = place.engine_to_decide().await?;
    let removed = engine.remove_schedule(&place.namespace()?, name).await;
    removed.map_err(Failed::about_schedule)?;
    if printer.wants_json() {
        return printer.json(&json!({ "removed": name }));
    }
    printer.line(&format!("{} is removed; its runs stay", plain(name)));
    Ok(())
}

fn view(found: &Scheduled, now: &Moment, ticks: usize) -> Result<ScheduleView, Failed> {
    let named = (found.namespace.as_str(), found.name.as_str(), found.version);
    schedule_view(named, &found.schedule, now, ticks)
        .map_err(|error| Failed::from(semel::Error::from(error)))
}

fn print(view: &ScheduleView, printer: &Printer) -> Result<(), Failed> {
    if printer.wants_json() {
        return printer.json(view);
    }
    printer.line(&format!("{} is {}", plain(&view.name), state(view, printer)));
    let field = |name: &str, value: &str| {
        let name = printer.paint(Tone::Quiet, &format!("{name:12}"));
        printer.line(&format!("  {name} {}", plain(value)));
    };
    field("workflow", &view.workflow);
    field("cron", &format!("{} in {}", view.cron, view.zone));
    field("catch up", view.catch_up);
    field("input", view.input.text());
    field("created", &view.created_at);
    let never = || "none yet".to_owned();
    field("last tick", &view.last.as_ref().map_or_else(never, both));
    field("ticks", &format!("{} fired, {} skipped", view.fired, view.skipped));
    if let Some(paused) = &view.paused {
        field("paused", &format!("{} by {}: {}", paused.at, paused.actor, paused.reason));
    }
    if let Some(trouble) = &view.trouble {
        field("trouble", &format!("{}: {} ({})", trouble.tick, trouble.detail, trouble.code));
    }
    for (index, tick) in view.next.iter().enumerate() {
        field(if index == 0 { "next" } else { "" }, &both(tick));
    }
    Ok(())
}

/// In UTC, and as the clocks there show it.
fn both(tick: &TickView) -> String {
    format!("{}  {}", tick.utc, tick.local)
}
