//! What waits for a person, at a glance.

use axum::http::Method;
use maud::{Markup, html};
use semel_core::access::Permission;
use semel_core::effect::State;
use semel_core::run;
use semel_core::time::Moment;
use semel_core::wire::effect_view;
use semel_core::wire_run::run_view;
use semel_store::{Query, RunQuery, Unreadable};

use super::{Visitor, console, empty, unreadable};
use crate::openapi::Operation;
use crate::pages::console::effects::effect_rows;
use crate::pages::console::runs::run_rows;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route};

/// What is counted exactly; beyond, a list is for looking through.
const COUNTED_MAX: usize = 200;
const SHOWN: usize = 10;

pub(super) fn routes() -> Vec<Route> {
    let operation = Operation::new("console", "What waits for a person");
    vec![console(Method::GET, "/console", Permission::Read, operation, show)]
}

async fn show(call: Call, visitor: Visitor) -> Result<Reply, Problem> {
    let (engine, namespace) = (&call.app.engine, &visitor.who.namespace);
    let now = engine.store().ground().now;
    let all = Query::all(namespace.clone(), COUNTED_MAX);
    let doubts = Query { state: Some(State::InDoubt), ..all.clone() };
    let mut lost = Vec::new();
    let page = engine.list(&doubts).await?;
    let doubts = page.effects;
    lost.extend(page.unreadable);
    let page = engine.held(&all).await?;
    let held = page.effects;
    lost.extend(page.unreadable);
    let paused = runs_in(&call, namespace.as_str(), run::State::Paused, &mut lost).await?;
    let running = runs_in(&call, namespace.as_str(), run::State::Running, &mut lost).await?;
    let waiting = runs_in(&call, namespace.as_str(), run::State::Waiting, &mut lost).await?;
    let content = html! {
        h1 { "Overview" }
        p.cards {
            (card("in doubt", doubts.len(), "/console/effects?state=in_doubt"))
            (card("wait for approval", held.len(), "/console/effects?held=true"))
            (card("paused runs", paused.len(), "/console/runs?state=paused"))
            (card("running", running.len(), "/console/runs?state=running"))
            (card("waiting", waiting.len(), "/console/runs?state=waiting"))
        }
        @if !lost.is_empty() {
            h2 { "Cannot be read" }
            (unreadable(&lost[..lost.len().min(SHOWN)]))
        }
        h2 { "In doubt" }
        (effects(&doubts, &now, "Nothing is in doubt. An effect gets here when a call was cut \
            between send and answer, and nobody can find out by themselves whether it happened."))
        h2 { "Wait for approval" }
        (effects(&held, &now, "Nobody is waited for. Effects declared with an approval stop here \
            until a person has seen the exact payload."))
        h2 { "Paused runs" }
        @if paused.is_empty() {
            (empty("No run stands still. One does when its retries are used up or its code \
                asks for something else than its journal says."))
        } @else {
            @let views: Vec<_> = paused.iter().take(SHOWN).map(|run| run_view(run, &now)).collect();
            (run_rows(&views))
        }
    };
    Ok(visitor.shows("Overview", &content))
}

async fn runs_in(
    call: &Call,
    namespace: &str,
    state: run::State,
    lost: &mut Vec<Unreadable>,
) -> Result<Vec<run::Run>, Problem> {
    let query = RunQuery {
        namespace: Some(namespace.to_owned()),
        workflow: None,
        key: None,
        state: Some(state),
        after: None,
        limit: COUNTED_MAX,
    };
    let page = call.app.engine.runs(&query).await?;
    lost.extend(page.unreadable);
    Ok(page.runs)
}

fn card(name: &str, count: usize, link: &str) -> Markup {
    let more = if count >= COUNTED_MAX { "+" } else { "" };
    html! { a href=(link) { b { (count) (more) } " " (name) } }
}

fn effects(found: &[semel_core::record::Effect], now: &Moment, otherwise: &str) -> Markup {
    if found.is_empty() {
        return empty(otherwise);
    }
    let views: Vec<_> = found.iter().take(SHOWN).map(|one| effect_view(one, now)).collect();
    effect_rows(&views)
}
