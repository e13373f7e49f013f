//! Releases: which versions of a workflow's code there are, which one new runs start on, and who
//! offers them. A run stays with the release it started on.

use serde::{Deserialize, Serialize};

use crate::gate::Policy;
use crate::key::{Action, NameInvalid};
use crate::limits;
use crate::time::Wall;

/// What is known of the releases of one workflow.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Releases {
    /// New runs start on this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<String>,
    /// What the live release declares of concurrency.
    #[serde(default)]
    pub policy: Policy,
    pub known: Vec<Release>,
    /// How `live` came to be what it is, the newest last.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promotions: Vec<Promotion>,
}

/// One immutable version of a workflow's code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Release {
    pub name: String,
    pub first: Wall,
    /// When a worker last said that it offers this.
    pub seen: Wall,
    /// It is tried in the draft twin, until somebody promotes it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub draft: bool,
    /// Its runs never move to another release by themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub strict: bool,
    #[serde(default)]
    pub policy: Policy,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Promotion {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub to: String,
    pub actor: String,
    pub reason: String,
    pub at: Wall,
}

/// What a worker offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offered {
    pub name: String,
    pub draft: bool,
    pub strict: bool,
    pub policy: Policy,
}

/// There is no such release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReleaseUnknown;

/// Checks the name of a release: people type it, and lanes are made of it.
pub fn check_name(name: &str) -> Result<(), NameInvalid> {
    let why = "has 1 to 100 bytes, no `@`, `/`, spaces or control characters";
    let is_fit = Action::new(name).is_ok() && !name.contains('@');
    if is_fit { Ok(()) } else { Err(NameInvalid { what: "the name of a release", why }) }
}

/// A worker offers a release. One that was never offered before becomes live, unless it is a draft;
/// one that is known does not: a worker of old code that starts again must not turn back what
/// somebody promoted. `None`: all of this was said a short while ago.
pub fn offer(releases: &Releases, offered: &Offered, now: Wall) -> Option<Releases> {
    let mut next = releases.clone();
    let is_recent = |release: &Release| now.0 - release.seen.0 < OFFER_EVERY_MS;
    match next.known.iter_mut().find(|release| release.name == offered.name) {
        Some(release) if is_recent(release) && release.seen <= now => return None,
        Some(release) => release.seen = now,
        None => {
            next.forget_old();
            let Offered { name, draft, strict, policy } = offered.clone();
            next.known.push(Release { name, first: now, seen: now, draft, strict, policy });
        }
    }
    let is_new = releases.find(&offered.name).is_none();
    if is_new && !offered.draft {
        next.set_live(&offered.name, "semel", "it was offered for the first time", now);
    }
    Some(next)
}

/// Makes a release live: a draft for the first time, or an older one again.
pub fn promote(
    releases: &Releases,
    name: &str,
    actor: &str,
    reason: &str,
    now: Wall,
) -> Result<Releases, ReleaseUnknown> {
    let mut next = releases.clone();
    let release = next.known.iter_mut().find(|release| release.name == name);
    release.ok_or(ReleaseUnknown)?.draft = false;
    if releases.live.as_deref() != Some(name) {
        next.set_live(name, actor, reason, now);
    }
    Ok(next)
}

/// The release that was live before the one that is.
pub fn before(releases: &Releases) -> Option<&str> {
    releases.promotions.last().and_then(|promotion| promotion.from.as_deref())
}

impl Releases {
    /// One release by its name.
    pub fn find(&self, name: &str) -> Option<&Release> {
        self.known.iter().find(|release| release.name == name)
    }

    /// Releases that nobody has offered for so long that their runs may move.
    pub fn abandoned(&self, now: Wall) -> impl Iterator<Item = &Release> {
        self.known.iter().filter(move |release| !release.is_offered(now))
    }

    fn set_live(&mut self, name: &str, actor: &str, reason: &str, now: Wall) {
        let from = self.live.replace(name.to_owned());
        self.policy = self.find(name).map(|release| release.policy.clone()).unwrap_or_default();
        let (to, actor, reason) = (name.to_owned(), actor.to_owned(), reason.to_owned());
        self.promotions.push(Promotion { from, to, actor, reason, at: now });
        let over = self.promotions.len().saturating_sub(limits::DECISIONS_MAX);
        self.promotions.drain(..over);
    }

    /// Each change of the source is a release: those of long ago are forgotten, the live one never.
    fn forget_old(&mut self) {
        if self.known.len() < limits::RELEASES_MAX {
            return;
        }
        let live = self.live.clone();
        let is_kept = |release: &Release| live.as_deref() == Some(release.name.as_str());
        let oldest = self.known.iter().filter(|one| !is_kept(one)).min_by_key(|one| one.seen);
        let oldest = oldest.map(|release| release.name.clone());
        self.known.retain(|release| Some(&release.name) != oldest.as_ref());
    }
}

impl Release {
    /// Whether a worker has said so lately.
    pub fn is_offered(&self, now: Wall) -> bool {
        now.0 - self.seen.0 < limits::RELEASE_GONE_MS
    }
}

/// How often a worker says that it offers a release: three times before others take it for gone.
const OFFER_EVERY_MS: i64 = limits::RELEASE_GONE_MS / 3;

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(name: &str) -> Offered {
        Offered { name: name.into(), draft: false, strict: false, policy: Policy::default() }
    }

    fn after(releases: &Releases, name: &str, at: i64) -> Releases {
        offer(releases, &offered(name), Wall(at)).unwrap_or_else(|| releases.clone())
    }

    #[test]
    fn req_s3_a_new_release_is_live_at_once_and_an_old_one_only_by_promotion() {
        let one = after(&Releases::default(), "r1", 0);
        assert_eq!(one.live.as_deref(), Some("r1"));
        let two = after(&one, "r2", 1_000);
        assert_eq!(two.live.as_deref(), Some("r2"));
        let restarted = after(&two, "r1", 100_000);
        assert_eq!(restarted.live.as_deref(), Some("r2"), "a worker of old code started again");
        let back = promote(&restarted, "r1", "ann", "r2 is slow", Wall(100_001)).expect("known");
        assert_eq!(back.live.as_deref(), Some("r1"));
        assert_eq!(before(&back), Some("r2"));
        assert_eq!(after(&back, "r2", 200_000).live.as_deref(), Some("r1"));
    }

    #[test]
    fn a_draft_is_live_only_when_somebody_promotes_it() {
        let one = after(&Releases::default(), "r1", 0);
        let draft = Offered { draft: true, ..offered("r2") };
        let two = offer(&one, &draft, Wall(1)).expect("new");
        assert_eq!(two.live.as_deref(), Some("r1"));
        let promoted = promote(&two, "r2", "ann", "tried", Wall(2)).expect("known");
        assert_eq!(promoted.live.as_deref(), Some("r2"));
        assert!(!promoted.find("r2").expect("known").draft);
        assert_eq!(promote(&two, "r9", "ann", "?", Wall(2)), Err(ReleaseUnknown));
    }

    #[test]
    fn an_offer_is_written_now_and_then_and_missed_after_a_minute() {
        let one = after(&Releases::default(), "r1", 0);
        assert_eq!(offer(&one, &offered("r1"), Wall(19_999)), None);
        let again = offer(&one, &offered("r1"), Wall(20_000)).expect("it is time");
        let gone = |releases: &Releases, at| releases.abandoned(Wall(at)).count();
        assert_eq!((gone(&again, 79_999), gone(&again, 80_000)), (0, 1));
    }

    #[test]
    fn promoting_what_is_live_changes_nothing() {
        let one = after(&Releases::default(), "r1", 0);
        assert_eq!(promote(&one, "r1", "ann", "again", Wall(5)), Ok(one));
    }

    #[test]
    fn releases_of_long_ago_are_forgotten_the_live_one_never() {
        let mut releases = after(&Releases::default(), "r", 0);
        releases = promote(&releases, "r", "ann", "keep", Wall(0)).expect("known");
        for number in 0..limits::RELEASES_MAX * 2 {
            let draft = Offered { draft: true, ..offered(&format!("d{number}")) };
            let at = Wall(i64::try_from(number).expect("small") + 1);
            releases = offer(&releases, &draft, at).expect("new");
        }
        assert_eq!(releases.known.len(), limits::RELEASES_MAX);
        assert!(releases.find("r").is_some());
    }

    #[test]
    fn names_fit_into_lanes() {
        for (name, fits) in
            [("r1", true), ("1.2.3+x", true), ("", false), ("a@b", false), ("a/b", false)]
        {
            assert_eq!(check_name(name).is_ok(), fits, "{name}");
        }
    }
}
