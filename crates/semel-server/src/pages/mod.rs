//! Pages for people: answering a question by a link, a small console, and what each code means.
//! Plain HTML from this process alone. No script, nothing from other hosts, and whatever changes
//! something is a form that a person has filled in.

mod approve;
mod console;
mod errors;
mod form;
mod layout;
mod session;
mod shown;

use std::future::Future;

use axum::http::Method;

use crate::openapi::Operation;
use crate::problem::Problem;
use crate::route::{Access, Call, Reply, Route};

pub(crate) use session::Sessions;

/// The pages of the server.
pub(crate) fn routes() -> Vec<Route> {
    [approve::routes(), console::routes(), errors::routes(), layout::routes()].concat()
}

/// One page. It is open to the router: a link carries its own credential, and the console asks for
/// the session and the permission itself. What goes wrong becomes a page, too.
fn page<F, A>(method: Method, path: &'static str, operation: Operation, handler: F) -> Route
where
    F: Fn(Call) -> A + Clone + Send + Sync + 'static,
    A: Future<Output = Result<Reply, Problem>> + Send + 'static,
{
    let handler = move |call: Call| {
        let handler = handler.clone();
        async move {
            let request = call.request_id.clone();
            let replied = handler(call).await;
            Ok(replied.unwrap_or_else(|problem| layout::refused(&problem, &request)))
        }
    };
    Route::new(method, path, Access::Open, operation.page(), handler)
}
