//! A wait counts from when the code asks for it, on every kind of store: a worker that comes late,
//! or code that had to be corrected, makes no wait shorter.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use semel::{Context, RunHandle, RunState, Semel};

/// How long the code waits, and for how long nobody had the run.
const WAIT_MS: i64 = 60;
const AWAY: Duration = Duration::from_millis(90);

/// When the entries of a kind were written.
async fn times(semel: &Semel, run: &RunHandle, kind: &str) -> Vec<i64> {
    let row = run.status().await.expect("the run is there");
    let journal = semel.engine().journal(&row).await.expect("one clean chain");
    let entries = journal.iter().map(|inked| semel_core::journal::decode(&inked.text));
    let entries = entries.map(|entry| entry.expect("an entry"));
    let wanted = entries.filter(|entry| entry.event.name() == kind);
    wanted.map(|entry| entry.at.0.0).collect()
}

async fn reaches(run: &RunHandle, state: RunState) {
    for _ in 0..1_000 {
        if run.state().await.expect("the run is there") == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the run is {:?}, not {state}", run.status().await);
}

/// The run waits for a worker; its code is wrong at first, and corrected while the run is paused.
pub(crate) async fn a_wait_counts_from_when_the_code_asks(semel: &Semel) {
    for kind in ["fired", "timed_out"] {
        let is_wrong = Arc::new(AtomicBool::new(true));
        let wrong = is_wrong.clone();
        let code = move |ctx: Context, is_sleep: bool| {
            let wrong = wrong.clone();
            async move {
                assert!(!wrong.load(Ordering::SeqCst), "a mistake");
                let wait = Duration::from_millis(WAIT_MS.unsigned_abs());
                if is_sleep {
                    return ctx.sleep(wait).await;
                }
                ctx.wait_for_signal_within::<u32>("word", wait).await.map(|_| ())
            }
        };
        let run = semel.start(kind).key("k").input(&(kind == "fired")).run().await.unwrap();
        tokio::time::sleep(AWAY).await;
        semel.worker().workflow(kind, code).start().unwrap();
        reaches(&run, RunState::Paused).await;
        tokio::time::sleep(AWAY).await;
        is_wrong.store(false, Ordering::SeqCst);
        run.retry("ann", "corrected").await.unwrap();
        run.result::<()>().await.unwrap();
        let taken = times(semel, &run, "taken").await;
        let (resumed, ended) =
            (times(semel, &run, "resumed").await, times(semel, &run, kind).await);
        let take = taken.iter().find(|at| **at >= resumed[0]).expect("taken after the retry");
        assert!(ended[0] - take >= WAIT_MS, "{kind}: early by {}", WAIT_MS - (ended[0] - take));
    }
}
