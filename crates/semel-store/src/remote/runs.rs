//! The runs of a store over HTTP, as every store keeps them.

use async_trait::async_trait;
use semel_core::key::Namespace;
use semel_core::run::{self, Run};
use semel_core::time::Steady;

use super::Remote;
use super::protocol::{DeliveryShape, InkedShape, Read, RunSeen};
use crate::{Delivery, DueRuns, Inked, RunPage, RunQuery, Runs, StoreError};

#[async_trait]
impl Runs for Remote {
    async fn run(&self, namespace: &str, id: &str) -> Result<Option<Run>, StoreError> {
        let read = Read::Run { namespace: namespace.into(), id: id.into() };
        Ok(self.read::<Option<RunSeen>>(read).await?.map(Run::from))
    }

    async fn namespace_of(&self, run: i64) -> Result<Option<String>, StoreError> {
        self.read(Read::NamespaceOf { run }).await
    }

    /// The server cuts an answer that grows too large; a page is asked for until it is whole.
    async fn journal(&self, run: i64, from: u64, limit: usize) -> Result<Vec<Inked>, StoreError> {
        let mut entries: Vec<Inked> = Vec::new();
        loop {
            let from = entries.last().map_or(from, |last| last.seq + 1);
            let read = Read::Journal { run, from, limit: limit - entries.len() };
            let (page, is_cut): (Vec<InkedShape<'static>>, bool) = self.read(read).await?;
            let is_empty = page.is_empty();
            entries.extend(page.into_iter().map(Inked::from));
            if !is_cut || is_empty || entries.len() >= limit {
                return Ok(entries);
            }
        }
    }

    async fn last_entry(&self, run: i64) -> Result<Option<Inked>, StoreError> {
        let found: Option<InkedShape<'static>> = self.read(Read::LastEntry { run }).await?;
        Ok(found.map(Inked::from))
    }

    async fn inbox(&self, run: i64) -> Result<Vec<Delivery>, StoreError> {
        let found: Vec<DeliveryShape<'static>> = self.read(Read::Inbox { run }).await?;
        Ok(found.into_iter().map(Delivery::from).collect())
    }

    async fn delivery(&self, run: i64, identity: &str) -> Result<Option<Delivery>, StoreError> {
        let read = Read::Delivery { run, identity: identity.into() };
        Ok(self.read::<Option<DeliveryShape<'static>>>(read).await?.map(Delivery::from))
    }

    async fn blob(&self, namespace: &str, digest: &str) -> Result<Option<String>, StoreError> {
        self.read(Read::Blob { namespace: namespace.into(), digest: digest.into() }).await
    }

    /// Asked without a wait: a worker has many lanes, and hears of news by `hints`.
    async fn due_runs(&self, lane: &str, limit: usize) -> Result<DueRuns, StoreError> {
        let read = Read::DueRuns { lane: lane.into(), limit, wait_ms: 0 };
        let (runs, next): (Vec<RunSeen>, Option<Steady>) = self.read(read).await?;
        Ok(DueRuns { runs: runs.into_iter().map(Run::from).collect(), next })
    }

    /// Those that this store can see: a worker need not ask for them.
    async fn codeless_lanes(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        let own = Namespace::stored(self.namespace()).unwrap_or_default();
        let lanes = [own.live(), own.draft()].map(|name| run::codeless_lane(name.as_str()));
        Ok(lanes.into_iter().filter(|lane| lane.as_str() > after).take(limit).collect())
    }

    async fn next_queued(&self, queue: &str) -> Result<Option<Run>, StoreError> {
        let read = Read::NextQueued { queue: queue.into() };
        Ok(self.read::<Option<RunSeen>>(read).await?.map(Run::from))
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<RunPage, StoreError> {
        let ((runs, next), unreadable): ((Vec<RunSeen>, Option<i64>), _) =
            self.read_page(Read::ListRuns(query.into())).await?;
        let runs = runs.into_iter().map(Run::from).collect();
        Ok(RunPage { runs, next, unreadable })
    }

    async fn sweepable_runs(&self, limit: usize) -> Result<Vec<Run>, StoreError> {
        let found: Vec<RunSeen> = self.read(Read::SweepableRuns { limit }).await?;
        Ok(found.into_iter().map(Run::from).collect())
    }
}
