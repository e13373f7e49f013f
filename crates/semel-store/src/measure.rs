//! What is measured of a store, for whoever has installed a recorder.

use std::time::Instant;

use metrics::{counter, histogram};

use crate::CommitError;

/// From the hand-over of a batch until it is durable, and so with all waiting for others.
pub const COMMIT_SECONDS: &str = "semel_store_commit_seconds";

/// Rows that cannot be read, each time that somebody who looks for work meets one.
pub const UNREADABLE: &str = "semel_unreadable_rows_total";

pub(crate) fn unreadable(what: &'static str) {
    counter!(UNREADABLE, "what" => what).increment(1);
}

/// Measures a commit. One that was refused or failed took its time, too.
pub(crate) async fn commit(
    store: &'static str,
    commit: impl Future<Output = Result<(), CommitError>>,
) -> Result<(), CommitError> {
    let began = Instant::now();
    let committed = commit.await;
    histogram!(COMMIT_SECONDS, "store" => store).record(began.elapsed().as_secs_f64());
    committed
}
