//! How the undisturbed run may end: one that fails before its sends would pass every case.

use super::record::Baseline;

/// What is wrong with how the undisturbed run ended. `ends` is what its author says; without it a
/// run that failed, was cancelled or stands until an operator comes is not one to be tried.
pub fn wrong_end(baseline: &Baseline, ends: Option<&str>) -> Option<String> {
    let state = baseline.state.as_str();
    let is_wanted = match ends {
        Some(ends) => state == ends,
        None => !matches!(state, "failed" | "cancelled" | "paused" | "expired" | "absent"),
    };
    if is_wanted {
        return None;
    }
    let (detail, wanted) = (baseline.why(), ends.unwrap_or("done"));
    Some(format!(
        "without any fault the run ends as {state} and not as {wanted}{detail}; if it is meant to, \
         the check has to say so: ends(\"{state}\")"
    ))
}

impl Baseline {
    /// `: no carrier goes there`, or nothing.
    fn why(&self) -> String {
        if self.detail.is_empty() { String::new() } else { format!(": {}", self.detail) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::baseline;
    use super::*;

    #[test]
    fn a_run_that_does_not_end_well_undisturbed_is_tried_only_where_its_author_says_so() {
        let mut failed = baseline();
        assert_eq!(wrong_end(&failed, None), None);
        failed.state = "failed".into();
        failed.detail = "no such customer".into();
        let why = wrong_end(&failed, None).expect("a refusal");
        let want = "without any fault the run ends as failed and not as done: no such customer";
        assert!(why.starts_with(want), "{why}");
        assert_eq!(wrong_end(&failed, Some("failed")), None);
        assert!(wrong_end(&baseline(), Some("failed")).is_some(), "it ends well");
        // One that waits for a person stands where it should.
        failed.state = "waiting".into();
        assert_eq!(wrong_end(&failed, None), None);
    }
}
