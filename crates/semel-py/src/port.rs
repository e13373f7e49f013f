//! What the code of a run asks for, from Python.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use semel::{Error, Json, OnDoubt};
use semel_core::run::course::check_step_name;
use semel_core::run::input_digest;
use semel_core::time::format_duration_ms;
use semel_engine::{Exhausted, Pending, Port, Work};

use crate::convert::{self, Exception};
use crate::declare::{Again, Declaration};
use crate::error::raise;
use crate::job::{doer, step_fn};
use crate::mailbox::Mailbox;

/// How Python left the code of a run.
pub(crate) enum Turn {
    /// It waits for answers only.
    Rests,
    Ends(Result<Json, Error>),
    /// It did what the code of a run may not do.
    GivesUp(Error),
}

/// The end of a run that its code has in Python.
#[pyclass(frozen)]
#[derive(Clone)]
pub(crate) struct RunPort {
    body: u64,
    port: Port,
    mailbox: Arc<Mailbox>,
    desk: Arc<Mutex<Desk>>,
}

#[derive(Default)]
struct Desk {
    /// Issued since the engine last looked.
    commands: Vec<(u32, Pending)>,
    is_over: bool,
}

impl RunPort {
    pub(crate) fn new(body: u64, port: Port, mailbox: Arc<Mailbox>) -> RunPort {
        RunPort { body, port, mailbox, desk: Arc::default() }
    }

    pub(crate) fn take_commands(&self) -> Vec<(u32, Pending)> {
        std::mem::take(&mut self.lock().commands)
    }

    /// The engine does not ask this code any more.
    pub(crate) fn end(&self) {
        let mut desk = self.lock();
        desk.is_over = true;
        let commands = std::mem::take(&mut desk.commands);
        drop(desk);
        drop(commands);
    }

    fn lock(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn issue(&self, waiter: u32, pending: Pending) {
        let mut desk = self.lock();
        // What a dropped body still asks for, in a `finally` for instance, is not done.
        if !desk.is_over {
            desk.commands.push((waiter, pending));
        }
    }

    fn end_turn(&self, turn: Turn) {
        self.mailbox.end_turn(self.body, turn);
    }

    fn step_work(&self, function: Py<PyAny>, again: &Again, may_fail: bool) -> Work {
        let run = step_fn(self.mailbox.clone(), Arc::new(function));
        let exhausted = if may_fail { Exhausted::Fail } else { Exhausted::Pause };
        Work::Step { run, retry: again.retry, exhausted }
    }
}

#[pymethods]
impl RunPort {
    /// The identity of the next command of this name, or the author's own.
    fn command_id(&self, name: &str, step_id: Option<&str>) -> PyResult<String> {
        check_step_name(step_id.unwrap_or(name)).map_err(|refusal| raise(&refusal.into()))?;
        Ok(step_id.map_or_else(|| self.port.next_id(name), str::to_owned))
    }

    /// A step; with a request it is a call of a model.
    fn step(
        &self,
        waiter: u32,
        id: String,
        function: Py<PyAny>,
        again: &Again,
        may_fail: bool,
        request: Option<String>,
    ) -> PyResult<()> {
        let work = self.step_work(function, again, may_fail);
        let pending = match request {
            None => self.port.command(id, "step".to_owned(), work),
            Some(request) => self.port.model(id, input_digest(&convert::json(request)?), work),
        };
        self.issue(waiter, pending);
        Ok(())
    }

    #[expect(clippy::too_many_arguments, reason = "an effect has that many parts")]
    fn effect(
        &self,
        waiter: u32,
        id: String,
        declaration: &Declaration,
        key: Vec<String>,
        downstream_key: Option<String>,
        input: String,
        send: Py<PyAny>,
        look: Option<Py<PyAny>>,
    ) -> PyResult<()> {
        let facts = self.port.facts();
        let mut call = declaration.call(&facts.namespace, &key, downstream_key, input)?;
        call.workflow = Some(facts.workflow.clone());
        call.run = Some(facts.run_id.clone());
        let what = format!("effect {}", call.address);
        let look = look.map(Arc::new);
        let doer = doer(self.mailbox.clone(), Arc::new(send), look, declaration.abort);
        let on_doubt = if declaration.goes_on { OnDoubt::Continue } else { OnDoubt::Wait };
        let work = Work::Effect { call: Box::new(call), doer, on_doubt, undo: None };
        self.issue(waiter, self.port.command(id, what, work));
        Ok(())
    }

    fn sleep(&self, waiter: u32, id: String, ms: u64) {
        let what = format!("sleep {}", format_duration_ms(ms));
        self.issue(waiter, self.port.command(id, what, Work::Sleep { ms }));
    }

    fn wait(
        &self,
        waiter: u32,
        id: String,
        name: String,
        timeout_ms: Option<u64>,
        note: Option<String>,
    ) -> PyResult<()> {
        let what = format!("signal {name}");
        let note = note.map(convert::json).transpose()?;
        let work = Work::Wait { name, timeout_ms, note };
        self.issue(waiter, self.port.command(id, what, work));
        Ok(())
    }

    /// The code waits for answers only.
    fn rest(&self) {
        self.end_turn(Turn::Rests);
    }

    /// The code has ended, with this result.
    fn finish(&self, text: String) -> PyResult<()> {
        let value = convert::json(text)?;
        self.end_turn(Turn::Ends(Ok(value)));
        Ok(())
    }

    /// The code has ended, with an exception.
    fn fail(&self, code: &str, detail: String, raised: Option<Exception>) {
        self.end_turn(Turn::Ends(Err(raised_error(code, detail, raised))));
    }

    /// The code did what it may not do: the run waits for an operator.
    fn give_up(&self, code: &str, detail: String) {
        self.end_turn(Turn::GivesUp(raised_error(code, detail, None)));
    }

    /// The time as the run sees it, in milliseconds.
    fn now_ms(&self) -> i64 {
        self.port.now().0
    }

    /// The same in every replay: a UUID as its 32 digits.
    fn chance(&self) -> String {
        self.port.chance().simple().to_string()
    }

    #[getter]
    fn is_replaying(&self) -> bool {
        self.port.is_replaying()
    }

    #[getter]
    fn run_id(&self) -> &str {
        &self.port.facts().run_id
    }

    #[getter]
    fn key(&self) -> &str {
        &self.port.facts().key
    }

    #[getter]
    fn workflow(&self) -> &str {
        &self.port.facts().workflow
    }

    #[getter]
    fn namespace(&self) -> &str {
        self.port.facts().namespace.as_str()
    }
}

fn raised_error(code: &str, detail: String, raised: Option<Exception>) -> Error {
    let code = semel::Code::parse(code).unwrap_or(semel::Code::RunFailed);
    let error = Error::new(code, detail);
    match raised {
        None => error,
        Some(exception) => error.with_raised(convert::raised(exception)),
    }
}
