//! Webhooks in, over real sockets, on SQLite and on Postgres. Deliveries are signed here by a
//! second hand; the senders' own libraries sign in the tests of the Python package.

mod deliveries;
mod keys;
mod kit;
mod manage;
mod refusals;
