//! Whether runs are what they say: columns against records, journals against their chains, large
//! values against their names. In reads of bounded size, beside whoever writes.

use rusqlite::{Connection, Row as SqlRow, params};
use semel_core::time::Moment;

use super::reader::ReadError;
use super::rows::get_since_cards;
use super::run_rows::{self, sql_limit};
use super::seals;
use crate::upkeep::RunColumns;
use crate::veil::Veil;
use crate::{RunAudit, StoreError};

/// How many large values are read at once.
pub(super) const BLOBS: usize = 8;

/// One page of runs, with what names each even when its record cannot be read.
#[derive(Default)]
pub(super) struct Page {
    pub(super) audit: RunAudit,
    pub(super) names: Vec<(i64, String, String)>,
}

const RUNS: &str = "SELECT * FROM runs WHERE number > ?1 ORDER BY number LIMIT ?2";

pub(super) fn page(
    connection: &Connection,
    veil: &Veil,
    now: &Moment,
    after: i64,
    limit: usize,
) -> Result<Page, ReadError> {
    let mut statement = connection.prepare_cached(RUNS)?;
    let mut rows = statement.query(params![after, sql_limit(limit)])?;
    let mut page = Page::default();
    let has_seals = seals::has_seals(connection)?;
    while let Some(row) = rows.next()? {
        let number: i64 = row.get("number")?;
        page.names.push((number, row.get("namespace")?, row.get("id")?));
        let columns = columns(row, has_seals).map_err(|error| ReadError::from(error).into());
        let read = run_rows::read(row, veil).map_err(StoreError::from);
        page.audit.take(number, columns, read, now)?;
    }
    Ok(page)
}

fn columns(row: &SqlRow<'_>, has_seals: bool) -> rusqlite::Result<RunColumns> {
    Ok(RunColumns {
        namespace: row.get("namespace")?,
        id: row.get("id")?,
        workflow: row.get("workflow")?,
        key: row.get("key")?,
        lane: row.get("lane")?,
        state: row.get("state")?,
        parked: seals::mark(row, "parked")?,
        created_at: row.get("created_at")?,
        version: row.get("version")?,
        fence: row.get("fence")?,
        wake_at: row.get("wake_at")?,
        waits_on: row.get("waits_on")?,
        queue: get_since_cards(row, "queue")?,
        sweep_at: row.get("sweep_at")?,
        sum: row.get("sum")?,
        seal: seals::found(row, has_seals)?,
    })
}

const BLOBS_OF: &str = "SELECT used.digest, blobs.text FROM blob_uses AS used LEFT JOIN blobs \
     ON blobs.namespace = used.namespace AND blobs.digest = used.digest \
     WHERE used.run = ?1 AND used.namespace = ?2 AND used.digest > ?3 \
     ORDER BY used.digest LIMIT ?4";

pub(super) fn blobs(
    connection: &Connection,
    run: i64,
    namespace: &str,
    after: &str,
) -> Result<Vec<(String, Option<String>)>, ReadError> {
    let mut statement = connection.prepare_cached(BLOBS_OF)?;
    let found = statement.query_map(params![run, namespace, after, sql_limit(BLOBS)], |row| {
        Ok((row.get(0)?, row.get(1)?))
    })?;
    Ok(found.collect::<Result<_, _>>()?)
}
