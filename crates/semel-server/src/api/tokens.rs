//! Tokens of the namespace: made, listed, revoked. The secret is shown once.

use axum::http::StatusCode;
use semel_core::access::{self, Permission};
use semel_core::code::Code;
use semel_core::wire_answer::{MadeTokenView, TokenView, token_view};
use semel_core::wire_ask::TokenAsk;

use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Page, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    let manage = Needs(Permission::Manage);
    let op = Operation::new;
    vec![
        Route::post(
            "/v1/tokens",
            manage,
            op("create_token", "Make a token; it is shown once")
                .takes::<TokenAsk>()
                .returns::<MadeTokenView>()
                .answers(&[(201, "made")]),
            create,
        ),
        Route::get(
            "/v1/tokens",
            manage,
            op("list_tokens", "Tokens without their secrets").returns::<Page<TokenView>>(),
            list,
        ),
        Route::post(
            "/v1/tokens/{id}/revoke",
            manage,
            op("revoke_token", "End a token at once").returns::<TokenView>(),
            revoke,
        ),
    ]
}

async fn create(call: Call) -> Result<Reply, Problem> {
    let ask: TokenAsk = call.ask()?;
    let now = call.app.engine.store().ground().now.wall;
    let expires_ms = access::expiry(ask.expires_ms()?, call.who.expires, now);
    let whose = (ask.label.as_str(), ask.role);
    let engine = &call.app.engine;
    let made = engine.create_token(&call.who.namespace, whose, expires_ms, &call.who.actor).await?;
    let body = MadeTokenView { of: token_view(&made.1), token: made.0 };
    Ok(Reply::json(StatusCode::CREATED, &body))
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let tokens = call.app.engine.tokens(&call.who.namespace).await?;
    let items: Vec<_> = tokens.found.iter().map(token_view).collect();
    Ok(Reply::ok(&Page::of(items, None).and(tokens.unreadable)))
}

async fn revoke(call: Call) -> Result<Reply, Problem> {
    let (id, actor) = (call.param("id"), call.who.actor.as_str());
    match call.app.engine.revoke_token(&call.who.namespace, id, actor).await {
        Ok(token) => Ok(Reply::ok(&token_view(&token))),
        Err(error) if error.code() == Code::NotFound => Err(Problem::not_found()),
        Err(error) => Err(error.into()),
    }
}
