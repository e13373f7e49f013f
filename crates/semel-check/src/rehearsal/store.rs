//! A store, with somebody watching before and after each commit.

use std::sync::Arc;

use async_trait::async_trait;
use semel_core::effect::Ground;
use semel_core::journal::{self, Event};
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::redact::Redactor;
use semel_core::run::Run;
use semel_store::{
    Batch, Card, CardPage, CardQuery, Cards, Clock, CommitError, Delivery, DueCursor, DuePage,
    DueRuns, Inked, Page, Query, RunPage, RunQuery, Runs, Store, StoreError, Write,
};
use tokio::sync::watch;

use super::points::Points;

/// What happens around the doings of a store: whoever does not return is dead or stopped there.
#[async_trait]
pub trait Around: Send + Sync + 'static {
    async fn before(&self, batch: &Batch);
    async fn after(&self, batch: &Batch);
    /// Before each read.
    async fn reading(&self) {}
}

/// A store that is watched.
pub struct Watched<P> {
    pub store: Arc<dyn Store>,
    pub points: Arc<P>,
}

/// A store that passes a point on either side of each commit.
pub type Pointed = Watched<Points>;

#[async_trait]
impl Around for Points {
    async fn before(&self, batch: &Batch) {
        self.pass(&names("before", batch));
    }

    async fn after(&self, batch: &Batch) {
        self.pass(&names("after", batch));
    }
}

#[async_trait]
impl<P: Around> Store for Watched<P> {
    async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        self.points.before(&batch).await;
        let answer = self.store.commit(batch.clone()).await;
        self.points.after(&batch).await;
        answer
    }

    fn ground(&self) -> Ground {
        self.store.ground()
    }

    fn clock(&self) -> &Clock {
        self.store.clock()
    }

    fn redactor(&self) -> Option<&Redactor> {
        self.store.redactor()
    }

    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError> {
        self.points.reading().await;
        self.store.load(address).await
    }

    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError> {
        self.points.reading().await;
        self.store.load_generation(address, generation).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        self.points.reading().await;
        self.store.list(query).await
    }

    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError> {
        self.points.reading().await;
        self.store.due(after, limit).await
    }

    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError> {
        self.points.reading().await;
        self.store.sweepable(limit).await
    }

    fn session(&self) -> Option<&str> {
        self.store.session()
    }

    fn is_dead(&self, session: &str) -> bool {
        self.store.is_dead(session)
    }

    fn dead_sessions(&self) -> Vec<String> {
        self.store.dead_sessions()
    }

    fn bury(&self, session: &str) {
        self.store.bury(session);
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.store.hints()
    }
}

#[async_trait]
impl<P: Around> Runs for Watched<P> {
    async fn run(&self, namespace: &str, id: &str) -> Result<Option<Run>, StoreError> {
        self.points.reading().await;
        self.store.run(namespace, id).await
    }

    async fn namespace_of(&self, run: i64) -> Result<Option<String>, StoreError> {
        self.points.reading().await;
        self.store.namespace_of(run).await
    }

    async fn journal(&self, run: i64, from: u64, limit: usize) -> Result<Vec<Inked>, StoreError> {
        self.points.reading().await;
        self.store.journal(run, from, limit).await
    }

    async fn last_entry(&self, run: i64) -> Result<Option<Inked>, StoreError> {
        self.points.reading().await;
        self.store.last_entry(run).await
    }

    async fn inbox(&self, run: i64) -> Result<Vec<Delivery>, StoreError> {
        self.points.reading().await;
        self.store.inbox(run).await
    }

    async fn delivery(&self, run: i64, identity: &str) -> Result<Option<Delivery>, StoreError> {
        self.points.reading().await;
        self.store.delivery(run, identity).await
    }

    async fn blob(&self, namespace: &str, digest: &str) -> Result<Option<String>, StoreError> {
        self.points.reading().await;
        self.store.blob(namespace, digest).await
    }

    async fn due_runs(&self, lane: &str, limit: usize) -> Result<DueRuns, StoreError> {
        self.points.reading().await;
        self.store.due_runs(lane, limit).await
    }

    async fn codeless_lanes(&self, after: &str, limit: usize) -> Result<Vec<String>, StoreError> {
        self.store.codeless_lanes(after, limit).await
    }

    async fn next_queued(&self, queue: &str) -> Result<Option<Run>, StoreError> {
        self.points.reading().await;
        self.store.next_queued(queue).await
    }

    async fn list_runs(&self, query: &RunQuery) -> Result<RunPage, StoreError> {
        self.points.reading().await;
        self.store.list_runs(query).await
    }

    async fn sweepable_runs(&self, limit: usize) -> Result<Vec<Run>, StoreError> {
        self.points.reading().await;
        self.store.sweepable_runs(limit).await
    }
}

#[async_trait]
impl<P: Around> Cards for Watched<P> {
    async fn card(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Card>, StoreError> {
        self.points.reading().await;
        self.store.card(namespace, kind, name).await
    }

    async fn cards(&self, query: &CardQuery) -> Result<CardPage, StoreError> {
        self.points.reading().await;
        self.store.cards(query).await
    }

    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError> {
        self.points.reading().await;
        self.store.due_cards(kind, limit).await
    }
}

/// What a batch means in the story of a run, each on its side of the commit.
pub(crate) fn names(side: &str, batch: &Batch) -> Vec<String> {
    batch.writes.iter().filter_map(name).map(|name| format!("{side} {name}")).collect()
}

/// What a write means in the story of a run: `planned ack-mail`, `ack-mail pending`, `finished`.
/// Whatever only accompanies another write has no name.
fn name(write: &Write) -> Option<String> {
    match write {
        Write::Append(append) => {
            let event = journal::decode(&append.text).ok()?.event;
            let id = match &event {
                Event::Step { id, .. } | Event::Planned { id, .. } | Event::Effect { id, .. } => id,
                _ => "",
            };
            // Each name comes once in this workflow, so its number says nothing.
            let id = id.strip_suffix("#0").unwrap_or(id);
            Some(format!("{} {id}", event.name()).trim_end().to_owned())
        }
        Write::Insert(row) | Write::Update(row) => {
            Some(format!("{} {}", row.address.action.as_str(), row.state))
        }
        Write::UpdateRun(row) => Some(format!("run {}", row.state)),
        Write::InEpoch(_)
        | Write::Remove { .. }
        | Write::StartRun(_)
        | Write::DropRun { .. }
        | Write::Holds { .. }
        | Write::Deliver(_)
        | Write::Consume { .. }
        | Write::Touch { .. }
        | Write::Blob { .. }
        | Write::Card(_)
        | Write::DropCard { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use semel::{Code, Error, Semel};
    use semel_engine::Engine;
    use semel_store::{Access, Opened};

    use super::*;

    /// Nobody who watches.
    struct Nothing;

    #[async_trait]
    impl Around for Nothing {
        async fn before(&self, _: &Batch) {}
        async fn after(&self, _: &Batch) {}
    }

    async fn book(engine: Engine) -> Result<u32, Error> {
        let semel = Semel::on(engine);
        let booked = semel.transaction("book").key(["42"]).run(|db| {
            let sql = "CREATE TABLE books (entry TEXT); INSERT INTO books VALUES ('42')";
            let count = "SELECT count(*) FROM books";
            db.execute_batch(sql).and_then(|()| db.query_row(count, [], |row| row.get::<_, u32>(0)))
        });
        booked.await
    }

    #[tokio::test]
    async fn a_watched_store_takes_no_transactions_away() {
        let folder = tempfile::tempdir().expect("a folder");
        let url = format!("sqlite:{}", folder.path().join("semel.db").display());
        let opened = Opened::open(&url, Access::ReadWrite, Clock::Real).await.expect("a store");
        let watched = Arc::new(Watched { store: opened.store(), points: Arc::new(Nothing) });
        // Of a store that may be anything nobody knows a database.
        let any = Engine::new(watched.clone(), "worker-1").expect("an engine");
        assert_eq!(book(any).await.unwrap_err().code(), Code::TransactionUnsupported);
        let own = Engine::before(&opened, watched, "worker-2").expect("an engine");
        assert_eq!(book(own.clone()).await.expect("a row"), 1);
        assert_eq!(book(own).await.expect("the first receipt"), 1);
    }
}
