//! Rehearsing deaths: a real store whose process dies at a named point, by a real SIGKILL. The demo
//! and the tests play on it, and so does the Python package.

mod points;
mod store;

pub use points::{AHEAD_MS, CLOCK_FILE, DIE_AT, Points, STOP_AT};
pub use store::{Around, Pointed, Watched};

pub(crate) use store::names;
