//! The tests of runs, as they are.

#[path = "../../../semel/tests/runs/approvals.rs"]
mod approvals;
#[path = "../../../semel/tests/runs/basics.rs"]
mod basics;
#[path = "../../../semel/tests/runs/children.rs"]
mod children;
#[path = "../../../semel/tests/runs/doubts.rs"]
mod doubts;
#[path = "../../../semel/tests/runs/entities.rs"]
mod entities;
#[path = "../../../semel/tests/runs/failing.rs"]
mod failing;
#[path = "../../../semel/tests/runs/limits.rs"]
mod limits;
#[path = "../../../semel/tests/runs/proofs.rs"]
mod proofs;
#[path = "../../../semel/tests/runs/releases.rs"]
mod releases;
#[path = "../../../semel/tests/runs/replay.rs"]
mod replay;
#[path = "../../../semel/tests/runs/rows.rs"]
mod rows;
#[path = "../../../semel/tests/runs/sagas.rs"]
mod sagas;
#[path = "../../../semel/tests/runs/shared.rs"]
mod shared;
#[path = "../../../semel/tests/runs/together.rs"]
mod together;
#[path = "../../../semel/tests/runs/values.rs"]
mod values;
#[path = "../../../semel/tests/runs/waits.rs"]
mod waits;
