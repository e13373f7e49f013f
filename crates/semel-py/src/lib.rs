//! The native part of the Python package: conversion only, no rules.
//!
//! No thread of the engine ever waits for Python's interpreter lock. What it has for Python goes
//! into a mailbox and rings a bell; a thread of Python takes everything that waits there at once,
//! and answers into Rust. So one hand-over serves many runs, and a busy interpreter slows nobody
//! but itself.

mod app;
mod approvals;
mod bench;
mod body;
mod check;
mod convert;
mod declare;
mod error;
mod handle;
mod job;
mod mailbox;
mod open;
mod port;
mod process;
mod releases;
mod schedules;
mod spec;
mod transaction;
mod verdicts;
mod wish;
mod within;

use std::ffi::OsString;

use pyo3::prelude::*;

/// Runs the command line and returns its exit code.
#[pyfunction]
fn cli(py: Python<'_>, line: Vec<OsString>) -> PyResult<u8> {
    process::runtime()?;
    let python: OsString = py.import("sys")?.getattr("executable")?.extract()?;
    semel_cli::start_again_by(vec![python, "-m".into(), "semel".into()]);
    // An exit code cannot be looked into: it is 0 or not, and the command says which.
    Ok(py.detach(|| semel_cli::run_to_code(line)))
}

/// What to do about an error, by its code; `None` for a code that is not known.
#[pyfunction]
fn hint(code: &str) -> Option<&'static str> {
    semel_core::code::Code::parse(code).map(semel_core::code::Code::hint)
}

/// What an HTTP status proves: `receipt`, `not_applied`, `refused` or `unknown`.
#[pyfunction]
fn classify_status(status: u16) -> &'static str {
    match semel::classify::status(status) {
        None => "receipt",
        Some(failure) if failure.is_final() => "refused",
        Some(failure) if failure.is_proof() => "not_applied",
        Some(_) => "unknown",
    }
}

/// Reads a duration such as `500ms`, `1s`, `15m`, `24h` or `7d`, in milliseconds.
#[pyfunction]
fn duration_ms(text: &str) -> PyResult<u64> {
    semel_core::time::parse_duration_ms(text).map_err(|invalid| {
        let text = format!("`{text}`: {invalid}");
        error::raise(&semel::Error::new(semel::Code::DurationInvalid, text))
    })
}

/// A key from a recipe, as the list of its parts.
#[pyfunction]
fn recipe(name: &str, parts: [String; 3]) -> PyResult<Vec<String>> {
    let [a, b, c] = &parts;
    let key = match name {
        "ticket" => semel::keys::ticket(a, b),
        "message" => semel::keys::message(a, b, c),
        "publish" => semel::keys::publish(a, b, c),
        _ => semel::keys::record(a, b, c),
    };
    key.map(|key| key.parts()).map_err(|invalid| error::raise(&invalid.into()))
}

/// A name that an action, a workflow or a namespace may have; refused otherwise.
#[pyfunction]
fn check_name(name: &str) -> PyResult<()> {
    semel::Action::new(name).map(drop).map_err(|invalid| error::raise(&invalid.into()))
}

/// The signal that the answer to the callback of a command becomes.
#[pyfunction]
fn callback_signal(id: &str) -> String {
    semel_engine::callback_signal(id)
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<app::App>()?;
    module.add_class::<bench::Bench>()?;
    module.add_class::<handle::Handle>()?;
    module.add_class::<declare::Declaration>()?;
    module.add_class::<declare::Again>()?;
    module.add_class::<wish::Ask>()?;
    module.add_class::<wish::Wish>()?;
    module.add_class::<releases::Policy>()?;
    module.add_class::<mailbox::Inbox>()?;
    module.add_class::<mailbox::Asked>()?;
    module.add_class::<port::RunPort>()?;
    module.add_class::<job::SendIntent>()?;
    module.add_class::<job::StepTurn>()?;
    module.add_class::<transaction::Transaction>()?;
    module.add_class::<within::Asking>()?;
    module.add_class::<within::Within>()?;
    module.add_function(wrap_pyfunction!(cli, module)?)?;
    module.add_function(wrap_pyfunction!(hint, module)?)?;
    module.add_function(wrap_pyfunction!(classify_status, module)?)?;
    module.add_function(wrap_pyfunction!(duration_ms, module)?)?;
    module.add_function(wrap_pyfunction!(recipe, module)?)?;
    module.add_function(wrap_pyfunction!(check_name, module)?)?;
    module.add_function(wrap_pyfunction!(callback_signal, module)?)?;
    module.add_function(wrap_pyfunction!(spec::spec_text, module)?)?;
    module.add_function(wrap_pyfunction!(spec::spec_diff, module)?)?;
    module.add_function(wrap_pyfunction!(spec::lint_declarations, module)?)?;
    module.add_function(wrap_pyfunction!(check::rehearsal_push_ms, module)?)?;
    add_check(module)
}

/// The rules of a check.
fn add_check(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(verdicts::check_plan, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::check_find, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::check_judge, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::check_report, module)?)?;
    module.add_function(wrap_pyfunction!(verdicts::check_show, module)?)
}
