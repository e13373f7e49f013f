//! Trying a workflow before it ships: where its process dies, what its destinations do to it, and
//! what is left of its promise afterwards.

pub mod destination;
pub mod double;
pub mod rehearsal;
mod trial;

pub use trial::{Check, ONLY, Report, Response, Waiting};
