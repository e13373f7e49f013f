//! Batches of many callers that wait at the same moment travel in one request: round trips are
//! shared the way syncs of a disk are.

use std::sync::Arc;

use semel_core::limits;
use tokio::sync::{Mutex, mpsc, oneshot};

use super::ask::{Asking, Heard};
use super::protocol::{Committed, ResultShape, WriteShape};
use crate::{Batch, CommitError, StoreError};

/// Requests with batches that are on their way at once. One of them may wait for a row that
/// somebody holds; the others go on.
const GROUPS: usize = 4;

type Answer = oneshot::Sender<Result<(), CommitError>>;
type Job = (String, Answer);

pub(super) struct Groups {
    jobs: mpsc::Sender<Job>,
}

impl Groups {
    pub(super) fn start(asking: &Arc<Asking>) -> Groups {
        let (jobs, inbox) = mpsc::channel(limits::COMMIT_QUEUE_MAX);
        let inbox = Arc::new(Mutex::new(inbox));
        for _ in 0..GROUPS {
            tokio::spawn(carry(asking.clone(), inbox.clone()));
        }
        Groups { jobs }
    }

    /// Queues a batch and waits until the server says what came of it.
    pub(super) async fn commit(&self, batch: &Batch) -> Result<(), CommitError> {
        let text = WriteShape::encode(batch);
        if text.len() > limits::WORKER_BODY_BYTES_MAX / 2 {
            let text = "what is to be written at once is larger than a server takes".to_owned();
            return Err(StoreError::Full(text).into());
        }
        let (answer, answered) = oneshot::channel();
        let gone = |_| StoreError::Unavailable("the store is closed".into());
        self.jobs.send((text, answer)).await.map_err(gone)?;
        // The task ended without a word: nobody knows whether the server had committed.
        answered.await.map_err(|_| CommitError::Unknown)?
    }
}

/// Carries groups to the server until the store is closed.
async fn carry(asking: Arc<Asking>, inbox: Arc<Mutex<mpsc::Receiver<Job>>>) {
    let mut jobs: Vec<Job> = Vec::new();
    loop {
        let count = inbox.lock().await.recv_many(&mut jobs, limits::GROUP_MAX).await;
        if count == 0 {
            return;
        }
        while !jobs.is_empty() {
            let (batches, answers): (Vec<String>, Vec<Answer>) =
                jobs.drain(..fitting(&jobs)).unzip();
            for (answer, result) in answers.into_iter().zip(commit(&asking, &batches).await) {
                // A caller that has gone away has detached; its batch stands all the same.
                let _ = answer.send(result);
            }
        }
    }
}

/// How many of them travel together: one at the least.
fn fitting(jobs: &[Job]) -> usize {
    let mut bytes = 0;
    let fits = |(text, _): &&Job| {
        bytes += text.len();
        bytes <= limits::GROUP_BYTES_MAX
    };
    jobs.iter().take_while(fits).count().max(1)
}

async fn commit(asking: &Asking, batches: &[String]) -> Vec<Result<(), CommitError>> {
    let all = |error: CommitError| batches.iter().map(|_| Err(error.clone())).collect();
    let body = format!("{{\"batches\":[{}]}}", batches.join(","));
    let asked_ms = asking.ground.local_ms();
    let said = match asking.request("/v1/worker/commit", Some(body)).await {
        Heard::Said(said) => said,
        Heard::Refused(error) => return all(error.into()),
        Heard::NeverSent(text) => return all(StoreError::Unavailable(text).into()),
        Heard::Perhaps(text) => {
            tracing::warn!(%text, "the server did not say whether it committed");
            return all(CommitError::Unknown);
        }
    };
    let Ok(Committed { ground, results }) = asking.read_answer(&said) else {
        return all(CommitError::Unknown);
    };
    asking.ground.learn(&ground, asked_ms);
    if results.len() != batches.len() {
        return all(CommitError::Unknown);
    }
    results.into_iter().map(ResultShape::into).collect()
}
