//! Durable runs through the SDK, on real SQLite files.

mod approvals;
mod basics;
mod common;
mod doubts;
mod failing;
mod replay;
mod rows;
mod together;
mod values;
mod waits;
