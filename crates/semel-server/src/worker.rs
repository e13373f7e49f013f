//! The worker protocol: a store, as far as a token reaches into it. A worker runs the same engine
//! as everybody; what it asks of its store and tells it comes here.
//!
//! Nothing is decided here. What a token may see and write is `semel_core::reach`; every name and
//! every number in a request is held against it before the store is asked.

mod commit;
mod owners;
mod read;

pub(crate) use owners::Owners;

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use semel_core::access::Permission;
use semel_core::code::Code;
use semel_core::reach::Reach;
use semel_core::{journal, limits, record};
use semel_store::Store;
use semel_store::remote::protocol::{Committed, GroundShape, Hello, Hinted, PROTOCOL, Read};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use crate::app::App;
use crate::openapi::{Operation, Parameter, text};
use crate::problem::Problem;
use crate::route::{Access, Call, Reply, Route};

/// How often a question that is held open looks whether the server shuts down.
const WAIT_STEP: Duration = Duration::from_millis(200);

/// Somebody who asks, and the store that he is shown a part of.
pub(crate) struct Desk {
    app: Arc<App>,
    reach: Reach,
}

impl Desk {
    fn of(call: &Call) -> Desk {
        Desk { app: call.app.clone(), reach: Reach::new(&call.who.namespace, call.who.role) }
    }

    fn store(&self) -> &dyn Store {
        self.app.engine.store()
    }

    fn ground(&self) -> GroundShape {
        self.store().ground().into()
    }

    /// Whether a question may still be held open. A server that shuts down answers at once.
    fn may_wait(&self, until: Instant) -> bool {
        Instant::now() < until && !self.app.is_draining()
    }

    /// Whether a run is one of those that may be seen, by its number.
    async fn sees_run(&self, run: i64) -> Result<bool, semel_store::StoreError> {
        let owner = self.app.owners.of(self.store(), run).await?;
        Ok(owner.is_some_and(|namespace| self.reach.sees(&namespace)))
    }
}

const AFTER: [Parameter; 1] =
    [Parameter { name: "after", what: "the `hint` of the answer before", schema: text }];

pub(crate) fn routes() -> Vec<Route> {
    let (read, work) = (Access::Needs(Permission::Read), Access::Needs(Permission::Work));
    let greets = Operation::new("worker_hello", "Who the server is, for a worker");
    let asks = Operation::new("worker_read", "One question of a worker to the store");
    let commits = Operation::new("worker_commit", "Batches of a worker, each by itself");
    let waits = Operation::new("worker_hints", "Waits until anybody has committed something");
    let commits = commits.takes_any_json().large(limits::WORKER_BODY_BYTES_MAX);
    vec![
        Route::get("/v1/worker/hello", read, greets, hello),
        Route::post("/v1/worker/read", read, asks.takes_any_json(), ask),
        Route::post("/v1/worker/commit", work, commits, commit),
        Route::get("/v1/worker/hints", read, waits.query(&AFTER), hints),
    ]
}

async fn hello(call: Call) -> Result<Reply, Problem> {
    let desk = Desk::of(&call);
    Ok(Reply::ok(&Hello {
        protocol: PROTOCOL,
        semel: env!("CARGO_PKG_VERSION").to_owned(),
        record_format: record::FORMAT,
        journal_format: journal::FORMAT,
        namespace: desk.reach.namespace().as_str().to_owned(),
        ground: desk.ground(),
    }))
}

async fn ask(call: Call) -> Result<Reply, Problem> {
    let read: Read<'_> = call.ask()?;
    read::answer(&Desk::of(&call), read).await
}

#[derive(Deserialize)]
struct Batches<'a> {
    /// Each is read by itself: one that makes no sense is no reason to refuse the others.
    #[serde(borrow)]
    batches: Vec<&'a RawValue>,
}

async fn commit(call: Call) -> Result<Reply, Problem> {
    let invalid = |why: &str| Problem::new(Code::RequestInvalid, why);
    let text = std::str::from_utf8(&call.body).map_err(|_| invalid("the body is not UTF-8"))?;
    let Batches { batches } = serde_json::from_str(text)
        .map_err(|error| invalid(&format!("the body cannot be read: {error}")))?;
    if batches.len() > limits::GROUP_MAX {
        return Err(invalid(&format!("at most {} batches at once", limits::GROUP_MAX)));
    }
    let desk = Desk::of(&call);
    let commits = batches.iter().map(|batch| commit::commit(&desk, batch.get()));
    let results = join_all(commits).await;
    Ok(Reply::ok(&Committed { ground: desk.ground(), results }))
}

/// Answers when the number is another than the one that the caller has seen, or after a while.
async fn hints(call: Call) -> Result<Reply, Problem> {
    let seen = call.query.get("after").map(|text| text.parse::<u64>()).transpose();
    let seen = seen.map_err(|_| {
        Problem::new(Code::RequestInvalid, "`after` in the query is not the `hint` of an answer")
    })?;
    let desk = Desk::of(&call);
    let mut hints = desk.store().hints();
    let until = Instant::now() + Duration::from_millis(limits::WORKER_POLL_MS);
    while Some(*hints.borrow_and_update()) == seen && desk.may_wait(until) {
        // A hint, or a look at the time.
        let _ = timeout_at(until.min(Instant::now() + WAIT_STEP), hints.changed()).await;
    }
    let hint = *hints.borrow();
    Ok(Reply::ok(&Hinted { ground: desk.ground(), hint }))
}
