//! An effect that is rows in a transaction of the user's own: the engine speaks over the connection
//! that Python has. Python carries bytes, and runs the function when it is told to.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use semel::Json;
use semel_core::effect::Permit;
use semel_store::postgres::{Cells, Fault, Param, Statement, Wire};
use tokio::sync::oneshot;

use crate::mailbox::{Mailbox, Message};

/// A reply that is given once.
struct Once<T>(Mutex<Option<oneshot::Sender<T>>>);

impl<T> Once<T> {
    fn new() -> (Once<T>, oneshot::Receiver<T>) {
        let (sender, receiver) = oneshot::channel();
        (Once(Mutex::new(Some(sender))), receiver)
    }

    fn give(&self, reply: T) {
        let sender = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(sender) = sender {
            // Nobody waits for it any more.
            let _ = sender.send(reply);
        }
    }
}

/// The connection of the thread that reads the mailbox.
pub(crate) struct PythonWire {
    mailbox: Arc<Mailbox>,
    is_closed: AtomicBool,
}

impl PythonWire {
    pub(crate) fn new(mailbox: Arc<Mailbox>) -> PythonWire {
        PythonWire { mailbox, is_closed: AtomicBool::new(false) }
    }

    /// Lets Python run the function.
    pub(crate) async fn work(&self, permit: &Permit) -> Result<Json, String> {
        let (ended, end) = Once::new();
        let input = permit.input.text().to_owned();
        self.mailbox.push(Message::Work(Within { input, ended }));
        let end = end.await.map_err(|_| "the function was lost".to_owned())?;
        end.map_err(|failed| {
            self.is_closed.store(failed.is_closed, Ordering::Relaxed);
            failed.reason
        })
    }
}

impl Wire for PythonWire {
    type Line = Cells;

    async fn ask(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Cells>, Fault> {
        let statement = Statement::new(text, params)?;
        let (answer, answered) = Once::new();
        self.mailbox.push(Message::Ask(Asking { statement, answer }));
        let lost = |_| Fault::Broken("the statement was not carried to the server".into());
        answered.await.map_err(lost)?
    }

    fn is_closed(&self) -> bool {
        self.is_closed.load(Ordering::Relaxed)
    }
}

/// A statement that Python carries to the server. One that is dropped was not answered.
#[pyclass(frozen)]
pub(crate) struct Asking {
    statement: Statement,
    answer: Once<Result<Vec<Cells>, Fault>>,
}

#[pymethods]
impl Asking {
    #[getter]
    fn text(&self) -> &str {
        &self.statement.text
    }

    /// The values in binary, each behind the object id of its type.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> Vec<(u32, Option<Bound<'py, PyBytes>>)> {
        let values = self.statement.values.iter();
        let values = values.map(|value| value.as_ref().map(|bytes| PyBytes::new(py, bytes)));
        self.statement.types.iter().copied().zip(values).collect()
    }

    /// What the server answered, in binary: the types of the columns, and the rows.
    fn answer(&self, types: Vec<u32>, lines: Vec<Vec<Option<Vec<u8>>>>) {
        self.answer.give(Cells::lines(&types, lines));
    }

    /// Why there is no answer; with its SQLSTATE when it is the server that says so.
    fn fail(&self, code: Option<&str>, text: String) {
        self.answer.give(Err(match code {
            Some(code) => Fault::said(code, text),
            None => Fault::Broken(text),
        }));
    }
}

struct Failed {
    reason: String,
    is_closed: bool,
}

/// The function's turn.
#[pyclass(frozen)]
pub(crate) struct Within {
    input: String,
    ended: Once<Result<Json, Failed>>,
}

#[pymethods]
impl Within {
    /// The stored input, as JSON.
    #[getter]
    fn input(&self) -> &str {
        &self.input
    }

    /// It has ended, with this receipt.
    fn done(&self, receipt: String) -> PyResult<()> {
        self.ended.give(Ok(crate::convert::json(receipt)?));
        Ok(())
    }

    /// It has failed, and what it wrote is to be undone.
    fn fail(&self, reason: String, is_closed: bool) {
        self.ended.give(Err(Failed { reason, is_closed }));
    }
}
