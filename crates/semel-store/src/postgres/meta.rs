//! What the store knows of itself, and whether it went back in time.
//!
//! A server is known by its system identifier, the timeline it writes, its tables and a row in them
//! that nobody changes. A promoted standby and a restored backup have another timeline, a copy from
//! a dump has other tables, and rows that were put back into the same tables were written by
//! another transaction. Tables can be exchanged under a live connection, so every transaction that
//! writes asks for them again, last before its COMMIT. Beyond that each process remembers how far
//! it has seen the server's log grow: a server whose files were put back to an earlier day stands
//! before that.

use semel_core::effect::{Quarantine, Rows};
use semel_core::time::Wall;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::connect::Session;
use super::load::get;
use super::wire::Line;
use super::{Shared, memory, migrate, store_error};
use crate::StoreError;

/// One row of `meta`, with the quarantine in force.
#[derive(Clone, Debug, Default)]
pub(super) struct Meta {
    pub(super) format: i64,
    pub(super) store_id: String,
    pub(super) epoch: u64,
    pub(super) server: String,
    pub(super) boot: u64,
    pub(super) boot_since: i64,
    pub(super) wall_high: i64,
    pub(super) quarantine: Option<Quarantine>,
}

impl Meta {
    /// The tables it was written with, the end of `server`.
    pub(super) fn tables(&self) -> &str {
        self.server.splitn(3, '/').nth(2).unwrap_or_default()
    }
}

/// A reading of the server.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    /// Its clock.
    pub(super) wall_ms: i64,
    /// Where its log ends.
    pub(super) log: i64,
    /// Which tables the names lead to.
    pub(super) tables: String,
    /// When it was started: behind a pooler another server may answer on the same connection.
    pub(super) started_us: i64,
}

/// Which tables the names lead to, and which transaction wrote the row of `identity`.
macro_rules! tables {
    () => {
        "'semel.effects'::regclass::oid || '.' || 'semel.runs'::regclass::oid || '.' || \
         'semel.journal'::regclass::oid || '.' || 'semel.inbox'::regclass::oid || '.' || \
         'semel.cards'::regclass::oid || '.' || 'semel.meta'::regclass::oid || '/' || \
         coalesce((SELECT max(xmin::text) FROM semel.identity), 'none')"
    };
}

macro_rules! state {
    () => {
        concat!(
            "SELECT meta.format, meta.store_id, meta.epoch, meta.server, \
             meta.boot, meta.boot_since, meta.wall_high, opened_at, recovered_at, \
             (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS wall, \
             (pg_current_wal_insert_lsn() - '0/0')::bigint AS log, ",
            tables!(),
            " AS tables, \
             (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint AS started, \
             (SELECT string_agg(evidence, chr(10)) FROM semel.returns WHERE closed_at IS NULL) \
             AS evidence"
        )
    };
}

macro_rules! from_meta {
    () => {
        " FROM semel.meta LEFT JOIN LATERAL (SELECT opened_at, recovered_at FROM semel.returns \
         WHERE epoch = meta.epoch AND closed_at IS NULL) AS quarantine ON true"
    };
}

/// What the store knows of itself, and a reading of its server.
pub(super) const STATE: &str = concat!(state!(), from_meta!());

/// The same, and the settings of a group, in one row. Settings end with the transaction: a pooler
/// may give the connection to somebody else. Plans are kept to the indexes, whatever the statistics
/// of a table that was empty a second ago.
pub(super) const HEAD: &str = concat!(
    state!(),
    ", set_config('synchronous_commit', CASE current_setting('synchronous_commit') \
     WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true), \
     set_config('statement_timeout', '30000', true), \
     set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), \
     set_config('enable_mergejoin', 'off', true), set_config('jit', 'off', true), \
     set_config('plan_cache_mode', 'force_generic_plan', true)",
    from_meta!()
);

/// Fails, and ends the transaction, in any other epoch: for a group that goes out without a look.
pub(super) const IN_EPOCH: &str = "SELECT 1 / (epoch = $1)::int FROM semel.meta";

/// Goes out last before a COMMIT: what was written by now is locked, so no name can lead elsewhere
/// any more. Fails, and ends the transaction, if these are not the tables that were looked at. Says
/// where the log stands.
pub(super) const GUARD: &str = concat!(
    "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint, 1 / (",
    tables!(),
    " = $1)::int"
);

/// The same, and how long a statement may take from now on.
pub(super) const GUARD_AND_LIMIT: &str =
    concat!("SELECT set_config('statement_timeout', $2, true), 1 / (", tables!(), " = $1)::int");

/// How late it was at some commit, in these tables only: it is what a return counts from.
pub(super) const HIGH: &str = concat!(
    "UPDATE semel.meta SET wall_high = $1, seal = semel.seal('meta', format::text, store_id, \
     epoch::text, server, boot::text, boot_since::text, $1::bigint::text) \
     WHERE wall_high < $1 AND ",
    tables!(),
    " = $2"
);

/// Which server this is. `NULL` on a standby.
pub(super) const SERVER: &str = concat!(
    "SELECT CASE WHEN pg_is_in_recovery() THEN NULL ELSE \
     (SELECT system_identifier FROM pg_control_system()) || '/' || \
     substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) || '/' || ",
    tables!(),
    " END"
);

/// How evidence begins that the server itself went back, with all that is on it.
const OF_THE_SERVER: [&str; 3] = ["it was written by server", "it is on server", "its log ends at"];

/// What the evidence of all open quarantines, each on a line, says of the user's own rows.
fn rows_after(evidence: &str) -> Rows {
    let is_of_server = |line: &str| OF_THE_SERVER.iter().any(|start| line.starts_with(start));
    let is_whole = !evidence.is_empty() && evidence.lines().all(is_of_server);
    if is_whole { Rows::WentBack } else { Rows::MayHaveStayed }
}

pub(super) fn read_head(row: &impl Line) -> Result<(Meta, Reading), StoreError> {
    let (opened, recovered): (Option<i64>, Option<i64>) = (get(row, 7)?, get(row, 8)?);
    let quarantine = opened.zip(recovered);
    let evidence: Option<String> = get(row, 13)?;
    let meta = Meta {
        format: get(row, 0)?,
        store_id: get(row, 1)?,
        epoch: get::<i64>(row, 2)?.unsigned_abs(),
        server: get(row, 3)?,
        boot: get::<i64>(row, 4)?.unsigned_abs(),
        boot_since: get(row, 5)?,
        wall_high: get(row, 6)?,
        quarantine: quarantine.map(|(opened, recovered)| Quarantine {
            opened: Wall(opened),
            recovered: Wall(recovered),
            rows: rows_after(evidence.as_deref().unwrap_or_default()),
        }),
    };
    let reading = Reading {
        wall_ms: get(row, 9)?,
        log: get(row, 10)?,
        tables: get(row, 11)?,
        started_us: get(row, 12)?,
    };
    Ok((meta, reading))
}

/// Looks at a server that was just connected to, or whose tables are not those of before, and puts
/// it on record when it went back in time.
pub(super) async fn greet(session: &Session) -> Result<(), StoreError> {
    let shared = session.shared();
    let failed = |error: tokio_postgres::Error| store_error(&error);
    // An answer that was too slow to tell the time is asked for again.
    for _ in 0..5 {
        let server = server(session).await?;
        let (asked_ms, seen) = (shared.time.local_ms(), shared.seen());
        let rows = session.query(STATE, &[]).await.map_err(failed)?;
        let head = rows.first().ok_or_else(|| StoreError::Corrupt("meta is empty".into()))?;
        let (meta, reading) = read_head(head)?;
        migrate::check(meta.format)?;
        if let Some(evidence) = Shared::went_back(seen.as_ref(), &meta, &server, reading.log) {
            shared.time.forget();
            open_quarantine(session, &server, &evidence).await?;
            continue;
        }
        if shared.learn(meta, &reading, asked_ms) {
            return memory::report(session).await;
        }
    }
    Err(StoreError::Unavailable("the server answers too slowly to tell its time".into()))
}

/// Which server a connection leads to.
pub(super) async fn server(session: &Session) -> Result<String, StoreError> {
    let rows = session.query(SERVER, &[]).await.map_err(|error| match error.code() {
        // Some operators take it from PUBLIC; without it a failover would go unnoticed.
        Some(&SqlState::INSUFFICIENT_PRIVILEGE) => StoreError::Unavailable(
            "the role may not ask which server this is: \
             GRANT EXECUTE ON FUNCTION pg_control_system() TO it"
                .into(),
        ),
        Some(_) | None => store_error(&error),
    })?;
    let found = rows.first().map(|row| row.try_get::<_, Option<String>>(0));
    let found = found.transpose().map_err(|error| store_error(&error))?.flatten();
    found.ok_or_else(|| StoreError::Unavailable("this server is a standby".into()))
}

const LOCK: &str = "SELECT server, epoch, boot, wall_high, \
     (extract(epoch FROM clock_timestamp()) * 1000)::bigint, \
     (SELECT min(recovered_at) FROM semel.returns WHERE closed_at IS NULL), store_id \
     FROM semel.meta FOR UPDATE";

const MOVE: &str = "UPDATE semel.meta SET epoch = $1, boot = $2, boot_since = $3, server = $4, \
     seal = semel.seal('meta', format::text, store_id, $1::bigint::text, $4::text, \
     $2::bigint::text, $3::bigint::text, wall_high::text)";

const RETURN: &str = "INSERT INTO semel.returns (epoch, opened_at, recovered_at, evidence, seal) \
     VALUES ($1, $2, $3, $4, semel.seal('return', $1::bigint::text, $2::bigint::text, \
     $3::bigint::text, $4::text, NULL, NULL, NULL))";

/// The points in these belong to a clock that is gone: all of them are due, to everybody.
const DUE: [&str; 2] = [
    "UPDATE semel.effects SET due_at = 0, seal = semel.seal('effect', namespace, action, key, \
     generation::text, version::text, state, workflow, created_at::text, '0', sweep_at::text, \
     alarmed::int::text, held::int::text, sum::text) WHERE due_at IS NOT NULL",
    "UPDATE semel.runs SET wake_at = 0, shown_to = NULL, shown_until = NULL, \
     seal = semel.seal('run', number::text, namespace, id, version::text, workflow, key, lane, \
     state, parked::int::text, fence::text, created_at::text, '0', waits_on, queue, \
     sweep_at::text, sum::text) WHERE wake_at IS NOT NULL",
];

/// Opens the quarantine, unless another process was quicker.
async fn open_quarantine(
    session: &Session,
    server: &str,
    evidence: &str,
) -> Result<(), StoreError> {
    let failed = |error: tokio_postgres::Error| store_error(&error);
    session.client().batch_execute("BEGIN").await.map_err(failed)?;
    let rows = session.query(LOCK, &[]).await.map_err(failed)?;
    let row = rows.first().ok_or_else(|| StoreError::Corrupt("meta is empty".into()))?;
    let (known, epoch): (String, i64) = (get(row, 0)?, get(row, 1)?);
    let earlier: Option<i64> = get(row, 5)?;
    let store_id: String = get(row, 6)?;
    let seen = session.shared().seen().map(|seen| seen.meta);
    // Another process may have recorded it. A process that remembers an epoch that the store has
    // forgotten records it again, whatever the server's name.
    let is_later = seen.as_ref().is_none_or(|seen| {
        seen.epoch < epoch.unsigned_abs() && (seen.store_id == store_id || earlier.is_some())
    });
    if known == server && is_later && epoch > 0 {
        session.client().batch_execute("ROLLBACK").await.map_err(failed)?;
        return Ok(());
    }
    let (boot, wall_high, now): (i64, i64, i64) = (get(row, 2)?, get(row, 3)?, get(row, 4)?);
    let seen = seen.unwrap_or_default();
    let epoch = epoch.max(i64::try_from(seen.epoch).unwrap_or(0)) + 1;
    let boot = boot.max(i64::try_from(seen.boot).unwrap_or(0)) + 1;
    let recovered = earlier.unwrap_or(i64::MAX).min(wall_high).min(now);
    tracing::warn!(%evidence, epoch, "the store went back in time: quarantine opened");
    for text in DUE {
        session.query(text, &[]).await.map_err(failed)?;
    }
    let server = server.to_owned();
    session
        .query(
            MOVE,
            &[(&epoch, Type::INT8), (&boot, Type::INT8), (&now, Type::INT8), (&server, Type::TEXT)],
        )
        .await
        .map_err(failed)?;
    session
        .query(
            RETURN,
            &[
                (&epoch, Type::INT8),
                (&now, Type::INT8),
                (&recovered, Type::INT8),
                (&evidence, Type::TEXT),
            ],
        )
        .await
        .map_err(failed)?;
    session.client().batch_execute("COMMIT").await.map_err(failed)
}
