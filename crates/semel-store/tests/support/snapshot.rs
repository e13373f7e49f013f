//! What can be read of runs and cards, to be compared between stores.

use semel_core::run::{Run, State};
use semel_store::conformance::Subject;
use semel_store::{Delivery, DueRuns, Inked, RunQuery};

use super::deck::{self, Deck};

/// The large values that runs of a history need.
pub(crate) const DIGESTS: [&str; 3] = ["x", "y", "z"];

/// The gates before which they wait.
pub(crate) const GATES: [&str; 2] = ["narrow", "wide"];

/// Journal, last entry, inbox, and deliveries by identity.
type Belongings = (Vec<Inked>, Option<Inked>, Vec<Delivery>, Vec<Option<Delivery>>);

/// Everything about runs and their cards that can be read.
#[derive(Debug, PartialEq)]
pub(crate) struct Snapshot {
    pub(crate) runs: Vec<Run>,
    by_state: Vec<usize>,
    pub(crate) due: Vec<DueRuns>,
    /// The next run of each queue.
    pub(crate) queues: Vec<Option<Run>>,
    pub(crate) sweepable: Vec<Run>,
    belongings: Vec<Belongings>,
    blobs: Vec<Option<String>>,
    pub(crate) deck: Deck,
}

pub(crate) async fn snapshot(store: &Subject) -> Snapshot {
    let list = async |state| {
        let query = RunQuery { state, ..RunQuery::everywhere(1_000) };
        store.list_runs(&query).await.expect("a list").runs
    };
    let runs = list(None).await;
    let mut by_state = Vec::new();
    for state in State::ALL {
        by_state.push(list(Some(state)).await.len());
    }
    let mut due = Vec::new();
    for (lane, limit) in LANES {
        let mut found = store.due_runs(lane, limit).await.expect("due runs");
        // The stores count their boots differently.
        found.next.iter_mut().for_each(|next| next.boot = 0);
        due.push(found);
    }
    let mut queues = Vec::new();
    for gate in GATES {
        let next = store.next_queued(&format!("default/{gate}")).await;
        queues.push(next.expect("the next of a queue"));
    }
    let mut belongings = Vec::new();
    let mut blobs = Vec::new();
    for run in &runs {
        let journal = store.journal(run.number, 0, 1_000).await.expect("a journal");
        let last = store.last_entry(run.number).await.expect("an entry");
        let inbox = store.inbox(run.number).await.expect("an inbox");
        let mut deliveries = Vec::new();
        for identity in 0..8 {
            let found = store.delivery(run.number, &format!("d{identity}")).await;
            deliveries.push(found.expect("a delivery"));
        }
        belongings.push((journal, last, inbox, deliveries));
        for digest in DIGESTS {
            blobs.push(store.blob(&run.namespace, digest).await.expect("a blob"));
        }
    }
    let sweepable = store.sweepable_runs(1_000).await.expect("runs to sweep");
    let deck = deck::read(store).await;
    Snapshot { runs, by_state, due, queues, sweepable, belongings, blobs, deck }
}

const LANES: [(&str, usize); 4] =
    [("default/w", 100), ("default/v", 1), ("default/v", 100), ("", 100)];
