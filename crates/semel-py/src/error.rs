//! Errors on their way to Python, where `semel._errors` makes exceptions of them.

use pyo3::prelude::*;
use pyo3::types::PyTuple;
use semel::{Error, Json};

/// An error as Python gets it: code, detail, when to ask again, what was raised,
/// and the receipts of what was done and undone.
pub(crate) fn parts<'py>(py: Python<'py>, error: &Error) -> PyResult<Bound<'py, PyTuple>> {
    let raised = error.raised().map(|raised| {
        let args = raised.args.as_ref().map_or("", Json::text);
        (raised.kind.as_str(), args, raised.trace.as_str())
    });
    let receipts = error.undone_receipts().map(|(done, undone)| (done.text(), undone.text()));
    (error.code().as_str(), error.detail(), error.retry_after_ms(), raised, receipts)
        .into_pyobject(py)
}

/// An error of ours as a Python exception.
pub(crate) fn raise(error: &Error) -> PyErr {
    Python::attach(|py| {
        let made = parts(py, error)
            .and_then(|parts| py.import("semel._errors")?.getattr("from_native")?.call1(parts));
        match made {
            Ok(exception) => PyErr::from_value(exception),
            Err(failed) => failed,
        }
    })
}
