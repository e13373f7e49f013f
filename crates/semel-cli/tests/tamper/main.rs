//! Tampering: whatever is changed in a store behind Semel's back is found. What was changed or put
//! into another row by `verify` alone, what was deleted, cut off or put back by `verify --against`
//! a head that was exported before.

#![expect(clippy::print_stderr, reason = "a seed that failed is played again")]

mod chance;
mod postgres;
mod rich;
mod sqlite;
