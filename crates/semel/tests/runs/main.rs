//! Durable runs through the SDK, on real SQLite files.

mod basics;
mod common;
