//! What the running attempt is known to have sent. An error is a proof that nothing happened only
//! if no request of the same attempt went out before it.

use std::cell::Cell;

use crate::Failure;

tokio::task_local! {
    static WENT_OUT: Cell<bool>;
}

/// Runs the code of one attempt.
pub(crate) fn attempt<F: Future>(code: F) -> impl Future<Output = F::Output> {
    WENT_OUT.scope(Cell::new(false), code)
}

/// Runs the code of one attempt that blocks its thread.
pub(crate) fn attempt_blocking<T>(code: impl FnOnce() -> T) -> T {
    WENT_OUT.sync_scope(Cell::new(false), code)
}

/// A request was answered, and the answer proves this. After an earlier one it proves nothing.
pub(crate) fn of_answer(failure: Option<Failure>) -> Option<Failure> {
    let is_late = note();
    failure.map(|failure| if is_late { failure.doubted() } else { failure })
}

/// A request failed with this. After an earlier one that went out it proves nothing.
pub(crate) fn of_error(failure: Failure) -> Failure {
    if !failure.is_proof() {
        note();
        return failure;
    }
    if WENT_OUT.try_with(Cell::get).unwrap_or(false) { failure.doubted() } else { failure }
}

/// Outside of an attempt every error is judged by itself.
fn note() -> bool {
    WENT_OUT.try_with(|went_out| went_out.replace(true)).unwrap_or(false)
}
