//! News of the server: a question that it holds open until somebody has committed something. Asked
//! only while somebody waits for it.

use std::sync::Arc;
use std::time::Duration;

use semel_core::limits;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use super::ask::Asking;
use super::client::Said;
use super::protocol::Hinted;

/// What a question may take beyond the time for which the server holds it open.
const SLACK: Duration = Duration::from_secs(10);
/// Between two questions: under load each would be answered by the next commit of anybody.
const PAUSE: Duration = Duration::from_millis(20);
/// After a question that failed.
const REST: Duration = Duration::from_secs(1);

pub(super) struct Hints {
    changes: watch::Sender<u64>,
    wanted: Arc<Notify>,
    task: AbortHandle,
}

impl Hints {
    pub(super) fn start(asking: Arc<Asking>) -> Hints {
        let (changes, _) = watch::channel(0);
        let wanted = Arc::new(Notify::new());
        let task = tokio::spawn(listen(asking, changes.clone(), wanted.clone())).abort_handle();
        Hints { changes, wanted, task }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        let receiver = self.changes.subscribe();
        self.wanted.notify_one();
        receiver
    }
}

impl Drop for Hints {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(asking: Arc<Asking>, changes: watch::Sender<u64>, wanted: Arc<Notify>) {
    let mut seen = 0;
    loop {
        while changes.receiver_count() == 0 {
            wanted.notified().await;
        }
        let path = format!("/v1/worker/hints?after={seen}");
        let patience = Duration::from_millis(limits::WORKER_POLL_MS) + SLACK;
        let said = asking.client.send_beside(&path, None, patience).await;
        let heard = said.ok().filter(|said: &Said| said.status == 200);
        let hinted = heard.and_then(|said| asking.read_answer::<Hinted>(&said.body).ok());
        let Some(Hinted { hint, .. }) = hinted else {
            // Whoever waits looks for himself once a second.
            tokio::time::sleep(REST).await;
            continue;
        };
        if hint != seen {
            seen = hint;
            changes.send_modify(|count| *count += 1);
        }
        tokio::time::sleep(PAUSE).await;
    }
}
