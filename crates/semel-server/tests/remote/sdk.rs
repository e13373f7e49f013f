//! The tests of single effects, as they are. Left out are `transaction.rs`, because user code has
//! no rows in the database of a server; `namespaces.rs`, because a token has one; and `dead.rs`,
//! because no lock proves a worker dead that is elsewhere: its leases end by time (see `kill.rs`).

#[path = "../../../semel/tests/sdk/builder.rs"]
mod builder;
#[path = "../../../semel/tests/sdk/concurrency.rs"]
mod concurrency;
#[path = "../../../semel/tests/sdk/handler.rs"]
mod handler;
#[path = "../../../semel/tests/sdk/keys.rs"]
mod keys;
#[path = "../../../semel/tests/sdk/outcome.rs"]
mod outcome;
#[path = "../../../semel/tests/sdk/receipts.rs"]
mod receipts;
#[path = "../../../semel/tests/sdk/recovery.rs"]
mod recovery;
