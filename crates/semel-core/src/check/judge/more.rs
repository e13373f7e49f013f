//! More at a destination than the undisturbed run made: when that is wrong.

use std::fmt;

use super::super::record::EffectSeen;
use super::Sight;

/// A place that has more than before.
pub(super) struct More<'a> {
    place: &'a str,
    count: u64,
    usual: u64,
}

impl More<'_> {
    fn extra(&self) -> u64 {
        self.count - self.usual
    }
}

impl fmt::Display for More<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} has {} instead of {}", self.place, self.count, self.usual)
    }
}

impl Sight<'_> {
    /// The first place that has more than may be. Sends of harmless effects may be repeated, so
    /// many are allowed as the ledger shows; at which place they landed it does not say.
    pub(super) fn too_many(&self) -> Option<More<'_>> {
        let mut allowed = self.harmless_sends();
        self.more().find(|more| {
            let is_allowed = more.extra() <= allowed;
            allowed = allowed.saturating_sub(more.extra());
            !is_allowed
        })
    }

    /// How many more there are, where that is allowed.
    pub(super) fn more_allowed(&self) -> u64 {
        self.more().map(|more| more.extra()).sum()
    }

    fn more(&self) -> impl Iterator<Item = More<'_>> {
        // A workflow may handle a doubt by doing something else, which it never did before.
        let has_doubt = !self.doubted().is_empty();
        let places = self.seen.objects.iter().map(|(place, count)| {
            let usual = self.baseline.objects.get(place).copied().unwrap_or(0);
            More { place, count: *count, usual }
        });
        places.filter(move |more| more.count > more.usual && !(has_doubt && more.usual == 0))
    }

    /// How many sends of harmless effects the ledger has beyond those of the undisturbed run.
    fn harmless_sends(&self) -> u64 {
        let harmless = self.seen.effects.iter().filter(|effect| effect.is_harmless());
        let extra = harmless.map(|effect| {
            let usual = self.before(effect).map_or(1, EffectSeen::sends);
            effect.sends().saturating_sub(usual)
        });
        extra.sum()
    }
}

impl EffectSeen {
    /// Its contract allows duplicates.
    pub(super) fn is_harmless(&self) -> bool {
        self.contract == "harmless"
    }

    /// Nothing but a person's word, or a late one of its attempt, settles a doubt.
    pub(super) fn may_stay_in_doubt(&self) -> bool {
        self.contract == "at_most_once" || self.key_not_used
    }

    fn sends(&self) -> u64 {
        self.attempts.iter().filter(|attempt| attempt.kind == "send").count() as u64
    }
}
