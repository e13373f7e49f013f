//! Versions of workflows' code, and which one new runs start on.

use semel_core::access::Permission;
use semel_core::key::Action;
use semel_core::release::Releases;
use semel_core::wire_ask::PromoteAsk;
use semel_core::wire_release::{ReleasesView, releases_view};

use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Page, Reply, Route};
use crate::turn::Turn;

pub(super) fn routes() -> Vec<Route> {
    let op = Operation::new;
    vec![
        Route::get(
            "/v1/releases",
            Needs(Permission::Read),
            op("list_releases", "Workflows and their releases").returns::<Page<ReleasesView>>(),
            list,
        ),
        Route::get(
            "/v1/releases/{workflow}",
            Needs(Permission::Read),
            op("show_releases", "The releases of one workflow").returns::<ReleasesView>(),
            show,
        ),
        Route::post(
            "/v1/releases/{workflow}/promote",
            Needs(Permission::Operate),
            op("promote_release", "Make a release live")
                .takes::<PromoteAsk>()
                .returns::<ReleasesView>()
                .keyed(),
            promote,
        ),
    ]
}

async fn view(call: &Call, name: &str, known: &Releases) -> Result<ReleasesView, Problem> {
    let engine = &call.app.engine;
    let open = engine.open_runs(&call.who.namespace, name).await?;
    Ok(releases_view(name, known, &open, engine.store().ground().now.wall))
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let mut items = Vec::new();
    let listed = call.app.engine.releases(&call.who.namespace).await?;
    for (name, known) in &listed.found {
        items.push(view(&call, name, known).await?);
    }
    Ok(Reply::ok(&Page::of(items, None).and(listed.unreadable)))
}

async fn show(call: Call) -> Result<Reply, Problem> {
    let workflow = Action::new(call.param("workflow"))?;
    let known = call.app.engine.releases_known(&call.who.namespace, workflow.as_str()).await?;
    Ok(Reply::ok(&view(&call, workflow.as_str(), &known).await?))
}

async fn promote(call: Call) -> Result<Reply, Problem> {
    let ask: PromoteAsk = call.ask()?;
    let workflow = Action::new(call.param("workflow"))?;
    let mut turn = Turn::of(&call, "promote").await?;
    if let Some(engine) = turn.engine() {
        let by = (call.who.actor.as_str(), ask.reason.as_str());
        let (namespace, name) = (&call.who.namespace, workflow.as_str());
        turn.took(engine.promote(namespace, name, &ask.release, by).await).await?;
    }
    Ok(show(call).await?.replayed(turn.is_repeat))
}
