//! Whether runs are what they say: columns against records, journals against their chains, large
//! values against their names. In reads of bounded size, beside whoever writes.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use semel_core::journal::{Link, blob_digest, check_chain};
use semel_core::run::{Run, State};
use semel_core::time::Moment;

use super::Sqlite;
use super::reader::ReadError;
use super::run_rows::{self, sql_limit};
use crate::{RunAudit, RunRow, Runs, StoreError};

/// How many entries of a journal are read at once.
const ENTRIES: usize = 256;
/// How many large values are read at once.
const BLOBS: usize = 8;

/// One page of runs, with what names each even when its record cannot be read.
#[derive(Default)]
struct Page {
    audit: RunAudit,
    names: Vec<(i64, String, String)>,
}

impl Sqlite {
    /// Checks each run after this number: its columns, the chain of its journal, its large values.
    pub async fn audit_runs(&self, after: i64, limit: usize) -> Result<RunAudit, StoreError> {
        let now = self.shared.now();
        let read = move |connection: &Connection| page(connection, &now, after, limit);
        let Page { mut audit, names } = self.read_runs(read).await?;
        for (number, namespace, id) in names {
            let problem = match self.chain_problem(number, &namespace, &id).await? {
                Some(problem) => Some(problem),
                None => self.blob_problem(number, &namespace).await?,
            };
            let named = problem.map(|problem| format!("run {number} ({id}): {problem}"));
            audit.problems.extend(named);
        }
        Ok(audit)
    }

    /// Checks that each journal after this number belongs to a run.
    pub async fn audit_journals(&self, after: i64, limit: usize) -> Result<RunAudit, StoreError> {
        self.read_runs(move |connection| strays(connection, after, limit)).await
    }

    async fn chain_problem(
        &self,
        number: i64,
        namespace: &str,
        id: &str,
    ) -> Result<Option<String>, StoreError> {
        let mut link = Link::of_run(namespace, id);
        let mut from = 0;
        loop {
            let entries = match self.journal(number, from, ENTRIES).await {
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

    async fn blob_problem(
        &self,
        number: i64,
        namespace: &str,
    ) -> Result<Option<String>, StoreError> {
        let mut after = String::new();
        loop {
            let (namespace, from) = (namespace.to_owned(), after.clone());
            let read = move |connection: &Connection| blobs(connection, number, &namespace, &from);
            let found = self.read_runs(read).await?;
            for (digest, text) in &found {
                let is_whole = text.as_deref().map(|text| blob_digest(text) == *digest);
                match is_whole {
                    Some(true) => {}
                    Some(false) => return Ok(Some(format!("its value {digest} was changed"))),
                    None => return Ok(Some(format!("its value {digest} is missing"))),
                }
            }
            match found.into_iter().nth(BLOBS - 1) {
                Some((digest, _)) => after = digest,
                None => return Ok(None),
            }
        }
    }
}

const RUNS: &str = "SELECT * FROM runs WHERE number > ?1 ORDER BY number LIMIT ?2";

fn page(
    connection: &Connection,
    now: &Moment,
    after: i64,
    limit: usize,
) -> Result<Page, ReadError> {
    let mut statement = connection.prepare_cached(RUNS)?;
    let mut rows = statement.query(params![after, sql_limit(limit)])?;
    let mut page = Page::default();
    while let Some(row) = rows.next()? {
        let number: i64 = row.get("number")?;
        page.audit.next = Some(number);
        page.names.push((number, row.get("namespace")?, row.get("id")?));
        let compared = run_rows::read(row).and_then(|run| Ok((compare(row, &run, now)?, run)));
        match compared.map_err(StoreError::from) {
            Ok((problem, run)) => {
                let named = problem.map(|what| format!("run {number} ({}): {what}", run.id));
                page.audit.problems.extend(named);
                page.audit.runs.push(run);
            }
            Err(StoreError::Corrupt(what)) => {
                page.audit.problems.push(format!("run {number}: {what}"));
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(page)
}

/// What a column says that its record does not.
fn compare(row: &SqlRow<'_>, run: &Run, now: &Moment) -> rusqlite::Result<Option<String>> {
    let wanted = RunRow::new(run, now);
    let text = |name: &str| row.get::<_, String>(name);
    let wakes = row.get::<_, Option<i64>>("wake_at")?.is_some();
    // A touch makes a parked run due that waits for no time of its own.
    let may_wake = wanted.wake_at.is_some() || wanted.parked;
    let wakes_rightly = if wakes { may_wake } else { wanted.wake_at.is_none() };
    let checks = [
        (text("namespace")? == wanted.namespace && text("id")? == wanted.id, "name"),
        (text("workflow")? == wanted.workflow && text("key")? == wanted.key, "workflow or key"),
        (text("lane")? == wanted.lane, "lane"),
        (State::parse(&text("state")?) == Some(wanted.state), "state"),
        (row.get::<_, bool>("parked")? == wanted.parked, "park mark"),
        (row.get::<_, i64>("created_at")? == wanted.created.0, "time of creation"),
        (wakes_rightly, "time to wake"),
        (row.get::<_, Option<String>>("waits_on")? == wanted.waits_on, "wait"),
        (row.get::<_, Option<i64>>("sweep_at")? == wanted.sweep_at.map(|at| at.0), "retention"),
    ];
    let wrong = checks.iter().find(|(is_right, _)| !is_right);
    Ok(wrong.map(|(_, what)| format!("its {what} differs from its record")))
}

const BLOBS_OF: &str = "SELECT used.digest, blobs.text FROM blob_uses AS used LEFT JOIN blobs \
     ON blobs.namespace = used.namespace AND blobs.digest = used.digest \
     WHERE used.run = ?1 AND used.namespace = ?2 AND used.digest > ?3 \
     ORDER BY used.digest LIMIT ?4";

fn blobs(
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

/// Jumps from run to run along the index, whatever the length of their journals.
const NEXT_JOURNAL: &str = "SELECT run, EXISTS (SELECT 1 FROM runs WHERE number = journal.run) \
     FROM journal WHERE run > ?1 ORDER BY run LIMIT 1";

fn strays(connection: &Connection, after: i64, limit: usize) -> Result<RunAudit, ReadError> {
    let mut statement = connection.prepare_cached(NEXT_JOURNAL)?;
    let mut audit = RunAudit::default();
    let mut after = after;
    for _ in 0..limit {
        let found = statement.query_row([after], |row| Ok((row.get(0)?, row.get(1)?)));
        let Some((run, has_row)): Option<(i64, bool)> = found.optional()? else { break };
        if !has_row {
            audit.problems.push(format!("run {run}: it has a journal, but no row"));
        }
        after = run;
        audit.next = Some(run);
    }
    Ok(audit)
}
