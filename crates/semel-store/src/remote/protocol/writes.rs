//! Writes, in both directions.

use std::borrow::Cow;

use semel_core::effect::State;
use semel_core::limits;
use semel_core::record;
use semel_core::run;
use semel_core::time::{Moment, Steady, Wall};
use serde::{Deserialize, Serialize};

use super::shapes::{AddressShape, CardShape, DeliveryShape, LinkShape};
use crate::{Append, Batch, Row, RunRow, Write, checksum};

/// Why a write that came over the wire is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// One guarded write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WriteShape<'a> {
    InEpoch(u64),
    Insert(RowShape<'a>),
    Update(RowShape<'a>),
    Remove {
        address: AddressShape<'a>,
        generation: u32,
        version: u64,
    },
    StartRun(RunRowShape<'a>),
    UpdateRun(RunRowShape<'a>),
    DropRun {
        namespace: Cow<'a, str>,
        id: Cow<'a, str>,
        number: i64,
        version: u64,
        row: Option<RunRowShape<'a>>,
    },
    Append {
        run: i64,
        seq: u64,
        after: LinkShape,
        link: LinkShape,
        text: Cow<'a, str>,
    },
    Holds {
        run: i64,
        fence: u64,
        seq: u64,
        link: LinkShape,
    },
    Deliver(DeliveryShape<'a>),
    Consume {
        run: i64,
        identity: Cow<'a, str>,
    },
    Touch {
        namespace: Cow<'a, str>,
        id: Cow<'a, str>,
        at: Steady,
    },
    Blob {
        namespace: Cow<'a, str>,
        digest: Cow<'a, str>,
        text: Cow<'a, str>,
        run: i64,
    },
    Card(CardShape<'a>),
    DropCard {
        namespace: Cow<'a, str>,
        kind: Cow<'a, str>,
        name: Cow<'a, str>,
        version: u64,
    },
}

/// An effect's row: its record, and the columns as the sender derived them. Whoever reads it
/// derives them anew: nobody is found by a time or a state that his record does not say.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RowShape<'a> {
    pub record: Cow<'a, str>,
    pub state: Cow<'a, str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Steady>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_at: Option<Wall>,
    pub alarmed: bool,
    pub held: bool,
}

/// A run's row: its record, its version, and when it is due, which whoever reads it derives anew.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunRowShape<'a> {
    pub record: Cow<'a, str>,
    pub version: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wake_at: Option<Steady>,
}

impl<'a> From<&'a Row> for RowShape<'a> {
    fn from(row: &'a Row) -> RowShape<'a> {
        RowShape {
            record: (&row.record).into(),
            state: row.state.as_str().into(),
            due: row.due,
            sweep_at: row.sweep_at,
            alarmed: row.alarmed,
            held: row.held,
        }
    }
}

impl RowShape<'_> {
    fn read(self, now: &Moment) -> Result<Row, Malformed> {
        let malformed = |error: String| Malformed(format!("an effect cannot be read: {error}"));
        let effect = record::decode(&self.record).map_err(malformed)?;
        if State::parse(&self.state).is_none() {
            return Err(Malformed(format!("`{}` is not a state", self.state)));
        }
        Ok(Row {
            generation: effect.generation,
            version: number(effect.version)?,
            state: effect.state(now),
            due: effect.due(now),
            sweep_at: effect.sweep_at(),
            alarmed: !effect.alarms.is_empty(),
            held: effect.is_held(now),
            workflow: effect.workflow,
            created: effect.created,
            sum: checksum(&self.record),
            record: self.record.into_owned(),
            address: effect.address,
        })
    }
}

impl<'a> From<&'a RunRow> for RunRowShape<'a> {
    fn from(row: &'a RunRow) -> RunRowShape<'a> {
        RunRowShape { record: (&row.record).into(), version: row.version, wake_at: row.wake_at }
    }
}

impl RunRowShape<'_> {
    fn read(self, now: &Moment) -> Result<RunRow, Malformed> {
        let malformed = |error: String| Malformed(format!("a run cannot be read: {error}"));
        let run = run::decode(&self.record, number(self.version)?).map_err(malformed)?;
        number(run.fence)?;
        let derived = RunRow::new(&run, now);
        // The text stays as it came: a repeat of the batch is known by it.
        let record = self.record.into_owned();
        Ok(RunRow { sum: checksum(&record), record, ..derived })
    }
}

/// A count that every database can hold: one it cannot would fail everybody's commit.
fn number(count: u64) -> Result<u64, Malformed> {
    // With room above: what is counted on must fit, too.
    let is_held = count <= 1 << 53;
    is_held.then_some(count).ok_or_else(|| Malformed(format!("{count} is too large")))
}

impl<'a> From<&'a Write> for WriteShape<'a> {
    fn from(write: &'a Write) -> WriteShape<'a> {
        match write {
            Write::InEpoch(epoch) => WriteShape::InEpoch(*epoch),
            Write::Insert(row) => WriteShape::Insert(row.into()),
            Write::Update(row) => WriteShape::Update(row.into()),
            Write::Remove { address, generation, version } => WriteShape::Remove {
                address: address.into(),
                generation: *generation,
                version: *version,
            },
            Write::StartRun(row) => WriteShape::StartRun(row.into()),
            Write::UpdateRun(row) => WriteShape::UpdateRun(row.into()),
            Write::DropRun { namespace, id, number, version, row } => WriteShape::DropRun {
                namespace: namespace.into(),
                id: id.into(),
                number: *number,
                version: *version,
                row: row.as_ref().map(RunRowShape::from),
            },
            Write::Append(Append { run, seq, after, link, text }) => WriteShape::Append {
                run: *run,
                seq: *seq,
                after: LinkShape(*after),
                link: LinkShape(*link),
                text: text.into(),
            },
            Write::Holds { run, fence, seq, link } => {
                WriteShape::Holds { run: *run, fence: *fence, seq: *seq, link: LinkShape(*link) }
            }
            Write::Deliver(delivery) => WriteShape::Deliver(delivery.into()),
            Write::Consume { run, identity } => {
                WriteShape::Consume { run: *run, identity: identity.into() }
            }
            Write::Touch { namespace, id, at } => {
                WriteShape::Touch { namespace: namespace.into(), id: id.into(), at: *at }
            }
            Write::Blob { namespace, digest, text, run } => WriteShape::Blob {
                namespace: namespace.into(),
                digest: digest.into(),
                text: text.into(),
                run: *run,
            },
            Write::Card(card) => WriteShape::Card(card.into()),
            Write::DropCard { namespace, kind, name, version } => WriteShape::DropCard {
                namespace: namespace.into(),
                kind: kind.into(),
                name: name.into(),
                version: *version,
            },
        }
    }
}

impl WriteShape<'_> {
    /// The write at a moment of the store, if it is one that a store may be handed.
    pub fn read(self, now: &Moment) -> Result<Write, Malformed> {
        Ok(match self {
            WriteShape::InEpoch(epoch) => Write::InEpoch(number(epoch)?),
            WriteShape::Insert(row) => Write::Insert(row.read(now)?),
            WriteShape::Update(row) => Write::Update(row.read(now)?),
            WriteShape::Remove { address, generation, version } => {
                Write::Remove { address: address.read()?, generation, version: number(version)? }
            }
            WriteShape::StartRun(row) => Write::StartRun(row.read(now)?),
            WriteShape::UpdateRun(row) => Write::UpdateRun(row.read(now)?),
            WriteShape::DropRun { namespace, id, number: run, version, row } => {
                read_drop((namespace, id, run), version, row, now)?
            }
            WriteShape::Append { run, seq, after, link, text } => Write::Append(Append {
                run,
                seq: number(seq)?,
                after: after.0,
                link: link.0,
                text: text.into_owned(),
            }),
            WriteShape::Holds { run, fence, seq, link } => {
                Write::Holds { run, fence: number(fence)?, seq: number(seq)?, link: link.0 }
            }
            WriteShape::Deliver(delivery) => Write::Deliver(delivery.into()),
            WriteShape::Consume { run, identity } => {
                Write::Consume { run, identity: identity.into_owned() }
            }
            // What is touched is due from now on.
            WriteShape::Touch { namespace, id, at: _ } => {
                let at = now.steady;
                Write::Touch { namespace: namespace.into_owned(), id: id.into_owned(), at }
            }
            WriteShape::Blob { namespace, digest, text, run } => Write::Blob {
                namespace: namespace.into_owned(),
                digest: digest.into_owned(),
                text: text.into_owned(),
                run,
            },
            WriteShape::Card(card) => {
                number(card.version)?;
                Write::Card(card.into())
            }
            WriteShape::DropCard { namespace, kind, name, version } => Write::DropCard {
                namespace: namespace.into_owned(),
                kind: kind.into_owned(),
                name: name.into_owned(),
                version: number(version)?,
            },
        })
    }

    /// A whole batch as it travels.
    pub fn encode(batch: &Batch) -> String {
        let shapes: Vec<WriteShape<'_>> = batch.writes.iter().map(WriteShape::from).collect();
        serde_json::to_string(&shapes).expect("writes are plain data")
    }

    /// Reads a whole batch at a moment of the store. It has at most as many writes as an engine
    /// ever makes at once.
    pub fn decode(text: &str, now: &Moment) -> Result<Batch, Malformed> {
        let malformed = |error: serde_json::Error| Malformed(format!("no batch: {error}"));
        let shapes: Vec<WriteShape<'_>> = serde_json::from_str(text).map_err(malformed)?;
        if shapes.len() > limits::BATCH_WRITES_MAX {
            let max = limits::BATCH_WRITES_MAX;
            return Err(Malformed(format!("a batch has at most {max} writes")));
        }
        let writes = shapes.into_iter().map(|shape| shape.read(now));
        let writes = writes.collect::<Result<Vec<_>, _>>()?;
        writes.iter().try_for_each(check_texts)?;
        Ok(Batch { writes: writes.into() })
    }
}

/// Names that rows are found by, at most.
const NAME_BYTES_MAX: usize = 1_024;

/// Whether every database can hold the texts of a write: one it cannot would fail the commits of
/// all that came with it.
fn check_texts(write: &Write) -> Result<(), Malformed> {
    let (names, text) = texts(write);
    if names.iter().any(|name| name.len() > NAME_BYTES_MAX) {
        return Err(Malformed("a name is too long".into()));
    }
    match names.iter().any(|name| name.contains('\0')) || text.contains('\0') {
        true => Err(Malformed("a text has a zero byte".into())),
        false => Ok(()),
    }
}

/// The names in a write, and the text that is no JSON for sure.
fn texts(write: &Write) -> (Vec<&str>, &str) {
    match write {
        Write::InEpoch(_) | Write::Holds { .. } => (Vec::new(), ""),
        Write::Insert(row) | Write::Update(row) => {
            let Row { address, workflow, .. } = row;
            let names = [address.action.as_str(), address.key.as_str()].into_iter();
            (names.chain(workflow.as_deref()).collect(), "")
        }
        Write::Remove { address, .. } => (vec![address.action.as_str(), address.key.as_str()], ""),
        Write::StartRun(row) | Write::UpdateRun(row) => (names_of_run(row), ""),
        Write::DropRun { namespace, id, row, .. } => {
            let of_row = row.as_ref().map(names_of_run).unwrap_or_default();
            ([namespace.as_str(), id].into_iter().chain(of_row).collect(), "")
        }
        Write::Append(Append { text, .. }) => (Vec::new(), text),
        Write::Deliver(delivery) => (vec![&delivery.identity, &delivery.name], &delivery.payload),
        Write::Consume { identity, .. } => (vec![identity], ""),
        Write::Touch { namespace, id, .. } => (vec![namespace, id], ""),
        Write::Blob { namespace, digest, text, .. } => (vec![namespace, digest], text),
        Write::Card(card) => (vec![&card.namespace, &card.kind, &card.name], &card.record),
        Write::DropCard { namespace, kind, name, .. } => (vec![namespace, kind, name], ""),
    }
}

fn names_of_run(row: &RunRow) -> Vec<&str> {
    let names = [&row.namespace, &row.id, &row.workflow, &row.key, &row.lane].map(String::as_str);
    names.into_iter().chain(row.queue.as_deref()).collect()
}

/// A tombstone is that of the run that is dropped, and of no other.
fn read_drop(
    (namespace, id, run): (Cow<'_, str>, Cow<'_, str>, i64),
    version: u64,
    row: Option<RunRowShape<'_>>,
    now: &Moment,
) -> Result<Write, Malformed> {
    let row = row.map(|row| row.read(now)).transpose()?;
    let is_its = |row: &RunRow| row.namespace == namespace && row.id == id && row.number == run;
    if row.as_ref().is_some_and(|row| !is_its(row)) {
        return Err(Malformed("the tombstone is another run's".into()));
    }
    let (namespace, id) = (namespace.into_owned(), id.into_owned());
    Ok(Write::DropRun { namespace, id, number: run, version: number(version)?, row })
}
