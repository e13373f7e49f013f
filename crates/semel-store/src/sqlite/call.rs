//! A caller who waits for the writer. The writer takes the call up once it has its turn; until then
//! the caller may take it back, and then nothing of it is written.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::oneshot;

/// What a job carries for the one who gave it.
pub(super) struct Call<T> {
    claim: Claim,
    answer: oneshot::Sender<T>,
}

/// What the caller keeps.
pub(super) struct Waiting<T> {
    pub(super) claim: Claim,
    pub(super) answer: oneshot::Receiver<T>,
}

/// Won once: by the writer, or by the caller who goes away.
#[derive(Clone, Default)]
pub(super) struct Claim(Arc<AtomicBool>);

impl Claim {
    /// Whether this is the first claim.
    pub(super) fn win(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }
}

impl<T> Call<T> {
    pub(super) fn new() -> (Call<T>, Waiting<T>) {
        let (claim, (answer, answered)) = (Claim::default(), oneshot::channel());
        (Call { claim: claim.clone(), answer }, Waiting { claim, answer: answered })
    }

    /// Takes the call up; `false` when the caller has taken it back.
    pub(super) fn take_up(&self) -> bool {
        self.claim.win()
    }

    /// A caller that has gone away has detached; what was committed stands.
    pub(super) fn answer(self, answer: T) {
        let _ = self.answer.send(answer);
    }
}
