//! What is declared in Python, handed over as JSON: the rules over it are not here.

use pyo3::prelude::*;
use semel_core::declare::Registry;
use semel_core::{lint, spec};

use crate::error::raise;

fn read(registry: &str) -> PyResult<Registry> {
    Registry::parse(registry)
        .map_err(|invalid| raise(&semel::Error::new(semel::Code::InputInvalid, invalid.0)))
}

fn json(made: Result<String, serde_json::Error>) -> PyResult<String> {
    made.map_err(|error| raise(&semel::Error::new(semel::Code::Internal, error.to_string())))
}

/// The spec of a registry, as Markdown or as JSON.
#[pyfunction]
pub(crate) fn spec_text(registry: &str, as_json: bool) -> PyResult<String> {
    let spec = spec::spec(&read(registry)?);
    if as_json {
        Ok(json(serde_json::to_string_pretty(&spec))? + "\n")
    } else {
        Ok(spec::markdown(&spec))
    }
}

/// What differs between a committed spec and a new one; nothing when they are the same.
#[pyfunction]
pub(crate) fn spec_diff(committed: &str, new: &str) -> Option<String> {
    spec::diff(committed, new)
}

/// What is wrong with the declarations of a registry, as a JSON list.
#[pyfunction]
pub(crate) fn lint_declarations(registry: &str) -> PyResult<String> {
    json(serde_json::to_string_pretty(&lint::lint(&read(registry)?)))
}
