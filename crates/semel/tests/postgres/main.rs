//! The SDK on Postgres: rows and receipt in one commit, and intents from users' own transactions.

mod approvals;
#[path = "../runs/asked.rs"]
mod asked;
mod kit;
mod outbox;
mod outbox_rules;
mod outbox_sql;
mod replaced;
mod schedules;
mod transaction;
mod waits;
mod within;
