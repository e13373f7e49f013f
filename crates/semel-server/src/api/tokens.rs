//! Tokens of the namespace: made, listed, revoked. The secret is shown once.

use axum::http::StatusCode;
use semel_core::access::{Permission, Token};
use semel_core::code::Code;
use semel_core::wire::rfc3339;
use semel_core::wire_ask::TokenAsk;
use serde_json::{Value, json};

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
                .answers(&[(201, "made")]),
            create,
        ),
        Route::get("/v1/tokens", manage, op("list_tokens", "Tokens without their secrets"), list),
        Route::post(
            "/v1/tokens/{id}/revoke",
            manage,
            op("revoke_token", "End a token at once"),
            revoke,
        ),
    ]
}

fn view(token: &Token) -> Value {
    json!({
        "id": token.id,
        "label": token.label,
        "role": token.role,
        "created_at": rfc3339(token.created),
        "expires_at": token.expires.map(rfc3339),
        "revoked_at": token.revoked.map(rfc3339),
    })
}

async fn create(call: Call) -> Result<Reply, Problem> {
    let ask: TokenAsk = call.ask()?;
    let expires_ms = ask.expires_ms()?;
    let whose = (ask.label.as_str(), ask.role);
    let engine = &call.app.engine;
    let made = engine.create_token(&call.who.namespace, whose, expires_ms, &call.who.actor).await?;
    let mut body = view(&made.1);
    body["token"] = json!(made.0);
    Ok(Reply::json(StatusCode::CREATED, &body))
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let tokens = call.app.engine.tokens(&call.who.namespace).await?;
    let items: Vec<_> = tokens.iter().map(view).collect();
    Ok(Reply::ok(&Page { items, next: None }))
}

async fn revoke(call: Call) -> Result<Reply, Problem> {
    let (id, actor) = (call.param("id"), call.who.actor.as_str());
    match call.app.engine.revoke_token(&call.who.namespace, id, actor).await {
        Ok(token) => Ok(Reply::ok(&view(&token))),
        Err(error) if error.code() == Code::NotFound => Err(Problem::not_found()),
        Err(error) => Err(error.into()),
    }
}
