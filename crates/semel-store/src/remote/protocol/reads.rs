//! Reads: what is asked, and the runs that are answered.

use std::borrow::Cow;

use semel_core::effect::State;
use semel_core::key::{Action, Key, Namespace};
use semel_core::record::Effect;
use semel_core::run::{self, Run};
use semel_core::time::Steady;
use serde::{Deserialize, Serialize};

use super::{AddressShape, Malformed};
use crate::{CardQuery, DueCursor, Query, RunQuery};

/// A question to a store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Read<'a> {
    Load {
        address: AddressShape<'a>,
    },
    LoadGeneration {
        address: AddressShape<'a>,
        generation: u32,
    },
    List(QueryShape<'a>),
    Due {
        after: Option<(i64, i64)>,
        limit: usize,
    },
    Sweepable {
        limit: usize,
    },
    Run {
        namespace: Cow<'a, str>,
        id: Cow<'a, str>,
    },
    NamespaceOf {
        run: i64,
    },
    Journal {
        run: i64,
        from: u64,
        limit: usize,
    },
    LastEntry {
        run: i64,
    },
    Inbox {
        run: i64,
    },
    Delivery {
        run: i64,
        identity: Cow<'a, str>,
    },
    Blob {
        namespace: Cow<'a, str>,
        digest: Cow<'a, str>,
    },
    /// Waits so long for a run to become due, where none is.
    DueRuns {
        lane: Cow<'a, str>,
        limit: usize,
        wait_ms: u64,
    },
    NextQueued {
        queue: Cow<'a, str>,
    },
    ListRuns(RunQueryShape<'a>),
    SweepableRuns {
        limit: usize,
    },
    Card {
        namespace: Cow<'a, str>,
        kind: Cow<'a, str>,
        name: Cow<'a, str>,
    },
    Cards(CardQueryShape<'a>),
    DueCards {
        kind: Cow<'a, str>,
        limit: usize,
    },
}

/// Which effects to list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QueryShape<'a> {
    pub namespace: Option<Cow<'a, str>>,
    pub action: Option<Cow<'a, str>>,
    pub key: Option<Cow<'a, str>>,
    pub state: Option<Cow<'a, str>>,
    pub unsettled: bool,
    pub alarmed: bool,
    pub held: bool,
    pub after: Option<i64>,
    pub limit: usize,
}

impl<'a> From<&'a Query> for QueryShape<'a> {
    fn from(query: &'a Query) -> QueryShape<'a> {
        QueryShape {
            namespace: query.namespace.as_ref().map(|name| name.as_str().into()),
            action: query.action.as_ref().map(|action| action.as_str().into()),
            key: query.key.as_ref().map(|key| key.as_str().into()),
            state: query.state.map(|state| state.as_str().into()),
            unsettled: query.unsettled,
            alarmed: query.alarmed,
            held: query.held,
            after: query.after,
            limit: query.limit,
        }
    }
}

impl QueryShape<'_> {
    /// Checks the names.
    pub fn read(&self) -> Result<Query, Malformed> {
        let QueryShape { unsettled, alarmed, held, after, limit, .. } = *self;
        Ok(Query {
            namespace: checked(&self.namespace, Namespace::stored)?,
            action: checked(&self.action, Action::new)?,
            key: checked(&self.key, Key::parse)?,
            state: named(&self.state, |name| {
                State::ALL.into_iter().find(|state| state.as_str() == name)
            })?,
            unsettled,
            alarmed,
            held,
            after,
            limit,
        })
    }
}

/// Which runs to list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunQueryShape<'a> {
    pub namespace: Option<Cow<'a, str>>,
    pub workflow: Option<Cow<'a, str>>,
    pub key: Option<Cow<'a, str>>,
    pub state: Option<Cow<'a, str>>,
    pub after: Option<i64>,
    pub limit: usize,
}

impl<'a> From<&'a RunQuery> for RunQueryShape<'a> {
    fn from(query: &'a RunQuery) -> RunQueryShape<'a> {
        RunQueryShape {
            namespace: query.namespace.as_deref().map(Cow::from),
            workflow: query.workflow.as_deref().map(Cow::from),
            key: query.key.as_deref().map(Cow::from),
            state: query.state.map(|state| state.as_str().into()),
            after: query.after,
            limit: query.limit,
        }
    }
}

impl RunQueryShape<'_> {
    /// Checks the state.
    pub fn read(&self) -> Result<RunQuery, Malformed> {
        let owned = |text: &Option<Cow<'_, str>>| text.as_ref().map(|text| text.as_ref().into());
        Ok(RunQuery {
            namespace: owned(&self.namespace),
            workflow: owned(&self.workflow),
            key: owned(&self.key),
            state: named(&self.state, run::State::parse)?,
            after: self.after,
            limit: self.limit,
        })
    }
}

/// Which cards to list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CardQueryShape<'a> {
    pub namespace: Option<Cow<'a, str>>,
    pub kind: Cow<'a, str>,
    pub after: Option<(Cow<'a, str>, Cow<'a, str>)>,
    pub limit: usize,
}

impl<'a> From<&'a CardQuery> for CardQueryShape<'a> {
    fn from(query: &'a CardQuery) -> CardQueryShape<'a> {
        let after = query.after.as_ref();
        CardQueryShape {
            namespace: query.namespace.as_deref().map(Cow::from),
            kind: (&query.kind).into(),
            after: after.map(|(namespace, name)| (namespace.into(), name.into())),
            limit: query.limit,
        }
    }
}

impl From<CardQueryShape<'_>> for CardQuery {
    fn from(shape: CardQueryShape<'_>) -> CardQuery {
        let CardQueryShape { namespace, kind, after, limit } = shape;
        CardQuery {
            namespace: namespace.map(Cow::into_owned),
            kind: kind.into_owned(),
            after: after.map(|(namespace, name)| (namespace.into_owned(), name.into_owned())),
            limit,
        }
    }
}

fn checked<T, E: ToString>(
    text: &Option<Cow<'_, str>>,
    read: impl Fn(&str) -> Result<T, E>,
) -> Result<Option<T>, Malformed> {
    let read = |text: &Cow<'_, str>| read(text).map_err(|error| Malformed(error.to_string()));
    text.as_ref().map(read).transpose()
}

fn named<T>(
    text: &Option<Cow<'_, str>>,
    read: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Malformed> {
    let read =
        |text: &Cow<'_, str>| read(text).ok_or_else(|| Malformed(format!("`{text}` is no state")));
    text.as_ref().map(read).transpose()
}

/// Effects that are due, and how far the server has looked where it did not look to the end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DueSeen {
    pub effects: Vec<((i64, i64), Effect)>,
    pub next_due: Option<Steady>,
    pub seen_to: Option<(i64, i64)>,
}

/// A run and its version, which its record does not say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunSeen(u64, Run);

impl From<Run> for RunSeen {
    fn from(run: Run) -> RunSeen {
        RunSeen(run.version, run)
    }
}

impl From<RunSeen> for Run {
    fn from(RunSeen(version, run): RunSeen) -> Run {
        Run { version, ..run }
    }
}

impl From<(i64, i64)> for DueCursor {
    fn from((due_ms, row): (i64, i64)) -> DueCursor {
        DueCursor { due_ms, row }
    }
}
