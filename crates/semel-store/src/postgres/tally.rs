//! How much there is to look after: each count is read off an index of what is open.

use semel_core::time::Wall;
use tokio_postgres::types::Type;

use super::connect::Door;
use super::load::get;
use super::rows::read;
use crate::upkeep::OPEN_RUNS;
use crate::{StoreError, Tally};

/// By state and row, as the index has them: the first is the oldest.
const COUNTS: &str = "SELECT 'in_doubt', count(*), min(created_at) FROM (SELECT created_at \
     FROM semel.effects WHERE state = 'in_doubt' AND state NOT IN ('pending', 'done', 'expired') \
     ORDER BY row LIMIT $1) AS found \
     UNION ALL SELECT 'held', count(*), NULL \
     FROM (SELECT 1 FROM semel.effects WHERE held LIMIT $1) AS found \
     UNION ALL SELECT 'alarmed', count(*), NULL \
     FROM (SELECT 1 FROM semel.effects WHERE alarmed LIMIT $1) AS found \
     UNION ALL SELECT 'run ' || asked.state, \
     (SELECT count(*) FROM (SELECT 1 FROM semel.runs WHERE runs.state = asked.state \
     AND runs.state NOT IN ('done', 'failed', 'cancelled', 'expired') LIMIT $1) AS found), NULL \
     FROM unnest($2::text[]) AS asked (state)";

pub(super) async fn tally(door: &Door, most: u32) -> Result<Tally, StoreError> {
    let (most, states) = (i64::from(most), OPEN_RUNS.map(str::to_owned).to_vec());
    let mut tally = Tally::default();
    for row in &read(door, COUNTS, &[(&most, Type::INT8), (&states, Type::TEXT_ARRAY)]).await? {
        let (what, count): (&str, i64) = (get(row, 0)?, get(row, 1)?);
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        match what {
            "in_doubt" => {
                tally.in_doubt = count;
                tally.oldest_in_doubt = get::<Option<i64>>(row, 2)?.map(Wall);
            }
            "held" => tally.held = count,
            "alarmed" => tally.alarmed = count,
            run => drop(tally.runs.insert(run.trim_start_matches("run ").to_owned(), count)),
        }
    }
    Ok(tally)
}
