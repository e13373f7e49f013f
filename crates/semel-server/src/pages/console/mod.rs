//! The console: what there is, why it stands still, and the two decisions that only a person can
//! take. Each page says which permission it needs; without a session it leads to the sign-in.

mod decide;
mod effect;
mod effects;
mod home;
mod run;
mod runs;
mod sign;

use std::future::Future;

use axum::http::{HeaderValue, Method, StatusCode, header};
use maud::{Markup, html};
use semel_core::access::Permission;
use semel_core::code::Code;
use semel_store::Unreadable;

use super::layout::whole;
use super::page;
use super::shown::visible;
use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Call, Reply, Route, Who};

/// Whoever looks, and what the forms of this session bring along.
pub(super) struct Visitor {
    who: Who,
    form_value: String,
    /// Nobody has made a token: there is nothing to sign out of.
    is_open: bool,
}

pub(super) fn routes() -> Vec<Route> {
    [
        sign::routes(),
        home::routes(),
        runs::routes(),
        run::routes(),
        effects::routes(),
        effect::routes(),
        decide::routes(),
    ]
    .concat()
}

/// A page of the console. The permission is part of it: one without cannot be written down.
fn console<F, A>(
    method: Method,
    path: &'static str,
    permission: Permission,
    operation: Operation,
    handler: F,
) -> Route
where
    F: Fn(Call, Visitor) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    page(method, path, operation, move |call: Call| {
        let handler = handler.clone();
        async move {
            let Some(visitor) = sign::visitor(&call).await? else {
                return Ok(redirect("/console/login"));
            };
            let Who { role, .. } = visitor.who;
            if !role.may(permission) {
                let (role, needed) = (role.as_str(), permission.as_str());
                let text = format!("the role {role} lacks the permission `{needed}`");
                return Err(Problem::new(Code::Forbidden, text));
            }
            handler(call, visitor).await
        }
    })
}

/// Leads on with a GET, so that going back and loading anew repeats no form.
fn redirect(to: &str) -> Reply {
    let mut reply = Reply::bytes(StatusCode::SEE_OTHER, "text/plain; charset=utf-8", "");
    if let Ok(value) = HeaderValue::from_str(to) {
        reply.headers.insert(header::LOCATION, value);
    }
    reply
}

impl Visitor {
    fn shows(&self, title: &str, content: &Markup) -> Reply {
        let navigation = html! {
            nav {
                a href="/console" { "Overview" }
                a href="/console/runs" { "Runs" }
                a href="/console/effects" { "Effects" }
            }
            span.who { (self.who.namespace) " · " (self.who.actor) " (" (self.who.role.as_str()) ")"
                @if !self.is_open {
                    form.inline method="post" action="/console/logout" {
                        input type="hidden" name=(super::form::VALUE) value=(self.form_value);
                        button.link type="submit" { "Sign out" }
                    }
                }
            }
        };
        whole(StatusCode::OK, title, &navigation, content)
    }
}

/// Rows of a list that are there and cannot be read.
fn unreadable(rows: &[Unreadable]) -> Markup {
    html! {
        @for row in rows {
            p.alarm { (visible(&row.name)) " cannot be read: " (visible(&row.why)) " "
                code { (row.code.as_str()) } }
        }
    }
}

/// A list that has nothing, which says how something gets there.
fn empty(text: &str) -> Markup {
    html! { p.empty { (text) } }
}

/// Chips to narrow a list by state; the chosen one leads back to all.
fn chips(path: &str, kept: &str, states: &[&str], chosen: Option<&str>) -> Markup {
    html! {
        p.chips {
            a.on[chosen.is_none()] href={ (path) "?" (kept) } { "all" }
            @for state in states {
                a.on[chosen == Some(*state)] href={ (path) "?" (kept) "&state=" (state) } {
                    (state.replace('_', " "))
                }
            }
        }
    }
}

/// A value as part of an address.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                escaped.push(char::from(byte));
            }
            byte => escaped.push_str(&format!("%{byte:02X}")),
        }
    }
    escaped
}

/// A field of the search, where something was written into it.
fn sought<'a>(call: &'a Call, name: &str) -> Option<&'a str> {
    call.query.get(name).map(|text| text.trim()).filter(|text| !text.is_empty())
}

/// Rows of one page.
const ROWS: usize = 50;

/// The way to the next page.
fn pager(path: &str, kept: &str, next: Option<i64>) -> Markup {
    html! { @if let Some(next) = next {
        p { a href={ (path) "?" (kept) "&after=" (next) } { "older" } }
    } }
}
