//! How the undisturbed run decides what cases are compared with.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::Value;

use super::*;

async fn fails(_: Context, _: Value) -> Result<(), Error> {
    Err(Error::new(Code::RunFailed, "no stock"))
}

#[tokio::test]
async fn a_run_that_fails_undisturbed_fails_its_check_unless_it_is_meant_to() {
    let failed = Check::new("fails", fails).run().await;
    assert!(!failed.is_ok());
    let text = failed.text();
    assert!(text.contains("ends as failed and not as done: no stock"), "{text}");
    let meant = Check::new("fails", fails).ends("failed").budget(4).run().await;
    meant.assert_ok();
    assert!(meant.summary().ends_with("it ends as failed: no stock."), "{}", meant.summary());
}

/// Comes to how many bodies were begun before it, which no journal keeps.
fn counts_bodies(begun: &Arc<AtomicU64>) -> Check {
    let begun = begun.clone();
    let code = move |ctx: Context, _: Value| {
        let before = begun.fetch_add(1, Ordering::SeqCst);
        async move {
            ctx.step("one", || async { Ok(1) }).await?;
            Ok(before)
        }
    };
    Check::new("forgets", code).budget(6)
}

fn has_other_result(report: &Report) -> bool {
    report.verdicts.iter().any(|verdict| verdict.detail.starts_with("came to "))
}

#[tokio::test]
async fn a_result_that_a_restart_changes_has_diverged() {
    let begun = Arc::new(AtomicU64::new(0));
    let reset = begun.clone();
    let check = counts_bodies(&begun).reset(move || reset.store(0, Ordering::SeqCst));
    let report = check.run().await;
    assert!(has_other_result(&report), "{}", report.text());
    // Where every undisturbed run comes to another one, a fault has no part in it.
    let report = counts_bodies(&Arc::default()).run().await;
    assert!(!has_other_result(&report), "{}", report.text());
}
