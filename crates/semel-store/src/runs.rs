//! Keeping runs: their rows, journals, inboxes and large values. Told what to write, like effects.

use async_trait::async_trait;
use semel_core::journal::Link;
use semel_core::run::{self, Run, State};
use semel_core::time::{Moment, Steady, Wall};

use crate::veil::{Place, Veil};
use crate::{StoreError, Unreadable, checksum};

/// Where runs are kept.
#[async_trait]
pub trait Runs: Send + Sync + 'static {
    /// One run.
    async fn run(&self, namespace: &str, id: &str) -> Result<Option<Run>, StoreError>;

    /// In which namespace a run is. Whoever names a run by its number may be a stranger to it.
    async fn namespace_of(&self, run: i64) -> Result<Option<String>, StoreError>;

    /// Entries of a run's journal from a place on, in order, at most so many.
    async fn journal(&self, run: i64, from: u64, limit: usize) -> Result<Vec<Inked>, StoreError>;

    /// The last entry of a run's journal.
    async fn last_entry(&self, run: i64) -> Result<Option<Inked>, StoreError>;

    /// Deliveries that no entry has consumed, in the order in which they came.
    async fn inbox(&self, run: i64) -> Result<Vec<Delivery>, StoreError>;

    /// One delivery by its identity, consumed or not.
    async fn delivery(&self, run: i64, identity: &str) -> Result<Option<Delivery>, StoreError>;

    /// A large value by what it contains.
    async fn blob(&self, namespace: &str, digest: &str) -> Result<Option<String>, StoreError>;

    /// Runs of one lane that are due now, the longest waiting first, and when the next one is.
    async fn due_runs(&self, lane: &str, limit: usize) -> Result<DueRuns, StoreError>;

    /// Lanes that have unfinished runs which need no code, in order after one, at most so many.
    async fn codeless_lanes(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError>;

    /// The run with the least number of those that stand in a queue.
    async fn next_queued(&self, queue: &str) -> Result<Option<Run>, StoreError>;

    /// Runs, newest first.
    async fn list_runs(&self, query: &RunQuery) -> Result<RunPage, StoreError>;

    /// Runs whose retention may have ended.
    async fn sweepable_runs(&self, limit: usize) -> Result<Vec<Run>, StoreError>;
}

/// A run ready to be written: its record as text, and the columns to find it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunRow {
    pub number: i64,
    pub namespace: String,
    pub id: String,
    pub version: u64,
    pub workflow: String,
    pub key: String,
    pub lane: String,
    pub state: State,
    /// Nobody holds it: a touch makes it due.
    pub parked: bool,
    pub fence: u64,
    pub created: Wall,
    pub wake_at: Option<Steady>,
    pub waits_on: Option<String>,
    /// In which it stands while nobody holds it.
    pub queue: Option<String>,
    pub sweep_at: Option<Wall>,
    pub record: String,
    pub sum: i64,
}

impl RunRow {
    /// Derives the columns from a run at a moment.
    pub fn new(run: &Run, now: &Moment) -> RunRow {
        let record = run::encode(run);
        RunRow {
            number: run.number,
            namespace: run.namespace.clone(),
            id: run.id.clone(),
            version: run.version,
            workflow: run.workflow.clone(),
            key: run.key.clone(),
            lane: run.lane(),
            state: run.state(),
            parked: run.is_parked(),
            fence: run.fence,
            created: run.created,
            wake_at: run.wake_at(now).map(|at| from_now_on(at, now)),
            waits_on: run.waits_on(),
            queue: run.queue(),
            sweep_at: run.sweep_at(),
            sum: checksum(&record),
            record,
        }
    }
}

/// What is due already is due from now on: a run is never put behind the place where its lane was
/// seen to be empty. The point of a lease of an earlier boot means nothing on this one's clock.
fn from_now_on(at: Steady, now: &Moment) -> Steady {
    if now.reached(at) { now.steady } else { at }
}

/// Reads a run back from the name, text, checksum and version of its row.
pub(crate) fn read_run(
    veil: &Veil,
    (namespace, number): (&str, i64),
    text: &str,
    sum: i64,
    version: u64,
) -> Result<Run, StoreError> {
    if checksum(text) != sum {
        return Err(StoreError::Corrupt("a run does not match its checksum".into()));
    }
    veil.learn(number, namespace);
    let text = veil.reveal(Some(namespace), Place::Run(number), text)?;
    run::decode(&text, version)
        .map_err(|error| StoreError::Corrupt(format!("a run cannot be read: {error}")))
}

/// One entry of a journal as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inked {
    pub seq: u64,
    pub link: Link,
    pub text: String,
}

impl Inked {
    /// The entry as it was before it was covered.
    pub(crate) fn revealed(mut self, veil: &Veil, run: i64) -> Result<Inked, StoreError> {
        self.text = veil.reveal_owned(None, Place::Entry(run), self.text)?;
        Ok(self)
    }
}

/// An entry to be appended. It must follow the one it names: whoever lost the run finds another
/// predecessor, and so does everything it wrote behind that.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Append {
    pub run: i64,
    pub seq: u64,
    /// The link of the entry before; for the first one, of the run itself.
    pub after: Link,
    pub link: Link,
    pub text: String,
}

/// Something that came from outside for a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub run: i64,
    /// Grows with each delivery to the run, given by the store.
    pub number: i64,
    /// Names it: a second delivery of the same identity is the same delivery.
    pub identity: String,
    pub name: String,
    /// As it is written into the journal: a value, here or in a blob.
    pub payload: String,
    pub at: Wall,
    pub consumed: bool,
}

/// Due runs, and when the next one of the lane is due.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DueRuns {
    pub runs: Vec<Run>,
    pub next: Option<Steady>,
}

/// Which runs to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunQuery {
    /// `None`: all of them.
    pub namespace: Option<String>,
    pub workflow: Option<String>,
    pub key: Option<String>,
    pub state: Option<State>,
    /// Continue after this cursor.
    pub after: Option<i64>,
    pub limit: usize,
}

impl RunQuery {
    /// Everything in all namespaces.
    pub fn everywhere(limit: usize) -> RunQuery {
        RunQuery { namespace: None, workflow: None, key: None, state: None, after: None, limit }
    }
}

/// A page of runs and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunPage {
    pub runs: Vec<Run>,
    pub next: Option<i64>,
    /// Those of the page that cannot be read: one row never fails a listing.
    pub unreadable: Vec<Unreadable>,
}
