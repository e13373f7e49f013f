//! Starting runs, and what their starters can do with them.

use std::time::Duration;

use semel_core::json::Json;
use semel_core::key::{Action, IntoKey, Key, Namespace};
use semel_core::limits;
use semel_core::run::{Run, State};
use semel_engine::{Engine, Signal, Signalled, Started};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Code, Error, Semel, millis};

/// A run being declared. Nothing happens before [`Start::run`].
#[must_use = "a start does nothing until `run` is called and awaited"]
pub struct Start<'a> {
    semel: &'a Semel,
    workflow: String,
    key: Option<Result<Key, Error>>,
    input: Result<Json, Error>,
    window_ms: u64,
    deadline_ms: Option<u64>,
    release: Option<String>,
}

impl<'a> Start<'a> {
    pub(crate) fn new(semel: &'a Semel, workflow: &str) -> Start<'a> {
        Start {
            semel,
            workflow: workflow.to_owned(),
            key: None,
            input: Ok(Json::null()),
            window_ms: limits::WINDOW_MS,
            deadline_ms: None,
            release: None,
        }
    }

    /// The stable name of what started it, such as an event's id: the same key is the same run.
    pub fn key(mut self, key: impl IntoKey) -> Self {
        self.key = Some(key.into_key().map_err(Error::from));
        self
    }

    /// What the workflow gets. The same key with another input is refused.
    pub fn input<T: Serialize + ?Sized>(mut self, input: &T) -> Self {
        self.input = Json::given(input).map_err(Error::from);
        self
    }

    /// For how long after its end the key answers with this run (30 days).
    pub fn replay_window(mut self, window: Duration) -> Self {
        self.window_ms = millis(window);
        self
    }

    /// When the run is ended by itself.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline_ms = Some(millis(deadline));
        self
    }

    /// The release to start on, instead of the live one. A draft is started so, and runs in the
    /// draft twin of the namespace: its effects are others than the live ones.
    pub fn release(mut self, release: &str) -> Self {
        self.release = Some(release.to_owned());
        self
    }

    pub(crate) fn ask(self) -> Result<semel_engine::Start, Error> {
        Ok(semel_engine::Start {
            namespace: self.semel.namespace.clone(),
            workflow: Action::new(&self.workflow)?,
            key: self.key.transpose()?,
            input: self.input?,
            window_ms: self.window_ms,
            deadline_ms: self.deadline_ms,
            release: self.release,
            parent: None,
        })
    }

    /// Starts the run, or attaches to the one that this key started before.
    pub async fn run(self) -> Result<RunHandle, Error> {
        let engine = self.semel.engine.clone();
        let started = engine.start_run(self.ask()?).await?;
        // A draft is in the twin.
        let namespace = Namespace::stored(&started.run.namespace)?;
        let id = started.run.id.clone();
        Ok(RunHandle { engine, namespace, id, started: Some(started) })
    }
}

/// A run, from outside. Cheap to clone.
#[derive(Clone)]
pub struct RunHandle {
    engine: Engine,
    namespace: Namespace,
    id: String,
    started: Option<Started>,
}

impl RunHandle {
    pub(crate) fn new(semel: &Semel, id: &str) -> RunHandle {
        let (engine, namespace) = (semel.engine.clone(), semel.namespace.clone());
        RunHandle { engine, namespace, id: id.to_owned(), started: None }
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    /// The id of the run.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Whether the run was there before, so that this start changed nothing.
    pub fn is_attached(&self) -> bool {
        self.started.as_ref().is_some_and(|started| started.attached)
    }

    /// The run as it stands.
    pub async fn status(&self) -> Result<Run, Error> {
        self.engine.run(&self.namespace, &self.id).await
    }

    /// Where the run stands.
    pub async fn state(&self) -> Result<State, Error> {
        Ok(self.status().await?.state())
    }

    /// Waits for the end of the run and returns what it came to. A paused run answers
    /// `run_paused`: nothing happens before an operator decides.
    pub async fn result<T: DeserializeOwned>(&self) -> Result<T, Error> {
        let value = match &self.started {
            Some(started) => self.engine.result_of(started).await?,
            None => self.engine.result(self.namespace.as_str(), &self.id).await?,
        };
        let unfit = |error| {
            Error::new(Code::ReceiptMismatch, format!("the result has another shape: {error}"))
        };
        serde_json::from_str(value.text()).map_err(unfit)
    }

    /// Asks for the end of the run. What it has under way outside is settled first.
    pub async fn cancel(&self, actor: &str, reason: &str) -> Result<State, Error> {
        let run = self.engine.cancel_run(&self.namespace, &self.id, actor, reason).await?;
        Ok(run.state())
    }

    /// Sends a signal. `identity` names the delivery, so that sending it again changes nothing.
    pub async fn signal<T: Serialize + ?Sized>(
        &self,
        name: &str,
        identity: &str,
        payload: &T,
    ) -> Result<Signalled, Error> {
        self.deliver(name, Some(identity.to_owned()), Json::given(payload)?).await
    }

    /// Sends a signal of JSON; without an identity each is a new one.
    pub async fn deliver(
        &self,
        name: &str,
        identity: Option<String>,
        payload: Json,
    ) -> Result<Signalled, Error> {
        let (namespace, run) = (self.namespace.clone(), self.id.clone());
        let signal = Signal { namespace, run, name: name.to_owned(), identity, payload };
        self.engine.signal(signal).await
    }

    /// The time by which the run is judged.
    pub fn now(&self) -> semel_core::time::Moment {
        self.engine.store().ground().now
    }

    /// Lets a paused run try again what it could not do.
    pub async fn retry(&self, actor: &str, reason: &str) -> Result<State, Error> {
        let run = self.engine.retry_run(&self.namespace, &self.id, actor, reason).await?;
        Ok(run.state())
    }

    /// Ends a paused run as failed. What it did is taken back first, where its code says how.
    pub async fn fail(&self, actor: &str, reason: &str) -> Result<State, Error> {
        let run = self.engine.fail_run(&self.namespace, &self.id, actor, reason).await?;
        Ok(run.state())
    }

    /// Gives the step on which a run is paused its value.
    pub async fn skip<T: Serialize + ?Sized>(
        &self,
        step: &str,
        value: &T,
        actor: &str,
        reason: &str,
    ) -> Result<State, Error> {
        let value = Json::given(value)?;
        let (engine, namespace) = (&self.engine, &self.namespace);
        let run = engine.skip_step(namespace, &self.id, step, &value, actor, reason).await?;
        Ok(run.state())
    }
}
