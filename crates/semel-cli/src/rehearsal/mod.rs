//! Rehearsing deaths: a real store whose process dies at a named point, by a real SIGKILL. The demo
//! and the tests play on it, and so does the Python package.

mod points;
mod store;

pub use points::{DIE_AT, Points};
pub use store::Pointed;
