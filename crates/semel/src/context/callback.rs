//! Tokens by which somebody outside answers.

use std::time::Duration;

use semel_engine::{Pending, Port, Work, callback_signal};
use serde::de::DeserializeOwned;

use super::{bounded, typed};
use crate::Error;

/// A token, and the answer that it brings.
pub struct Callback {
    pub(super) port: Port,
    pub(super) id: String,
    pub(super) token: String,
}

impl Callback {
    /// Whoever has this can answer, once. It is as good as a password.
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Waits for the answer. One that came early is there at once.
    pub async fn answer<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let payload = typed(&self.port, self.wait(None)).await?;
        Ok(payload.expect("only a timeout gives nothing"))
    }

    /// Waits for the answer up to a time; `None` when none came.
    pub async fn answer_within<T: DeserializeOwned>(
        &self,
        timeout: Duration,
    ) -> Result<Option<T>, Error> {
        typed(&self.port, self.wait(Some(bounded(timeout)?))).await
    }

    fn wait(&self, timeout_ms: Option<u64>) -> Pending {
        let name = callback_signal(&self.id);
        let id = self.port.next_id(&name);
        let what = format!("signal {name}");
        self.port.command(id, what, Work::Wait { name, timeout_ms, note: None })
    }
}
