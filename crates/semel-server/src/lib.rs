//! The door: everyone who does not link Rust or Python uses Semel through it. Safe to retry itself:
//! whatever a request asks for is decided by the rules of `semel-core` and carried out by the
//! engine; here it is only read, admitted and answered.

mod admit;
mod api;
mod app;
mod auth;
mod hooks;
mod openapi;
pub mod operate;
mod pages;
mod problem;
mod request;
mod route;
mod serve;
mod settings;
mod tls;
mod turn;
mod worker;

pub use app::{App, OpenError};
pub use openapi::document as openapi_document;
pub use serve::Server;
pub use settings::{Limits, Settings, Tls};
