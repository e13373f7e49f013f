//! Cards: whether each is as it was written. What its record means is the affair of whoever wrote
//! it.

use indicatif::ProgressBar;
use semel_core::limits;
use semel_store::Upkeep;

use super::Verified;
use crate::exit::Failed;

pub(super) async fn check_all(
    store: &dyn Upkeep,
    verified: &mut Verified,
    progress: &ProgressBar,
) -> Result<(), Failed> {
    let mut after = None;
    loop {
        let page = store.audit_cards(after, limits::PAGE_ROWS_MAX).await?;
        for problem in page.problems {
            verified.find("I9", None, problem);
        }
        let count = page.cards.len() as u64;
        progress.inc(count);
        verified.cards += count;
        let Some(next) = page.next else { return Ok(()) };
        after = Some(next);
    }
}
