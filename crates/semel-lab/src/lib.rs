//! The laboratory: a Postgres that tests may break.
//!
//! Ordinary tests ask for a [`database()`] and share a server. Tests that crash, cut or promote
//! start a [`Cluster`] of their own. Nothing is downloaded: the machine's Postgres is used, and
//! whatever is started ends with the process that started it, however that dies.
//!
//! The reader is a test, so what cannot be done panics and says why.

mod account;
mod bouncer;
mod cluster;
mod database;
mod guardian;
mod installation;
mod messages;
mod proxy;
mod standby;
mod template;

pub use bouncer::Bouncer;
pub use cluster::{Cluster, psql};
pub use database::{Database, SERVER_VARIABLE, database};
pub use proxy::Proxy;
