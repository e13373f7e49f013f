//! Code that blocks its thread: a thread stands ready before the attempt is armed, and asks whether
//! it may begin last before it does.

use std::sync::Arc;
use std::sync::mpsc;

use semel_engine::{Executor, Intent, Looked, Reached, Sent, Slot};
use serde::Serialize;
use tokio::sync::oneshot;

use super::{LookFn, SendFn, receipt};
use crate::{Code, Error, Failure, evidence};

type Job = Box<dyn FnOnce() + Send>;

/// A thread that waits for its job. Dropped, it goes back to the pool.
type Thread = mpsc::Sender<Job>;

/// Threads of the runtime's pool for code that blocks.
pub(super) fn threads() -> Executor {
    Executor::Away(Arc::new(|| Box::pin(ready())))
}

async fn ready() -> Result<Slot, Error> {
    let (stands, standing) = oneshot::channel();
    tokio::task::spawn_blocking(move || {
        let (thread, jobs) = mpsc::channel::<Job>();
        if stands.send(thread).is_ok()
            && let Ok(job) = jobs.recv()
        {
            job();
        }
    });
    let ends = |_| Error::new(Code::StoreUnavailable, "the runtime is shutting down");
    let thread: Thread = standing.await.map_err(ends)?;
    Ok(Box::new(thread))
}

/// The code of an effect, run by the thread that stands ready.
pub(super) fn send_fn<T, F>(send: F) -> SendFn
where
    T: Serialize + Send + 'static,
    F: Fn(Intent) -> Result<T, Failure> + Send + Sync + 'static,
{
    let send = Arc::new(send);
    Box::new(move |intent: Intent| {
        let send = send.clone();
        Box::pin(async move {
            let (ended, end) = oneshot::channel();
            let slot = intent.clearance().take_slot().and_then(|slot| slot.downcast().ok());
            let thread: Box<Thread> = slot.expect("a thread stands ready");
            let job: Job = Box::new(move || {
                // The last look at the clock before the call, in the thread that makes it.
                if intent.clearance().begin() {
                    let sent = evidence::attempt_blocking(|| send(intent));
                    let _ = ended.send(sent);
                }
            });
            // Nobody takes it only if the runtime is gone; then nothing was begun.
            let _ = thread.send(job);
            match end.await {
                Ok(sent) => sent.map_or_else(Failure::into_sent, |value| receipt(&value)),
                Err(_) => Sent::Faulty("the function panicked".to_owned(), Reached::Perhaps),
            }
        })
    })
}

/// The look of such an effect: it runs in the task that asks for it.
pub(super) fn look_fn(look: LookFn) -> LookFn {
    let look = Arc::new(look);
    Box::new(move |intent: Intent| {
        let look = look.clone();
        Box::pin(async move {
            if !intent.clearance().begin() {
                return Looked::Unknown("the permit lapsed before anything was asked".to_owned());
            }
            look(intent).await
        })
    })
}
