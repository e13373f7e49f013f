//! What is only compared with itself: large values, what the store says of itself, the outbox, and
//! whether anything belongs to a run that is not there.

use semel_core::limits;
use semel_store::{Belonging, Upkeep};

use super::Verified;
use crate::exit::Failed;

pub(super) async fn check_all(store: &dyn Upkeep, verified: &mut Verified) -> Result<(), Failed> {
    for belonging in Belonging::ALL {
        let mut after = i64::MIN;
        loop {
            let page = store.audit_strays(belonging, after, limits::PAGE_ROWS_MAX).await?;
            page.problems.into_iter().for_each(|what| verified.find_run("I11", None, what));
            let Some(next) = page.next else { break };
            after = next;
        }
    }
    let mut after = (String::new(), String::new());
    loop {
        let page = store.audit_blobs(after, VALUES).await?;
        verified.values += page.count;
        page.problems.into_iter().for_each(|what| verified.find("I9", None, what));
        let Some(next) = page.next else { break };
        after = next;
    }
    let own = store.audit_own().await?;
    own.problems.into_iter().for_each(|what| verified.find("I22", None, what));
    let mut after = i64::MIN;
    loop {
        let page = store.audit_outbox(after, limits::PAGE_ROWS_MAX).await?;
        verified.intents += page.count;
        page.problems.into_iter().for_each(|what| verified.find("I9", None, what));
        let Some(next) = page.next else { return Ok(()) };
        after = next;
    }
}

/// Large values that are read at once: each may have a megabyte.
const VALUES: usize = 16;
