//! An effect that is rows in the ledger's own database: rows and receipt in one commit.

use std::error::Error as StdError;

use rusqlite::Connection;
use semel_core::effect::{Begin, Permit};
use semel_core::json::Json;
use semel_core::key::IntoKey;
use semel_engine::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Semel;
use crate::effect::{Effect, read_receipt};

/// A transaction being declared. Nothing happens before it is run.
#[must_use = "a transaction does nothing until it is called"]
pub struct Transaction<'a> {
    semel: &'a Semel,
    action: String,
    effect: Effect<'a>,
}

impl<'a> Transaction<'a> {
    #[track_caller]
    pub(crate) fn new(semel: &'a Semel, action: &str) -> Transaction<'a> {
        Transaction { semel, action: action.to_owned(), effect: Effect::new(semel, action) }
    }

    /// The stable name of this intent.
    pub fn key(mut self, key: impl IntoKey) -> Self {
        self.effect = self.effect.key(key);
        self
    }

    /// What is asked for. The same key with another input is refused.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.effect = self.effect.input(input);
        self
    }

    /// What the business wants by it, in a sentence: for `semel spec` and whoever reviews it.
    pub fn intent(mut self, intent: impl Into<String>) -> Self {
        self.effect = self.effect.intent(intent);
        self
    }

    /// Which members of the input count.
    pub fn fingerprint<S: Into<String>>(mut self, members: impl IntoIterator<Item = S>) -> Self {
        self.effect = self.effect.fingerprint(members);
        self
    }

    /// The workflow that asks, for the record.
    pub fn workflow(mut self, name: impl Into<String>) -> Self {
        self.effect = self.effect.workflow(name);
        self
    }

    /// Runs `work` on the ledger's own SQLite, for at most a second, and commits its rows
    /// together with the receipt it returns. An error or a panic undoes everything. It may not
    /// touch the ledger's tables (`effects`, `meta`) or end the transaction.
    pub async fn run<T, E, F>(self, work: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        E: std::fmt::Display,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
        let (semel, ask) = self.declared(std::any::type_name::<T>())?;
        let work = move |connection: &Connection, _: &Permit| receipt(work(connection));
        read_receipt(&semel.engine.transaction(ask, work).await?)
    }

    /// Runs `work` on the ledger's own Postgres, for at most a second, and commits its rows
    /// together with the receipt it returns. An error or a panic undoes everything, and so does
    /// dropping this future before the commit. `work` runs once at most, and may not touch the
    /// ledger's schema or end the transaction.
    ///
    /// ```no_run
    /// # async fn book(semel: &semel::Semel, id: &str) -> Result<i64, semel::Error> {
    /// let number: i64 = semel
    ///     .transaction("book-order")
    ///     .key([id])
    ///     .run_on_postgres(async |tx| {
    ///         let insert = "INSERT INTO orders (id) VALUES ($1) RETURNING number";
    ///         tx.query_one(insert, &[&id]).await?.try_get(0)
    ///     })
    ///     .await?;
    /// # Ok(number)
    /// # }
    /// ```
    pub async fn run_on_postgres<T, E, F>(self, work: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        E: Into<Box<dyn StdError + Send + Sync>>,
        F: AsyncFnOnce(&tokio_postgres::Transaction<'_>) -> Result<T, E>,
    {
        let (semel, ask) = self.declared(std::any::type_name::<T>())?;
        let work = async move |tx: &tokio_postgres::Transaction<'_>, _: &Permit| {
            receipt(work(tx).await.map_err(told))
        };
        read_receipt(&semel.engine.transaction_on_postgres(ask, work).await?)
    }

    /// Runs `work` within a transaction of your own on the ledger's database: its rows and the
    /// receipt become visible when you commit, and neither when you do not. Until then whoever
    /// asks for the same key waits, and is told `store_busy` after two seconds. An error undoes
    /// what `work` did and leaves your transaction usable.
    pub async fn within<T, E, F>(
        self,
        transaction: &tokio_postgres::Transaction<'_>,
        work: F,
    ) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        E: Into<Box<dyn StdError + Send + Sync>>,
        F: AsyncFnOnce(&tokio_postgres::Transaction<'_>) -> Result<T, E>,
    {
        let (semel, ask) = self.declared(std::any::type_name::<T>())?;
        let work = async move |tx: &tokio_postgres::Transaction<'_>, _: &Permit| {
            receipt(work(tx).await.map_err(told))
        };
        read_receipt(&semel.engine.transaction_within(ask, transaction, work).await?)
    }

    fn declared(self, receipt: &str) -> Result<(&'a Semel, Begin), Error> {
        self.effect.watch_transaction(receipt);
        let ask = Begin {
            address: self.semel.address(&self.action, self.effect.key?)?,
            input: self.effect.input?,
            rule: self.effect.rule,
            declared: self.effect.declared,
            downstream_key: None,
            attempt_id: String::new(),
            worker: String::new(),
            session: None,
            can_look: false,
            workflow: self.effect.workflow,
            run: None,
            approval: None,
            undoes: None,
            derived: None,
            shape: None,
        };
        Ok((self.semel, ask))
    }
}

fn receipt<T: Serialize, E: std::fmt::Display>(worked: Result<T, E>) -> Result<Json, String> {
    let value = worked.map_err(|error| error.to_string())?;
    Json::given(&value).map_err(|error| error.to_string())
}

/// An error with its causes: what Postgres said is one.
fn told<E: Into<Box<dyn StdError + Send + Sync>>>(error: E) -> String {
    let error = error.into();
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}
