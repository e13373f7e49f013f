//! A store that somebody else keeps: a Semel server, over HTTP. A worker needs its address and a
//! token, and no credential of any database.
//!
//! The engine above is the same. What it commits travels to the server together with what others of
//! this process wait to commit (`group.rs`); every answer says where the server's clock stands.

mod address;
mod ask;
mod cards;
mod client;
mod ground;
mod group;
mod hint;
mod hints;
pub mod protocol;
mod runs;

use std::sync::Arc;

use async_trait::async_trait;
use semel_core::effect::Ground;
use semel_core::key::Address;
use semel_core::record::Effect;
use semel_core::redact::Redactor;
use semel_core::{journal, record};
use tokio::sync::watch;

use self::address::ServerAddress;
use self::ask::Asking;
use self::group::Groups;
use self::hints::Hints;
use self::protocol::{DueSeen, Hello, PROTOCOL, Read};
use crate::{
    Access, Batch, Clock, CommitError, DueCursor, DuePage, Page, Query, Store, StoreError,
    Unreadable, Veil,
};

/// How often a server is asked for its time while it answers too slowly to tell it.
const HELLO_TRIES: usize = 5;

/// A ledger at a server.
pub struct Remote {
    asking: Arc<Asking>,
    groups: Option<Groups>,
    hints: Hints,
    namespace: String,
    /// Secrets of this process: they are taken out before anything is sent.
    veil: Veil,
}

impl Remote {
    /// Opens the store of the server at `http://…` or `https://…`. A token that is given goes
    /// before one in the address.
    pub async fn open(
        url: &str,
        token: Option<&str>,
        access: Access,
        clock: Clock,
    ) -> Result<Remote, StoreError> {
        let address = ServerAddress::parse(url, token)?;
        let asking = Arc::new(Asking::new(address, &clock)?);
        let namespace = greet(&asking).await?;
        let groups = (access == Access::ReadWrite).then(|| Groups::start(&asking));
        let hints = Hints::start(asking.clone());
        Ok(Remote { asking, groups, hints, namespace, veil: Veil::default() })
    }

    /// The same store, without the secrets that this process declares.
    pub(crate) fn veiled(self, veil: &Veil) -> Remote {
        Remote { veil: veil.without_keys(), ..self }
    }

    /// The namespace that the token is for: the only one that this store can see.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The address, for people: without the token.
    pub fn shown(&self) -> String {
        self.asking.shown()
    }

    async fn read<T: serde::de::DeserializeOwned>(&self, read: Read<'_>) -> Result<T, StoreError> {
        self.asking.read(&read).await
    }

    async fn read_page<T: serde::de::DeserializeOwned>(
        &self,
        read: Read<'_>,
    ) -> Result<(T, Vec<Unreadable>), StoreError> {
        self.asking.read_page(&read).await
    }
}

/// Makes sure that the two understand each other, and learns the time.
async fn greet(asking: &Asking) -> Result<String, StoreError> {
    for _ in 0..HELLO_TRIES {
        let asked_ms = asking.ground.local_ms();
        let hello: Hello = asking.get("/v1/worker/hello").await?;
        if hello.protocol != PROTOCOL {
            let (found, known) = (hello.protocol.into(), PROTOCOL.into());
            return Err(match hello.protocol > PROTOCOL {
                true => StoreError::Newer { found, known },
                false => StoreError::Older { found, needed: known },
            });
        }
        let formats =
            [(hello.record_format, record::FORMAT), (hello.journal_format, journal::FORMAT)];
        for (found, needed) in formats {
            // What it cannot read it would lose: a server is upgraded before its workers.
            if found < needed {
                return Err(StoreError::Older { found: found.into(), needed: needed.into() });
            }
        }
        if asking.ground.learn(&hello.ground, asked_ms) {
            return Ok(hello.namespace);
        }
    }
    let text = format!("{} takes too long to tell the time", asking.shown());
    Err(StoreError::Unavailable(text))
}

#[async_trait]
impl Store for Remote {
    fn ground(&self) -> Ground {
        self.asking.ground.read()
    }

    fn clock(&self) -> &Clock {
        self.asking.ground.clock()
    }

    fn redactor(&self) -> Option<&Redactor> {
        Some(self.veil.redactor())
    }

    async fn commit(&self, batch: Batch) -> Result<(), CommitError> {
        let closed = || StoreError::Unavailable("the store is open for reading only".into());
        let groups = self.groups.as_ref().ok_or_else(closed)?;
        groups.commit(&self.veil.cover(batch)?).await
    }

    async fn load(&self, address: &Address) -> Result<Option<Effect>, StoreError> {
        self.read(Read::Load { address: address.into() }).await
    }

    async fn load_generation(
        &self,
        address: &Address,
        generation: u32,
    ) -> Result<Option<Effect>, StoreError> {
        self.read(Read::LoadGeneration { address: address.into(), generation }).await
    }

    async fn list(&self, query: &Query) -> Result<Page, StoreError> {
        let ((effects, next), unreadable) = self.read_page(Read::List(query.into())).await?;
        Ok(Page { effects, next, unreadable })
    }

    /// The server looks through everybody's and shows those that are ours, some pages at a time.
    async fn due(&self, after: Option<DueCursor>, limit: usize) -> Result<DuePage, StoreError> {
        let mut due = DuePage { effects: Vec::new(), next_due: None, seen_to: None };
        let mut after = after.map(|cursor| (cursor.due_ms, cursor.row));
        loop {
            let left = limit - due.effects.len();
            let page: DueSeen = self.read(Read::Due { after, limit: left }).await?;
            let seen = page.effects.into_iter();
            due.effects.extend(seen.map(|(cursor, effect)| (cursor.into(), effect)));
            due.next_due = page.next_due;
            due.seen_to = page.seen_to.map(DueCursor::from);
            match page.seen_to {
                Some(place) if due.effects.len() < limit => after = Some(place),
                Some(_) | None => return Ok(due),
            }
        }
    }

    async fn sweepable(&self, limit: usize) -> Result<Vec<Effect>, StoreError> {
        self.read(Read::Sweepable { limit }).await
    }

    /// Leases over HTTP end by time: a connection that broke says nothing about its process.
    fn session(&self) -> Option<&str> {
        None
    }

    fn is_dead(&self, _session: &str) -> bool {
        false
    }

    fn dead_sessions(&self) -> Vec<String> {
        Vec::new()
    }

    fn bury(&self, _session: &str) {}

    fn hints(&self) -> watch::Receiver<u64> {
        self.hints.subscribe()
    }
}
