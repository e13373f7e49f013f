//! Whether the keys here are those that a file was written with, when it is opened.

use rusqlite::{Connection, Row as SqlRow, ToSql, params};

use super::{cards, store_error};
use crate::veil::{Checks, KEY_KIND, KEY_NAMESPACE, Sample, TRIALS_MAX, Table, Veil};
use crate::{Access, Card, StoreError};

/// A text of each table that may be encrypted, with the number of its run and its names. The
/// newest, where that is known: older ones may be of a time before the keys.
const NEWEST: [(i64, &str); 4] = [
    (1, "SELECT 'effect', namespace, 0, '', '', record FROM effects ORDER BY row DESC LIMIT 1"),
    (2, "SELECT 'run', namespace, number, '', '', record FROM runs ORDER BY number DESC LIMIT 1"),
    (2, "SELECT 'entry', NULL, run, '', '', entry FROM journal ORDER BY rowid DESC LIMIT 1"),
    (
        cards::CARDS_FORMAT,
        "SELECT 'card', namespace, 0, kind, name, record FROM cards WHERE kind <> 'key' LIMIT 1",
    ),
];

/// Some more of them, for a key that has no check value yet.
const MORE: [(i64, &str); 4] = [
    (1, "SELECT 'effect', namespace, 0, '', '', record FROM effects ORDER BY row DESC LIMIT 3"),
    (1, "SELECT 'effect', namespace, 0, '', '', record FROM effects ORDER BY row LIMIT 3"),
    (2, "SELECT 'run', namespace, number, '', '', record FROM runs ORDER BY number DESC LIMIT 3"),
    (2, "SELECT 'run', namespace, number, '', '', record FROM runs ORDER BY number LIMIT 3"),
];

/// All that name a key: those at both ends may be damaged, and must not lock a file.
const NAMED: [(i64, &str); 3] = [
    (
        1,
        "SELECT 'effect', namespace, 0, '', '', record FROM effects \
         WHERE substr(record, 1, length(?1)) = ?1 ORDER BY row DESC LIMIT ?2",
    ),
    (
        2,
        "SELECT 'run', namespace, number, '', '', record FROM runs \
         WHERE substr(record, 1, length(?1)) = ?1 ORDER BY number DESC LIMIT ?2",
    ),
    (
        cards::CARDS_FORMAT,
        "SELECT 'card', namespace, 0, kind, name, record FROM cards \
         WHERE substr(record, 1, length(?1)) = ?1 LIMIT ?2",
    ),
];

const CHECKS: &str = "SELECT name, version, record, sum FROM cards \
     WHERE namespace = ?1 AND kind = ?2";

/// Refuses a file whose keys are not here. Who may write leaves the check values of new ones; that
/// happens in turn, so two processes with two keys do not meet here.
pub(super) fn check(
    connection: &Connection,
    veil: &Veil,
    access: Access,
) -> Result<(), StoreError> {
    let failed = |error: rusqlite::Error| store_error(&error);
    let format = connection.pragma_query_value(None, "user_version", |row| row.get(0));
    let format: i64 = format.map_err(failed)?;
    let newest = texts(connection, format, &NEWEST)?;
    let new = veil.check(&newest, &checks(connection, format).map_err(failed)?)?;
    if new.is_empty() {
        return Ok(());
    }
    let more = texts(connection, format, &MORE)?;
    for card in &new {
        let mut trial = veil.trial(&card.name);
        let mut is_proven = newest.iter().chain(&more).any(|sample| trial.opens(sample));
        if !is_proven && !trial.is_unnamed() {
            let beginning = trial.beginning();
            let asked: [&dyn ToSql; 2] = [&beginning, &TRIALS_MAX];
            for (_, text) in NAMED.iter().filter(|(since, _)| *since <= format) {
                let opens = |sample: Sample| trial.opens(&sample);
                is_proven = is_proven || any(connection, text, &asked, opens)?;
            }
            if !is_proven {
                return Err(trial.refused());
            }
        }
    }
    if access == Access::ReadWrite {
        for card in &new {
            cards::write(connection, card).map_err(failed)?;
        }
    }
    Ok(())
}

fn checks(connection: &Connection, format: i64) -> rusqlite::Result<Checks> {
    let mut checks = Checks::default();
    if format < cards::CARDS_FORMAT {
        return Ok(checks);
    }
    let mut statement = connection.prepare(CHECKS)?;
    let mut rows = statement.query(params![KEY_NAMESPACE, KEY_KIND])?;
    while let Some(row) = rows.next()? {
        let (namespace, kind) = (KEY_NAMESPACE.to_owned(), KEY_KIND.to_owned());
        let (name, version, record) = (row.get(0)?, row.get(1)?, row.get(2)?);
        let card = Card { namespace, kind, name, version, due: None, record };
        checks.take(card, row.get(3)?);
    }
    Ok(checks)
}

fn texts(
    connection: &Connection,
    format: i64,
    asked: &[(i64, &str)],
) -> Result<Vec<Sample>, StoreError> {
    let mut found = Vec::new();
    for (_, text) in asked.iter().filter(|(since, _)| *since <= format) {
        let take = |sample| {
            found.push(sample);
            false
        };
        any(connection, text, &[], take)?;
    }
    Ok(found)
}

/// Whether one of the texts will do. One that cannot be read is found by who reads it.
fn any(
    connection: &Connection,
    text: &str,
    asked: &[&dyn ToSql],
    mut will_do: impl FnMut(Sample) -> bool,
) -> Result<bool, StoreError> {
    let mut look = || {
        let mut statement = connection.prepare(text)?;
        let mut rows = statement.query(asked)?;
        while let Some(row) = rows.next()? {
            if sample(row).is_ok_and(&mut will_do) {
                return Ok(true);
            }
        }
        Ok(false)
    };
    match look().map_err(|error: rusqlite::Error| store_error(&error)) {
        Err(StoreError::Corrupt(_)) => Ok(false),
        looked => looked,
    }
}

fn sample(row: &SqlRow<'_>) -> rusqlite::Result<Sample> {
    let table = match row.get_ref(0)?.as_str()? {
        "effect" => Table::Effects,
        "run" => Table::Runs(row.get(2)?),
        "entry" => Table::Journal(row.get(2)?),
        _ => Table::Cards { kind: row.get(3)?, name: row.get(4)? },
    };
    Ok(Sample { namespace: row.get(1)?, table, text: row.get(5)? })
}
