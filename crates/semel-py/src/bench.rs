//! A store to measure on, for Python.

use std::sync::{Mutex, PoisonError};

use pyo3::prelude::*;
use semel::{Code, Error};
use semel_cli::BenchPlace;

use crate::app::App;
use crate::error::raise;
use crate::process::runtime;

/// A store for one measurement, gone afterwards, and the raw limit beside it.
#[pyclass(frozen)]
pub(crate) struct Bench {
    place: Mutex<Option<BenchPlace>>,
}

#[pymethods]
impl Bench {
    /// A file, or a schema on the server that is named.
    #[new]
    fn new(py: Python<'_>, server: Option<String>) -> PyResult<Bench> {
        let runtime = runtime()?;
        let place = py.detach(|| runtime.block_on(BenchPlace::create(server.as_deref())));
        Ok(Bench { place: Mutex::new(Some(place.map_err(failed)?)) })
    }

    /// The ledger there.
    fn app(&self) -> PyResult<App> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(App::new(place.as_ref().ok_or_else(gone)?.semel()))
    }

    /// Rows per commit, when so many were written, and rows a second of bare inserts.
    fn beside(&self, py: Python<'_>, rows: f64) -> PyResult<(f64, f64)> {
        let runtime = runtime()?;
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let place = place.as_ref().ok_or_else(gone)?;
        py.detach(|| runtime.block_on(place.beside(rows))).map_err(failed)
    }

    /// Leaves nothing behind.
    fn remove(&self, py: Python<'_>) -> PyResult<()> {
        let runtime = runtime()?;
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner).take();
        let place = place.ok_or_else(gone)?;
        py.detach(|| runtime.block_on(place.remove())).map_err(failed)
    }
}

fn gone() -> PyErr {
    raise(&Error::new(Code::StoreUnavailable, "the store of this measurement was removed"))
}

fn failed(error: impl std::fmt::Display) -> PyErr {
    raise(&Error::new(Code::StoreUnavailable, error.to_string()))
}
