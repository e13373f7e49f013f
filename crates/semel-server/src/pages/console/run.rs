//! One run: where it stands, what it waits for, and its journal with the time that everything took.

use std::collections::HashMap;

use axum::http::Method;
use maud::{Markup, html};
use semel_core::access::Permission;
use semel_core::code::Code;
use semel_core::derive;
use semel_core::journal::{self, Entry};
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::run::{Run, State};
use semel_core::time::format_duration_ms;
use semel_core::wire_run::{EntryView, RunView, entry_view};

use super::super::shown::{badge, fact, fact_if, pretty, visible};
use super::{Visitor, console};
use crate::api::{find_run, run_viewed};
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route};

/// Entries of one page.
const ENTRIES: usize = 500;
/// A value that is longer is shown in part: the API has all of it.
const VALUE_CHARS: usize = 2_000;

pub(super) fn routes() -> Vec<Route> {
    let operation = Operation::new("console_run", "One run");
    vec![console(Method::GET, "/console/runs/{id}", Permission::Read, operation, show)]
}

async fn show(call: Call, visitor: Visitor) -> Result<Reply, Problem> {
    let run = find_run(&call.app, &visitor.who.namespace, call.param("id")).await?;
    let view = run_viewed(&call.app, &run).await?;
    let (lines, next) = lines(&call, &run).await?;
    let title = format!("{}/{}", view.workflow, view.key);
    let content = html! {
        h1 { (visible(&title)) " " (badge(view.state)) }
        (head(&view))
        (standing(&view))
        h2 { "Journal" }
        @if lines.is_empty() {
            p.empty { "Its journal was dropped: the run is past its retention." }
        } @else { (table(&lines)) }
        @if let Some(next) = next {
            p { a href={ "/console/runs/" (view.id) "?after=" (next) } { "later entries" } }
        }
        p.quiet { "The whole account: " code { "semel runs show " (view.id) } ", the proof: "
            code { "GET /v1/runs/" (view.id) "/proof" } }
    };
    Ok(visitor.shows(&visible(&title), &content))
}

fn head(view: &RunView) -> Markup {
    html! {
        dl {
            (fact("Run", &view.id))
            (fact_if("Release", view.release.as_ref()))
            @if let Some(parent) = &view.parent {
                dt { "Started by" } dd { a href={ "/console/runs/" (parent) } { (parent) } }
            }
            (fact("Started", &view.created_at))
            (fact_if("Ended", view.ended_at.as_ref()))
            (fact_if("Deadline", view.deadline.as_ref()))
            @if let Some(held) = &view.held { (fact("Worked by", &held.worker)) }
            @if let Some(cancel) = &view.cancel {
                (fact("Cancelled by", &format!("{}: {}", cancel.actor, cancel.reason)))
            }
        }
    }
}

/// Why it does not go on, and what to do.
fn standing(view: &RunView) -> Markup {
    html! {
        @if let Some(pause) = &view.paused {
            div.told {
                p { "Paused: " a href={ "/errors/" (pause.code) } { code { (pause.code) } } }
                pre { (visible(&pause.detail)) }
                @if let Some(raised) = &pause.raised { pre { (visible(&raised.trace)) } }
                @if let Some(hint) = pause.hint { p { (hint) } }
                p.quiet { "Decide with " code { "semel runs retry|skip|fail " (view.id) } }
            }
        }
        @if let Some(why) = &view.stranded { p.told { "Stranded: " (visible(why)) } }
        @if !view.waits.is_empty() {
            h2 { "Waits for" }
            ul { @for wait in &view.waits { li {
                code { (visible(&wait.id)) } " " (visible(&wait.on))
                @if let Some(until) = &wait.until { " until " (until) }
                @if !wait.behind.is_empty() { ", behind " (visible(&wait.behind.join(", "))) } } } }
        }
    }
}

/// One entry, with the time since the one before and, of what ends a command, the time it took.
struct Line {
    view: EntryView,
    since_ms: Option<u64>,
    took_ms: Option<u64>,
    effect: Option<(String, String)>,
}

async fn lines(call: &Call, run: &Run) -> Result<(Vec<Line>, Option<u64>), Problem> {
    if run.state() == State::Expired {
        return Ok((Vec::new(), None));
    }
    let engine = &call.app.engine;
    let from = call.after::<u64>()?.map_or(0, |after| after.saturating_add(1));
    let page = engine.store().journal(run.number, from, ENTRIES).await?;
    let next = page.last().filter(|_| page.len() == ENTRIES).map(|last| last.seq);
    let mut begun: HashMap<String, i64> = HashMap::new();
    let (mut lines, mut before) = (Vec::new(), None::<i64>);
    for inked in &page {
        let corrupt = |what| Problem::new(Code::StoreCorrupt, format!("run {}: {what}", run.id));
        let entry = journal::decode(&inked.text).map_err(corrupt)?;
        let value = match entry.event.value() {
            // A credential is nothing to look at.
            Some(_) if entry.event.gives_token() => None,
            Some(value) => Some(engine.read_value(&run.namespace, value).await?),
            None => None,
        };
        let view = entry_view(inked.seq, &entry, value);
        let at = entry.at.0.0;
        let since = |from: i64| u64::try_from(at.saturating_sub(from)).unwrap_or(0);
        let took_ms = view.id.as_ref().and_then(|id| match begun.get(id) {
            Some(from) => Some(since(*from)),
            None => {
                begun.insert(id.clone(), at);
                None
            }
        });
        let effect = effect_of(run, &entry, &view);
        lines.push(Line { since_ms: before.map(since), took_ms, effect, view });
        before = Some(at);
    }
    Ok((lines, next))
}

/// Id and name of the effect that an entry is about.
fn effect_of(run: &Run, entry: &Entry, view: &EntryView) -> Option<(String, String)> {
    entry.event.id()?;
    let name = view.what.as_deref()?.strip_prefix("effect ")?;
    let (action, key) = name.split_once('/')?;
    let address = Address {
        namespace: Namespace::stored(&run.namespace).ok()?,
        action: Action::new(action).ok()?,
        key: Key::parse(key).ok()?,
    };
    Some((derive::effect_ref(&address, 0), name.to_owned()))
}

fn table(lines: &[Line]) -> Markup {
    let time =
        |ms: Option<u64>| ms.filter(|ms| *ms > 0).map(format_duration_ms).unwrap_or_default();
    html! {
        table.journal {
            tr { th { "#" } th { "At" } th { "After" } th { "Took" } th { "What" } th { "Value" } }
            @for Line { view, since_ms, took_ms, effect } in lines {
                tr {
                    td { (view.seq) }
                    td.quiet { (view.at) }
                    td { (time(*since_ms)) }
                    td { (time(*took_ms)) }
                    td { b { (view.kind.replace('_', " ")) } " "
                        (visible(view.id.as_deref().unwrap_or_default()))
                        div.quiet { (what(view, effect.as_ref())) } }
                    td { (value(view)) }
                }
            }
        }
    }
}

fn what(view: &EntryView, effect: Option<&(String, String)>) -> Markup {
    html! {
        @match effect {
            Some((id, name)) => a href={ "/console/effects/" (id) } { (visible(name)) },
            None => (visible(view.what.as_deref().unwrap_or_default())),
        }
        @if view.repeat { " " (badge("replayed")) }
        @if let Some(worker) = &view.worker { "by " (visible(worker)) }
        @if let Some(actor) = &view.actor { "by " (visible(actor)) }
        @if let Some(reason) = &view.reason { ": " (visible(reason)) }
        @if let Some(attempt) = view.attempt { " attempt " (attempt) }
        @if let Some(at) = &view.retry_at { ", again at " (at) }
        @if let Some(end) = view.end { " " (badge(end)) }
        @if let Some(run) = &view.run { " " a href={ "/console/runs/" (run) } { "run " (run) } }
    }
}

fn value(view: &EntryView) -> Markup {
    html! {
        @if let Some(fault) = &view.fault {
            code { (visible(&fault.code)) } " " (visible(&fault.detail))
        }
        @if let Some(value) = &view.value {
            @let text: String = value.text().chars().take(VALUE_CHARS).collect();
            @if text.len() > 60 {
                details { summary { (visible(&text.chars().take(50).collect::<String>())) "…" }
                    pre { (visible(&pretty(&text))) } }
            } @else { code { (visible(&text)) } }
        }
    }
}
