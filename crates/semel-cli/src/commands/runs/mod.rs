//! `semel runs`: what happens in them, and what an operator decides about them.

mod lines;
mod show;

use std::io::Read;
use std::path::Path;

use semel::{Action, Code, Json, Key};
use semel_core::limits;
use semel_core::run::{Run, State};
use semel_core::time::parse_duration_ms;
use semel_core::wire_run::{RunView, run_view};
use semel_engine::{Engine, Start};
use semel_store::RunQuery;
use serde::Serialize;

use super::effects::{listed, tell_unreadable};
use super::open::Place;
use crate::args::{self, Runs};
use crate::exit::Failed;
use crate::print::{Printer, plain};

pub(crate) async fn run(place: &Place, command: Runs, printer: &Printer) -> Result<(), Failed> {
    match command {
        Runs::Ls(options) => ls(place, &options, printer).await,
        Runs::Show(options) => show::show(place, &options, printer).await,
        Runs::Start(options) => start(place, &options, printer).await,
        Runs::Cancel(options) => decide(place, &options, Verb::Cancel, printer).await,
        Runs::Retry(options) => decide(place, &options, Verb::Retry, printer).await,
        Runs::Fail(options) => decide(place, &options, Verb::Fail, printer).await,
        Runs::Skip(options) => skip(place, &options, printer).await,
        Runs::Move(options) => move_to(place, &options, printer).await,
    }
}

/// Reads JSON from the command line.
pub(super) fn json_of(text: &str) -> Result<Json, Failed> {
    Json::from_text(text).map_err(|error| Failed::from(semel::Error::from(error)))
}

async fn ls(place: &Place, options: &args::RunLs, printer: &Printer) -> Result<(), Failed> {
    let query = query(place, options)?;
    let engine = place.engine_to_look().await?;
    let page = engine.runs(&query).await?;
    let now = engine.store().ground().now;
    let views: Vec<_> = page.runs.iter().map(|run| run_view(run, &now)).collect();
    if printer.wants_json() {
        return printer.json(&listed(&views, page.next, &page.unreadable));
    }
    let rows: Vec<_> = views.iter().map(|view| row(view, printer)).collect();
    let headings = ["ID", "WORKFLOW", "KEY", "STATE", "RELEASE", "WAITS ON", "PARENT", "CREATED"];
    printer.table(&headings, &rows);
    tell_unreadable(&page.unreadable, printer);
    let is_empty = views.is_empty() && page.unreadable.is_empty();
    match page.next {
        Some(next) if is_empty => {
            printer.talk(&format!("none so far; to search on, add --after {next}"));
        }
        Some(next) => printer.talk(&format!("more: add --after {next}")),
        None if is_empty => printer.talk("no runs; `semel runs start` starts one"),
        None => {}
    }
    Ok(())
}

fn query(place: &Place, options: &args::RunLs) -> Result<RunQuery, Failed> {
    let state = options.state.as_deref().map(|text| {
        State::parse(text).ok_or_else(|| {
            let all = State::ALL.map(State::as_str).join(", ");
            Failed::usage(format!("`{text}` is no state; there are {all}"))
        })
    });
    let invalid = |error: semel::Error| Failed::from(error);
    let workflow = options.workflow.as_deref().map(Action::new).transpose();
    let key = options.key.as_deref().map(Key::parse).transpose();
    let workflow = workflow.map_err(|error| invalid(error.into()))?;
    let key = key.map_err(|error| invalid(error.into()))?;
    Ok(RunQuery {
        namespace: Some(place.namespace()?.as_str().to_owned()),
        workflow: workflow.map(|workflow| workflow.as_str().to_owned()),
        key: key.map(|key| key.as_str().to_owned()),
        state: state.transpose()?,
        after: options.after,
        ..RunQuery::everywhere(options.limit.min(limits::PAGE_ROWS_MAX))
    })
}

fn row(view: &RunView, printer: &Printer) -> Vec<String> {
    vec![
        view.id.clone(),
        plain(&view.workflow),
        plain(&view.key),
        printer.paint(lines::tone(view.state), view.state),
        plain(view.release.as_deref().unwrap_or_default()),
        plain(view.waits_on.as_deref().unwrap_or_default()),
        view.parent.clone().unwrap_or_default(),
        view.created_at.clone(),
    ]
}

#[derive(Serialize)]
struct Answer {
    id: String,
    /// A draft starts in the twin.
    namespace: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<String>,
    workflow: String,
    key: String,
    state: &'static str,
    attached: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<Json>,
}

async fn start(place: &Place, options: &args::RunStart, printer: &Printer) -> Result<(), Failed> {
    let invalid = |error: semel::Error| Failed::from(error);
    let workflow = Action::new(&options.workflow).map_err(|error| invalid(error.into()))?;
    let key = options.key.as_deref().map(Key::parse).transpose();
    let deadline_ms = options.deadline.as_deref().map(parse_duration_ms).transpose();
    let too_odd = |error: semel_core::time::DurationInvalid| {
        invalid(semel::Error::new(Code::DurationInvalid, error.to_string()))
    };
    let input = match &options.input_file {
        Some(file) => read_input(file)?,
        None => options.input.clone(),
    };
    let ask = Start {
        namespace: place.namespace_to_begin()?,
        workflow,
        key: key.map_err(|error| invalid(error.into()))?,
        input: json_of(input.trim())?,
        window_ms: limits::WINDOW_MS,
        deadline_ms: deadline_ms.map_err(too_odd)?,
        release: options.release.clone(),
        parent: None,
    };
    let engine = place.engine_to_decide().await?;
    let started = engine.start_run(ask).await.map_err(Failed::about_run)?;
    engine.write_repeats().await;
    let (id, attached) = (started.run.id.clone(), started.attached);
    let ended = match options.wait {
        true => Some(result(&engine, &started.run).await),
        false => None,
    };
    let result = ended.transpose()?;
    // What it came to may be long after its start.
    let found = engine.store().run(&started.run.namespace, &id).await?;
    let run = found.unwrap_or(started.run);
    if printer.wants_json() {
        let state = run.state().as_str();
        let Run { namespace, release, workflow, key, .. } = run;
        let answer = Answer { id, namespace, release, workflow, key, state, attached, result };
        return printer.json(&answer);
    }
    if let Some(result) = result {
        printer.talk(&format!("{id} is {}", run.state()));
        printer.line(result.text());
        return Ok(());
    }
    if run.namespace != place.namespace {
        let twin = plain(&run.namespace);
        printer.talk(&format!("it is a draft: look at it with --namespace {twin}"));
    }
    let how = if attached { "attached: the key had started it" } else { "started" };
    printer.line(&format!("{id}\t{}\t{how}", run.state()));
    Ok(())
}

pub(super) fn read_input(file: &Path) -> Result<String, Failed> {
    let mut text = String::new();
    let read = match file == Path::new("-") {
        true => std::io::stdin().take(READ_MAX).read_to_string(&mut text),
        false => std::fs::File::open(file)
            .and_then(|opened| opened.take(READ_MAX).read_to_string(&mut text)),
    };
    read.map_err(|error| Failed::new(format!("{}: {error}", file.display())))?;
    Ok(text)
}

/// More than any input may have: what is longer is refused for its length, not read to its end.
const READ_MAX: u64 = 2 * limits::VALUE_BYTES_MAX as u64;

/// Waits for the end of a run.
async fn result(engine: &Engine, run: &Run) -> Result<Json, Failed> {
    let error = match engine.result(&run.namespace, &run.id).await {
        Ok(result) => return Ok(result),
        Err(error) => error,
    };
    let run = engine.store().run(&run.namespace, &run.id).await?;
    let came_to_nothing =
        run.is_some_and(|run| matches!(run.state(), State::Failed | State::Cancelled));
    match came_to_nothing {
        true => Err(Failed::run_ended(error)),
        false => Err(Failed::about_run(error)),
    }
}

/// What an operator may decide without saying more.
enum Verb {
    Cancel,
    Retry,
    Fail,
}

async fn decide(
    place: &Place,
    options: &args::RunDecision,
    verb: Verb,
    printer: &Printer,
) -> Result<(), Failed> {
    let args::Operator { actor, reason } = &options.operator;
    let (namespace, id) = (place.namespace()?, place.run_id(&options.run)?);
    let engine = place.engine_to_decide().await?;
    let decided = match verb {
        Verb::Cancel => engine.cancel_run(&namespace, &id, actor, reason).await,
        Verb::Retry => engine.retry_run(&namespace, &id, actor, reason).await,
        Verb::Fail => engine.fail_run(&namespace, &id, actor, reason).await,
    };
    print_decided(&engine, decided, printer)
}

async fn skip(place: &Place, options: &args::RunSkip, printer: &Printer) -> Result<(), Failed> {
    let args::Operator { actor, reason } = &options.operator;
    let value = json_of(&options.value)?;
    let (engine, id) = (place.engine_to_decide().await?, place.run_id(&options.run)?);
    let (namespace, step) = (place.namespace()?, &options.step);
    let decided = engine.skip_step(&namespace, &id, step, &value, actor, reason).await;
    print_decided(&engine, decided, printer)
}

async fn move_to(place: &Place, options: &args::RunMove, printer: &Printer) -> Result<(), Failed> {
    let args::Operator { actor, reason } = &options.operator;
    let (namespace, id) = (place.namespace()?, place.run_id(&options.run)?);
    let engine = place.engine_to_decide().await?;
    let moved = engine.move_run(&namespace, &id, &options.to, (actor, reason)).await;
    print_decided(&engine, moved, printer)
}

/// Where a run stands after a decision.
fn print_decided(
    engine: &Engine,
    decided: Result<Run, semel::Error>,
    printer: &Printer,
) -> Result<(), Failed> {
    let run = decided.map_err(Failed::about_run)?;
    let view = run_view(&run, &engine.store().ground().now);
    if printer.wants_json() {
        return printer.json(&view);
    }
    lines::print_head(&view, printer);
    Ok(())
}
