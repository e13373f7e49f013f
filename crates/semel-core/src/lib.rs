//! The rules of Semel: pure functions. State, wish and time in; decision out.
//!
//! There is no clock, no I/O, no async and no randomness here: whatever a rule needs to know is
//! passed in. So every rule can be tested as a table, and two stores cannot disagree on one.

pub mod key;
pub mod looks;
pub mod quiet;
pub mod reach;
pub mod recipes;

pub mod canonical;
pub mod derive;
pub mod fingerprint;
pub mod idempotency;
pub mod json;
pub mod redact;
pub mod seal;

pub mod claim;
pub mod contract;
pub mod cron;
pub mod retry;
pub mod time;

pub mod access;
pub mod approval_link;
pub mod audit;
pub mod check;
pub mod effect;
pub mod entity;
pub mod gate;
pub mod hook;
pub mod journal;
pub mod notice;
pub mod proof;
pub mod record;
pub mod release;
pub mod repeats;
pub mod run;
pub mod schedule;
pub mod shape;
pub mod verify;
pub mod wire;
pub mod wire_answer;
pub mod wire_ask;
pub mod wire_release;
pub mod wire_run;
pub mod wire_schedule;
pub mod wire_trigger;

pub mod declare;
pub mod lint;
pub mod spec;
pub mod suspects;

pub mod code;
pub mod limits;
