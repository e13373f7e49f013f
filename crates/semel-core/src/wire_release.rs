//! Views: how the releases of a workflow are shown. API, CLI and console render exactly these.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::release::{Promotion, Release, Releases};
use crate::time::Wall;
use crate::wire::rfc3339;

/// The releases of one workflow, as everybody sees them.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReleasesView {
    pub workflow: String,
    /// New runs start on this one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
    /// The one that was offered last is first.
    pub releases: Vec<ReleaseView>,
    /// Whether all open runs were counted; otherwise there are at least so many.
    pub counted_all: bool,
    /// Open runs that no release has yet: nobody has taken them.
    pub unpinned_runs: u64,
    /// How the live one came to be so, the newest first.
    pub promotions: Vec<PromotionView>,
}

/// One release.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ReleaseView {
    pub name: String,
    pub live: bool,
    pub draft: bool,
    pub strict: bool,
    /// Whether a worker has said lately that it offers this; otherwise its runs may move.
    pub offered: bool,
    pub first_seen: String,
    pub last_seen: String,
    pub open_runs: u64,
}

/// One change of the live release.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromotionView {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub to: String,
    pub actor: String,
    pub reason: String,
    pub at: String,
}

/// Open runs of one workflow, by the release they stay with.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenRuns {
    pub by_release: BTreeMap<String, u64>,
    /// Runs of no release.
    pub unpinned: u64,
    /// A bounded look did not see all of them.
    pub is_cut: bool,
}

/// Shows the releases of a workflow at a time.
pub fn releases_view(
    workflow: &str,
    releases: &Releases,
    open: &OpenRuns,
    now: Wall,
) -> ReleasesView {
    let live = releases.live.as_deref();
    let mut known: Vec<&Release> = releases.known.iter().collect();
    known.sort_by(|a, b| (b.seen, b.first, &b.name).cmp(&(a.seen, a.first, &a.name)));
    let release_view = |release: &Release| ReleaseView {
        name: release.name.clone(),
        live: live == Some(release.name.as_str()),
        draft: release.draft,
        strict: release.strict,
        offered: release.is_offered(now),
        first_seen: rfc3339(release.first),
        last_seen: rfc3339(release.seen),
        open_runs: open.by_release.get(&release.name).copied().unwrap_or(0),
    };
    ReleasesView {
        workflow: workflow.to_owned(),
        live: releases.live.clone(),
        releases: known.into_iter().map(release_view).collect(),
        counted_all: !open.is_cut,
        unpinned_runs: open.unpinned,
        promotions: releases.promotions.iter().rev().map(promotion_view).collect(),
    }
}

fn promotion_view(promotion: &Promotion) -> PromotionView {
    let Promotion { from, to, actor, reason, at } = promotion.clone();
    PromotionView { from, to, actor, reason, at: rfc3339(at) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gate::Policy;
    use crate::limits;
    use crate::release::{Offered, offer, promote};

    fn offered(releases: &Releases, name: &str, at: i64) -> Releases {
        let offered =
            Offered { name: name.into(), draft: false, strict: false, policy: Policy::default() };
        offer(releases, &offered, Wall(at)).expect("it is new")
    }

    #[test]
    fn the_live_one_is_marked_and_one_that_nobody_offers_is_gone() {
        let releases = offered(&offered(&Releases::default(), "r1", 0), "r2", 1_000);
        let open = OpenRuns { by_release: [("r1".into(), 3)].into(), unpinned: 1, is_cut: true };
        let view = releases_view("w", &releases, &open, Wall(limits::RELEASE_GONE_MS));
        let shown = |release: &ReleaseView| {
            (release.name.clone(), release.live, release.offered, release.open_runs)
        };
        let shown: Vec<_> = view.releases.iter().map(shown).collect();
        assert_eq!(shown, [("r2".into(), true, true, 0), ("r1".into(), false, false, 3)]);
        assert_eq!((view.counted_all, view.unpinned_runs), (false, 1));
    }

    #[test]
    fn promotions_are_shown_newest_first_with_actor_and_reason() {
        let releases = offered(&offered(&Releases::default(), "r1", 0), "r2", 1_000);
        let back = promote(&releases, "r1", "ann", "r2 is slow", Wall(2_000)).expect("known");
        let view = releases_view("w", &back, &OpenRuns::default(), Wall(2_000));
        let first = &view.promotions[0];
        assert_eq!((first.from.as_deref(), first.to.as_str()), (Some("r2"), "r1"));
        assert_eq!((first.actor.as_str(), first.reason.as_str()), ("ann", "r2 is slow"));
        assert_eq!(view.promotions.len(), 3);
    }
}
