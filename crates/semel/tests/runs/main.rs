//! Durable runs through the SDK, on real SQLite files.

mod approvals;
mod asked;
mod basics;
mod children;
mod common;
mod doubts;
mod entities;
mod failing;
mod limits;
mod place;
mod proofs;
mod releases;
mod replay;
mod rows;
mod sagas;
mod schedules;
mod shared;
mod together;
mod values;
mod waits;
