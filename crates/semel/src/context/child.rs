//! Runs that a run starts and waits for.

use std::time::Duration;

use semel_core::key::IntoKey;
use semel_engine::{Port, Work};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::typed;
use crate::{Error, Start};

/// A child being declared. Awaiting it starts it and waits for its end.
#[must_use = "a child does not start until it is called and awaited"]
pub struct Child<'a> {
    pub(super) port: Port,
    pub(super) id: String,
    pub(super) start: Start<'a>,
}

impl<'a> Child<'a> {
    /// The stable name of what it is about: the same key is the same run, whoever starts it.
    pub fn key(mut self, key: impl IntoKey) -> Self {
        self.start = self.start.key(key);
        self
    }

    /// What the workflow gets.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.start = self.start.input(input);
        self
    }

    /// When the child is ended by itself.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.start = self.start.deadline(deadline);
        self
    }

    /// Starts the child and waits for what it comes to. A child that fails or is cancelled is the
    /// error `child_failed`.
    pub async fn result<T: DeserializeOwned>(self) -> Result<T, Error> {
        let mut ask = self.start.ask()?;
        let key = match ask.key.take() {
            Some(key) => key,
            None => [self.port.facts().run_id.as_str(), self.id.as_str()].into_key()?,
        };
        let what = format!("child {}/{}", ask.workflow.as_str(), key.as_str());
        ask.key = Some(key);
        let command = self.port.command(self.id, what, Work::Child(Box::new(ask)));
        Ok(typed(&self.port, command).await?.expect("a child has a result"))
    }
}
