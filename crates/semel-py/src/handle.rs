//! A run, from outside, for Python.

use pyo3::prelude::*;
use semel::{Error, Json, RunHandle};
use semel_core::wire_run::run_view;

use crate::convert;
use crate::mailbox::{Asked, Inbox, Told};
use crate::process::Ours;

#[pyclass(frozen)]
pub(crate) struct Handle {
    run: Ours<RunHandle>,
}

impl Handle {
    pub(crate) fn new(run: RunHandle) -> Handle {
        Handle { run: Ours::new(run) }
    }

    fn ask<F, Fut>(&self, inbox: &Inbox, token: u64, work: F) -> PyResult<Asked>
    where
        F: FnOnce(RunHandle) -> Fut,
        Fut: Future<Output = Result<Told, Error>> + Send + 'static,
    {
        crate::process::runtime()?;
        inbox.ask(token, work(RunHandle::clone(&self.run)))
    }
}

#[pymethods]
impl Handle {
    #[getter]
    fn id(&self) -> &str {
        self.run.id()
    }

    /// Whether the run was there before, so that its start changed nothing.
    #[getter]
    fn attached(&self) -> bool {
        self.run.is_attached()
    }

    /// Waits for the end of the run; tells what it came to, as JSON.
    fn result(&self, inbox: &Inbox, token: u64) -> PyResult<Asked> {
        self.ask(inbox, token, |run| async move {
            let value: Json = run.result().await?;
            Ok(Told::Text(value.text().to_owned()))
        })
    }

    /// Tells how the run stands, as JSON.
    fn status(&self, inbox: &Inbox, token: u64) -> PyResult<Asked> {
        self.ask(inbox, token, |run| async move {
            let now = run.now();
            let view = run_view(&run.status().await?, &now);
            Ok(Told::Text(Json::of(&view)?.text().to_owned()))
        })
    }

    /// Proves what became of the run; tells the proof, as JSON.
    fn proof(&self, inbox: &Inbox, token: u64) -> PyResult<Asked> {
        self.ask(inbox, token, |run| async move { Ok(Told::Text(run.proof().await?.json())) })
    }

    /// Sends a signal; tells whether it had been delivered before.
    fn signal(
        &self,
        inbox: &Inbox,
        token: u64,
        name: String,
        payload: String,
        identity: Option<String>,
    ) -> PyResult<Asked> {
        let payload = convert::json(payload)?;
        self.ask(inbox, token, |run| async move {
            let signalled = run.deliver(&name, identity, payload).await?;
            Ok(Told::Text(if signalled.repeated { "true" } else { "false" }.to_owned()))
        })
    }

    /// Asks for the end of the run; tells its state.
    fn cancel(&self, inbox: &Inbox, token: u64, actor: String, reason: String) -> PyResult<Asked> {
        self.ask(inbox, token, |run| async move {
            Ok(Told::Text(run.cancel(&actor, &reason).await?.as_str().to_owned()))
        })
    }

    /// Lets a paused run try again what it could not do; tells its state.
    fn retry(&self, inbox: &Inbox, token: u64, actor: String, reason: String) -> PyResult<Asked> {
        self.ask(inbox, token, |run| async move {
            Ok(Told::Text(run.retry(&actor, &reason).await?.as_str().to_owned()))
        })
    }

    /// Gives the step on which a run is paused its value; tells the run's state.
    fn skip(
        &self,
        inbox: &Inbox,
        token: u64,
        step: String,
        value: String,
        actor: String,
        reason: String,
    ) -> PyResult<Asked> {
        let value = convert::json(value)?;
        self.ask(inbox, token, |run| async move {
            Ok(Told::Text(run.skip(&step, &value, &actor, &reason).await?.as_str().to_owned()))
        })
    }
}
