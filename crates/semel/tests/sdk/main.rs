//! The SDK as its users see it, on real files and real time.

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/ledger.rs"]
mod ledger;

mod blocking;
mod builder;
mod classify;
mod concurrency;
mod dead;
mod handler;
#[cfg(feature = "reqwest")]
mod http;
mod keys;
mod namespaces;
mod observe;
mod outcome;
mod receipts;
mod recovery;
mod transaction;
