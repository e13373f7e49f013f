//! The check of Rust workflows: what it must pass, and what it must not.

mod examples;
mod kinds;
mod mail;
mod twins;
