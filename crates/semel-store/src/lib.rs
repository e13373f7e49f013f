//! Keeping. A store is told what to write, never what to decide.
//!
//! It gets batches with guards and answers: done, stale (with the current rows), unknown (maybe
//! committed: repeat the same batch), or failed. So the rules exist once, in `semel-core`, and no
//! two stores can disagree on one.

pub mod backup;
mod cards;
mod clock;
mod error;
pub mod measure;
pub mod memory;
mod model;
mod opened;
pub mod postgres;
mod random;
mod readable;
#[cfg(feature = "remote")]
pub mod remote;
mod runs;
mod seals;
mod server_time;
pub mod sqlite;
mod upkeep;
mod veil;
mod written;

#[cfg(feature = "conformance")]
pub mod conformance;

pub use cards::{Card, CardPage, CardQuery, Cards};
pub use clock::{AheadClock, Clock, ManualClock};
pub use error::{CommitError, StoreError};
pub use opened::{Access, Opened};
pub use runs::{Append, Delivery, DueRuns, Inked, RunPage, RunQuery, RunRow, Runs};
pub use upkeep::{
    Audit, Belonging, Beside, CardAudit, Closed, Identity, Lost, LostRow, PartAudit, Return,
    RunAudit, Tally, Upkeep,
};

pub use veil::{KeyInfo, Keyring, Veil, read_secrets};

use random::random_hex;
use std::sync::Arc;

use async_trait::async_trait;
use semel_core::code::Code;
use semel_core::effect::{Ground, State};
use semel_core::journal::Link;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::record::{self, Effect};
use semel_core::redact::Redactor;
use semel_core::run::Run;
use semel_core::time::{Moment, Steady, Wall};
use tokio::sync::watch;

use veil::Place;

/// Where effects, runs and cards are kept.
#[async_trait]
pub trait Store: Runs + Cards {
    /// What the rules must know beyond an effect: the store's time, its epoch, a quarantine.
    fn ground(&self) -> Ground;

    /// The clock to sleep by.
    fn clock(&self) -> &Clock;

    /// Writes a batch, all or nothing. A repeat of a batch that was committed is done, too.
    async fn commit(&self, batch: Batch) -> Result<(), CommitError>;

    /// The newest generation of an effect.
    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError>;

    /// One generation of an effect.
    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError>;

    /// Effects, newest first.
    async fn list(&self, query: &Query) -> Result<Page, StoreError>;

    /// Effects that are due now, the longest waiting first, after a cursor.
    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError>;

    /// Effects whose retention may have ended.
    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError>;

    /// The session under which this process holds leases, where a lock proves it alive.
    fn session(&self) -> Option<&str>;

    /// Whether a session's process is proven dead. `false` proves nothing.
    fn is_dead(&self, session: &str) -> bool;

    /// Sessions that are proven dead and not buried yet.
    fn dead_sessions(&self) -> Vec<String>;

    /// Forgets a dead session, once all its attempts are closed. It stays dead.
    fn bury(&self, session: &str);

    /// Which secrets must not reach the store. What is chained by its text, such as the entries of
    /// a journal, is redacted by whoever makes it.
    fn redactor(&self) -> Option<&Redactor> {
        None
    }

    /// Changes when something may have been committed by anybody. A hint: correct without it.
    fn hints(&self) -> watch::Receiver<u64>;
}

/// Writes that happen together or not at all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Shared, so that a batch whose answer was lost is repeated without a copy.
    pub writes: Arc<[Write]>,
}

impl From<Write> for Batch {
    fn from(write: Write) -> Batch {
        Batch { writes: Arc::new([write]) }
    }
}

/// One guarded write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Write {
    /// Writes nothing: the store must be in this epoch. What was decided before the store went
    /// back in time is decided again.
    InEpoch(u64),
    /// The row must not exist.
    Insert(Row),
    /// The row must be at the version before.
    Update(Row),
    /// Removes all generations of a key; its newest must be at this version.
    Remove { address: Address, generation: u32, version: u64 },
    /// The run must not exist, neither its id nor its number.
    StartRun(RunRow),
    /// The run must be at the version before.
    UpdateRun(RunRow),
    /// Drops journal, inbox and large values of a run, which must be at this version. `row` stays
    /// as its tombstone; without one nothing stays.
    DropRun { namespace: String, id: String, number: i64, version: u64, row: Option<RunRow> },
    /// The entry before must be there, and nothing at its own place.
    Append(Append),
    /// Writes nothing: the run must be held under this fence, and this entry be in its journal.
    Holds { run: i64, fence: u64, seq: u64, link: Link },
    /// The run must be unfinished and the identity new. Touches the run.
    Deliver(Delivery),
    /// Marks a delivery as consumed; it must be there and not consumed.
    Consume { run: i64, identity: String },
    /// The run's version grows, and one that is parked is due at once. No guard: a run that has
    /// ended, or is gone, is left as it is.
    Touch { namespace: String, id: String, at: Steady },
    /// Keeps a large value for a run. It may be there already.
    Blob { namespace: String, digest: String, text: String, run: i64 },
    /// At its first version the card must not exist, at a later one it must be at the version
    /// before.
    Card(Card),
    /// Removes a card, which must be at this version.
    DropCard { namespace: String, kind: String, name: String, version: u64 },
}

impl Write {
    /// Inserts a first version and updates any later one.
    pub fn effect(effect: &Effect, now: &Moment) -> Write {
        let row = Row::new(effect, now);
        if row.version == 1 { Write::Insert(row) } else { Write::Update(row) }
    }

    /// Starts a run at its first version and updates it at any later one.
    pub fn run(run: &Run, now: &Moment) -> Write {
        let row = RunRow::new(run, now);
        if row.version == 1 { Write::StartRun(row) } else { Write::UpdateRun(row) }
    }

    /// Which effect is written, if it is one.
    pub fn address(&self) -> Option<&Address> {
        match self {
            Write::Insert(row) | Write::Update(row) => Some(&row.address),
            Write::Remove { address, .. } => Some(address),
            Write::InEpoch(_)
            | Write::StartRun(_)
            | Write::UpdateRun(_)
            | Write::DropRun { .. }
            | Write::Append(_)
            | Write::Holds { .. }
            | Write::Deliver(_)
            | Write::Consume { .. }
            | Write::Touch { .. }
            | Write::Blob { .. }
            | Write::Card(_)
            | Write::DropCard { .. } => None,
        }
    }

    /// Whether finding its result in the store tells that this write was done. What has no guard
    /// or leaves no result may be found so without it: alone it proves no repeat.
    pub(crate) fn is_evidence(&self) -> bool {
        match self {
            Write::Insert(_)
            | Write::Update(_)
            | Write::Remove { .. }
            | Write::StartRun(_)
            | Write::UpdateRun(_)
            | Write::DropRun { .. }
            | Write::Append(_)
            | Write::Deliver(_)
            | Write::Consume { .. }
            | Write::Card(_)
            | Write::DropCard { .. } => true,
            Write::InEpoch(_) | Write::Holds { .. } | Write::Touch { .. } | Write::Blob { .. } => {
                false
            }
        }
    }
}

/// An effect ready to be written: its record as text, and the columns to find it by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub address: Address,
    pub generation: u32,
    pub version: u64,
    pub state: State,
    pub workflow: Option<String>,
    pub created: Wall,
    pub due: Option<Steady>,
    pub sweep_at: Option<Wall>,
    pub alarmed: bool,
    /// It waits for a person's approval, as far as was known when it was written.
    pub held: bool,
    pub record: String,
    /// A checksum of the record: bytes that changed under us are found, not believed.
    pub sum: i64,
}

impl Row {
    /// Derives the columns from an effect at a moment.
    pub fn new(effect: &Effect, now: &Moment) -> Row {
        let record = record::encode(effect);
        Row {
            generation: effect.generation,
            version: effect.version,
            state: effect.state(now),
            due: effect.due(now),
            sweep_at: effect.sweep_at(),
            alarmed: !effect.alarms.is_empty(),
            held: effect.is_held(now),
            created: effect.created,
            sum: checksum(&record),
            record,
            workflow: effect.workflow.clone(),
            address: effect.address.clone(),
        }
    }
}

/// Reads an effect back from the namespace, text and checksum of its row.
pub(crate) fn read_record(
    veil: &Veil,
    namespace: &str,
    text: &str,
    sum: i64,
) -> Result<Effect, StoreError> {
    if checksum(text) != sum {
        return Err(StoreError::Corrupt("a row does not match its checksum".into()));
    }
    let text = veil.reveal(Some(namespace), Place::Effect, text)?;
    record::decode(&text)
        .map_err(|error| StoreError::Corrupt(format!("a row cannot be read: {error}")))
}

fn checksum(text: &str) -> i64 {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(text.as_bytes());
    i64::from_be_bytes(digest[..8].try_into().expect("eight bytes"))
}

/// Which effects to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// `None`: all of them.
    pub namespace: Option<Namespace>,
    pub action: Option<Action>,
    pub key: Option<Key>,
    /// The state as it was when the row was written; time may have moved it on.
    pub state: Option<State>,
    /// Only rows written as pending or in doubt: all that may be in doubt by now.
    pub unsettled: bool,
    pub alarmed: bool,
    /// Only rows written as held for approval.
    pub held: bool,
    /// Continue after this cursor.
    pub after: Option<i64>,
    pub limit: usize,
}

impl Query {
    /// Everything in a namespace.
    pub fn all(namespace: Namespace, limit: usize) -> Query {
        Query { namespace: Some(namespace), ..Query::everywhere(limit) }
    }

    /// Everything in all namespaces.
    pub fn everywhere(limit: usize) -> Query {
        Query {
            namespace: None,
            action: None,
            key: None,
            state: None,
            unsettled: false,
            alarmed: false,
            held: false,
            after: None,
            limit,
        }
    }
}

/// A page of effects and where the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    pub effects: Vec<Effect>,
    pub next: Option<i64>,
    /// Those of the page that cannot be read: one row never fails a listing.
    pub unreadable: Vec<Unreadable>,
}

/// A row that is there and cannot be read: it is damaged, or its key is not here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreadable {
    pub namespace: String,
    /// `action/key` of an effect, the id of a run, the name of a card.
    pub name: String,
    pub code: Code,
    pub why: String,
}

impl Unreadable {
    /// Sets a row aside whose own content is at fault. Any other error is everybody's.
    pub(crate) fn set_aside<T>(
        read: Result<T, StoreError>,
        namespace: &str,
        name: impl FnOnce() -> String,
    ) -> Result<Result<T, Unreadable>, StoreError> {
        match read {
            Ok(value) => Ok(Ok(value)),
            Err(
                error @ (StoreError::Corrupt(_)
                | StoreError::KeyMissing(_)
                | StoreError::KeyDropped(_)),
            ) => Ok(Err(Unreadable {
                namespace: namespace.to_owned(),
                name: name(),
                code: error.code(),
                why: error.to_string(),
            })),
            Err(error) => Err(error),
        }
    }
}

/// A place in the order of due effects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DueCursor {
    pub due_ms: i64,
    pub row: i64,
}

/// Due effects, and where to go on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DuePage {
    pub effects: Vec<(DueCursor, Effect)>,
    /// When the next one after this page becomes due.
    pub next_due: Option<Steady>,
    /// Where the next page begins, where more are due. A page may be short of rows that cannot be
    /// read.
    pub seen_to: Option<DueCursor>,
}
