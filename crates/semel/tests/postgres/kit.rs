//! What these tests share: a ledger in a schema of its own, and a user's connection beside it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use semel::tokio_postgres::{Client, NoTls, connect};
use semel::{Failure, Semel};
use semel_core::effect::State;
use semel_engine::Engine;
use semel_lab::{Database, Proxy};
use semel_store::postgres::Postgres;
use semel_store::{Access, Clock};

/// A schema with a ledger and a table of the user's, `payments`.
pub(crate) struct Ledger {
    pub(crate) database: Database,
}

impl Ledger {
    pub(crate) async fn new() -> Ledger {
        let database = semel_lab::database();
        Postgres::migrate(&database.url()).await.expect("a store");
        let table = "CREATE TABLE payments (id text UNIQUE DEFERRABLE INITIALLY IMMEDIATE)";
        database.psql(table);
        Ledger { database }
    }

    /// Opens it as one more process would.
    pub(crate) async fn open(&self) -> Semel {
        Semel::open(&self.database.url()).await.expect("a ledger")
    }

    /// An engine whose job only does what the test says.
    pub(crate) async fn engine(&self) -> Semel {
        Ledger::engine_at(&self.database.url()).await
    }

    /// An engine with as few connections as there may be.
    pub(crate) async fn narrow_engine(&self) -> Semel {
        Ledger::engine_at(&format!("{}&connections=3", self.database.url())).await
    }

    async fn engine_at(url: &str) -> Semel {
        let store = Postgres::open(url, Access::ReadWrite, Clock::Real).await.expect("a store");
        Semel::on(Engine::on_postgres(Arc::new(store), "worker").expect("an engine"))
    }

    /// An engine behind a wire that can be cut.
    pub(crate) async fn engine_behind(&self, proxy: &Proxy) -> Semel {
        let (from, to) = (format!(":{}/", port(&self.database)), format!(":{}/", proxy.port()));
        Ledger::engine_at(&self.database.url().replace(&from, &to)).await
    }

    pub(crate) fn proxy(&self) -> Proxy {
        Proxy::start(port(&self.database))
    }

    /// A connection of the user's own.
    pub(crate) async fn client(&self) -> Client {
        let (client, connection) = connect(self.database.admin_url(), NoTls).await.expect("a wire");
        tokio::spawn(connection);
        let path = format!("SET search_path TO {}", self.database.schema());
        client.batch_execute(&path).await.expect("a schema");
        client
    }

    /// An `INSERT` into the user's table.
    pub(crate) fn pay(&self, id: &str) -> String {
        format!("INSERT INTO {}.payments VALUES ('{id}')", self.database.schema())
    }

    /// The user's rows, as a stranger sees them.
    pub(crate) fn payments(&self) -> Vec<String> {
        self.lines("SELECT id FROM payments ORDER BY id")
    }

    pub(crate) fn lines(&self, sql: &str) -> Vec<String> {
        self.database.psql(sql).lines().map(str::to_owned).collect()
    }
}

fn port(database: &Database) -> u16 {
    let after_host = database.admin_url().rsplit(':').next().expect("a port");
    after_host.split('/').next().and_then(|port| port.parse().ok()).expect("a port")
}

/// The state of an effect; `None` when there is none.
pub(crate) async fn state(semel: &Semel, action: &str, key: &str) -> Option<State> {
    let effect = semel.find(action, key).await.expect("read")?;
    Some(effect.state(&semel.engine().store().ground().now))
}

/// A third party that counts what it was asked for, by key.
#[derive(Clone, Default)]
pub(crate) struct Outside {
    seen: Arc<Mutex<BTreeMap<String, Vec<String>>>>,
}

impl Outside {
    /// Registers a handler that calls it.
    pub(crate) fn attend(&self, semel: &Semel, action: &str) {
        self.attend_with(semel.handler(action));
    }

    /// Registers a handler that was declared before.
    pub(crate) fn attend_with(&self, handler: semel::Handler<'_>) {
        let outside = self.clone();
        let send = move |intent: semel::Intent| {
            let (key, input) = (intent.address().key.to_string(), intent.input().text().to_owned());
            outside.seen.lock().unwrap().entry(key).or_default().push(input);
            async move { Ok::<_, Failure>("sent") }
        };
        handler.register(send).expect("a handler");
    }

    /// The inputs that each key was called with.
    pub(crate) fn seen(&self) -> BTreeMap<String, Vec<String>> {
        self.seen.lock().unwrap().clone()
    }

    /// Waits until so many keys were called.
    pub(crate) async fn wait_for(&self, count: usize) {
        let until = Instant::now() + Duration::from_secs(60);
        while self.seen().len() < count {
            let seen = self.seen().len();
            assert!(Instant::now() < until, "{seen} of {count} were delivered in a minute");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
