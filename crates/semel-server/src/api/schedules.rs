//! Runs by the clock.

use axum::http::{Method, StatusCode};
use semel_core::access::Permission;
use semel_core::wire_ask::{ScheduleAsk, SteerAsk};
use semel_core::wire_schedule::{ScheduleView, schedule_view};
use semel_engine::{Engine, Error, Scheduled};

use crate::app::App;
use crate::openapi::{Operation, PAGE};
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Page, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    let (read, operate) = (Needs(Permission::Read), Needs(Permission::Operate));
    let op = Operation::new;
    vec![
        Route::get(
            "/v1/schedules",
            read,
            op("list_schedules", "Schedules by name").query(&PAGE).returns::<Page<ScheduleView>>(),
            list,
        ),
        Route::get(
            "/v1/schedules/{name}",
            read,
            op("show_schedule", "One schedule").returns::<ScheduleView>(),
            show,
        ),
        Route::new(
            Method::PUT,
            "/v1/schedules/{name}",
            operate,
            op("put_schedule", "Put a schedule; one that says the same is left as it is")
                .takes::<ScheduleAsk>()
                .returns::<ScheduleView>()
                .answers(&[(200, "as it was"), (201, "new or changed")]),
            put,
        ),
        Route::new(
            Method::DELETE,
            "/v1/schedules/{name}",
            operate,
            op("remove_schedule", "Remove a schedule; its runs stay").answers(&[(204, "removed")]),
            remove,
        ),
        Route::post(
            "/v1/schedules/{name}/pause",
            operate,
            op("pause_schedule", "Pass ticks over from now on")
                .takes::<SteerAsk>()
                .returns::<ScheduleView>(),
            pause,
        ),
        Route::post(
            "/v1/schedules/{name}/resume",
            operate,
            op("resume_schedule", "Go on with the next tick").returns::<ScheduleView>(),
            resume,
        ),
    ]
}

/// How many of the next ticks are shown.
const TICKS: usize = 3;

fn view(app: &App, found: &Scheduled) -> Result<ScheduleView, Problem> {
    let named = (found.namespace.as_str(), found.name.as_str(), found.version);
    let view = schedule_view(named, &found.schedule, &app.engine.store().ground().now, TICKS);
    Ok(view.map_err(Error::from)?)
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let (after, limit) = (call.after::<String>()?, call.limit()?);
    let page = call.app.engine.schedules(&call.who.namespace, after, limit).await?;
    let items: Vec<ScheduleView> =
        page.schedules.iter().map(|one| view(&call.app, one)).collect::<Result<_, _>>()?;
    Ok(Reply::ok(&Page::of(items, page.next).and(page.unreadable)))
}

async fn show(call: Call) -> Result<Reply, Problem> {
    let found = call.app.engine.schedule(&call.who.namespace, call.param("name")).await?;
    Ok(Reply::ok(&view(&call.app, &found)?))
}

/// Who changes a schedule is on record.
fn acting(call: &Call) -> Engine {
    call.app.engine.acting_for(&call.who.actor)
}

async fn put(call: Call) -> Result<Reply, Problem> {
    let ask: ScheduleAsk = call.ask()?;
    let (namespace, name) = (&call.who.namespace, call.param("name"));
    let (put, is_new) = acting(&call).put_schedule(namespace, name, ask.content()).await?;
    let status = if is_new { StatusCode::CREATED } else { StatusCode::OK };
    Ok(Reply::json(status, &view(&call.app, &put)?))
}

async fn remove(call: Call) -> Result<Reply, Problem> {
    acting(&call).remove_schedule(&call.who.namespace, call.param("name")).await?;
    Ok(Reply::bytes(StatusCode::NO_CONTENT, "application/json", ""))
}

async fn pause(call: Call) -> Result<Reply, Problem> {
    let ask: SteerAsk = call.ask()?;
    let (namespace, actor) = (&call.who.namespace, call.who.actor.as_str());
    let engine = &call.app.engine;
    let paused = engine.pause_schedule(namespace, call.param("name"), actor, &ask.reason).await?;
    Ok(Reply::ok(&view(&call.app, &paused)?))
}

async fn resume(call: Call) -> Result<Reply, Problem> {
    let resumed = acting(&call).resume_schedule(&call.who.namespace, call.param("name")).await?;
    Ok(Reply::ok(&view(&call.app, &resumed)?))
}
