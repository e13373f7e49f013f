//! How much there is to look after in a file: each count is read off an index of what is open.

use rusqlite::{Connection, params};
use semel_core::time::Wall;

use super::reader::ReadError;
use crate::Tally;
use crate::upkeep::OPEN_RUNS;

/// Rows of one state lie in the index in the order in which they came: the first is the oldest.
const IN_DOUBT: &str = "SELECT count(*), min(created_at) FROM (SELECT created_at \
     FROM effects INDEXED BY effects_attention WHERE state = 'in_doubt' \
     AND state <> 'pending' AND state <> 'done' AND state <> 'expired' LIMIT ?1)";
const HELD: &str = "SELECT count(*) FROM (SELECT 1 FROM effects INDEXED BY effects_held \
     WHERE held = 1 LIMIT ?1)";
const ALARMED: &str = "SELECT count(*) FROM (SELECT 1 FROM effects INDEXED BY effects_alarmed \
     WHERE alarmed = 1 LIMIT ?1)";
const RUNS: &str = "SELECT count(*) FROM (SELECT 1 FROM runs INDEXED BY runs_open \
     WHERE state = ?2 AND state <> 'done' AND state <> 'failed' AND state <> 'cancelled' \
     AND state <> 'expired' LIMIT ?1)";

pub(super) fn tally(connection: &Connection, most: u32) -> Result<Tally, ReadError> {
    let count = |text: &str| {
        let mut statement = connection.prepare_cached(text)?;
        statement.query_one([most], |row| row.get::<_, u32>(0))
    };
    let (in_doubt, oldest): (u32, Option<i64>) = connection
        .prepare_cached(IN_DOUBT)?
        .query_one([most], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let mut tally = Tally {
        in_doubt,
        oldest_in_doubt: oldest.map(Wall),
        held: count(HELD)?,
        alarmed: count(ALARMED)?,
        ..Tally::default()
    };
    let mut runs = connection.prepare_cached(RUNS)?;
    for state in OPEN_RUNS {
        let count = runs.query_one(params![most, state], |row| row.get(0))?;
        tally.runs.insert(state.to_owned(), count);
    }
    Ok(tally)
}
