//! What the running attempt is known to have sent. An error is a proof that nothing happened only
//! if it is that of the attempt's one request, and Semel saw that request.

use std::cell::Cell;

use crate::Failure;

tokio::task_local! {
    /// How many requests of the attempt may have gone out.
    static OUT: Cell<u32>;
}

/// Runs the code of one attempt.
pub(crate) fn attempt<F: Future>(code: F) -> impl Future<Output = F::Output> {
    OUT.scope(Cell::new(0), code)
}

/// Runs the code of one attempt that blocks its thread.
pub(crate) fn attempt_blocking<T>(code: impl FnOnce() -> T) -> T {
    OUT.sync_scope(Cell::new(0), code)
}

/// A request is about to go out.
pub(crate) fn going_out() {
    let _ = OUT.try_with(|out| out.set(out.get() + 1));
}

/// The request that was about to go out failed with this. One that never left does not count.
pub(crate) fn of_request(failure: Failure) -> Failure {
    if !failure.is_proof() {
        return failure;
    }
    let earlier = OUT.try_with(|out| {
        out.set(out.get().saturating_sub(1));
        out.get()
    });
    if earlier.unwrap_or(0) == 0 { failure } else { failure.doubted(EARLIER) }
}

/// What an answer proves: something only if it answers the one request that went out.
pub(crate) fn of_answer(failure: Failure) -> Failure {
    match OUT.try_with(Cell::get) {
        Err(_) | Ok(1) => failure,
        Ok(0) => failure.doubted(UNSEEN),
        Ok(_) => failure.doubted(EARLIER),
    }
}

/// What an error proves whose request Semel did not see: inside of an attempt nothing.
pub(crate) fn of_error(failure: Failure) -> Failure {
    if OUT.try_with(|_| ()).is_ok() { failure.doubted(UNSEEN) } else { failure }
}

const EARLIER: &str = "an earlier request of this attempt went out";
const UNSEEN: &str = "Semel did not see the request: send it by `classify::send`";
