//! What the tests of the SDK have in common, as they are, and what they keep their ledgers in,
//! which is another thing here.

#[path = "../../../semel/tests/runs/common.rs"]
mod of_runs;
#[path = "../../../semel/tests/common/mod.rs"]
mod of_sdk;

pub(crate) use of_runs::{AT_ONCE, Count, Place, entries, reaches};
pub(crate) use of_sdk::{Ledger, Outside, QUICK, code, state, view};
