//! Runs as rows, reading: the statements, all of them with bound parameters only.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use semel_core::journal::Link;
use semel_core::limits;
use semel_core::run::{CODELESS_LANES, Run};
use semel_core::time::{Steady, Wall};

use super::reader::ReadError;
use super::seals;
use super::walk::{Passed, Step, is_asked_run, runs_text};
use crate::readable::readable;
use crate::runs::read_run;
use crate::veil::Veil;
use crate::{Delivery, DueRuns, Inked, RunPage, RunQuery, RunRow, StoreError, Unreadable};

const RUN: &str = "SELECT number, namespace, version, fence, record, sum FROM runs \
     WHERE namespace = ?1 AND id = ?2";

pub(super) fn run(
    connection: &Connection,
    veil: &Veil,
    namespace: &str,
    id: &str,
) -> Result<Option<Run>, ReadError> {
    let mut statement = connection.prepare_cached(RUN)?;
    let mut rows = statement.query(params![namespace, id])?;
    rows.next()?.map(|row| read(row, veil)).transpose()
}

pub(super) fn read(row: &SqlRow<'_>, veil: &Veil) -> Result<Run, ReadError> {
    let (namespace, record): (String, String) = (row.get("namespace")?, row.get("record")?);
    let name = (namespace.as_str(), row.get("number")?);
    let run = read_run(veil, name, &record, row.get("sum")?, row.get("version")?)?;
    // Guards compare the columns; were they not those of the record, they would guard nothing.
    if run.number != name.1 || run.fence != row.get::<_, u64>("fence")? {
        return Err(StoreError::Corrupt("a run's columns differ from its record".into()).into());
    }
    Ok(run)
}

/// Whether a run was written as this row says. A touch may have moved its version on since.
pub(super) fn has_run(connection: &Connection, row: &RunRow) -> rusqlite::Result<bool> {
    let text = "SELECT version >= ?2 AND record = ?3 FROM runs WHERE number = ?1";
    let mut statement = connection.prepare_cached(text)?;
    let found = statement.query_row(params![row.number, row.version, row.record], |row| row.get(0));
    Ok(found.optional()? == Some(true))
}

pub(super) fn has_number(connection: &Connection, number: i64) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM runs WHERE number = ?1")?.exists([number])
}

/// Whose run it is.
pub(super) fn namespace_of(
    connection: &Connection,
    number: i64,
) -> rusqlite::Result<Option<String>> {
    let mut statement =
        connection.prepare_cached("SELECT namespace FROM runs WHERE number = ?1")?;
    statement.query_row([number], |row| row.get(0)).optional()
}

pub(super) fn uses_blob(
    connection: &Connection,
    namespace: &str,
    digest: &str,
    run: i64,
) -> rusqlite::Result<bool> {
    let text = "SELECT 1 FROM blob_uses WHERE namespace = ?1 AND digest = ?2 AND run = ?3";
    connection.prepare_cached(text)?.exists(params![namespace, digest, run])
}

const JOURNAL: &str = "SELECT seq, link, entry FROM journal WHERE run = ?1 AND seq >= ?2 \
     ORDER BY seq LIMIT ?3";

const LAST_ENTRY: &str =
    "SELECT seq, link, entry FROM journal WHERE run = ?1 ORDER BY seq DESC LIMIT 1";

pub(super) fn journal(
    connection: &Connection,
    run: i64,
    from: u64,
    limit: usize,
) -> Result<Vec<Inked>, ReadError> {
    // A place beyond SQLite's numbers is beyond every journal.
    let Ok(from) = i64::try_from(from) else { return Ok(Vec::new()) };
    let mut statement = connection.prepare_cached(JOURNAL)?;
    let found = statement.query_map(params![run, from, sql_limit(limit)], inked)?;
    Ok(found.collect::<Result<_, _>>()?)
}

pub(super) fn last_entry(connection: &Connection, run: i64) -> Result<Option<Inked>, ReadError> {
    let mut statement = connection.prepare_cached(LAST_ENTRY)?;
    Ok(statement.query_row([run], inked).optional()?)
}

fn inked(row: &SqlRow<'_>) -> rusqlite::Result<Inked> {
    Ok(Inked { seq: row.get(0)?, link: Link(row.get(1)?), text: row.get(2)? })
}

/// All columns: a file that is only looked at may have fewer.
const INBOX: &str = "SELECT * FROM inbox WHERE run = ?1 AND consumed = 0 ORDER BY number";

const DELIVERY: &str = "SELECT * FROM inbox WHERE run = ?1 AND identity = ?2";

pub(super) fn inbox(connection: &Connection, run: i64) -> Result<Vec<Delivery>, ReadError> {
    let has_seals = seals::has_seals(connection)?;
    let mut statement = connection.prepare_cached(INBOX)?;
    let mut rows = statement.query([run])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        found.push(delivered(row, has_seals)?);
    }
    Ok(found)
}

pub(super) fn delivery(
    connection: &Connection,
    run: i64,
    identity: &str,
) -> Result<Option<Delivery>, ReadError> {
    let has_seals = seals::has_seals(connection)?;
    let mut statement = connection.prepare_cached(DELIVERY)?;
    let mut rows = statement.query(params![run, identity])?;
    rows.next()?.map(|row| delivered(row, has_seals)).transpose()
}

pub(super) fn delivered(row: &SqlRow<'_>, has_seals: bool) -> Result<Delivery, ReadError> {
    let delivery = Delivery {
        run: row.get("run")?,
        number: row.get("number")?,
        identity: row.get("identity")?,
        name: row.get("name")?,
        payload: row.get("payload")?,
        at: Wall(row.get("at")?),
        consumed: seals::mark(row, "consumed")?,
    };
    match seals::found(row, has_seals)? {
        Some(seal) => Ok(delivery.checked(&seal)?),
        None => Ok(delivery),
    }
}

pub(super) fn blob(
    connection: &Connection,
    namespace: &str,
    digest: &str,
) -> Result<Option<String>, ReadError> {
    let text = "SELECT text FROM blobs WHERE namespace = ?1 AND digest = ?2";
    let mut statement = connection.prepare_cached(text)?;
    Ok(statement.query_row(params![namespace, digest], |row| row.get(0)).optional()?)
}

const DUE: &str = "SELECT number, wake_at, namespace, version, fence, record, sum FROM runs \
     INDEXED BY runs_wake WHERE lane = ?1 AND wake_at IS NOT NULL \
     ORDER BY wake_at, number LIMIT ?2";

pub(super) fn due(
    connection: &Connection,
    veil: &Veil,
    now: Steady,
    lane: &str,
    limit: usize,
) -> Result<DueRuns, ReadError> {
    let mut statement = connection.prepare_cached(DUE)?;
    let most = sql_limit(limit.saturating_add(limits::UNREADABLE_ROWS_MAX)).saturating_add(1);
    let mut rows = statement.query(params![lane, most])?;
    let mut due = DueRuns::default();
    while let Some(row) = rows.next()? {
        let wake_ms: i64 = row.get("wake_at")?;
        if due.runs.len() == limit || wake_ms > now.ms {
            due.next = Some(Steady { ms: wake_ms, ..now });
            break;
        }
        due.runs.extend(work(row, veil)?);
    }
    Ok(due)
}

/// A run that somebody may have to see to, if it can be read.
fn work(row: &SqlRow<'_>, veil: &Veil) -> Result<Option<Run>, ReadError> {
    let namespace: String = row.get("namespace").unwrap_or_default();
    Ok(readable("run", &namespace, read(row, veil).map_err(StoreError::from))?)
}

const NEXT_CODELESS: &str = "SELECT lane FROM runs INDEXED BY runs_wake \
     WHERE lane > ?1 AND lane < ?2 AND wake_at IS NOT NULL ORDER BY lane LIMIT 1";

/// One step in the index for each lane, however many runs it has.
pub(super) fn codeless_lanes(
    connection: &Connection,
    after: &str,
    limit: usize,
) -> Result<Vec<String>, ReadError> {
    let (first, end) = CODELESS_LANES;
    let mut statement = connection.prepare_cached(NEXT_CODELESS)?;
    let mut lanes: Vec<String> = Vec::new();
    while lanes.len() < limit {
        let before = lanes.last().map_or(after.max(first), String::as_str);
        let next = statement.query_row(params![before, end], |row| row.get(0)).optional()?;
        let Some(next) = next else { break };
        lanes.push(next);
    }
    Ok(lanes)
}

const NEXT_QUEUED: &str = "SELECT number, namespace, version, fence, record, sum FROM runs \
     INDEXED BY runs_queue WHERE queue = ?1 AND queue IS NOT NULL ORDER BY number LIMIT 1";

pub(super) fn next_queued(
    connection: &Connection,
    veil: &Veil,
    queue: &str,
) -> Result<Option<Run>, ReadError> {
    let mut statement = connection.prepare_cached(NEXT_QUEUED)?;
    let mut rows = statement.query([queue])?;
    rows.next()?.map(|row| read(row, veil)).transpose()
}

pub(super) fn list(
    connection: &Connection,
    veil: &Veil,
    query: &RunQuery,
) -> Result<RunPage, ReadError> {
    let mut statement = connection.prepare_cached(&runs_text(query))?;
    let mut rows = statement.query(params![query.after.unwrap_or(i64::MAX)])?;
    let mut page = RunPage::default();
    let mut passed = Passed::up_to(query.limit);
    while let Some(row) = rows.next()? {
        match passed.step(row.get(0)?, is_asked_run(row, query)?) {
            Step::Show => {
                let (namespace, id): (String, String) = (row.get(1)?, row.get("id")?);
                let read = read(row, veil).map_err(StoreError::from);
                match Unreadable::set_aside(read, &namespace, || id)? {
                    Ok(run) => page.runs.push(run),
                    Err(unreadable) => page.unreadable.push(unreadable),
                }
            }
            Step::PassOver => {}
            Step::End(next) => {
                page.next = next;
                break;
            }
        }
    }
    Ok(page)
}

const SWEEPABLE: &str = "SELECT number, namespace, version, fence, record, sum FROM runs \
     WHERE sweep_at IS NOT NULL AND sweep_at <= ?1 ORDER BY sweep_at, number LIMIT ?2";

pub(super) fn sweepable(
    connection: &Connection,
    veil: &Veil,
    now: Wall,
    limit: usize,
) -> Result<Vec<Run>, ReadError> {
    let mut statement = connection.prepare_cached(SWEEPABLE)?;
    let most = sql_limit(limit.saturating_add(limits::UNREADABLE_ROWS_MAX));
    let mut rows = statement.query(params![now.0, most])?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        found.extend(work(row, veil)?);
    }
    Ok(found)
}

pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
