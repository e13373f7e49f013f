//! What the tests of runs have in common.

#![allow(dead_code, reason = "not every module uses every helper")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use semel::{Retry, RunHandle, RunState, Semel};

pub(crate) use crate::place::Place;

/// Counts what happened outside.
#[derive(Clone, Default)]
pub(crate) struct Count(Arc<AtomicU32>);

impl Count {
    pub(crate) fn up(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn get(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

/// Tries again at once.
pub(crate) const AT_ONCE: Retry =
    Retry { attempts_max: 3, total_ms: 60_000, delay_ms: 1, delay_ms_max: 1 };

pub(crate) async fn reaches(run: &RunHandle, state: RunState) {
    for _ in 0..1_000 {
        let now = run.state().await.expect("the run is there");
        if now == state {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the run is {:?}, not {state}", run.status().await);
}

/// The kinds of entries in the journal of a run.
pub(crate) async fn entries(semel: &Semel, run: &RunHandle) -> Vec<&'static str> {
    let row = run.status().await.expect("the run is there");
    let journal = semel.engine().journal(&row).await.expect("one clean chain");
    let event = |text: &str| semel_core::journal::decode(text).expect("an entry").event;
    journal.iter().map(|inked| event(&inked.text).name()).collect()
}
