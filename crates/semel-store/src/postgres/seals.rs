//! Whether the seals of rows on Postgres still fit. They are computed here, not by the server:
//! whoever can change its rows may have changed its functions.

use semel_core::seal::{Value, seal};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use super::connect::Door;
use super::load::{self, get};
use super::rows::{read, sql_limit};
use super::wire::Param;
use crate::seals::check;
use crate::upkeep::{blob_state, is_whole_blob};
use crate::{Belonging, PartAudit, StoreError};

/// How many deliveries are read at once.
const DELIVERIES: usize = 64;

const INBOX_OF: &str = "SELECT run, number, identity, name, payload, at, consumed, seal \
     FROM semel.inbox WHERE run = $1 AND number > $2 ORDER BY number LIMIT $3";

/// What is wrong with the deliveries of a run: one was changed, or one is missing. Numbers are
/// given one after the other and none is removed alone.
pub(super) async fn inbox_problem(
    door: &Door,
    run: i64,
) -> Result<(u64, Option<String>), StoreError> {
    let (mut last, limit) = (0_i64, sql_limit(DELIVERIES));
    let found = |last: i64, problem| Ok((last.unsigned_abs(), problem));
    loop {
        let params: [Param<'_>; 3] =
            [(&run, Type::INT8), (&last, Type::INT8), (&limit, Type::INT8)];
        let rows = read(door, INBOX_OF, &params).await?;
        for row in &rows {
            let delivery = match load::delivery(row) {
                Ok(delivery) => delivery,
                Err(StoreError::Corrupt(what)) => return found(last, Some(what)),
                Err(error) => return Err(error),
            };
            if delivery.number != last + 1 {
                let what = format!("delivery {} of its inbox is missing", last + 1);
                return found(last, Some(what));
            }
            last = delivery.number;
        }
        if rows.len() < DELIVERIES {
            return found(last, None);
        }
    }
}

/// Jumps from run to run along the index, whatever lies below each.
fn next_text(belonging: Belonging) -> &'static str {
    match belonging {
        Belonging::Journal => {
            "WITH RECURSIVE place AS (\
             (SELECT run, 1 AS step FROM semel.journal WHERE run > $1 ORDER BY run LIMIT 1) \
             UNION ALL SELECT (SELECT run FROM semel.journal WHERE run > place.run \
             ORDER BY run LIMIT 1), step + 1 FROM place WHERE run IS NOT NULL AND step < $2) \
             SELECT run, EXISTS (SELECT 1 FROM semel.runs WHERE number = run) FROM place \
             WHERE run IS NOT NULL ORDER BY run"
        }
        Belonging::Inbox => {
            "WITH RECURSIVE place AS (\
             (SELECT run, 1 AS step FROM semel.inbox WHERE run > $1 ORDER BY run LIMIT 1) \
             UNION ALL SELECT (SELECT run FROM semel.inbox WHERE run > place.run \
             ORDER BY run LIMIT 1), step + 1 FROM place WHERE run IS NOT NULL AND step < $2) \
             SELECT run, EXISTS (SELECT 1 FROM semel.runs WHERE number = run) FROM place \
             WHERE run IS NOT NULL ORDER BY run"
        }
        Belonging::Uses => {
            "WITH RECURSIVE place AS (\
             (SELECT run, 1 AS step FROM semel.blob_uses WHERE run > $1 ORDER BY run LIMIT 1) \
             UNION ALL SELECT (SELECT run FROM semel.blob_uses WHERE run > place.run \
             ORDER BY run LIMIT 1), step + 1 FROM place WHERE run IS NOT NULL AND step < $2) \
             SELECT run, NOT EXISTS (SELECT 1 FROM semel.blob_uses AS u WHERE u.run = place.run \
             AND NOT EXISTS (SELECT 1 FROM semel.runs AS r WHERE r.number = u.run \
             AND r.namespace = u.namespace)) FROM place WHERE run IS NOT NULL ORDER BY run"
        }
    }
}

/// What belongs to a run that is not there.
pub(super) async fn strays(
    door: &Door,
    belonging: Belonging,
    after: i64,
    limit: usize,
) -> Result<PartAudit<i64>, StoreError> {
    let limit = i32::try_from(limit).unwrap_or(i32::MAX);
    let params: [Param<'_>; 2] = [(&after, Type::INT8), (&limit, Type::INT4)];
    let mut audit = PartAudit::default();
    for row in &read(door, next_text(belonging), &params).await? {
        let (run, has_row): (i64, bool) = (get(row, 0)?, get(row, 1)?);
        audit.take(run, (!has_row).then(|| belonging.stray(run)));
    }
    Ok(audit)
}

const BLOBS: &str = "SELECT namespace, digest, text, EXISTS (SELECT 1 FROM semel.blob_uses AS used \
     WHERE used.namespace = blobs.namespace AND used.digest = blobs.digest) \
     FROM semel.blobs AS blobs WHERE (namespace, digest) > ($1, $2) \
     ORDER BY namespace, digest LIMIT $3";

/// Large values: each is what its name says, and somebody needs it.
pub(super) async fn blobs(
    door: &Door,
    after: &(String, String),
    limit: usize,
) -> Result<PartAudit<(String, String)>, StoreError> {
    let limit = sql_limit(limit);
    let params: [Param<'_>; 3] =
        [(&after.0, Type::TEXT), (&after.1, Type::TEXT), (&limit, Type::INT8)];
    let mut audit = PartAudit::default();
    for row in &read(door, BLOBS, &params).await? {
        let name: (String, String) = (get(row, 0)?, get(row, 1)?);
        let is_whole = is_whole_blob(&door.shared.veil, &name, get(row, 2)?)?;
        audit.take(name.clone(), blob_state(&name, is_whole, get(row, 3)?));
    }
    Ok(audit)
}

/// A place, all values of a row as text, and its seal.
const META: &str = "SELECT 0::bigint, ARRAY[format::text, store_id, epoch::text, server, \
     boot::text, boot_since::text, wall_high::text], seal FROM semel.meta";

const RETURNS: &str = "SELECT epoch, ARRAY[epoch::text, opened_at::text, recovered_at::text, \
     evidence, closed_at::text, closed_by, close_reason], seal FROM semel.returns ORDER BY epoch";

const LOST: &str = "SELECT cursor, ARRAY[epoch::text, namespace, action, name, generation::text, \
     version::text, state, written_at::text, worker], seal FROM semel.lost WHERE cursor > $1 \
     ORDER BY cursor LIMIT $2";

const OUTBOX: &str = "SELECT id, ARRAY[namespace, action, key, input, workflow, \
     created_at::text, refused_code, refused_text], seal FROM semel.outbox WHERE id > $1 \
     ORDER BY id LIMIT $2";

/// How many rows that processes remember are read at once.
const LOST_ROWS: usize = 1_000;

/// What the store says of itself: its one row, each time that it went back, and what was lost.
pub(super) async fn own_rows(door: &Door) -> Result<PartAudit<i64>, StoreError> {
    let mut audit = PartAudit::default();
    for (table, text) in [("meta", META), ("return", RETURNS)] {
        for row in &read(door, text, &[]).await? {
            take(&mut audit, table, row)?;
        }
    }
    let (mut after, limit) = (i64::MIN, sql_limit(LOST_ROWS));
    loop {
        let rows = read(door, LOST, &[(&after, Type::INT8), (&limit, Type::INT8)]).await?;
        for row in &rows {
            take(&mut audit, "lost", row)?;
            after = get(row, 0)?;
        }
        if rows.len() < LOST_ROWS {
            return Ok(audit);
        }
    }
}

/// Intents that wait. One that was not written by `intend` has no seal.
pub(super) async fn outbox(
    door: &Door,
    after: i64,
    limit: usize,
) -> Result<PartAudit<i64>, StoreError> {
    let limit = sql_limit(limit);
    let mut audit = PartAudit::default();
    for row in &read(door, OUTBOX, &[(&after, Type::INT8), (&limit, Type::INT8)]).await? {
        take(&mut audit, "intent", row)?;
    }
    Ok(audit)
}

fn take(audit: &mut PartAudit<i64>, table: &str, row: &SqlRow) -> Result<(), StoreError> {
    let (place, texts): (i64, Vec<Option<&str>>) = (get(row, 0)?, get(row, 1)?);
    let values: Vec<Value<'_>> = texts.into_iter().map(Value::from).collect();
    let found: Option<&[u8]> = get(row, 2)?;
    let problem = check(&seal(table, &values), found.unwrap_or_default());
    audit.take(place, problem.map(|what| format!("{table} {place}: {what}")));
    Ok(())
}
