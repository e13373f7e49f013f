//! Tampering: whatever is changed in a store behind Semel's back is found. What was changed or put
//! into another row by `verify` alone, what was deleted, cut off or put back by `verify --against`
//! a head that was exported before.

mod chance;
mod postgres;
mod rich;
mod sqlite;
