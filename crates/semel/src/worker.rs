//! A worker: the code of workflows, offered in this process.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::json::Json;
use semel_core::key::Action;
use semel_engine::{Body, Offer, Port};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::{Code, Error, Semel, millis};

/// Workflows being registered. Nothing is taken before [`Worker::start`].
pub struct Worker<'a> {
    semel: &'a Semel,
    release: String,
    offers: Vec<(String, Body)>,
    lease: Option<Duration>,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(semel: &'a Semel) -> Worker<'a> {
        Worker { semel, release: "1".to_owned(), offers: Vec::new(), lease: None }
    }

    /// Names this version of the code, for the journal.
    pub fn release(mut self, release: &str) -> Self {
        release.clone_into(&mut self.release);
        self
    }

    /// How long a run stays with this process without a sign of life (30 s). On Postgres the runs
    /// of a process that died wait for so long; one that is stopped for longer loses its runs.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Registers a workflow: an async function of a context and its input.
    pub fn workflow<I, T, F, Fut>(mut self, name: &str, code: F) -> Self
    where
        I: DeserializeOwned + Send + 'static,
        T: Serialize,
        F: Fn(Context, I) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<T, Error>> + Send + 'static,
    {
        // Weak: a registered body must not keep the store open for ever.
        let semel = self.semel.downgrade();
        let body: Body = Arc::new(move |port: Port, input: Json| {
            let read = serde_json::from_str::<I>(input.text()).map_err(|error| {
                Error::new(Code::InputInvalid, format!("the workflow takes another input: {error}"))
            });
            let ran = read.and_then(|input| {
                let closed = || Error::new(Code::StoreUnavailable, "the store was closed");
                let semel = semel.upgrade().ok_or_else(closed)?;
                Ok(code(Context::new(port, semel), input))
            });
            Box::pin(async move { Ok(Json::of(&ran?.await?)?) })
        });
        self.offers.push((name.to_owned(), body));
        self
    }

    /// Offers the workflows: from now on this process takes their runs.
    pub fn start(self) -> Result<Working, Error> {
        for (name, _) in &self.offers {
            Action::new(name)?;
        }
        if let Some(lease) = self.lease {
            self.semel.engine.set_run_lease_ms(millis(lease))?;
        }
        for (name, body) in self.offers {
            let offer = Offer { body, release: self.release.clone() };
            self.semel.engine.offer(self.semel.namespace.as_str(), &name, offer);
        }
        Ok(Working { semel: self.semel.clone() })
    }
}

/// A worker at work. Dropping it changes nothing; [`Working::stop`] lets the runs go.
pub struct Working {
    semel: Semel,
}

impl Working {
    /// Takes no more runs and lets go of those it holds, each when what it has under way is
    /// recorded; after `patience` the rest is left to whoever takes it next.
    pub async fn stop(self, patience: Duration) {
        self.semel.engine.drain(millis(patience)).await;
    }
}
