//! The list of effects.

use axum::http::Method;
use maud::{Markup, html};
use semel_core::access::Permission;
use semel_core::effect::State;
use semel_core::key::{Action, Key};
use semel_core::wire::{EffectView, effect_view};
use semel_store::Query;

use super::super::shown::{badge, visible};
use super::{ROWS, Visitor, chips, console, empty, escaped, pager, sought, unreadable};
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    let operation = Operation::new("console_effects", "Effects");
    vec![console(Method::GET, "/console/effects", Permission::Read, operation, list)]
}

async fn list(call: Call, visitor: Visitor) -> Result<Reply, Problem> {
    let (action, key) = (sought(&call, "action"), sought(&call, "key"));
    let state = sought(&call, "state").and_then(State::parse);
    let held = sought(&call, "held") == Some("true");
    let engine = &call.app.engine;
    let query = Query {
        action: action.map(Action::new).transpose()?,
        key: key.map(|text| Key::parse(text).or_else(|_| Key::from_text(text))).transpose()?,
        state,
        after: call.after()?,
        ..Query::all(visitor.who.namespace.clone(), ROWS)
    };
    let page = if held { engine.held(&query).await? } else { engine.list(&query).await? };
    let now = engine.store().ground().now;
    let views: Vec<_> = page.effects.iter().map(|effect| effect_view(effect, &now)).collect();
    let is_empty = views.is_empty() && page.unreadable.is_empty();
    let (wanted, named) = (action.unwrap_or_default(), key.unwrap_or_default());
    let kept = format!("action={}&key={}", escaped(wanted), escaped(named));
    let narrowed = match (state, held) {
        (Some(state), _) => format!("{kept}&state={}", state.as_str()),
        (None, true) => format!("{kept}&held=true"),
        (None, false) => kept.clone(),
    };
    let states = State::ALL.map(State::as_str);
    let chosen = if held { Some("held") } else { state.map(State::as_str) };
    let content = html! {
        h1 { "Effects" }
        form.search method="get" action="/console/effects" {
            input name="action" placeholder="action" value=(wanted);
            input name="key" placeholder="business key" value=(named);
            button type="submit" { "Search" }
        }
        (chips("/console/effects", &kept, &states, chosen))
        @if is_empty && page.next.is_some() {
            (empty("None among the newest rows. Search on with the next page."))
        } @else if is_empty {
            (empty("No such effect. Each call that changes the outside world is one: a function \
                declared with @effect, or POST /v1/effects/begin. Its key is the business name of \
                the intent, such as the number of an order."))
        } @else { (effect_rows(&views)) }
        (unreadable(&page.unreadable))
        (pager("/console/effects", &narrowed, page.next))
    };
    Ok(visitor.shows("Effects", &content))
}

/// Effects as rows.
pub(super) fn effect_rows(views: &[EffectView]) -> Markup {
    html! {
        table {
            tr { th { "Effect" } th { "State" } th { "Attempts" } th { "Created" } }
            @for view in views {
                tr {
                    td { a href={ "/console/effects/" (view.id) } {
                        (visible(&format!("{}/{}", view.action, view.key))) } }
                    td { (badge(view.state))
                        @if view.approval.as_ref().is_some_and(|asked| asked.held) {
                            " " (badge("held")) }
                        @for alarm in &view.alarms { " " (badge(alarm.kind)) } }
                    td { (view.attempts.len()) }
                    td.quiet { (view.created_at) }
                }
            }
        }
    }
}
