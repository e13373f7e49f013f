//! A worker: the code of workflows, offered in this process.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use semel_core::gate::{KeyPolicy, Mode, Policy, PolicyInvalid};
use semel_core::json::Json;
use semel_core::key::Action;
use semel_core::release::check_name;
use semel_engine::{Body, Offer, Port};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::context::Context;
use crate::{Code, Error, Semel, millis};

/// Workflows being registered. Nothing is taken before [`Worker::start`].
#[must_use = "a worker does nothing until it is started"]
pub struct Worker<'a> {
    semel: &'a Semel,
    release: String,
    offers: Vec<Offered>,
    lease: Option<Duration>,
    is_draft: bool,
    is_strict: bool,
}

/// A workflow being registered, as code for a namespace.
struct Offered {
    name: String,
    code: Box<dyn Fn(&Semel) -> Body>,
    policy: Policy,
}

impl<'a> Worker<'a> {
    pub(crate) fn new(semel: &'a Semel) -> Worker<'a> {
        let (release, offers) = ("1".to_owned(), Vec::new());
        Worker { semel, release, offers, lease: None, is_draft: false, is_strict: false }
    }

    /// Names this version of the code, such as `env!("CARGO_PKG_VERSION")`. Runs stay with the
    /// release they started on; new ones start on the live one, which a release becomes when it is
    /// first offered.
    pub fn release(mut self, release: &str) -> Self {
        release.clone_into(&mut self.release);
        self
    }

    /// The release is a draft: its runs are started by its name, in the draft twin of the
    /// namespace, until somebody promotes it.
    pub fn draft(mut self) -> Self {
        self.is_draft = true;
        self
    }

    /// Runs of this release wait for it, however long nobody offers it; otherwise they move to the
    /// live one after a minute, if their journals fit.
    pub fn pin_strictly(mut self) -> Self {
        self.is_strict = true;
        self
    }

    /// The workflow that was registered last: at most so many of its runs are under way at once,
    /// the others wait for their turn.
    pub fn limit(mut self, limit: u32) -> Self {
        if let Some(last) = self.offers.last_mut() {
            last.policy.limit = Some(limit);
        }
        self
    }

    /// The workflow that was registered last: one run at a time for each key, which a template
    /// makes of members of the input, such as `{customer.id}`. What becomes of the others is the
    /// mode.
    pub fn one_per(mut self, template: &str, mode: Mode) -> Self {
        if let Some(last) = self.offers.last_mut() {
            last.policy.key = Some(KeyPolicy { template: template.to_owned(), mode });
        }
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
        let code = Arc::new(code);
        let made = move |semel: &Semel| -> Body {
            // Weak: a registered body must not keep the store open for ever.
            let (semel, code) = (semel.downgrade(), code.clone());
            Arc::new(move |port: Port, input: Json| {
                let read = serde_json::from_str::<I>(input.text()).map_err(|error| {
                    let text = format!("the workflow takes another input: {error}");
                    Error::new(Code::InputInvalid, text)
                });
                let ran = read.and_then(|typed| {
                    let closed = || Error::new(Code::StoreUnavailable, "the store was closed");
                    let semel = semel.upgrade().ok_or_else(closed)?;
                    if let Some(observer) = semel.observer() {
                        observer.note_run(port.facts(), &input);
                    }
                    Ok(code(Context::new(port, semel), typed))
                });
                Box::pin(async move { Ok(Json::given(&ran?.await?)?) })
            })
        };
        let (name, policy) = (name.to_owned(), Policy::default());
        self.offers.push(Offered { name, code: Box::new(made), policy });
        self
    }

    /// Offers the workflows: from now on this process takes their runs.
    pub fn start(self) -> Result<Working, Error> {
        check_name(&self.release)?;
        for offered in &self.offers {
            Action::new(&offered.name)?;
            let invalid = |refused: PolicyInvalid| Error::new(Code::InputInvalid, refused.0);
            offered.policy.check().map_err(invalid)?;
        }
        if let Some(lease) = self.lease {
            self.semel.engine.set_run_lease_ms(millis(lease))?;
        }
        let mut places = vec![self.semel.clone()];
        if self.is_draft {
            places.push(self.semel.draft());
        }
        if let Some(observer) = self.semel.observer() {
            for offered in &self.offers {
                observer.note_workflow(&offered.name, &offered.policy);
            }
        }
        for (semel, offered) in
            places.iter().flat_map(|semel| self.offers.iter().map(move |offered| (semel, offered)))
        {
            let offer = Offer {
                body: (offered.code)(semel),
                release: self.release.clone(),
                strict: self.is_strict,
                draft: self.is_draft,
                policy: offered.policy.clone(),
            };
            semel.engine.offer(semel.namespace.as_str(), &offered.name, offer);
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
