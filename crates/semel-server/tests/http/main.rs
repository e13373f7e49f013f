//! The API over real sockets, on SQLite and on Postgres.

mod access;
mod approvals;
mod away;
mod callbacks;
mod concurrency;
mod door;
mod effects;
mod ending;
mod fingerprints;
mod gate;
mod injected;
mod keys;
mod limits;
mod redaction;
mod rough;
mod runs;
mod steer;
mod sweep;
mod tenancy;
mod tls;
mod wire;
