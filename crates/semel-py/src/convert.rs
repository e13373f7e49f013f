//! Values on their way in.

use pyo3::prelude::*;
use semel::{Error, Json, Key};
use semel_core::journal::Raised;

use crate::error::raise;

/// JSON text from Python.
pub(crate) fn json(text: String) -> PyResult<Json> {
    Json::from_text(text).map_err(|invalid| raise(&invalid.into()))
}

/// A key from its parts.
pub(crate) fn key(parts: &[String]) -> PyResult<Key> {
    Key::from_parts(parts).map_err(|invalid| raise(&Error::from(invalid)))
}

/// An exception of Python: its type, what rebuilds it, and its trace.
pub(crate) type Exception = (String, String, String);

/// An exception as the journal keeps it.
pub(crate) fn raised((kind, args, trace): Exception) -> Raised {
    Raised { kind, args: Json::from_text(args).ok(), trace }.bounded()
}
