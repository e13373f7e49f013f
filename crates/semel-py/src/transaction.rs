//! An effect that is rows in the ledger's own SQLite: Python says which, and the thread that owns
//! the database writes them. No second SQLite ever opens the file.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use semel::rusqlite::types::{Value, ValueRef};
use semel::rusqlite::{self, Connection, params_from_iter};
use semel::{Code, Error, Json};
use semel_core::effect::{Begin, Permit};
use semel_core::limits;
use semel_engine::{Call, Slot};

use crate::error::raise;
use crate::mailbox::{Function, Mailbox, Message};

type Rows = Vec<Vec<Value>>;

enum Ask {
    /// The function is about to begin.
    Begin(Sender<()>),
    Execute {
        sql: String,
        parameters: Vec<Value>,
        answer: Sender<Result<Rows, String>>,
    },
    End(Result<Json, String>),
}

/// The transaction, as the function of Python has it.
#[pyclass(frozen)]
pub(crate) struct Transaction {
    ask: Sender<Ask>,
    input: String,
    /// The thread that stood ready for it.
    slot: Mutex<Option<Slot>>,
}

#[pymethods]
impl Transaction {
    /// The stored input, as JSON.
    #[getter]
    fn input(&self) -> &str {
        &self.input
    }

    /// Whether the function may begin: the transaction is open and waits for it.
    fn begin(&self, py: Python<'_>) -> bool {
        py.detach(|| {
            let (answer, answered) = channel();
            self.ask.send(Ask::Begin(answer)).is_ok() && answered.recv().is_ok()
        })
    }

    /// Runs one statement and returns its rows.
    #[pyo3(signature = (sql, parameters=None))]
    fn execute<'py>(
        &self,
        py: Python<'py>,
        sql: String,
        parameters: Option<Vec<Bound<'py, PyAny>>>,
    ) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        let parameters = parameters.unwrap_or_default();
        let parameters = parameters.iter().map(parameter).collect::<PyResult<_>>()?;
        let rows = py.detach(|| {
            let (answer, answered) = channel();
            let over = || "the transaction is over".to_owned();
            self.ask.send(Ask::Execute { sql, parameters, answer }).map_err(|_| over())?;
            answered.recv().map_err(|_| over())?
        });
        let failed = |text: String| raise(&Error::new(Code::TransactionFailed, text));
        let row = |row: Vec<Value>| {
            let cells: PyResult<Vec<_>> = row.into_iter().map(|cell| shown(py, cell)).collect();
            PyTuple::new(py, cells?)
        };
        rows.map_err(failed)?.into_iter().map(row).collect()
    }

    /// The thread is free again.
    fn release(&self) {
        self.slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    /// Ends it: the rows and this receipt are committed.
    fn commit(&self, receipt: String) -> PyResult<()> {
        let receipt = crate::convert::json(receipt)?;
        let _ = self.ask.send(Ask::End(Ok(receipt)));
        Ok(())
    }

    /// Ends it: nothing happened.
    fn undo(&self, reason: String) {
        let _ = self.ask.send(Ask::End(Err(reason)));
    }
}

/// What the thread of the database does: what Python asks for, until it ends or takes too long.
pub(crate) fn work(
    mailbox: Arc<Mailbox>,
    function: Function,
    slot: Slot,
) -> impl FnOnce(&Connection, &Permit) -> Result<Json, String> + Send + 'static {
    move |connection, permit| {
        let (ask, asked) = channel();
        let input = permit.input.text().to_owned();
        let transaction = Transaction { ask, input, slot: Mutex::new(Some(slot)) };
        let Some((job, _reply)) = mailbox.job() else {
            return Err("the event loop was closed before the transaction".into());
        };
        mailbox.push(Message::Transact { job, function, transaction });
        let ended = serve(connection, &asked);
        mailbox.abort(job);
        ended
    }
}

fn serve(connection: &Connection, asked: &Receiver<Ask>) -> Result<Json, String> {
    let until = Instant::now() + Duration::from_millis(limits::TRANSACTION_MS_MAX);
    loop {
        let left = until.saturating_duration_since(Instant::now());
        match asked.recv_timeout(left) {
            Ok(Ask::Execute { sql, parameters, answer }) => {
                let rows = execute(connection, &sql, parameters);
                let _ = answer.send(rows.map_err(|error| error.to_string()));
            }
            Ok(Ask::Begin(answer)) => drop(answer.send(())),
            Ok(Ask::End(ended)) => return ended,
            Err(_) => return Err("the function did not end in time, or was lost".into()),
        }
    }
}

fn execute(
    connection: &Connection,
    sql: &str,
    parameters: Vec<Value>,
) -> Result<Rows, rusqlite::Error> {
    let mut statement = connection.prepare_cached(sql)?;
    let columns = statement.column_count();
    let mut rows = statement.query(params_from_iter(parameters))?;
    let mut all = Vec::new();
    while let Some(row) = rows.next()? {
        let cells: Result<_, _> = (0..columns).map(|at| row.get_ref(at).map(owned)).collect();
        all.push(cells?);
    }
    Ok(all)
}

fn owned(cell: ValueRef<'_>) -> Value {
    match cell {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => Value::Integer(number),
        ValueRef::Real(number) => Value::Real(number),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        ValueRef::Blob(bytes) => Value::Blob(bytes.to_vec()),
    }
}

fn parameter(value: &Bound<'_, PyAny>) -> PyResult<Value> {
    if value.is_none() {
        return Ok(Value::Null);
    }
    if let Ok(number) = value.extract::<i64>() {
        return Ok(Value::Integer(number));
    }
    if let Ok(number) = value.extract::<f64>() {
        return Ok(Value::Real(number));
    }
    if let Ok(bytes) = value.cast::<pyo3::types::PyBytes>() {
        return Ok(Value::Blob(bytes.as_bytes().to_vec()));
    }
    if let Ok(text) = value.extract::<String>() {
        return Ok(Value::Text(text));
    }
    let text = "a parameter is None, an int, a float, a str or bytes";
    Err(raise(&Error::new(Code::InputInvalid, text)))
}

fn shown(py: Python<'_>, cell: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match cell {
        Value::Null => py.None().into_bound(py),
        Value::Integer(number) => number.into_pyobject(py)?.into_any(),
        Value::Real(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => text.into_pyobject(py)?.into_any(),
        Value::Blob(bytes) => pyo3::types::PyBytes::new(py, &bytes).into_any(),
    })
}

/// The wish, as a transaction asks for it.
pub(crate) fn begin(call: Call) -> Begin {
    Begin {
        address: call.address,
        input: call.input,
        rule: call.rule,
        declared: call.declared,
        downstream_key: None,
        attempt_id: String::new(),
        worker: String::new(),
        session: None,
        can_look: false,
        workflow: call.workflow,
        run: call.run,
        approval: None,
        undoes: None,
        derived: call.derived,
        shape: call.shape,
    }
}
