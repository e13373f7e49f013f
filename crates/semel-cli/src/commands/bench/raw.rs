//! The raw limit: a bare loop on the same disk, with as many bytes a row and rows a transaction as
//! the store had.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, Transaction};

const SECONDS: u64 = 2;

/// Half of the rows inserted, half of an earlier commit's updated: what effects are. Rows a second.
pub(super) fn inserts_and_updates(
    beside: &Path,
    rows_per_commit: f64,
    bytes: usize,
) -> anyhow::Result<f64> {
    let (first, second) = ("x".repeat(bytes), "y".repeat(bytes));
    let (mut rows, mut inserted, mut updated) = (0_u64, 0_i64, 0_i64);
    commits(
        beside,
        |transaction, count| {
            let before = inserted;
            for _ in 0..count {
                // A row is never updated in the commit that inserts it: no effect could be, either.
                if updated < before && rows % 2 == 1 {
                    let text = "UPDATE rows SET body = ?2 WHERE id = ?1";
                    transaction.prepare_cached(text)?.execute((updated, &second))?;
                    updated += 1;
                } else {
                    insert(transaction, inserted, &first)?;
                    inserted += 1;
                }
                rows += 1;
            }
            Ok(())
        },
        rows_per_commit,
    )
}

/// All rows inserted: what steps are. Rows a second.
pub(super) fn inserts(beside: &Path, rows_per_commit: f64, bytes: usize) -> anyhow::Result<f64> {
    let body = "x".repeat(bytes);
    let mut inserted = 0_i64;
    commits(
        beside,
        |transaction, count| {
            for _ in 0..count {
                insert(transaction, inserted, &body)?;
                inserted += 1;
            }
            Ok(())
        },
        rows_per_commit,
    )
}

fn insert(transaction: &Transaction<'_>, id: i64, body: &str) -> rusqlite::Result<()> {
    let text = "INSERT INTO rows (id, body) VALUES (?1, ?2)";
    transaction.prepare_cached(text)?.execute((id, body)).map(|_| ())
}

fn commits(
    beside: &Path,
    mut fill: impl FnMut(&Transaction<'_>, u64) -> anyhow::Result<()>,
    rows_per_commit: f64,
) -> anyhow::Result<f64> {
    let mut connection = Connection::open(beside.with_extension("raw"))?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    connection.execute_batch("CREATE TABLE rows (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
    let rows_per_commit = (rows_per_commit.round() as u64).max(1);
    let started = Instant::now();
    let mut rows = 0_u64;
    while started.elapsed() < Duration::from_secs(SECONDS) {
        let transaction = connection.transaction()?;
        fill(&transaction, rows_per_commit)?;
        transaction.commit()?;
        rows += rows_per_commit;
    }
    Ok(rows as f64 / started.elapsed().as_secs_f64())
}
