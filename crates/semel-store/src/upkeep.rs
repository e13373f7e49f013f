//! What an operator asks of a store: what is in it, whether it is whole, and whether it went back
//! in time.

use async_trait::async_trait;
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::run::Run;
use semel_core::time::Wall;

use crate::{CommitError, Store, StoreError};

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

    /// Checks that each journal after this number belongs to a run.
    async fn audit_journals(&self, after: i64, limit: usize) -> Result<RunAudit, StoreError>;

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

/// One page of an audit over all effects.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    pub effects: Vec<Effect>,
    pub problems: Vec<String>,
    pub next: Option<i64>,
}

/// One page of an audit over all runs.
#[derive(Clone, Debug, Default)]
pub struct RunAudit {
    pub runs: Vec<Run>,
    pub problems: Vec<String>,
    /// The last number that was looked at.
    pub next: Option<i64>,
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
