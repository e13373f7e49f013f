//! The ledger of a server, over a real socket: the store's own laws, the SDK's own tests, answers
//! that are lost, and what a token does not reach.

#[path = "../../../semel/tests/runs/asked.rs"]
mod asked;
mod common;
mod conformance;
mod fenced;
mod kill;
mod ledger;
mod lost;
mod place;
mod reach;
mod redaction;
mod refused;
mod runs;
mod sdk;
mod served;
mod tenants;
mod unreadable;
