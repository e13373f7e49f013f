//! An effect that is rows in the ledger's own database: rows and receipt in one commit.

use rusqlite::Connection;
use semel_core::effect::Begin;
use semel_core::json::Json;
use semel_core::key::IntoKey;
use semel_engine::Error;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Semel;
use crate::effect::{Effect, read_receipt};

/// A transaction being declared. Nothing happens before [`Transaction::run`].
pub struct Transaction<'a> {
    semel: &'a Semel,
    action: String,
    effect: Effect<'a>,
}

impl<'a> Transaction<'a> {
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

    /// Runs `work` on the ledger's own database, for at most a second, and commits its rows
    /// together with the receipt it returns. An error or a panic undoes everything. It may not
    /// touch the ledger's tables (`effects`, `meta`) or end the transaction.
    pub async fn run<T, E, F>(self, work: F) -> Result<T, Error>
    where
        T: Serialize + DeserializeOwned,
        E: std::fmt::Display,
        F: FnOnce(&Connection) -> Result<T, E> + Send + 'static,
    {
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
        };
        let work = move |connection: &Connection, _: &_| {
            let value = work(connection).map_err(|error| error.to_string())?;
            Json::of(&value).map_err(|error| error.to_string())
        };
        read_receipt(&self.semel.engine.transaction(ask, work).await?)
    }
}
