//! Where a file stands: its commits, its epoch, and whether a quarantine is open. Read anew with
//! each turn of the writer, so that what one process finds or decides, all live ones know.

use rusqlite::{Connection, OptionalExtension, Row as SqlRow, params};
use semel_core::effect::{Quarantine, Rows};
use semel_core::limits;
use semel_core::time::Wall;

use super::seals;
use crate::{Closed, Return};

/// The format that brought the table of returns.
const RETURNS_FORMAT: i64 = 3;

/// What a file says of itself at one commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    pub(super) epoch: u64,
    pub(super) commits: i64,
    pub(super) wall_high: i64,
    pub(super) quarantine: Option<Quarantine>,
}

impl Standing {
    /// Whether this was read later than another. The epoch comes first: one that a reader foresees
    /// stands until a writer has recorded it.
    pub(super) fn is_newer(&self, other: &Standing) -> bool {
        (self.epoch, self.commits) > (other.epoch, other.commits)
    }
}

/// Each return begins an epoch, so that only the one of this epoch can be open.
const STANDING: &str = "SELECT meta.epoch, commits, wall_high, opened_at, recovered_at FROM meta \
     LEFT JOIN returns ON returns.epoch = meta.epoch AND closed_at IS NULL";

const STANDING_BEFORE: &str = "SELECT epoch, commits, wall_high, quarantine_opened, \
     quarantine_recovered FROM meta";

/// Reads where a file of the newest format stands.
pub(super) fn standing(connection: &Connection) -> rusqlite::Result<Standing> {
    connection.prepare_cached(STANDING)?.query_row([], read_standing)
}

/// The same for a file of any format: one that is only looked at may be old, and be brought to the
/// newest by somebody else meanwhile.
pub(super) fn any_standing(connection: &Connection) -> rusqlite::Result<Standing> {
    if has_returns(connection)? {
        return standing(connection);
    }
    connection.prepare_cached(STANDING_BEFORE)?.query_row([], read_standing)
}

fn has_returns(connection: &Connection) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached("PRAGMA user_version")?;
    let found: i64 = statement.query_row([], |row| row.get(0))?;
    Ok(found >= RETURNS_FORMAT)
}

fn read_standing(row: &SqlRow<'_>) -> rusqlite::Result<Standing> {
    let opened: Option<i64> = row.get(3)?;
    let recovered: Option<i64> = row.get(4)?;
    let quarantine = opened.zip(recovered).map(|(opened, recovered)| Quarantine {
        opened: Wall(opened),
        recovered: Wall(recovered),
        rows: Rows::WentBack,
    });
    Ok(Standing { epoch: row.get(0)?, commits: row.get(1)?, wall_high: row.get(2)?, quarantine })
}

const RETURNS: &str = "SELECT epoch, opened_at, recovered_at, evidence, closed_at, closed_by, \
     close_reason FROM returns ORDER BY epoch DESC LIMIT ?1";

const RETURNS_BEFORE: &str = "SELECT epoch, quarantine_opened, quarantine_recovered, \
     'found by an older Semel', NULL, NULL, NULL FROM meta \
     WHERE quarantine_opened IS NOT NULL AND quarantine_recovered IS NOT NULL LIMIT ?1";

/// Every return that the file knows, the newest first.
pub(super) fn returns(connection: &Connection) -> rusqlite::Result<Vec<Return>> {
    let text = if has_returns(connection)? { RETURNS } else { RETURNS_BEFORE };
    let most = i64::try_from(limits::PAGE_ROWS_MAX).unwrap_or(i64::MAX);
    let mut statement = connection.prepare(text)?;
    let found = statement.query_map([most], |row| {
        let closed: (Option<i64>, Option<String>, Option<String>) =
            (row.get(4)?, row.get(5)?, row.get(6)?);
        let closed = match closed {
            (Some(at), Some(actor), Some(reason)) => Some(Closed { at: Wall(at), actor, reason }),
            _ => None,
        };
        Ok(Return {
            epoch: row.get(0)?,
            opened: Wall(row.get(1)?),
            recovered: Wall(row.get(2)?),
            evidence: row.get(3)?,
            closed,
        })
    })?;
    found.collect()
}

/// Records a return that was found.
pub(super) fn record(connection: &Connection, found: &Return) -> rusqlite::Result<()> {
    let text = "INSERT INTO returns (epoch, opened_at, recovered_at, evidence, seal) \
         VALUES (?1, ?2, ?3, ?4, ?5)";
    let Return { epoch, opened, recovered, evidence, closed: _ } = found;
    let seal = found.seal().0;
    connection.execute(text, params![epoch, opened.0, recovered.0, evidence, seal]).map(|_| ())
}

/// How an attempt to close a quarantine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    Done,
    /// It had been closed before.
    Already,
    /// It is not the newest return, or none at all.
    Stale,
}

/// Closes a return, if it is the newest, and all before it that are open still.
pub(super) fn close(
    connection: &Connection,
    epoch: u64,
    closed: &Closed,
) -> rusqlite::Result<Closing> {
    let newest = "SELECT epoch, closed_at IS NULL FROM returns ORDER BY epoch DESC LIMIT 1";
    let newest = connection.query_row(newest, [], |row| Ok((row.get(0)?, row.get(1)?)));
    let newest: Option<(u64, bool)> = newest.optional()?;
    match newest {
        Some((found, true)) if found == epoch => {
            let text = "UPDATE returns SET closed_at = ?2, closed_by = ?3, close_reason = ?4 \
                 WHERE epoch <= ?1 AND closed_at IS NULL";
            let Closed { at, actor, reason } = closed;
            connection.execute(text, params![epoch, at.0, actor, reason])?;
            connection.execute(seals::RESEAL_RETURNS, params![epoch, at.0])?;
            Ok(Closing::Done)
        }
        Some((found, false)) if found == epoch => Ok(Closing::Already),
        Some(_) | None => Ok(Closing::Stale),
    }
}
