//! Migrations: numbered, forward only, and run only by who was told to.

use tokio_postgres::types::Type;

use super::connect::Session;
use super::{meta, store_error};
use crate::StoreError;
use crate::random_hex;

/// The format this Semel writes: the number of its newest migration.
pub const FORMAT: i64 = 5;

/// Forward only: a released file never changes.
const MIGRATIONS: [(i64, &str); 5] = [
    (1, include_str!("migrations/001_ledger_and_runs.sql")),
    (2, include_str!("migrations/002_outbox.sql")),
    (3, include_str!("migrations/003_cards.sql")),
    (4, include_str!("migrations/004_seals.sql")),
    (5, include_str!("migrations/005_identity.sql")),
];

/// Two who migrate at once would meet in the middle.
const LOCK: &str = "SELECT pg_advisory_xact_lock(hashtext('semel migrate semel.'))";

/// Reads the catalogue's own table. `to_regclass` alone may answer from the connection's cache that
/// the table is missing, although another process made it while this one waited for the lock.
const IS_THERE: &str = "SELECT EXISTS (SELECT FROM pg_catalog.pg_class \
     WHERE relnamespace = to_regnamespace('semel') AND relname = 'meta')";

const FOUND: &str = "SELECT format FROM semel.meta";

const FIRST: &str = "INSERT INTO semel.meta \
     (id, format, store_id, epoch, server, boot, boot_since, wall_high) \
     VALUES (1, $1, $2, 0, $3, 1, (extract(epoch FROM clock_timestamp()) * 1000)::bigint, 0)";

const LATER: &str = "UPDATE semel.meta SET format = $1";

/// With the last word on the format.
const SEAL: &str = "UPDATE semel.meta SET seal = semel.seal('meta', format::text, store_id, \
     epoch::text, server, boot::text, boot_since::text, wall_high::text)";

/// Whether this Semel can work with a format.
pub(super) fn check(found: i64) -> Result<(), StoreError> {
    match found {
        FORMAT => Ok(()),
        newer if newer > FORMAT => Err(StoreError::Newer { found: newer, known: FORMAT }),
        older => Err(StoreError::Older { found: older, needed: FORMAT }),
    }
}

/// The format of the store, zero when there is none.
pub(super) async fn found(session: &Session) -> Result<i64, StoreError> {
    let failed = |error: tokio_postgres::Error| store_error(&error);
    let rows = session.query(IS_THERE, &[]).await.map_err(failed)?;
    if rows.first().and_then(|row| row.try_get(0).ok()) != Some(true) {
        return Ok(0);
    }
    let rows = session.query(FOUND, &[]).await.map_err(failed)?;
    rows.first().map_or(Ok(0), |row| row.try_get(0)).map_err(failed)
}

/// Runs the migrations between two formats; before the first there is no schema either.
async fn apply(session: &Session, from: i64, to: i64) -> Result<(), StoreError> {
    let failed = |error: tokio_postgres::Error| store_error(&error);
    if from == 0 {
        // The role may use a schema that was made for it, without the right to make one.
        let text = session.shared().text(
            "DO $$ BEGIN IF to_regnamespace('semel') IS NULL THEN CREATE SCHEMA semel; \
             END IF; END $$",
        );
        session.client().batch_execute(&text).await.map_err(failed)?;
    }
    let wanted = from + 1..=to;
    for (_, text) in MIGRATIONS.iter().filter(|(number, _)| wanted.contains(number)) {
        let text = session.shared().text(text);
        session.client().batch_execute(&text).await.map_err(failed)?;
    }
    Ok(())
}

/// Begins a transaction with the tables of a format in it, and nothing in them.
pub(super) async fn create_empty(
    session: &Session,
    format: i64,
    shown: &str,
) -> Result<(), StoreError> {
    let failed = |error: tokio_postgres::Error| store_error(&error);
    if format > FORMAT {
        return Err(StoreError::Newer { found: format, known: FORMAT });
    }
    session.client().batch_execute("BEGIN").await.map_err(failed)?;
    session.query(LOCK, &[]).await.map_err(failed)?;
    if found(session).await? != 0 {
        return Err(StoreError::NotEmpty(shown.to_owned()));
    }
    apply(session, 0, format).await
}

/// Brings the store to the newest format, all or nothing. Returns the format it had.
pub(super) async fn migrate(session: &Session) -> Result<i64, StoreError> {
    let failed = |error: tokio_postgres::Error| store_error(&error);
    session.client().batch_execute("BEGIN").await.map_err(failed)?;
    session.query(LOCK, &[]).await.map_err(failed)?;
    let from = found(session).await?;
    if from > FORMAT {
        return Err(StoreError::Newer { found: from, known: FORMAT });
    }
    apply(session, from, FORMAT).await?;
    if from == 0 {
        let (store_id, server) = (random_hex()?, meta::server(session).await?);
        let first = [(&FORMAT as _, Type::INT8), (&store_id as _, Type::TEXT)];
        let [format, store_id] = first;
        let asked = session.query(FIRST, &[format, store_id, (&server, Type::TEXT)]).await;
        asked.map_err(failed)?;
    } else {
        session.query(LATER, &[(&FORMAT, Type::INT8)]).await.map_err(failed)?;
    }
    session.query(SEAL, &[]).await.map_err(failed)?;
    session.client().batch_execute("COMMIT").await.map_err(failed)?;
    Ok(from)
}
