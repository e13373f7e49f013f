//! Links by which a person answers a question without a token of their own.

use axum::http::StatusCode;
use semel_core::access::Permission;
use semel_core::approval_link::Wish;
use semel_core::wire::rfc3339;
use semel_core::wire_answer::LinkView;
use semel_core::wire_ask::LinkAsk;

use super::effects::find;
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    // Whoever makes a link can use it: so it takes the permission to decide, and no less.
    vec![Route::post(
        "/v1/approvals/{id}/links",
        Needs(Permission::Approve),
        Operation::new("create_approval_link", "Make a link to a question; it is shown once")
            .takes::<LinkAsk>()
            .returns::<LinkView>()
            .answers(&[(201, "made")]),
        create,
    )]
}

async fn create(call: Call) -> Result<Reply, Problem> {
    let ask: LinkAsk = call.ask()?;
    let effect = find(&call.app, &call.who.namespace, call.param("id")).await?;
    let expires_ms = ask.expires_ms()?;
    let wish = Wish { approver: &ask.approver, maker: &call.who.actor, expires_ms };
    let made = call.app.engine.create_approval_link(&effect.address, wish).await?;
    let (token, link) = made;
    let path = format!("/approve/{token}");
    let base = call.app.settings.public_url.as_deref().unwrap_or_default();
    let body = LinkView {
        url: format!("{}{path}", base.trim_end_matches('/')),
        path,
        approver: link.approver,
        digest: link.digest,
        expires_at: rfc3339(link.expires),
    };
    Ok(Reply::json(StatusCode::CREATED, &body))
}
