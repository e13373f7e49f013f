//! Signing in: a token for a cookie.

use std::time::Instant;

use axum::http::{HeaderValue, Method, StatusCode, header};
use maud::{Markup, html};
use semel_core::code::Code;

use super::super::form::{Form, VALUE};
use super::super::layout::whole;
use super::super::page;
use super::{Visitor, redirect};
use crate::app::App;
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route};

const COOKIE: &str = "semel_session";

pub(super) fn routes() -> Vec<Route> {
    let op = Operation::new;
    vec![
        page(Method::GET, "/console/login", op("console_login", "Sign in"), show),
        page(Method::POST, "/console/login", op("console_sign_in", "Sign in"), sign_in),
        page(Method::POST, "/console/logout", op("console_logout", "Sign out"), sign_out),
    ]
}

/// Who looks. `None`: nobody who has signed in.
pub(super) async fn visitor(call: &Call) -> Result<Option<Visitor>, Problem> {
    let sessions = &call.app.sessions;
    if !call.app.has_tokens().await? {
        let form_value = sessions.open_value().to_owned();
        return Ok(Some(Visitor { who: App::developer(), form_value, is_open: true }));
    }
    let found = cookie(call).and_then(|id| sessions.find(id, Instant::now()));
    let Some((token, form_value)) = found else { return Ok(None) };
    // Looked up again: a token that was revoked ends here as it does everywhere.
    let who = call.app.holder(&token).await?;
    Ok(who.map(|who| Visitor { who, form_value, is_open: false }))
}

/// The id of the session, where the request brings one. Of two nobody knows which is ours.
fn cookie(call: &Call) -> Option<&str> {
    let lines = call.headers.get_all(header::COOKIE).iter();
    let pairs = lines.filter_map(|line| line.to_str().ok()).flat_map(|line| line.split(';'));
    let mut ids = pairs.filter_map(|pair| pair.trim().strip_prefix(COOKIE)?.strip_prefix('='));
    let id = ids.next()?;
    ids.next().is_none().then_some(id)
}

async fn show(call: Call) -> Result<Reply, Problem> {
    if visitor(&call).await?.is_some() {
        return Ok(redirect("/console"));
    }
    Ok(login(&call, StatusCode::OK, None))
}

fn login(call: &Call, status: StatusCode, told: Option<&str>) -> Reply {
    let content: Markup = html! {
        h1 { "Sign in" }
        @if let Some(told) = told { p.told role="status" { (told) } }
        form method="post" action="/console/login" autocomplete="off" {
            input type="hidden" name=(VALUE) value=(call.app.sessions.open_value());
            label { "Token" input type="password" name="token" required autofocus; }
            button type="submit" { "Sign in" }
        }
        p.quiet { "Make one with " code { "semel tokens create --role viewer" } ". With the roles \
            operator and approver you can decide, too." }
    };
    whole(status, "Sign in", &html! {}, &content)
}

async fn sign_in(call: Call) -> Result<Reply, Problem> {
    let sessions = &call.app.sessions;
    let form = Form::of(&call, sessions.open_value())?;
    let (token, now) = (form.get("token").trim(), Instant::now());
    if !sessions.may_try(token, now) {
        let text = "too many wrong tokens: wait a minute";
        return Err(Problem::new(Code::RateLimited, text).retry_after(60_000));
    }
    if call.app.holder(token).await?.is_none() {
        sessions.note_wrong(token);
        let text = "This token is not known here, or has ended.";
        return Ok(login(&call, StatusCode::UNAUTHORIZED, Some(text)));
    }
    let no_chance = || Problem::new(Code::Internal, "no random numbers");
    let id = sessions.open(token, cookie(&call), now).ok_or_else(no_chance)?;
    Ok(with_cookie(redirect("/console"), &call.app, &id, "; Max-Age=43200"))
}

async fn sign_out(call: Call) -> Result<Reply, Problem> {
    let Some(visitor) = visitor(&call).await? else { return Ok(redirect("/console/login")) };
    Form::of(&call, &visitor.form_value)?;
    if let Some(id) = cookie(&call) {
        call.app.sessions.close(id);
    }
    Ok(with_cookie(redirect("/console/login"), &call.app, "", "; Max-Age=0"))
}

fn with_cookie(mut reply: Reply, app: &App, id: &str, life: &str) -> Reply {
    let is_public = |url: &String| url.starts_with("https://");
    let is_tls =
        app.settings.tls.is_some() || app.settings.public_url.as_ref().is_some_and(is_public);
    let secure = if is_tls { "; Secure" } else { "" };
    let text = format!("{COOKIE}={id}; Path=/console; HttpOnly; SameSite=Strict{secure}{life}");
    let value = HeaderValue::from_str(&text).expect("plain characters");
    reply.headers.insert(header::SET_COOKIE, value);
    reply
}
