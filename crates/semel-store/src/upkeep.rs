//! What an operator asks of a store: what is in it, whether it is whole, and whether it went back
//! in time.

use async_trait::async_trait;
use semel_core::effect;
use semel_core::journal::{Link, blob_digest, check_chain};
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::run::{self, Run};
use semel_core::time::{Moment, Wall};

use crate::cards::CardKey;
use crate::{Card, CommitError, RunRow, Runs, Store, StoreError};

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

/// One page of an audit over all effects.
#[derive(Clone, Debug, Default)]
pub struct Audit {
    pub effects: Vec<Effect>,
    pub problems: Vec<String>,
    pub next: Option<i64>,
}

impl Audit {
    /// Takes one row as it was read: its columns and its record. Only damage of the row itself is
    /// a finding; a store that cannot be read ends the audit.
    pub(crate) fn take(
        &mut self,
        row: i64,
        read: Result<(EffectColumns, Effect), StoreError>,
        now: &Moment,
    ) -> Result<(), StoreError> {
        self.next = Some(row);
        match read {
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
    pub problems: Vec<String>,
    /// The last number that was looked at.
    pub next: Option<i64>,
}

impl RunAudit {
    /// Takes one row as it was read: its columns and its record.
    pub(crate) fn take(
        &mut self,
        number: i64,
        read: Result<(RunColumns, Run), StoreError>,
        now: &Moment,
    ) -> Result<(), StoreError> {
        self.next = Some(number);
        match read {
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

/// The columns of an effect's row that its record must agree with.
pub(crate) struct EffectColumns {
    pub(crate) namespace: String,
    pub(crate) action: String,
    pub(crate) key: String,
    pub(crate) generation: u32,
    pub(crate) version: u64,
    pub(crate) state: String,
    pub(crate) sweep_at: Option<i64>,
    pub(crate) alarmed: bool,
    pub(crate) held: bool,
}

impl EffectColumns {
    /// What a column says that the record does not. Which state it is is left out: it may lag
    /// behind time.
    fn problem(&self, effect: &Effect, now: &Moment) -> Option<String> {
        let Address { namespace, action, key } = &effect.address;
        let checks = [
            (
                (&*self.namespace, &*self.action, &*self.key)
                    == (namespace.as_str(), action.as_str(), key.as_str()),
                "its name differs from its record",
            ),
            (
                (self.generation, self.version) == (effect.generation, effect.version),
                "its generation or version differs from its record",
            ),
            (
                self.sweep_at == effect.sweep_at().map(|at| at.0),
                "its retention differs from its record",
            ),
            (self.alarmed != effect.alarms.is_empty(), "its alarm mark differs from its record"),
            (self.is_held_rightly(effect, now), "its hold mark differs from its record"),
            (effect::State::parse(&self.state).is_some(), "its state is none of ours"),
        ];
        checks.iter().find(|(is_right, _)| !is_right).map(|(_, what)| (*what).to_owned())
    }
}

impl EffectColumns {
    /// Time may have ended a hold since it was written, but begins none.
    fn is_held_rightly(&self, effect: &Effect, now: &Moment) -> bool {
        let is_open = effect.approval.as_ref().is_some_and(|asked| asked.judgement.is_none());
        if self.held { is_open } else { !effect.is_held(now) }
    }
}

/// The columns of a run's row that its record must agree with.
pub(crate) struct RunColumns {
    pub(crate) namespace: String,
    pub(crate) id: String,
    pub(crate) workflow: String,
    pub(crate) key: String,
    pub(crate) lane: String,
    pub(crate) state: String,
    pub(crate) parked: bool,
    pub(crate) created_at: i64,
    pub(crate) wakes: bool,
    pub(crate) waits_on: Option<String>,
    pub(crate) queue: Option<String>,
    pub(crate) sweep_at: Option<i64>,
}

impl RunColumns {
    /// What a column says that the record does not.
    fn problem(&self, run: &Run, now: &Moment) -> Option<String> {
        let wanted = RunRow::new(run, now);
        // A touch makes a parked run due that waits for no time of its own.
        let may_wake = wanted.wake_at.is_some() || wanted.parked;
        let wakes_rightly = if self.wakes { may_wake } else { wanted.wake_at.is_none() };
        let checks = [
            (self.namespace == wanted.namespace && self.id == wanted.id, "name"),
            (self.workflow == wanted.workflow && self.key == wanted.key, "workflow or key"),
            (self.lane == wanted.lane, "lane"),
            (run::State::parse(&self.state) == Some(wanted.state), "state"),
            (self.parked == wanted.parked, "park mark"),
            (self.created_at == wanted.created.0, "time of creation"),
            (wakes_rightly, "time to wake"),
            (self.waits_on == wanted.waits_on, "wait"),
            (self.queue == wanted.queue, "queue"),
            (self.sweep_at == wanted.sweep_at.map(|at| at.0), "retention"),
        ];
        let wrong = checks.iter().find(|(is_right, _)| !is_right);
        wrong.map(|(_, what)| format!("its {what} differs from its record"))
    }
}

/// How many entries of a journal are read at once.
const ENTRIES: usize = 256;

/// Walks the journal of a run from its first entry; says where the chain breaks.
pub(crate) async fn chain_problem(
    store: &(impl Runs + ?Sized),
    number: i64,
    namespace: &str,
    id: &str,
) -> Result<Option<String>, StoreError> {
    let mut link = Link::of_run(namespace, id);
    let mut from = 0;
    loop {
        let entries = match store.journal(number, from, ENTRIES).await {
            Err(StoreError::Corrupt(what)) => return Ok(Some(what)),
            entries => entries?,
        };
        // The chain counts from where this page begins.
        let page = entries.iter().map(|entry| (entry.seq - from, entry.link, &*entry.text));
        match check_chain(link, page) {
            Ok(last) => link = last,
            Err(problem) if from == 0 => return Ok(Some(problem)),
            Err(problem) => return Ok(Some(format!("from entry {from} on, {problem}"))),
        }
        if entries.len() < ENTRIES {
            return Ok(None);
        }
        from += entries.len() as u64;
    }
}

/// What is wrong with the large values that a run needs, each by its digest and as it was found.
pub(crate) fn blob_problem(found: &[(String, Option<String>)]) -> Option<String> {
    found.iter().find_map(|(digest, text)| match text {
        Some(text) if blob_digest(text) == *digest => None,
        Some(_) => Some(format!("its value {digest} was changed")),
        None => Some(format!("its value {digest} is missing")),
    })
}
