//! Seals in a file: the function that statements call, what they seal, and whether it still fits.

use rusqlite::functions::{Context, FunctionFlags};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use semel_core::seal::{Seal, Value, seal};

use super::reader::ReadError;
use super::run_rows::{delivered, sql_limit};
use super::standing;
use crate::seals::check;
use crate::upkeep::is_whole_blob;
use crate::veil::Veil;
use crate::{Belonging, PartAudit, StoreError};

/// The format that brought seals.
pub(super) const SEALS_FORMAT: i64 = 5;

/// Seals rows of each table anew, after a statement that has changed many of them.
pub(super) const RESEAL_DUE: [&str; 2] = [
    "UPDATE effects SET seal = semel_seal('effect', namespace, action, key, generation, version, \
     state, workflow, created_at, due_at, sweep_at, alarmed, held, sum) WHERE due_at IS NOT NULL",
    "UPDATE runs SET seal = semel_seal('run', number, namespace, id, version, workflow, key, \
     lane, state, parked, fence, created_at, wake_at, waits_on, queue, sweep_at, sum) \
     WHERE wake_at IS NOT NULL",
];

pub(super) const RESEAL_META: &str = "UPDATE meta SET seal = \
     semel_seal('meta', store_id, epoch, commits, wall_high, boot_id, boot)";

pub(super) const RESEAL_RETURNS: &str = "UPDATE returns SET seal = semel_seal('return', epoch, \
     opened_at, recovered_at, evidence, closed_at, closed_by, close_reason) \
     WHERE epoch <= ?1 AND closed_at IS ?2";

/// Makes `semel_seal` known to a connection.
pub(super) fn register(connection: &Connection) -> rusqlite::Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    connection
        .create_scalar_function("semel_seal", -1, flags, |context| Ok(sealed(context)?.0.to_vec()))
}

fn sealed(context: &Context<'_>) -> rusqlite::Result<Seal> {
    let table = context.get::<String>(0)?;
    let values = (1..context.len()).map(|place| match context.get_raw(place) {
        ValueRef::Null => Ok(Value::Nothing),
        ValueRef::Integer(number) => Ok(Value::Number(number)),
        ValueRef::Text(text) => {
            let text = std::str::from_utf8(text);
            Ok(Value::Text(text.map_err(|error| rusqlite::Error::Utf8Error(place, error))?))
        }
        ValueRef::Real(_) | ValueRef::Blob(_) => {
            Err(rusqlite::Error::InvalidFunctionParameterType(
                place,
                context.get_raw(place).data_type(),
            ))
        }
    });
    Ok(seal(&table, &values.collect::<rusqlite::Result<Vec<_>>>()?))
}

/// Whether the rows of a file have seals: one of an older format that is only looked at has none.
pub(super) fn has_seals(connection: &Connection) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("PRAGMA user_version")?;
    let found: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(found >= SEALS_FORMAT)
}

/// The seal that lies beside a row, where its format has one.
pub(super) fn found(row: &SqlRow<'_>, has_seals: bool) -> rusqlite::Result<Option<Vec<u8>>> {
    if has_seals { row.get("seal").map(Some) } else { Ok(None) }
}

/// A yes or no. A number that is neither was written by nobody of ours.
pub(super) fn mark(row: &SqlRow<'_>, name: &str) -> rusqlite::Result<bool> {
    match row.get(name)? {
        0_i64 => Ok(false),
        1 => Ok(true),
        other => Err(rusqlite::Error::IntegralValueOutOfRange(0, other)),
    }
}

const INBOX_OF: &str =
    "SELECT * FROM inbox WHERE run = ?1 AND number > ?2 ORDER BY number LIMIT ?3";

/// What is wrong with the deliveries of a run: one was changed, or one is missing. Numbers are
/// given one after the other and none is removed alone.
pub(super) fn inbox_problem(
    connection: &Connection,
    run: i64,
    after: i64,
    limit: usize,
) -> Result<(Option<i64>, Option<String>), ReadError> {
    let has_seals = has_seals(connection)?;
    let mut statement = connection.prepare_cached(INBOX_OF)?;
    let mut rows = statement.query(params![run, after, sql_limit(limit)])?;
    let mut last = after;
    while let Some(row) = rows.next()? {
        let delivery = match delivered(row, has_seals).map_err(StoreError::from) {
            Ok(delivery) => delivery,
            Err(StoreError::Corrupt(what)) => return Ok((None, Some(what))),
            Err(error) => return Err(error.into()),
        };
        if delivery.number != last + 1 {
            return Ok((None, Some(format!("delivery {} of its inbox is missing", last + 1))));
        }
        last = delivery.number;
    }
    Ok(((last > after).then_some(last), None))
}

/// Jumps from run to run along an index, whatever lies below each.
fn next_text(belonging: Belonging) -> &'static str {
    match belonging {
        Belonging::Journal => {
            "SELECT run, EXISTS (SELECT 1 FROM runs WHERE number = journal.run) \
             FROM journal WHERE run > ?1 ORDER BY run LIMIT 1"
        }
        Belonging::Inbox => {
            "SELECT run, EXISTS (SELECT 1 FROM runs WHERE number = inbox.run) \
             FROM inbox WHERE run > ?1 ORDER BY run LIMIT 1"
        }
        Belonging::Uses => {
            "SELECT run, NOT EXISTS (SELECT 1 FROM blob_uses AS used \
             WHERE used.run = blob_uses.run AND NOT EXISTS (SELECT 1 FROM runs \
             WHERE number = used.run AND namespace = used.namespace)) \
             FROM blob_uses INDEXED BY blob_uses_run WHERE run > ?1 ORDER BY run LIMIT 1"
        }
    }
}

/// What belongs to a run that is not there.
pub(super) fn strays(
    connection: &Connection,
    belonging: Belonging,
    after: i64,
    limit: usize,
) -> Result<PartAudit<i64>, ReadError> {
    let mut statement = connection.prepare_cached(next_text(belonging))?;
    let mut audit = PartAudit::default();
    let mut after = after;
    for _ in 0..limit {
        let found = statement.query_row([after], |row| Ok((row.get(0)?, row.get(1)?)));
        let Some((run, has_row)): Option<(i64, bool)> = found.optional()? else { break };
        audit.take(run, (!has_row).then(|| belonging.stray(run)));
        after = run;
    }
    Ok(audit)
}

const BLOBS: &str = "SELECT namespace, digest, text, EXISTS (SELECT 1 FROM blob_uses AS used \
     WHERE used.namespace = blobs.namespace AND used.digest = blobs.digest) FROM blobs \
     WHERE (namespace, digest) > (?1, ?2) ORDER BY namespace, digest LIMIT ?3";

/// Large values: each is what its name says, and somebody needs it.
pub(super) fn blobs(
    connection: &Connection,
    veil: &Veil,
    after: &(String, String),
    limit: usize,
) -> Result<PartAudit<(String, String)>, ReadError> {
    let mut statement = connection.prepare_cached(BLOBS)?;
    let mut rows = statement.query(params![after.0, after.1, sql_limit(limit)])?;
    let mut audit = PartAudit::default();
    while let Some(row) = rows.next()? {
        let name: (String, String) = (row.get(0)?, row.get(1)?);
        let text: Result<String, _> = row.get(2);
        let is_whole = match text {
            Ok(text) => is_whole_blob(veil, &name, &text)?,
            Err(_) => false,
        };
        audit.take(name.clone(), crate::upkeep::blob_state(&name, is_whole, row.get(3)?));
    }
    Ok(audit)
}

/// What the file says of itself: its one row, and each time that it went back.
pub(super) fn own_rows(connection: &Connection) -> Result<PartAudit<i64>, ReadError> {
    let mut audit = PartAudit::default();
    if !has_seals(connection)? {
        return Ok(audit);
    }
    let meta = connection.query_row(
        "SELECT store_id, epoch, commits, wall_high, boot_id, boot, seal FROM meta",
        [],
        |row| {
            let (store_id, boot_id): (String, String) = (row.get(0)?, row.get(4)?);
            let numbers: [i64; 4] = [row.get(1)?, row.get(2)?, row.get(3)?, row.get(5)?];
            let [epoch, commits, wall_high, boot] = numbers.map(Value::Number);
            let values = [(&store_id).into(), epoch, commits, wall_high, (&boot_id).into(), boot];
            Ok(check(&seal("meta", &values), &row.get::<_, Vec<u8>>(6)?))
        },
    )?;
    audit.take(0, meta.map(|what| format!("meta: {what}")));
    let seals = "SELECT epoch, seal FROM returns ORDER BY epoch DESC";
    let mut statement = connection.prepare(seals)?;
    let seals = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let seals: Vec<(u64, Vec<u8>)> = seals.collect::<Result<_, _>>()?;
    for (one, (epoch, seal)) in standing::returns(connection)?.iter().zip(seals) {
        let problem = check(&one.seal(), &seal);
        let place = i64::try_from(epoch).unwrap_or(i64::MAX);
        audit.take(place, problem.map(|what| format!("return {epoch}: {what}")));
    }
    Ok(audit)
}
