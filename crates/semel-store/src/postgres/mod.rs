//! Postgres: many workers on many machines, one truth.
//!
//! A process gathers the batches that wait into groups, and each group is one transaction: the rows
//! it touches are read and locked in order, the model applies the batches to them, and what has
//! changed is written with one statement for each table. Leases are judged by the server's clock.
//! A server that went back in time opens a quarantine before anything is written to it.

mod address;
mod backup;
mod cards;
mod connect;
mod covered;
mod flush;
mod flush_cards;
mod group;
mod held;
mod hints;
mod keys;
mod load;
mod memory;
mod meta;
mod migrate;
mod outbox;
mod rows;
mod run_rows;
mod seals;
mod tally;
mod transaction;
mod upkeep;
mod wanted;
mod wire;
mod within;
mod writer;

pub use held::Ruling;
pub use migrate::FORMAT;
pub use outbox::{Forwarded, Judge, OutboxRow, Refused, Verdict};
pub use transaction::Outcome;
pub use wire::{Cells, Fault, Line, Param, Statement, Wire};

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use async_trait::async_trait;
use semel_core::effect::Ground;
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::redact::Redactor;
use semel_core::time::{Moment, Steady, Wall};
use tokio::sync::{Semaphore, watch};

use self::address::PgAddress;
use self::connect::Door;
use self::meta::{Meta, Reading};
use self::writer::Writer;
use crate::server_time::ServerTime;
use crate::written::Memory;
use crate::{
    Access, Batch, Clock, CommitError, DueCursor, DuePage, Page, Query, Store, StoreError, Veil,
    measure, random_hex,
};

/// A ledger, its runs and their cards in a schema of a Postgres database.
pub struct Postgres {
    door: Door,
    writer: Option<Writer>,
    hints: hints::Hints,
    /// Users' transactions that may run at once: the other connections are for the groups.
    transactions: Semaphore,
    shown: String,
}

/// What the tasks of one open store have in common.
pub(crate) struct Shared {
    schema: String,
    veil: Veil,
    /// The statements, as they read in this schema.
    texts: RwLock<HashMap<&'static str, Arc<str>>>,
    unnamed: bool,
    time: ServerTime,
    /// `None` before the first connection.
    meta: RwLock<Option<Known>>,
    memory: Memory,
    /// The ends of the journals that this process writes.
    ends: Mutex<wanted::Ends>,
    looks: run_rows::Looks,
    /// Names this process where it leaves a note in the store.
    worker: String,
    /// How many transactions this process has written.
    commits: AtomicU64,
}

#[derive(Clone)]
struct Known {
    meta: Meta,
    /// How far the server's log had grown, at the least, when it answered our last commit.
    log: Option<i64>,
    /// When the server was started that was looked at last.
    started_us: i64,
}

impl Shared {
    /// A statement as it reads in the schema of this store.
    fn text(&self, text: &'static str) -> Arc<str> {
        if let Some(known) = self.texts.read().unwrap_or_else(PoisonError::into_inner).get(text) {
            return known.clone();
        }
        let own: Arc<str> = match self.schema.as_str() {
            "semel" => text.into(),
            // Only our own tables are written with a point behind the schema.
            schema => text
                .replace("semel.", &format!("{schema}."))
                .replace("SCHEMA semel", &format!("SCHEMA {schema}"))
                .replace("to_regnamespace('semel')", &format!("to_regnamespace('{schema}')"))
                .into(),
        };
        let mut texts = self.texts.write().unwrap_or_else(PoisonError::into_inner);
        texts.entry(text).or_insert(own).clone()
    }

    fn meta(&self) -> Meta {
        let known = self.meta.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().map(|known| known.meta.clone()).unwrap_or_default()
    }

    /// What is known so far.
    fn seen(&self) -> Option<Known> {
        self.meta.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What says that the server is not the one that was seen last, or was put back. Judged by what
    /// was known before the server was asked: others learn more while its answer is on its way.
    fn went_back(seen: Option<&Known>, meta: &Meta, server: &str, log: i64) -> Option<String> {
        if meta.server != server {
            let (place, _) = meta.server.rsplit_once(meta.tables()).unwrap_or_default();
            return Some(match server.strip_prefix(place).filter(|_| !place.is_empty()) {
                Some(tables) => {
                    format!("its rows were in tables {}, these are {tables}", meta.tables())
                }
                None => format!("it was written by server {}, this is {server}", meta.server),
            });
        }
        let Known { meta: seen, log: seen_log, .. } = seen?;
        // Another process has recorded it; of another store only while its quarantine is open.
        let is_same_store = meta.store_id == seen.store_id;
        if meta.epoch > seen.epoch && (is_same_store || meta.quarantine.is_some()) {
            return None;
        }
        if meta.store_id != seen.store_id {
            return Some("another store has taken its place".to_owned());
        }
        if meta.server != seen.server {
            return Some(format!("it is on server {server}, and was on {}", seen.server));
        }
        if meta.epoch < seen.epoch {
            return Some(format!("it is in epoch {}, and was in {}", meta.epoch, seen.epoch));
        }
        let seen_log = seen_log.filter(|seen_log| log < *seen_log)?;
        Some(format!("its log ends at {log}, and was committed to at {seen_log}"))
    }

    /// Takes what a connection told. `false`: it took too long to tell the time.
    fn learn(&self, meta: Meta, reading: &Reading, asked_ms: i64) -> bool {
        let in_time = self.time.learn(reading.wall_ms, asked_ms);
        let mut known = self.meta.write().unwrap_or_else(PoisonError::into_inner);
        // Answers may overtake each other.
        let newer = known.as_ref().filter(|known| known.meta.epoch > meta.epoch);
        if newer.is_none() {
            let same = known.as_ref().filter(|known| known.meta.epoch == meta.epoch);
            let same = same.filter(|known| known.meta.server == meta.server);
            let log = same.and_then(|same| same.log);
            *known = Some(Known { meta, log, started_us: reading.started_us });
        }
        in_time
    }

    /// Takes what a transaction was told, if it is about the store that was looked at. `false`: the
    /// tables, the store or its epoch are others, and must be looked at before anything is written.
    fn follow(&self, meta: Meta, reading: &Reading, asked_ms: i64) -> bool {
        let is_same = self.seen().is_some_and(|Known { meta: seen, .. }| {
            seen.tables() == reading.tables
                && (seen.epoch, &seen.store_id, &seen.server)
                    == (meta.epoch, &meta.store_id, &meta.server)
        });
        if is_same {
            self.learn(meta, reading, asked_ms);
        }
        is_same
    }

    /// Notes a commit that was answered, and where the log stood before it. What a server says of
    /// its log at any other time may be lost by a crash.
    fn committed(&self, epoch: u64, log: Option<i64>) {
        self.commits.fetch_add(1, Ordering::Relaxed);
        let mut known = self.meta.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = known.as_mut().filter(|known| known.meta.epoch == epoch) {
            // The record of the commit itself lies behind.
            known.log = known.log.max(log.map(|log| log + 1));
        }
    }

    /// Whether this is another server than the one that was looked at, or the same after a restart.
    fn is_elsewhere(&self, reading: &Reading) -> bool {
        let known = self.meta.read().unwrap_or_else(PoisonError::into_inner);
        known.as_ref().is_none_or(|known| known.started_us != reading.started_us)
    }

    fn ground(&self) -> Ground {
        let meta = self.meta();
        let wall = self.time.wall_ms();
        let ms = match self.time.clock() {
            Clock::Real | Clock::Ahead(_) => wall - meta.boot_since,
            Clock::Manual(_) => self.time.local_ms(),
        };
        let now = Moment {
            wall: Wall(wall),
            steady: Steady { boot: meta.boot, ms },
            wall_is_behind: wall + limits::WALL_SLACK_MS < meta.wall_high,
        };
        Ground { now, epoch: meta.epoch, quarantine: meta.quarantine }
    }
}

impl Postgres {
    /// Opens the store at `postgres://…`. It must be there and of this format, unless the address
    /// allows to migrate it.
    pub async fn open(url: &str, access: Access, clock: Clock) -> Result<Postgres, StoreError> {
        Postgres::open_veiled(url, access, clock, Veil::default()).await
    }

    /// The same, with keys and secrets.
    pub async fn open_veiled(
        url: &str,
        access: Access,
        clock: Clock,
        veil: Veil,
    ) -> Result<Postgres, StoreError> {
        let address = PgAddress::parse(url)?;
        let door = Door::build(&address, Arc::new(shared(&address, clock, veil)?))?;
        if address.migrates && access == Access::ReadWrite {
            let session = door.knock().await?;
            keys::check_older(&session).await?;
            migrate::migrate(&session).await?;
        }
        let found = migrate::found(&door.knock().await?).await?;
        if found == 0 {
            let shown = address.shown;
            return Err(StoreError::Missing(format!("{shown}: `semel migrate` creates it")));
        }
        migrate::check(found)?;
        // Looked at anew: the connections above were used before anybody could look.
        let session = door.knock().await?;
        meta::greet(&session).await?;
        drop(session);
        keys::check(&door, access).await?;
        let hints = hints::Hints::start(&address, door.clone());
        let writes = access == Access::ReadWrite;
        let writer = writes.then(|| Writer::start(&door, &hints.bell(), &address));
        let transactions = Semaphore::new((address.connections / 2).max(1));
        Ok(Postgres { door, writer, hints, transactions, shown: address.shown })
    }

    /// Creates the store or brings it to this format. Returns the format it had, zero for none.
    pub async fn migrate(url: &str) -> Result<i64, StoreError> {
        let address = PgAddress::parse(url)?;
        let door =
            Door::build(&address, Arc::new(shared(&address, Clock::Real, Veil::default())?))?;
        migrate::migrate(&door.knock().await?).await
    }

    /// How many transactions this process has written, for benchmarks.
    pub fn commits(&self) -> u64 {
        self.door.shared.commits.load(Ordering::Relaxed)
    }

    /// A connection of the pool, for tools.
    pub async fn connection(&self) -> Result<deadpool_postgres::Object, StoreError> {
        Ok(self.door.knock().await?.into_client())
    }

    /// Reads the server's clock when no commit has for a while: an idle process looks for leases
    /// that have lapsed as well, and must not judge them by a clock that has run away.
    async fn tell_time(&self) -> Result<(), StoreError> {
        let shared = &self.door.shared;
        if !shared.time.is_old() {
            return Ok(());
        }
        let asked_ms = shared.time.local_ms();
        let head = rows::read(&self.door, meta::STATE, &[]).await?;
        let head = head.first().ok_or_else(|| StoreError::Corrupt("meta is empty".into()))?;
        let (meta, reading) = meta::read_head(head)?;
        if !shared.is_elsewhere(&reading) && !shared.follow(meta, &reading, asked_ms) {
            self.door.look_anew().await?;
        }
        Ok(())
    }

    fn writer(&self) -> Result<&Writer, StoreError> {
        let closed = || StoreError::Unavailable("the store is open for reading only".into());
        self.writer.as_ref().ok_or_else(closed)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // What is on its way ends by itself; whoever waits for a connection stops waiting.
        self.hints.stop();
    }
}

fn shared(address: &PgAddress, clock: Clock, veil: Veil) -> Result<Shared, StoreError> {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let worker = format!("{}:{}:{}", host.trim(), std::process::id(), &random_hex()?[..8]);
    Ok(Shared {
        schema: address.schema.clone(),
        veil,
        texts: RwLock::default(),
        unnamed: address.unnamed,
        time: ServerTime::new(clock),
        meta: RwLock::default(),
        memory: Memory::default(),
        ends: Mutex::default(),
        looks: run_rows::Looks::default(),
        worker,
        commits: AtomicU64::new(0),
    })
}

#[async_trait]
impl Store for Postgres {
    fn ground(&self) -> Ground {
        self.door.shared.ground()
    }

    fn clock(&self) -> &Clock {
        self.door.shared.time.clock()
    }

    async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        let writer = self.writer()?;
        let batch = self.cover(batch).await?;
        measure::commit("postgres", writer.commit(batch)).await
    }

    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError> {
        rows::newest(&self.door, address).await
    }

    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError> {
        rows::generation(&self.door, address, generation).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        rows::list(&self.door, query).await
    }

    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError> {
        self.tell_time().await?;
        let now = self.ground().now.steady;
        rows::due(&self.door, now, after, limit).await
    }

    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError> {
        let now = self.ground().now.wall;
        rows::sweepable(&self.door, now, limit).await
    }

    fn session(&self) -> Option<&str> {
        None
    }

    fn is_dead(&self, _session: &str) -> bool {
        // A connection that broke proves nothing about the process behind it.
        false
    }

    fn dead_sessions(&self) -> Vec<String> {
        Vec::new()
    }

    fn bury(&self, _session: &str) {}

    fn redactor(&self) -> Option<&Redactor> {
        Some(self.shared().veil.redactor())
    }

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sorts Postgres' errors by what the caller may do.
fn store_error(error: &tokio_postgres::Error) -> StoreError {
    Fault::from(error).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_overtaken_by_a_commit_is_no_return() {
        let address = PgAddress::parse("postgres://localhost/x").expect("an address");
        let shared = shared(&address, Clock::Real, Veil::default()).expect("it is made");
        let meta = Meta::default();
        let reading = Reading { wall_ms: 0, log: 400, tables: String::new(), started_us: 0 };
        shared.learn(meta.clone(), &reading, shared.time.local_ms());
        let before = shared.seen();
        shared.committed(meta.epoch, Some(499));
        assert_eq!(Shared::went_back(before.as_ref(), &meta, "", 400), None);
        let evidence = Shared::went_back(shared.seen().as_ref(), &meta, "", 400);
        assert!(evidence.is_some_and(|text| text.contains("committed to at 500")));
    }
}
