//! Triggers, for those who declare them.

use axum::http::{Method, StatusCode};
use semel_core::access::Permission;
use semel_core::hook::{self, Content};
use semel_core::wire_trigger::{DeliveriesView, TriggerView, deliveries_view, trigger_view};
use semel_engine::{Error, Triggered};

use crate::openapi::{Operation, PAGE};
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Page, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    let (read, manage) = (Needs(Permission::Read), Needs(Permission::Manage));
    let op = Operation::new;
    vec![
        Route::get(
            "/v1/triggers",
            read,
            op("list_triggers", "Triggers by name").query(&PAGE).returns::<Page<TriggerView>>(),
            list,
        ),
        Route::get(
            "/v1/triggers/{name}",
            read,
            op("show_trigger", "One trigger").returns::<TriggerView>(),
            show,
        ),
        Route::new(
            Method::PUT,
            "/v1/triggers/{name}",
            manage,
            op("put_trigger", "Put a trigger; one that says the same is left as it is")
                .takes::<Content>()
                .returns::<TriggerView>()
                .answers(&[(200, "as it was"), (201, "new or changed")]),
            put,
        ),
        Route::new(
            Method::DELETE,
            "/v1/triggers/{name}",
            manage,
            op("remove_trigger", "Remove a trigger; its runs stay").answers(&[(204, "removed")]),
            remove,
        ),
        Route::get(
            "/v1/triggers/{name}/deliveries",
            read,
            op("list_deliveries", "What became of the last deliveries, the newest first")
                .returns::<DeliveriesView>(),
            deliveries,
        ),
    ]
}

fn view(found: &Triggered) -> TriggerView {
    let named = (found.namespace.as_str(), found.name.as_str(), found.version);
    trigger_view(named, &found.trigger)
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let (after, limit) = (call.after::<String>()?, call.limit()?);
    let page = call.app.engine.triggers(&call.who.namespace, after, limit).await?;
    let items: Vec<TriggerView> = page.triggers.iter().map(view).collect();
    Ok(Reply::ok(&Page::of(items, page.next).and(page.unreadable)))
}

async fn show(call: Call) -> Result<Reply, Problem> {
    let found = call.app.engine.trigger(&call.who.namespace, call.param("name")).await?;
    Ok(Reply::ok(&view(&found)))
}

async fn put(call: Call) -> Result<Reply, Problem> {
    let text = str::from_utf8(&call.body).unwrap_or_default();
    let content = hook::parse(text).map_err(Error::from)?;
    let (namespace, name) = (&call.who.namespace, call.param("name"));
    let put = call.app.engine.put_trigger(namespace, name, &content, &call.who.actor).await;
    let (put, is_changed) = put?;
    let status = if is_changed { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::json(status, &view(&put)))
}

async fn remove(call: Call) -> Result<Reply, Problem> {
    let (namespace, name) = (&call.who.namespace, call.param("name"));
    call.app.engine.remove_trigger(namespace, name, &call.who.actor).await?;
    Ok(Reply::bytes(StatusCode::NO_CONTENT, "application/json", ""))
}

async fn deliveries(call: Call) -> Result<Reply, Problem> {
    let kept = call.app.engine.deliveries(&call.who.namespace, call.param("name")).await?;
    Ok(Reply::ok(&deliveries_view(&kept)))
}
