//! The runs of a store in memory, as every store keeps them.

use std::collections::BTreeSet;

use async_trait::async_trait;
use semel_core::journal::Link;
use semel_core::run::{self, Run};
use semel_core::time::Steady;

use super::Memory;
use crate::Veil;
use crate::model::runs::{deliveries, entries};
use crate::runs::read_run;
use crate::{Delivery, DueRuns, Inked, RunPage, RunQuery, RunRow, Runs, Store, StoreError};

#[async_trait]
impl Runs for Memory {
    async fn run(&self, namespace: &str, id: &str) -> Result<Option<Run>, StoreError> {
        let rows = self.rows();
        let runs = &rows.runs;
        let number = runs.names.get(&(namespace.to_owned(), id.to_owned()));
        number.and_then(|number| runs.runs.get(number)).map(read).transpose()
    }

    async fn namespace_of(&self, run: i64) -> Result<Option<String>, StoreError> {
        Ok(self.rows().runs.runs.get(&run).map(|row| row.namespace.clone()))
    }

    async fn journal(&self, run: i64, from: u64, limit: usize) -> Result<Vec<Inked>, StoreError> {
        let rows = self.rows();
        let found = rows.runs.journal.rows().range((run, from)..=(run, u64::MAX)).take(limit);
        Ok(found.map(inked).collect())
    }

    async fn last_entry(&self, run: i64) -> Result<Option<Inked>, StoreError> {
        Ok(self.rows().runs.journal.rows().range(entries(run)).next_back().map(inked))
    }

    async fn inbox(&self, run: i64) -> Result<Vec<Delivery>, StoreError> {
        let rows = self.rows();
        let of_run = rows.runs.inbox.rows().range(deliveries(run)).map(|(_, delivery)| delivery);
        Ok(of_run.filter(|delivery| !delivery.consumed).cloned().collect())
    }

    async fn delivery(&self, run: i64, identity: &str) -> Result<Option<Delivery>, StoreError> {
        Ok(self.rows().runs.delivery(run, identity).cloned())
    }

    async fn blob(&self, namespace: &str, digest: &str) -> Result<Option<String>, StoreError> {
        Ok(self.rows().runs.blobs.get(&(namespace.to_owned(), digest.to_owned())).cloned())
    }

    async fn due_runs(&self, lane: &str, limit: usize) -> Result<DueRuns, StoreError> {
        let now = self.ground().now.steady;
        let rows = self.rows();
        let of_lane = rows.runs.runs.rows().values().filter(|row| row.lane == lane);
        let mut waiting: Vec<_> =
            of_lane.filter_map(|row| Some((row.wake_at?.ms, row.number, row))).collect();
        waiting.sort_by_key(|(ms, number, _)| (*ms, *number));
        let ready = waiting.iter().take(limit).take_while(|(ms, ..)| *ms <= now.ms);
        let runs = ready.map(|(.., row)| read(row)).collect::<Result<Vec<_>, _>>()?;
        let next = waiting.get(runs.len()).map(|(ms, ..)| Steady { ms: *ms, ..now });
        Ok(DueRuns { runs, next })
    }

    async fn codeless_lanes(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let (first, end) = run::CODELESS_LANES;
        let rows = self.rows();
        let open = rows.runs.runs.rows().values().filter(|row| row.wake_at.is_some());
        let lanes = open.map(|row| row.lane.as_str());
        let lanes = lanes.filter(|lane| *lane > after.max(first) && *lane < end);
        let lanes: BTreeSet<&str> = lanes.collect();
        Ok(lanes.into_iter().take(limit).map(str::to_owned).collect())
    }

    async fn next_queued(&self, queue: &str) -> Result<Option<Run>, StoreError> {
        let rows = self.rows();
        let mut runs = rows.runs.runs.rows().values();
        runs.find(|row| row.queue.as_deref() == Some(queue)).map(read).transpose()
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<RunPage, StoreError> {
        let rows = self.rows();
        let newest_first = rows.runs.runs.rows().values().rev();
        let mut found = newest_first.filter(|row| matches(query, row));
        let page: Vec<_> = found.by_ref().take(query.limit).collect();
        let next = page.last().filter(|_| found.next().is_some()).map(|row| row.number);
        let runs = page.into_iter().map(read).collect::<Result<_, _>>()?;
        Ok(RunPage { runs, next, unreadable: Vec::new() })
    }

    async fn sweepable_runs(&self, limit: usize) -> Result<Vec<Run>, StoreError> {
        let now = self.ground().now.wall;
        let rows = self.rows();
        let mut due: Vec<_> = rows
            .runs
            .runs
            .rows()
            .values()
            .filter(|row| row.sweep_at.is_some_and(|at| at <= now))
            .collect();
        due.sort_by_key(|row| (row.sweep_at, row.number));
        due.into_iter().take(limit).map(read).collect()
    }
}

fn read(row: &RunRow) -> Result<Run, StoreError> {
    let name = (row.namespace.as_str(), row.number);
    read_run(&Veil::default(), name, &row.record, row.sum, row.version)
}

fn inked(((_, seq), (link, text)): (&(i64, u64), &(Link, String))) -> Inked {
    Inked { seq: *seq, link: *link, text: text.clone() }
}

fn matches(query: &RunQuery, row: &RunRow) -> bool {
    query.namespace.as_ref().is_none_or(|namespace| row.namespace == *namespace)
        && query.workflow.as_ref().is_none_or(|workflow| row.workflow == *workflow)
        && query.key.as_ref().is_none_or(|key| row.key == *key)
        && query.state.is_none_or(|state| row.state == state)
        && query.after.is_none_or(|after| row.number < after)
}
