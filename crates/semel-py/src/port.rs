//! What the code of a run asks for, from Python.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use semel::{Action, Code, Error, Json, OnDoubt};
use semel_core::limits;
use semel_core::run::course::{check_delivery_name, check_step_name};
use semel_core::run::input_digest;
use semel_core::run::thrown::{Thrown, Verdict, judge};
use semel_core::time::format_duration_ms;
use semel_engine::{Exhausted, Pending, Port, Start, Undo, Work};

use crate::convert::{self, Exception};
use crate::declare::Again;
use crate::error::raise;
use crate::job::{RunsIn, executor, step_fn};
use crate::mailbox::Mailbox;
use crate::wish::Wish;

/// How Python left the code of a run.
pub(crate) enum Turn {
    /// It waits for answers only.
    Rests,
    Ends(Result<Json, Error>),
    /// It cannot go on, with this command where there is one.
    Pauses(Option<String>, Error),
    /// It was interrupted, and runs elsewhere later.
    Gone(Error),
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

    fn step_work(
        &self,
        function: &Bound<'_, PyAny>,
        again: &Again,
        may_fail: bool,
    ) -> PyResult<Work> {
        let executor = executor(self.mailbox.clone(), RunsIn::of(function)?);
        let run = step_fn(self.mailbox.clone(), Arc::new(function.clone().unbind()));
        let exhausted = if may_fail { Exhausted::Fail } else { Exhausted::Pause };
        Ok(Work::Step { run, executor, retry: again.retry, exhausted })
    }
}

#[pymethods]
impl RunPort {
    /// The identity of the next command of this name, or the author's own.
    fn command_id(&self, name: &str, step_id: Option<&str>) -> PyResult<String> {
        check_step_name(step_id.unwrap_or(name)).map_err(|refusal| raise(&refusal.into()))?;
        Ok(step_id.map_or_else(|| self.port.next_id(name), str::to_owned))
    }

    /// The identity of the next command of a name that others choose, such as that of an entity.
    fn next_id(&self, name: &str) -> String {
        self.port.next_id(name)
    }

    /// A step; with a request it is a call of a model.
    fn step(
        &self,
        waiter: u32,
        id: String,
        function: &Bound<'_, PyAny>,
        again: &Again,
        may_fail: bool,
        request: Option<String>,
    ) -> PyResult<()> {
        let work = self.step_work(function, again, may_fail)?;
        let pending = match request {
            None => self.port.command(id, "step".to_owned(), work),
            Some(request) => self.port.model(id, input_digest(&convert::json(request)?), work),
        };
        self.issue(waiter, pending);
        Ok(())
    }

    /// An effect, and what takes it back: an effect whose input gets the other's receipt, under
    /// this name.
    fn effect(
        &self,
        waiter: u32,
        id: String,
        wish: &Wish,
        undo: Option<&Wish>,
        receipt_as: Option<String>,
    ) -> PyResult<()> {
        let facts = self.port.facts();
        let mut call = wish.call(&facts.namespace)?;
        call.workflow = Some(facts.workflow.clone());
        call.run = Some(facts.run_id.clone());
        let what = format!("effect {}", call.address);
        let undo = undo.zip(receipt_as).map(|(undo, receipt_as)| {
            let (call, doer) = (undo.call(&facts.namespace)?, undo.doer(self.mailbox.clone()));
            PyResult::Ok(Undo { call: Box::new(call), doer, receipt_as })
        });
        let (call, undo) = (Box::new(call), undo.transpose()?);
        let doer = wish.doer(self.mailbox.clone());
        let goes_on = wish.declaration().goes_on;
        let on_doubt = if goes_on { OnDoubt::Continue } else { OnDoubt::Wait };
        let work = Work::Effect { call, doer, on_doubt, undo };
        self.issue(waiter, self.port.command(id, what, work));
        Ok(())
    }

    /// A run of its own, named by this run and the command when it has no key.
    fn child(
        &self,
        waiter: u32,
        id: String,
        workflow: &str,
        key: Option<Vec<String>>,
        input: String,
        deadline_ms: Option<u64>,
    ) -> PyResult<()> {
        let facts = self.port.facts();
        let parts = key.unwrap_or_else(|| vec![facts.run_id.clone(), id.clone()]);
        let key = convert::key(&parts)?;
        let what = format!("child {workflow}/{}", key.as_str());
        let start = Start {
            namespace: facts.namespace.clone(),
            workflow: Action::new(workflow).map_err(|invalid| raise(&invalid.into()))?,
            key: Some(key),
            input: convert::json(input)?,
            window_ms: limits::WINDOW_MS,
            deadline_ms,
            release: None,
            parent: None,
        };
        self.issue(waiter, self.port.command(id, what, Work::Child(Box::new(start))));
        Ok(())
    }

    /// The right to act on an entity; its answer is the fence.
    fn enter(&self, waiter: u32, id: String, name: String) -> PyResult<()> {
        check_delivery_name(&name).map_err(|refusal| raise(&refusal.into()))?;
        let what = format!("entity {name}");
        self.issue(waiter, self.port.command(id, what, Work::Enter { name }));
        Ok(())
    }

    /// Lets go what the command of this id entered.
    fn leave(&self, waiter: u32, id: String, entered: String, name: String) {
        let what = format!("leave {entered}");
        self.issue(waiter, self.port.command(id, what, Work::Leave { entered, name }));
    }

    /// A token by which somebody outside answers once.
    fn callback(&self, waiter: u32, id: String) {
        self.issue(waiter, self.port.command(id, "callback".to_owned(), Work::Callback));
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

    /// The code has ended with an exception, or a group of them. Each has the code of the command
    /// that it answered, or says whether its author declares it a failure.
    fn fail(
        &self,
        code: Option<&str>,
        detail: String,
        raised: Exception,
        causes: Vec<(bool, Option<String>)>,
    ) {
        let raised = convert::raised(raised);
        let fails = causes.iter().all(|(is_declared, answered)| {
            let answered = answered.as_deref().and_then(Code::parse).map(Thrown::Answered);
            let thrown = if *is_declared { Some(Thrown::Declared) } else { answered };
            judge(thrown.unwrap_or(Thrown::Undeclared)) == Verdict::Fail
        });
        let code = code.and_then(Code::parse).filter(|code| *code != Code::Internal);
        self.end_turn(if fails {
            let code = code.unwrap_or(Code::RunFailed);
            Turn::Ends(Err(Error::new(code, detail).with_raised(raised)))
        } else {
            let detail = code.map_or_else(|| detail.clone(), |code| format!("{detail} ({code})"));
            Turn::Pauses(None, Error::new(Code::BodyRaised, detail).with_raised(raised))
        });
    }

    /// The code cannot go on: the run pauses, on this command where there is one.
    fn pause(&self, code: &str, detail: String, id: Option<String>) {
        let code = Code::parse(code).unwrap_or(Code::BodyRaised);
        self.end_turn(Turn::Pauses(id, Error::new(code, detail)));
    }

    /// The code was interrupted: the run goes on elsewhere.
    fn release(&self, detail: String) {
        self.end_turn(Turn::Gone(Error::new(Code::StoreUnavailable, detail)));
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
