//! What people decided: the chain of the namespace.

use semel_core::access::Permission;
use semel_core::audit::Entry;

use crate::openapi::{Operation, PAGE};
use crate::problem::Problem;
use crate::route::Access::Needs;
use crate::route::{Call, Page, Reply, Route};

pub(super) fn routes() -> Vec<Route> {
    vec![Route::get(
        "/v1/audit",
        Needs(Permission::Read),
        Operation::new("list_decisions", "What people decided, the newest first")
            .query(&PAGE)
            .returns::<Page<Entry>>(),
        list,
    )]
}

async fn list(call: Call) -> Result<Reply, Problem> {
    let (after, limit) = (call.after::<u64>()?, call.limit()?);
    let page = call.app.engine.audit_entries(&call.who.namespace, after, limit).await?;
    let next = page.next.map(|next| next.to_string());
    Ok(Reply::ok(&Page::of(page.entries, next).and(page.unreadable)))
}
