//! What an operator asks of a store: what is in it, whether it is whole, and whether it went back
//! in time.

mod columns;
mod contents;

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::run::Run;
use semel_core::time::{Moment, Wall};

use crate::cards::CardKey;
use crate::{Card, CommitError, Store, StoreError};

pub(crate) use columns::{EffectColumns, RunColumns};
pub(crate) use contents::{RawJournal, blob_problem, blob_state, chain_problem, is_whole_blob};

/// A store that outlives its processes, as an operator sees it.
#[async_trait]
pub trait Upkeep: Store {
    /// Where it is, without anything secret.
    fn place(&self) -> String;

    /// The number of the newest migration it has seen.
    fn format(&self) -> i64;

    /// Looks for damage that the database itself can see.
    async fn check_pages(&self) -> Result<Vec<String>, StoreError>;

    /// Checks that the columns of each effect after a cursor are those its record asks for.
    async fn audit(&self, after: i64, limit: usize) -> Result<Audit, StoreError>;

    /// Checks each run after this number: its columns, the chain of its journal, its large values.
    async fn audit_runs(&self, after: i64, limit: usize) -> Result<RunAudit, StoreError>;

    /// Checks that what belongs to runs after this number belongs to one that is there.
    async fn audit_strays(
        &self,
        belonging: Belonging,
        after: i64,
        limit: usize,
    ) -> Result<PartAudit<i64>, StoreError>;

    /// Checks each large value after this namespace and digest.
    async fn audit_blobs(
        &self,
        after: (String, String),
        limit: usize,
    ) -> Result<PartAudit<(String, String)>, StoreError>;

    /// Checks what the store says of itself: its identity, and each time that it went back.
    async fn audit_own(&self) -> Result<PartAudit<i64>, StoreError>;

    /// Checks each intent of the outbox after this number.
    async fn audit_outbox(&self, after: i64, limit: usize) -> Result<PartAudit<i64>, StoreError>;

    /// How much there is to look after, over all namespaces: read off indexes of what is open, so
    /// that it does not grow with history, and each count ends at `most`.
    async fn tally(&self, most: u32) -> Result<Tally, StoreError>;

    /// Which store this is, and how far it has come.
    async fn identity(&self) -> Result<Identity, StoreError>;

    /// Checks each card after this namespace, kind and name.
    async fn audit_cards(
        &self,
        after: Option<(String, String, String)>,
        limit: usize,
    ) -> Result<CardAudit, StoreError>;

    /// Every time the store was found to have gone back, the newest first.
    async fn returns(&self) -> Result<Vec<Return>, StoreError>;

    /// Ends the quarantine of an epoch and of all before it; it must be the newest. Repeated, the
    /// first who closed it stands.
    async fn close_quarantine(
        &self,
        epoch: u64,
        actor: &str,
        reason: &str,
    ) -> Result<(), CommitError>;

    /// What processes remember to have written and the store has forgotten, after a cursor.
    async fn lost(&self, after: i64, limit: usize) -> Result<Vec<Lost>, StoreError>;
}

/// How much there is to look after, as the rows say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub in_doubt: u32,
    /// When the oldest effect that is in doubt was planned.
    pub oldest_in_doubt: Option<Wall>,
    /// Effects that wait for a person's approval.
    pub held: u32,
    pub alarmed: u32,
    /// Runs that have not ended, by state.
    pub runs: BTreeMap<String, u32>,
}

/// The states of runs that have not ended.
pub(crate) const OPEN_RUNS: [&str; 5] = ["ready", "running", "waiting", "paused", "cancelling"];

/// Which store it is, and how far it has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub store: String,
    pub epoch: u64,
    /// Where the store counts its commits.
    pub commits: Option<i64>,
    /// A late wall time of some commit.
    pub wall_high: Wall,
}

/// How much lies beside a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Beside {
    pub deliveries: u64,
    /// The digests of the large values that it needs.
    pub values: BTreeSet<String>,
}

/// What lies beside a run, in tables of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belonging {
    Journal,
    Inbox,
    /// Which large values it needs.
    Uses,
}

impl Belonging {
    pub const ALL: [Belonging; 3] = [Belonging::Journal, Belonging::Inbox, Belonging::Uses];

    pub(crate) fn stray(self, run: i64) -> String {
        let what = match self {
            Belonging::Journal => "a journal",
            Belonging::Inbox => "deliveries",
            Belonging::Uses => "large values",
        };
        format!("run {run}: it has {what}, but no row")
    }
}

/// One page of an audit over rows that are only compared with themselves.
#[derive(Clone, Debug)]
pub struct PartAudit<P> {
    pub count: u64,
    pub problems: Vec<String>,
    /// The last one that was looked at.
    pub next: Option<P>,
}

impl<P> Default for PartAudit<P> {
    fn default() -> PartAudit<P> {
        PartAudit { count: 0, problems: Vec::new(), next: None }
    }
}

impl<P> PartAudit<P> {
    pub(crate) fn take(&mut self, place: P, problem: Option<String>) {
        self.count += 1;
        self.problems.extend(problem);
        self.next = Some(place);
    }
}

/// One page of an audit over all effects.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    pub effects: Vec<Effect>,
    pub problems: Vec<String>,
    pub next: Option<i64>,
    /// Rows whose key was dropped: only their columns and seals can be judged.
    pub dropped: u64,
}

impl Audit {
    /// Takes one row as it was read: its columns and its record. Only damage of the row itself is
    /// a finding; a store that cannot be read ends the audit.
    pub(crate) fn take(
        &mut self,
        row: i64,
        columns: Result<EffectColumns, StoreError>,
        read: Result<Effect, StoreError>,
        now: &Moment,
    ) -> Result<(), StoreError> {
        self.next = Some(row);
        let is_dropped = matches!(read, Err(StoreError::KeyDropped(_)));
        match read.and_then(|effect| Ok((columns.clone()?, effect))) {
            Err(_) if is_dropped => {
                self.dropped += 1;
                let problem =
                    columns.map_or_else(|e| Some(e.to_string()), |one| one.seal_problem());
                self.problems.extend(problem.map(|what| format!("row {row}: {what}")));
            }
            Ok((columns, effect)) => {
                let problem = columns.problem(&effect, now);
                let named = problem.map(|what| format!("row {row} ({}): {what}", effect.address));
                self.problems.extend(named);
                self.effects.push(effect);
            }
            Err(StoreError::Corrupt(what)) => self.problems.push(format!("row {row}: {what}")),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// One page of an audit over all runs.
#[derive(Clone, Debug, Default)]
pub struct RunAudit {
    pub runs: Vec<Run>,
    /// What lies beside each, by its number.
    pub beside: BTreeMap<i64, Beside>,
    pub problems: Vec<String>,
    /// The last number that was looked at.
    pub next: Option<i64>,
    /// Runs whose key was dropped: only columns, seals and chains can be judged.
    pub dropped: u64,
}

impl RunAudit {
    /// Takes one row as it was read: its columns and its record.
    pub(crate) fn take(
        &mut self,
        number: i64,
        columns: Result<RunColumns, StoreError>,
        read: Result<Run, StoreError>,
        now: &Moment,
    ) -> Result<(), StoreError> {
        self.next = Some(number);
        let is_dropped = matches!(read, Err(StoreError::KeyDropped(_)));
        match read.and_then(|run| Ok((columns.clone()?, run))) {
            Err(_) if is_dropped => {
                self.dropped += 1;
                let seal = |columns: RunColumns| columns.seal_problem(number);
                let problem = columns.map_or_else(|error| Some(error.to_string()), seal);
                self.problems.extend(problem.map(|what| format!("run {number}: {what}")));
            }
            Ok((columns, run)) => {
                let problem = columns.problem(&run, now);
                let named = problem.map(|what| format!("run {number} ({}): {what}", run.id));
                self.problems.extend(named);
                self.runs.push(run);
            }
            Err(StoreError::Corrupt(what)) => self.problems.push(format!("run {number}: {what}")),
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

/// One page of an audit over all cards.
#[derive(Clone, Debug, Default)]
pub struct CardAudit {
    pub cards: Vec<Card>,
    pub problems: Vec<String>,
    /// Namespace, kind and name of the last one that was looked at.
    pub next: Option<(String, String, String)>,
    /// Namespace and kind of those whose key was dropped.
    pub dropped: Vec<(String, String)>,
}

impl CardAudit {
    /// Takes one card by its name, and as it was read.
    pub(crate) fn take(
        &mut self,
        key: CardKey,
        read: Result<Card, StoreError>,
    ) -> Result<(), StoreError> {
        match read {
            Ok(card) => self.cards.push(card),
            Err(StoreError::KeyDropped(_)) => self.dropped.push((key.0.clone(), key.1.clone())),
            Err(StoreError::Corrupt(what)) => {
                let (namespace, kind, name) = &key;
                self.problems.push(format!("card {namespace}/{kind}/{name}: {what}"));
            }
            Err(error) => return Err(error),
        }
        self.next = Some(key);
        Ok(())
    }
}

/// The store went back in time: a restored backup, a promoted standby that lagged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Return {
    /// The epoch that began with it.
    pub epoch: u64,
    /// When it was found.
    pub opened: Wall,
    /// The newest time the store still knew of.
    pub recovered: Wall,
    /// What gave it away.
    pub evidence: String,
    /// Who ended its quarantine; `None` while it is open.
    pub closed: Option<Closed>,
}

/// Who ended a quarantine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closed {
    pub at: Wall,
    pub actor: String,
    pub reason: String,
}

/// A row that a process had written, and that the store no longer has so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    pub cursor: i64,
    pub epoch: u64,
    pub what: LostRow,
    /// The version that was written; what is there now is older, or nothing.
    pub version: u64,
    /// Its state, as it was written.
    pub state: String,
    pub written: Wall,
    /// The process that remembers it.
    pub worker: String,
}

/// Which row was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LostRow {
    Effect { address: Address, generation: u32 },
    Run { namespace: String, id: String },
}
