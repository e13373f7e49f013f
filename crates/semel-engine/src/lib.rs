//! Doing: load, decide, commit, act. The only place below the SDK and the server that spawns or
//! sleeps.
//!
//! Every operation has one shape. It loads what is known, lets a rule of `semel-core` decide,
//! commits the decision with a guard, and acts only when that is durable; a failed guard brings the
//! truth, and the rule decides again.

mod approval_links;
mod approvals;
mod audit;
mod call;
mod cards;
mod chance;
mod clearance;
mod commit;
mod effects;
mod error;
mod flights;
mod job;
mod loops;
pub mod measure;
mod notify;
mod once;
mod open_attempts;
mod outbox;
mod proof;
mod rates;
mod recall;
mod redact;
mod repeats;
mod runs;
mod schedules;
mod secrets;
mod tokens;
mod trace;
mod transaction;
mod triggers;

pub use approval_links::Question;
pub use approvals::Decided;
pub use audit::AuditPage;
pub use call::{Call, Doer, Intent, Looked, Reached, Sent};
pub use cards::Listed;
pub use clearance::{Clearance, Executor, Slot};
pub use effects::{Answer, Armed, Filed};
pub use error::Error;
pub use job::{Handler, Planning};
pub use loops::{Loop, Pulse};
pub use notify::Told;
pub use once::Identity;
pub use runs::{
    Body, Exhausted, Facts, Offer, OnDoubt, Pending, Port, Signal, Signalled, Start, Started,
    StepFault, StepFn, StepTry, Undo, Work, callback_signal,
};
pub use schedules::{SchedulePage, Scheduled};
pub use secrets::secrets_of;
pub use trace::{Traces, send_traces_by};
pub use triggers::{TriggerPage, Triggered};

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, Weak};

use semel_core::key::{Action, Address, Namespace};
use semel_core::quiet::Quiet;
use semel_store::postgres::Postgres;
use semel_store::sqlite::Sqlite;
use semel_store::{Opened, Store};
use tokio::sync::Notify;

use chance::Chance;
use flights::Flights;
use repeats::Counting;
use runs::{Dispatch, Known};
use triggers::Noted;

/// The engine on one store, in this process. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    inner: Arc<Inner>,
    /// Names the decision that is taken with this handle.
    identity: Option<Arc<Identity>>,
    /// Who acts with this handle; else the process does.
    actor: Option<Arc<str>>,
}

/// A handle that does not keep the engine alive.
#[derive(Clone)]
pub struct WeakEngine {
    inner: Weak<Inner>,
}

impl WeakEngine {
    /// The engine, if anybody still has it.
    pub fn upgrade(&self) -> Option<Engine> {
        self.inner.upgrade().map(|inner| Engine { inner, identity: None, actor: None })
    }
}

struct Inner {
    store: Arc<dyn Store>,
    /// The same store, as the database that it is.
    own: Own,
    worker: String,
    flights: Flights,
    chance: Chance,
    handlers: RwLock<HashMap<(Namespace, Action), Arc<Handler>>>,
    /// Effects that a handler of this process is busy with.
    attended: Mutex<HashSet<Address>>,
    /// A handler was registered: look at everything that is due once more.
    registered: Arc<Notify>,
    /// Handlers that were all busy have room again.
    freed: Arc<Notify>,
    /// Attempts that tasks of this process carry out.
    attempts: Arc<open_attempts::Attempts>,
    dispatch: Arc<Dispatch>,
    releases: Known,
    repeats: Counting,
    turns: loops::Turns,
    deliveries: Noted,
    /// Whoever appends to an audit chain.
    audit_turn: tokio::sync::Mutex<()>,
    /// What was told of work that does not get on.
    quiet: Mutex<Quiet>,
    rates: rates::Rates,
}

/// A store that is a database in which user code may have rows, too.
enum Own {
    /// None that is known as one.
    Nothing,
    Sqlite(Arc<Sqlite>),
    Postgres(Arc<Postgres>),
}

impl Engine {
    /// An engine on any store. `worker` names this process in attempts.
    pub fn new(store: Arc<dyn Store>, worker: impl Into<String>) -> Result<Engine, Error> {
        Engine::build(store, Own::Nothing, worker.into())
    }

    /// An engine on a store that was opened by its address, with all that this kind of store can.
    pub fn on(opened: &Opened, worker: impl Into<String>) -> Result<Engine, Error> {
        match opened {
            Opened::Sqlite(store) => Engine::on_sqlite(store.clone(), worker),
            Opened::Postgres(store) => Engine::on_postgres(store.clone(), worker),
            other => Engine::new(other.store(), worker),
        }
    }

    /// An engine on a store that stands before one that was opened by its address, such as one that
    /// watches it. Transactions of user code run on the opened store itself.
    pub fn before(
        opened: &Opened,
        store: Arc<dyn Store>,
        worker: impl Into<String>,
    ) -> Result<Engine, Error> {
        let own = match opened {
            Opened::Sqlite(sqlite) => Own::Sqlite(sqlite.clone()),
            Opened::Postgres(postgres) => Own::Postgres(postgres.clone()),
            _ => Own::Nothing,
        };
        Engine::build(store, own, worker.into())
    }

    /// An engine on SQLite, which can also run transactions.
    pub fn on_sqlite(store: Arc<Sqlite>, worker: impl Into<String>) -> Result<Engine, Error> {
        Engine::build(store.clone(), Own::Sqlite(store), worker.into())
    }

    /// An engine on Postgres, which can also run transactions and forwards the outbox.
    pub fn on_postgres(store: Arc<Postgres>, worker: impl Into<String>) -> Result<Engine, Error> {
        Engine::build(store.clone(), Own::Postgres(store), worker.into())
    }

    fn build(store: Arc<dyn Store>, own: Own, worker: String) -> Result<Engine, Error> {
        let inner = Inner {
            store,
            own,
            worker,
            flights: Flights::default(),
            chance: Chance::new()?,
            handlers: RwLock::default(),
            attended: Mutex::default(),
            registered: Arc::default(),
            freed: Arc::default(),
            attempts: Arc::default(),
            dispatch: Arc::default(),
            releases: Known::default(),
            repeats: Counting::default(),
            turns: loops::Turns::default(),
            deliveries: Noted::default(),
            audit_turn: tokio::sync::Mutex::default(),
            quiet: Mutex::default(),
            rates: rates::Rates::default(),
        };
        Ok(Engine { inner: Arc::new(inner), identity: None, actor: None })
    }

    /// A handle that does not keep the engine alive.
    pub fn downgrade(&self) -> WeakEngine {
        WeakEngine { inner: Arc::downgrade(&self.inner) }
    }

    /// The store below.
    pub fn store(&self) -> &dyn Store {
        self.inner.store.as_ref()
    }

    /// Whether trouble of a namespace is told now; with how much of it was left out before.
    pub(crate) fn may_tell(&self, what: &'static str, namespace: &str) -> Option<u64> {
        let now_ms = self.store().ground().now.steady.ms;
        lock(&self.inner.quiet).ask(what, namespace, now_ms)
    }

    pub(crate) fn jitter(&self) -> u32 {
        self.inner.chance.jitter()
    }

    /// How many keys somebody in this process begins or waits for: a gauge that returns to zero.
    pub fn keys_in_flight(&self) -> usize {
        self.inner.flights.count()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
