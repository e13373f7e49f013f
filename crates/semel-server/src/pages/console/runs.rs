//! The list of runs.

use axum::http::Method;
use maud::{Markup, html};
use semel_core::access::Permission;
use semel_core::key::{Action, Key};
use semel_core::run::State;
use semel_core::wire_run::{RunView, run_view};
use semel_store::RunQuery;

use super::super::shown::{badge, visible};
use super::{ROWS, Visitor, chips, console, empty, escaped, pager, sought, unreadable};
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    let operation = Operation::new("console_runs", "Runs");
    vec![console(Method::GET, "/console/runs", Permission::Read, operation, list)]
}

async fn list(call: Call, visitor: Visitor) -> Result<Reply, Problem> {
    let (workflow, key) = (sought(&call, "workflow"), sought(&call, "key"));
    let state = sought(&call, "state").and_then(State::parse);
    let engine = &call.app.engine;
    let parsed = key.map(|text| Key::parse(text).or_else(|_| Key::from_text(text))).transpose()?;
    let query = RunQuery {
        namespace: Some(visitor.who.namespace.as_str().to_owned()),
        workflow: workflow.map(Action::new).transpose()?.map(|name| name.as_str().to_owned()),
        key: parsed.map(|key| key.as_str().to_owned()),
        state,
        after: call.after()?,
        limit: ROWS,
    };
    let page = engine.runs(&query).await?;
    let now = engine.store().ground().now;
    let views: Vec<_> = page.runs.iter().map(|run| run_view(run, &now)).collect();
    let is_empty = views.is_empty() && page.unreadable.is_empty();
    let kept = format!(
        "workflow={}&key={}",
        escaped(workflow.unwrap_or_default()),
        escaped(key.unwrap_or_default())
    );
    let kept_state = state.map_or(kept.clone(), |state| format!("{kept}&state={}", state.as_str()));
    let states = State::ALL.map(State::as_str);
    let content = html! {
        h1 { "Runs" }
        form.search method="get" action="/console/runs" {
            input name="workflow" placeholder="workflow" value=(workflow.unwrap_or_default());
            input name="key" placeholder="start key" value=(key.unwrap_or_default());
            button type="submit" { "Search" }
        }
        (chips("/console/runs", &kept, &states, state.map(State::as_str)))
        @if is_empty && page.next.is_some() {
            (empty("None among the newest rows. Search on with the next page."))
        } @else if is_empty {
            (empty("No such run. Start one with `semel runs start WORKFLOW --key KEY`, or \
                POST /v1/workflows/WORKFLOW/runs with an Idempotency-Key."))
        } @else { (run_rows(&views)) }
        (unreadable(&page.unreadable))
        (pager("/console/runs", &kept_state, page.next))
    };
    Ok(visitor.shows("Runs", &content))
}

/// Runs as rows.
pub(super) fn run_rows(views: &[RunView]) -> Markup {
    html! {
        table {
            tr { th { "Run" } th { "State" } th { "Why" } th { "Started" } }
            @for view in views {
                tr {
                    td { a href={ "/console/runs/" (view.id) } {
                        (visible(&format!("{}/{}", view.workflow, view.key))) } }
                    td { (badge(view.state)) }
                    td { (visible(&why(view))) }
                    td.quiet { (view.created_at) }
                }
            }
        }
    }
}

fn why(view: &RunView) -> String {
    let paused = view.paused.as_ref().map(|pause| pause.detail.as_str());
    let paused = paused.map(|text| text.lines().next().unwrap_or_default().to_owned());
    paused.or_else(|| view.waits_on.clone()).unwrap_or_default()
}
