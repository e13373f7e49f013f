//! The engine against a clock moved by hand, on the memory store and on real files.

#[path = "../common/mod.rs"]
mod common;

mod approvals;
mod attach;
mod attempt;
mod budget;
mod fault;
mod job;
mod late_start;
mod late_steps;
mod notify;
mod people;
mod quarantine;
mod redaction;
mod repeats;
mod retention;
mod retry;
mod run_retention;
mod schedule_lives;
mod schedules;
mod transaction;
mod watched;
