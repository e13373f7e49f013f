//! Runs as rows, reading: the statements, all of them with bound parameters only.

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use semel_core::journal::Link;
use semel_core::limits;
use semel_core::run::{CODELESS_LANES, Run};
use semel_core::time::Steady;
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use super::connect::in_time;
use super::load::{self, get, unsigned};
use super::rows::{read, sql_limit, widening};
use super::wire::Param;
use super::{Postgres, Shared, store_error};
use crate::readable::readable;
use crate::runs::read_run;
use crate::upkeep::RawJournal;
use crate::veil::Place;
use crate::{
    Delivery, DueRuns, Inked, RunPage, RunQuery, Runs, Store, StoreError, Unreadable, Write,
};

pub(super) fn run(shared: &Shared, row: &SqlRow) -> Result<Run, StoreError> {
    let (record, namespace): (&str, &str) = (get(row, 3)?, get(row, 5)?);
    let name = (namespace, get(row, 0)?);
    let run = read_run(&shared.veil, name, record, get(row, 4)?, unsigned(row, 1)?)?;
    // Guards compare the columns; were they not those of the record, they would guard nothing.
    if run.number != name.1 || run.fence != unsigned(row, 2)? {
        return Err(StoreError::Corrupt("a run's columns differ from its record".into()));
    }
    Ok(run)
}

pub(super) fn inked(row: &SqlRow) -> Result<Inked, StoreError> {
    let link = Link(load::link(row, 1)?);
    Ok(Inked { seq: unsigned(row, 0)?, link, text: get(row, 2)? })
}

const RUN: &str = "SELECT number, version, fence, record, sum, namespace FROM semel.runs \
     WHERE namespace = $1 AND id = $2";

const NAMESPACE_OF: &str = "SELECT namespace FROM semel.runs WHERE number = $1";

pub(super) const JOURNAL: &str = "SELECT seq, link, entry FROM semel.journal \
     WHERE run = $1 AND seq >= $2 \
     ORDER BY seq LIMIT $3";

const LAST_ENTRY: &str =
    "SELECT seq, link, entry FROM semel.journal WHERE run = $1 ORDER BY seq DESC LIMIT 1";

const INBOX: &str = "SELECT run, number, identity, name, payload, at, consumed, seal \
     FROM semel.inbox WHERE run = $1 AND NOT consumed ORDER BY number";

const DELIVERY: &str = "SELECT run, number, identity, name, payload, at, consumed, seal \
     FROM semel.inbox WHERE run = $1 AND identity = $2";

const BLOB: &str = "SELECT text FROM semel.blobs WHERE namespace = $1 AND digest = $2";

const SWEEPABLE: &str = "SELECT number, version, fence, record, sum, namespace FROM semel.runs \
     WHERE sweep_at IS NOT NULL AND sweep_at <= $1 ORDER BY sweep_at, number LIMIT $2";

/// One step in the index for each lane, however many runs it has.
const CODELESS: &str = "WITH RECURSIVE codeless(lane) AS (\
     (SELECT lane FROM semel.runs WHERE lane > $1 AND lane < $2 AND wake_at IS NOT NULL \
     ORDER BY lane LIMIT 1) UNION ALL \
     SELECT (SELECT r.lane FROM semel.runs AS r WHERE r.lane > c.lane AND r.lane < $2 \
     AND r.wake_at IS NOT NULL ORDER BY r.lane LIMIT 1) FROM codeless AS c \
     WHERE c.lane IS NOT NULL) \
     SELECT lane FROM codeless WHERE lane IS NOT NULL LIMIT $3";

const NEXT_QUEUED: &str = "SELECT number, version, fence, record, sum, namespace FROM semel.runs \
     WHERE queue = $1 AND queue IS NOT NULL ORDER BY queue, number LIMIT 1";

/// Texts of lists: of one unfinished state, which are few whatever the history, and of all. Both go
/// along an index in the order of its rows, and pass over a bounded number.
static LISTS: LazyLock<(String, String)> = LazyLock::new(|| {
    let open = "state = $4 AND state NOT IN ('done', 'failed', 'cancelled', 'expired')";
    (walk(open), walk("true"))
});

/// The seventh column says where the search goes on, should it have been cut.
fn walk(which: &str) -> String {
    format!(
        "WITH seen AS MATERIALIZED (SELECT number, namespace, workflow, key, state \
         FROM semel.runs WHERE {which} AND number < $5 ORDER BY number DESC LIMIT $7), \
         found AS MATERIALIZED (SELECT number FROM seen \
         WHERE ($1::text IS NULL OR namespace = $1) AND ($2::text IS NULL OR workflow = $2) \
         AND ($3::text IS NULL OR key = $3) AND ($4::text IS NULL OR state = $4) \
         ORDER BY number DESC LIMIT $6) \
         SELECT r.number, r.version, r.fence, r.record, r.sum, r.namespace, \
         CASE WHEN cut.count = $7 THEN cut.floor END, r.id \
         FROM (SELECT count(*) AS count, min(number) AS floor FROM seen) AS cut \
         LEFT JOIN found ON true LEFT JOIN semel.runs AS r ON r.number = found.number \
         ORDER BY r.number DESC NULLS LAST"
    )
}

#[async_trait]
impl Runs for Postgres {
    async fn run(&self, namespace: &str, id: &str) -> Result<Option<Run>, StoreError> {
        let params: [Param<'_>; 2] = [(&namespace, Type::TEXT), (&id, Type::TEXT)];
        let found = read(&self.door, RUN, &params).await?;
        found.first().map(|row| run(self.shared(), row)).transpose()
    }

    async fn namespace_of(&self, run: i64) -> Result<Option<String>, StoreError> {
        let found = read(&self.door, NAMESPACE_OF, &[(&run, Type::INT8)]).await?;
        found.first().map(|row| get(row, 0)).transpose()
    }

    async fn journal(&self, run: i64, from: u64, limit: usize) -> Result<Vec<Inked>, StoreError> {
        let entries = self.raw_journal(run, from, limit).await?;
        entries.into_iter().map(|entry| entry.revealed(&self.shared().veil, run)).collect()
    }

    async fn last_entry(&self, run: i64) -> Result<Option<Inked>, StoreError> {
        let found = read(&self.door, LAST_ENTRY, &[(&run, Type::INT8)]).await?;
        let last = found.first().map(inked).transpose()?;
        last.map(|entry| entry.revealed(&self.shared().veil, run)).transpose()
    }

    async fn inbox(&self, run: i64) -> Result<Vec<Delivery>, StoreError> {
        let found = read(&self.door, INBOX, &[(&run, Type::INT8)]).await?;
        let reveal = |row| load::delivery(row)?.revealed(&self.shared().veil);
        found.iter().map(reveal).collect()
    }

    async fn delivery(&self, run: i64, identity: &str) -> Result<Option<Delivery>, StoreError> {
        let params: [Param<'_>; 2] = [(&run, Type::INT8), (&identity, Type::TEXT)];
        let found = read(&self.door, DELIVERY, &params).await?;
        let reveal = |row| load::delivery(row)?.revealed(&self.shared().veil);
        found.first().map(reveal).transpose()
    }

    async fn blob(&self, namespace: &str, digest: &str) -> Result<Option<String>, StoreError> {
        let params: [Param<'_>; 2] = [(&namespace, Type::TEXT), (&digest, Type::TEXT)];
        let found = read(&self.door, BLOB, &params).await?;
        let reveal = |row| {
            let place = Place::Blob(digest);
            self.shared().veil.reveal_owned(Some(namespace), place, get(row, 0)?)
        };
        found.first().map(reveal).transpose()
    }

    async fn due_runs(&self, lane: &str, limit: usize) -> Result<DueRuns, StoreError> {
        self.look_for_due(lane, limit).await
    }

    async fn codeless_lanes(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let (first, end) = CODELESS_LANES;
        let (after, limit) = (after.max(first), sql_limit(limit));
        let params: [Param<'_>; 3] =
            [(&after, Type::TEXT), (&end, Type::TEXT), (&limit, Type::INT8)];
        let found = read(&self.door, CODELESS, &params).await?;
        found.iter().map(|row| get(row, 0)).collect()
    }

    async fn next_queued(&self, queue: &str) -> Result<Option<Run>, StoreError> {
        let found = read(&self.door, NEXT_QUEUED, &[(&queue, Type::TEXT)]).await?;
        found.first().map(|row| run(self.shared(), row)).transpose()
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<RunPage, StoreError> {
        let _turn = self.door.list_turn().await?;
        let state = query.state.map(|state| state.as_str());
        let after = query.after.unwrap_or(i64::MAX);
        let limit = sql_limit(query.limit).saturating_add(1);
        let most = sql_limit(limits::LIST_ROWS_MAX);
        let params: [Param<'_>; 7] = [
            (&query.namespace, Type::TEXT),
            (&query.workflow, Type::TEXT),
            (&query.key, Type::TEXT),
            (&state, Type::TEXT),
            (&after, Type::INT8),
            (&limit, Type::INT8),
            (&most, Type::INT8),
        ];
        let text = match query.state {
            Some(state) if !state.is_final() => &LISTS.0,
            Some(_) | None => &LISTS.1,
        };
        let found = read(&self.door, text, &params).await?;
        // A row without a number only says how far the search went.
        let named = found.iter().filter(|row| matches!(get::<Option<i64>>(*row, 0), Ok(Some(_))));
        let named: Vec<&SqlRow> = named.collect();
        let mut page = RunPage::default();
        for row in named.iter().take(query.limit) {
            let id: &str = get(*row, 7)?;
            match Unreadable::set_aside(run(self.shared(), row), get(*row, 5)?, || id.to_owned())? {
                Ok(run) => page.runs.push(run),
                Err(unreadable) => page.unreadable.push(unreadable),
            }
        }
        page.next = match named.len() > query.limit {
            true => {
                let last = query.limit.checked_sub(1).and_then(|last| named.get(last));
                last.map(|row| get(*row, 0)).transpose()?
            }
            false => found.first().map(|row| get::<Option<i64>>(row, 6)).transpose()?.flatten(),
        };
        Ok(page)
    }

    async fn sweepable_runs(&self, limit: usize) -> Result<Vec<Run>, StoreError> {
        let now = self.ground().now.wall;
        let mut runs = Vec::new();
        for asked in widening(limit) {
            let sql_limit = sql_limit(asked);
            let params: [Param<'_>; 2] = [(&now.0, Type::INT8), (&sql_limit, Type::INT8)];
            let found = read(&self.door, SWEEPABLE, &params).await?;
            runs.clear();
            for row in &found {
                runs.extend(readable("run", get(row, 5)?, run(self.shared(), row))?);
            }
            if runs.len() >= limit || found.len() < asked {
                break;
            }
        }
        runs.truncate(limit);
        Ok(runs)
    }
}

/// Runs that are due, from a point on: what lies before it was seen to be empty a moment ago. The
/// index keeps the entries of finished runs until a vacuum, and a vacuum may have to wait for
/// somebody's old snapshot; walking over them each time would cost more with every run. What was
/// shown for longer than anything is was so by a clock that is gone.
const DUE: &str = "SELECT number, version, fence, record, sum, namespace, wake_at, shown_to = $4 \
     FROM semel.runs WHERE lane = $1 AND wake_at IS NOT NULL AND wake_at >= $2 \
     AND (shown_to IS NULL OR shown_to = $4 OR shown_until NOT BETWEEN $3 + 1 AND $3 + 60000) \
     ORDER BY wake_at, number LIMIT $5";

/// What was shown to somebody else counts here: it may come back.
const EARLIEST: &str = "SELECT wake_at FROM semel.runs WHERE lane = $1 AND wake_at IS NOT NULL \
     AND wake_at >= $2 ORDER BY wake_at LIMIT 1";

/// Marks runs as shown to this process, so that the others look at other ones meanwhile. A hint:
/// the take itself is guarded.
const SHOW: &str = "WITH free AS (SELECT number FROM semel.runs WHERE number = ANY($1::bigint[]) \
     AND (shown_to IS NULL OR shown_to = $2 OR shown_until NOT BETWEEN $3 + 1 AND $3 + 60000) \
     ORDER BY number FOR UPDATE SKIP LOCKED) \
     UPDATE semel.runs AS r SET shown_to = $2, shown_until = $4 FROM free \
     WHERE r.number = free.number RETURNING r.number";

/// How long others leave alone what was shown to one process.
const SHOWN_MS: i64 = 2_000;

/// How far before now a look begins at the latest: what was written a moment ago may bear an
/// earlier time.
const SLACK_MS: i64 = 5_000;

/// How often a lane is looked at from its beginning, at the most.
const WHOLE_EVERY_MS: i64 = 10_000;

/// A look at a whole lane takes at most one part in so many of all time.
const WHOLE_SHARE: i64 = 50;

/// From where on each lane has to be looked at.
#[derive(Default)]
pub(super) struct Looks {
    lanes: Mutex<Lanes>,
}

#[derive(Default)]
struct Lanes {
    looks: HashMap<String, Look>,
    /// How many runs were written with a time long past: a look that began before one of them may
    /// not have seen it.
    late_count: u64,
}

#[derive(Clone, Copy)]
struct Look {
    boot: u64,
    floor_ms: i64,
    /// When the whole lane is looked at again, on our own clock.
    whole_at_ms: i64,
}

/// A look on its way.
#[derive(Clone, Copy)]
struct Begun {
    /// `None`: at the whole lane.
    floor_ms: Option<i64>,
    late_count: u64,
    at_ms: i64,
}

impl Looks {
    fn lanes(&self) -> MutexGuard<'_, Lanes> {
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, lane: &str, now: Steady, at_ms: i64) -> Begun {
        let lanes = self.lanes();
        let look = lanes.looks.get(lane).filter(|look| look.boot == now.boot);
        let look = look.filter(|look| at_ms < look.whole_at_ms);
        let floor_ms = look.map(|look| look.floor_ms);
        Begun { floor_ms, late_count: lanes.late_count, at_ms }
    }

    /// Notes what was written: a run may come into a lane with a time that has long passed, such as
    /// one that is cancelled after its holder died.
    pub(super) fn wrote(&self, writes: &[Write], now: Steady) {
        let rows = writes.iter().filter_map(|write| match write {
            Write::StartRun(row) | Write::UpdateRun(row) => Some(row),
            Write::DropRun { row, .. } => row.as_ref(),
            Write::InEpoch(_)
            | Write::Insert(_)
            | Write::Update(_)
            | Write::Remove { .. }
            | Write::Append(_)
            | Write::Holds { .. }
            | Write::Deliver(_)
            | Write::Consume { .. }
            | Write::Touch { .. }
            | Write::Blob { .. }
            | Write::Card(_)
            | Write::DropCard { .. } => None,
        });
        for row in rows {
            let Some(wake_at) = row.wake_at.filter(|at| at.ms < now.ms - SLACK_MS / 2) else {
                continue;
            };
            let mut lanes = self.lanes();
            lanes.late_count += 1;
            if let Some(look) = lanes.looks.get_mut(&row.lane) {
                look.floor_ms = look.floor_ms.min(wake_at.ms);
            }
        }
    }

    /// Notes what a look saw first, and when it ended.
    fn end(&self, lane: &str, now: Steady, begun: Begun, earliest: Option<i64>, ended_ms: i64) {
        let floor_ms = (now.ms - SLACK_MS).min(earliest.unwrap_or(i64::MAX));
        let mut lanes = self.lanes();
        let has_seen_all = lanes.late_count == begun.late_count;
        match (begun.floor_ms, lanes.looks.get_mut(lane)) {
            (Some(_), Some(look)) if has_seen_all => look.floor_ms = floor_ms,
            (Some(_), Some(look)) => look.floor_ms = look.floor_ms.min(floor_ms),
            (Some(_), None) => {}
            (None, _) if has_seen_all => {
                let pause = WHOLE_EVERY_MS.max((ended_ms - begun.at_ms) * WHOLE_SHARE);
                let look = Look { boot: now.boot, floor_ms, whole_at_ms: ended_ms + pause };
                lanes.looks.insert(lane.to_owned(), look);
            }
            // Once more.
            (None, _) => {}
        }
    }
}

impl Postgres {
    async fn look_for_due(&self, lane: &str, limit: usize) -> Result<DueRuns, StoreError> {
        self.tell_time().await?;
        let shared = &self.door.shared;
        let now = self.ground().now.steady;
        let begun = shared.looks.begin(lane, now, shared.time.local_ms());
        let from = begun.floor_ms.unwrap_or(i64::MIN);
        let mut due = DueRuns::default();
        let mut unshown = Vec::new();
        for asked in widening(limit) {
            let sql_limit = sql_limit(asked).saturating_add(1);
            let params: [Param<'_>; 5] = [
                (&lane, Type::TEXT),
                (&from, Type::INT8),
                (&now.ms, Type::INT8),
                (&shared.worker, Type::TEXT),
                (&sql_limit, Type::INT8),
            ];
            let (found, earliest) = tokio::try_join!(
                read(&self.door, DUE, &params),
                read(&self.door, EARLIEST, &params[..2]),
            )?;
            let earliest = earliest.first().map(|row| get(row, 0)).transpose()?;
            shared.looks.end(lane, now, begun, earliest, shared.time.local_ms());
            (due, unshown) = self.due_of(&found, limit, now)?;
            if due.next.is_some() || found.len() <= asked {
                break;
            }
        }
        if !unshown.is_empty() && self.writer.is_some() {
            let shown = self.show(&unshown, now).await?;
            let unshown: HashSet<i64> = unshown.into_iter().collect();
            let is_ours = |run: &Run| !unshown.contains(&run.number) || shown.contains(&run.number);
            due.runs.retain(is_ours);
        }
        Ok(due)
    }

    /// What can be read of the rows that were found, and which of it nobody was shown before.
    fn due_of(
        &self,
        found: &[SqlRow],
        limit: usize,
        now: Steady,
    ) -> Result<(DueRuns, Vec<i64>), StoreError> {
        let shared = &self.door.shared;
        let (mut due, mut unshown) = (DueRuns::default(), Vec::new());
        for row in found {
            let wake_ms: i64 = get(row, 6)?;
            if due.runs.len() == limit || wake_ms > now.ms {
                due.next = Some(Steady { ms: wake_ms, ..now });
                break;
            }
            let Some(run) = readable("run", get(row, 5)?, run(shared, row))? else { continue };
            if get::<Option<bool>>(row, 7)? != Some(true) {
                unshown.push(run.number);
            }
            due.runs.push(run);
        }
        Ok((due, unshown))
    }

    async fn show(&self, numbers: &[i64], now: Steady) -> Result<HashSet<i64>, StoreError> {
        let session = self.door.enter().await?;
        let worker = &self.door.shared.worker;
        let until_ms = now.ms + SHOWN_MS;
        session.hold();
        let shown = async {
            // Not worth a wait for the disk: lost, it is only shown to somebody else.
            session.client().batch_execute("BEGIN; SET LOCAL synchronous_commit = off").await?;
            let params: [Param<'_>; 4] = [
                (&numbers, Type::INT8_ARRAY),
                (worker, Type::TEXT),
                (&now.ms, Type::INT8),
                (&until_ms, Type::INT8),
            ];
            let rows = session.query(SHOW, &params).await?;
            session.client().batch_execute("COMMIT").await?;
            Ok(rows)
        };
        let shown: Result<Vec<SqlRow>, tokio_postgres::Error> = in_time(shown).await?;
        let rows = shown.map_err(|error| store_error(&error))?;
        session.release();
        rows.iter().map(|row| get(row, 0)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Steady = Steady { boot: 1, ms: 100_000 };

    #[test]
    fn a_look_that_began_before_a_late_run_was_written_does_not_pass_it_by() {
        let looks = Looks::default();
        let first = looks.begin("l", NOW, 0);
        assert_eq!(first.floor_ms, None, "the whole lane");
        looks.end("l", NOW, first, None, 1);
        let second = looks.begin("l", NOW, 2);
        assert_eq!(second.floor_ms, Some(NOW.ms - SLACK_MS));

        let mut lanes = looks.lanes();
        lanes.late_count += 1;
        lanes.looks.get_mut("l").expect("it was looked at").floor_ms = 7;
        drop(lanes);
        looks.end("l", NOW, second, None, 3);
        let third = looks.begin("l", NOW, 4);
        assert_eq!(third.floor_ms, Some(7));
        looks.end("l", NOW, third, None, 5);
        assert_eq!(looks.begin("l", NOW, 6).floor_ms, Some(NOW.ms - SLACK_MS), "it was seen");
    }
}
