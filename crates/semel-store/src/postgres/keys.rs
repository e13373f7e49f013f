//! Whether the keys here are those that a database was written with, when it is opened.

use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use super::connect::{Door, Session, in_time};
use super::load::{self, get};
use super::wire::Param;
use super::{migrate, store_error};
use crate::veil::{Checks, KEY_KIND, KEY_NAMESPACE, Sample, TRIALS_MAX, Table, Trial};
use crate::{Access, Card, StoreError};

/// A text of each table that may be encrypted, with the number of its run and its names. The
/// newest, where that is known: older ones may be of a time before the keys.
const NEWEST: &str = "\
     (SELECT 'effect' AS what, namespace, 0::bigint AS number, '' AS kind, '' AS name, record \
      FROM semel.effects ORDER BY row DESC LIMIT 1) \
     UNION ALL (SELECT 'run', namespace, number, '', '', record \
      FROM semel.runs ORDER BY number DESC LIMIT 1) \
     UNION ALL (SELECT 'entry', NULL, run, '', '', entry \
      FROM semel.journal ORDER BY run DESC, seq DESC LIMIT 1) \
     UNION ALL (SELECT 'card', namespace, 0, kind, name, record \
      FROM semel.cards WHERE kind <> 'key' LIMIT 1)";

/// Some more of them, for a key that has no check value yet.
const MORE: &str = "\
     (SELECT 'effect' AS what, namespace, 0::bigint AS number, '' AS kind, '' AS name, record \
      FROM semel.effects ORDER BY row DESC LIMIT 3) \
     UNION ALL (SELECT 'effect', namespace, 0, '', '', record \
      FROM semel.effects ORDER BY row LIMIT 3) \
     UNION ALL (SELECT 'run', namespace, number, '', '', record \
      FROM semel.runs ORDER BY number DESC LIMIT 3) \
     UNION ALL (SELECT 'run', namespace, number, '', '', record \
      FROM semel.runs ORDER BY number LIMIT 3)";

/// All that name a key, some at a time: those at both ends may be damaged, and must not lock a
/// store. The last column is the place in the table.
const NAMED: [&str; 3] = [
    "SELECT 'effect', namespace, 0::bigint, '', '', record, row FROM semel.effects \
     WHERE left(record, length($1)) = $1 AND row < $2 ORDER BY row DESC LIMIT 1000",
    "SELECT 'run', namespace, number, '', '', record, number FROM semel.runs \
     WHERE left(record, length($1)) = $1 AND number < $2 ORDER BY number DESC LIMIT 1000",
    "SELECT 'card', namespace, 0::bigint, kind, name, record, 0::bigint FROM semel.cards \
     WHERE left(record, length($1)) = $1 AND $2 > 0 LIMIT 1000",
];

const CHECKS: &str = "SELECT namespace, kind, name, version, due_at, record, sum \
     FROM semel.cards WHERE namespace = $1 AND kind = $2";

const KEEP_CHECK: &str = "INSERT INTO semel.cards \
     (namespace, kind, name, version, due_at, sum, record) \
     VALUES ($1, $2, $3, 1, NULL, $4, $5) ON CONFLICT DO NOTHING";

/// Two that bring two keys at once would both be the first.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('semel keys semel.'))";

/// Refuses a store whose keys are not here. Who may write leaves the check values of new ones.
pub(super) async fn check(door: &Door, access: Access) -> Result<(), StoreError> {
    let session = door.enter().await?;
    let new = new_keys(&session).await?;
    if new.is_empty() || access == Access::ReadOnly {
        return Ok(());
    }
    session.hold();
    let failed = |error: tokio_postgres::Error| store_error(&error);
    in_time(session.client().batch_execute("BEGIN")).await?.map_err(failed)?;
    ask(&session, LOCK, &[]).await?;
    for card in new_keys(&session).await? {
        let params: [Param<'_>; 5] = [
            (&card.namespace, Type::TEXT),
            (&card.kind, Type::TEXT),
            (&card.name, Type::TEXT),
            (&card.sum(), Type::INT8),
            (&card.record, Type::TEXT),
        ];
        ask(&session, KEEP_CHECK, &params).await?;
    }
    in_time(session.client().batch_execute("COMMIT")).await?.map_err(failed)?;
    session.release();
    Ok(())
}

/// The format that brought cards, which check values are.
const CARDS_FORMAT: i64 = 3;

/// Refuses a store whose keys are not here before it is migrated.
pub(super) async fn check_older(session: &Session) -> Result<(), StoreError> {
    if in_time(migrate::found(session)).await?? >= CARDS_FORMAT {
        new_keys(session).await?;
    }
    Ok(())
}

/// The check values that the store does not have yet, of keys that open what names them.
async fn new_keys(session: &Session) -> Result<Vec<Card>, StoreError> {
    let veil = &session.shared().veil;
    let newest = texts(session, NEWEST, &[]).await?;
    let mut checks = Checks::default();
    let params: [Param<'_>; 2] = [(&KEY_NAMESPACE, Type::TEXT), (&KEY_KIND, Type::TEXT)];
    for row in &ask(session, CHECKS, &params).await? {
        checks.take(load::card(row)?, get(row, 6)?);
    }
    let new = veil.check(&newest, &checks)?;
    if new.is_empty() {
        return Ok(new);
    }
    let more = texts(session, MORE, &[]).await?;
    for card in &new {
        let mut trial = veil.trial(&card.name);
        let is_proven = newest.iter().chain(&more).any(|sample| trial.opens(sample));
        if !is_proven && !trial.is_unnamed() && !opens_any(session, &mut trial).await? {
            return Err(trial.refused());
        }
    }
    Ok(new)
}

/// Whether a key opens any of the texts that name it.
async fn opens_any(session: &Session, trial: &mut Trial<'_>) -> Result<bool, StoreError> {
    let beginning = trial.beginning();
    for text in NAMED {
        let (mut before, mut tried) = (i64::MAX, 0);
        while tried < TRIALS_MAX {
            let params: [Param<'_>; 2] = [(&beginning, Type::TEXT), (&before, Type::INT8)];
            let rows = ask(session, text, &params).await?;
            let Some(last) = rows.last() else { break };
            before = get(last, 6)?;
            tried += i64::try_from(rows.len()).unwrap_or(i64::MAX);
            for row in &rows {
                if trial.opens(&sample(row)?) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

async fn ask(
    session: &Session,
    text: &'static str,
    params: &[Param<'_>],
) -> Result<Vec<SqlRow>, StoreError> {
    in_time(session.query(text, params)).await?.map_err(|error| store_error(&error))
}

async fn texts(
    session: &Session,
    text: &'static str,
    params: &[Param<'_>],
) -> Result<Vec<Sample>, StoreError> {
    ask(session, text, params).await?.iter().map(sample).collect()
}

fn sample(row: &SqlRow) -> Result<Sample, StoreError> {
    let table = match get(row, 0)? {
        "effect" => Table::Effects,
        "run" => Table::Runs(get(row, 2)?),
        "entry" => Table::Journal(get(row, 2)?),
        _ => Table::Cards { kind: get(row, 3)?, name: get(row, 4)? },
    };
    Ok(Sample { namespace: get(row, 1)?, table, text: get(row, 5)? })
}
