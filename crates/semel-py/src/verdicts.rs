//! The rules of a check, for Python: JSON in, JSON out.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use semel_core::check::{self, Baseline, Budget, Case, Observation, Report, Verdict};
use serde::de::DeserializeOwned;
use serde_json::json;

/// All cases that the undisturbed run suggests, the most telling first.
#[pyfunction]
pub(crate) fn check_plan(
    baseline: &str,
    cases_max: Option<usize>,
    pairs: bool,
) -> PyResult<String> {
    let plan = check::plan(&read(baseline)?, Budget { cases_max, pairs });
    Ok(json!({ "cases": plan.cases, "left_out": plan.left_out }).to_string())
}

/// The case of this name, if the undisturbed run suggests it.
#[pyfunction]
pub(crate) fn check_find(baseline: &str, name: &str) -> PyResult<Option<String>> {
    Ok(check::find(&read(baseline)?, name).map(|case| json!(case).to_string()))
}

/// Judges one case; `command` plays it again, with `{case}` where its name belongs.
#[pyfunction]
pub(crate) fn check_judge(
    baseline: &str,
    case: &str,
    seen: &str,
    command: &str,
) -> PyResult<String> {
    let (baseline, case): (Baseline, Case) = (read(baseline)?, read(case)?);
    let verdict = check::judge(&baseline, &case, &read::<Observation>(seen)?, command);
    Ok(json!(verdict).to_string())
}

/// The report on a workflow.
#[pyfunction]
pub(crate) fn check_report(
    workflow: &str,
    baseline: &str,
    verdicts: &str,
    left_out: usize,
    ms: u64,
) -> PyResult<String> {
    let verdicts: Vec<Verdict> = read(verdicts)?;
    let report = Report::new(workflow, &read(baseline)?, verdicts);
    Ok(Report { left_out, ms, ..report }.json())
}

/// How a report is shown: to people, to a build server, in one line.
#[pyfunction]
pub(crate) fn check_show(report: &str) -> PyResult<String> {
    let report: Report = read(report)?;
    let shown = json!({
        "is_ok": report.is_ok(),
        "text": report.text(),
        "summary": report.summary(),
        "junit": report.junit(),
    });
    Ok(shown.to_string())
}

fn read<T: DeserializeOwned>(text: &str) -> PyResult<T> {
    serde_json::from_str(text).map_err(|error| PyValueError::new_err(error.to_string()))
}
