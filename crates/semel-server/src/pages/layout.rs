//! How every page looks, and the headers that it goes out with.

use axum::http::{Method, StatusCode, header};
use maud::{DOCTYPE, Markup, html};
use semel_core::code::Code;

use crate::openapi::Operation;
use crate::problem::{Problem, status};
use crate::route::{Access, Call, Reply, Route};

const STYLE: &str = include_str!("style.css");

/// Nothing but our own style sheet, and forms that come back to us.
const POLICY: &str = "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

pub(super) fn routes() -> Vec<Route> {
    let operation = Operation::new("page_style", "How pages look").page();
    vec![Route::new(Method::GET, "/pages/style.css", Access::Open, operation, style)]
}

async fn style(_: Call) -> Result<Reply, Problem> {
    let reply = Reply::bytes(StatusCode::OK, "text/css; charset=utf-8", STYLE);
    Ok(reply.header(header::CACHE_CONTROL, "max-age=300"))
}

/// A page. `navigation` stands beside the name; it is empty where there is nowhere else to go.
pub(super) fn whole(
    status: StatusCode,
    title: &str,
    navigation: &Markup,
    content: &Markup,
) -> Reply {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="robots" content="noindex";
                title { (title) " · Semel" }
                link rel="stylesheet" href="/pages/style.css";
            }
            body {
                header { b { "semel" } (navigation) }
                main { (content) }
            }
        }
    };
    html_reply(status, page.into_string())
}

fn html_reply(status: StatusCode, page: String) -> Reply {
    let reply = Reply::bytes(status, "text/html; charset=utf-8", page);
    reply.header(header::CONTENT_SECURITY_POLICY, POLICY).header("x-robots-tag", "noindex")
}

/// Why a page cannot be shown. Of what went wrong inside only the code is told.
pub(super) fn refused(problem: &Problem, request: &str) -> Reply {
    let status = status(problem.code);
    let logged = problem.reply(request);
    let detail = match status.is_server_error() {
        true => problem.code.hint(),
        false => &problem.detail,
    };
    let code = problem.code.as_str();
    let content = html! {
        h1 { (heading(problem.code)) }
        p { (detail) }
        p.quiet { "Code " a href={ "/errors/" (code) } { code { (code) } }
            " · request " code { (request) } }
    };
    let mut reply = whole(status, heading(problem.code), &html! {}, &content);
    for name in [header::RETRY_AFTER] {
        if let Some(value) = logged.headers.get(&name) {
            reply.headers.insert(name, value.clone());
        }
    }
    reply
}

fn heading(code: Code) -> &'static str {
    match code {
        Code::NotFound => "Nothing is here",
        Code::FourEyes => "Somebody else has to decide",
        Code::Forbidden => "Not with this token",
        Code::Expired => "The link has ended",
        Code::RateLimited => "Too many tries",
        _ => "That did not work",
    }
}
