//! The last deliveries of a trigger and what became of each: no bodies, no signatures. What was
//! verified and what was refused are kept apart, so that nobody without a secret can push out what
//! a sender did.

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::time::Wall;

/// The kind of card that they are kept as, by the trigger's name.
pub const HOOK_CARD: &str = "hook";

/// What became of a delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A run was started.
    Started,
    /// The run was there: nothing new was started.
    Repeated,
    /// The run was there and got another input: nothing new was started.
    Changed,
    /// The run was there once, and its key is only remembered.
    Expired,
    /// The sender wanted to know whether somebody is there.
    Challenged,
    /// Genuine, and no run could be made of it; the detail says why.
    Unusable,
    /// Genuine, and the start was refused or failed; the detail says why.
    Failed,
    /// Not genuine; the detail says why.
    Refused,
}

/// One delivery.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Delivery {
    pub at: Wall,
    pub verdict: Verdict,
    /// The key of its run, which has the sender's delivery id in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    pub bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// The last deliveries of one trigger, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deliveries {
    pub verified: Vec<Delivery>,
    pub refused: Vec<Delivery>,
    /// How many there were in all, of which the above are the last.
    pub verified_count: u64,
    pub refused_count: u64,
    /// Who wrote this, and which of its writes it was: two processes that note the same must not
    /// take each other's card for their own.
    #[serde(default)]
    pub by: String,
}

impl Verdict {
    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Started => "started",
            Verdict::Repeated => "repeated",
            Verdict::Changed => "changed",
            Verdict::Expired => "expired",
            Verdict::Challenged => "challenged",
            Verdict::Unusable => "unusable",
            Verdict::Failed => "failed",
            Verdict::Refused => "refused",
        }
    }
}

impl Deliveries {
    /// Notes one delivery.
    pub fn note(&mut self, mut delivery: Delivery) {
        if let Some(detail) = &mut delivery.detail {
            let end = detail.floor_char_boundary(limits::HOOK_DETAIL_BYTES_MAX);
            detail.truncate(end);
        }
        let (kept, count) = match delivery.verdict {
            Verdict::Refused => (&mut self.refused, &mut self.refused_count),
            _ => (&mut self.verified, &mut self.verified_count),
        };
        kept.push(delivery);
        *count = count.saturating_add(1);
        trim(kept);
    }

    /// What is stored, with more of the same trigger, as `by` writes it.
    #[must_use]
    pub fn with(&self, more: &Deliveries, by: String) -> Deliveries {
        let mut sum = Deliveries { by, ..self.clone() };
        sum.verified_count = sum.verified_count.saturating_add(more.verified_count);
        sum.refused_count = sum.refused_count.saturating_add(more.refused_count);
        for (kept, added) in
            [(&mut sum.verified, &more.verified), (&mut sum.refused, &more.refused)]
        {
            kept.extend(added.iter().cloned());
            // Two processes may write in another order than they received.
            kept.sort_by_key(|delivery| delivery.at);
            trim(kept);
        }
        sum
    }

    /// All that are kept, the newest first.
    pub fn newest_first(&self) -> Vec<&Delivery> {
        // Those of one millisecond, too: sorting leaves them as they are.
        let mut all: Vec<_> = self.verified.iter().rev().chain(self.refused.iter().rev()).collect();
        all.sort_by_key(|delivery| std::cmp::Reverse(delivery.at));
        all
    }
}

fn trim(kept: &mut Vec<Delivery>) {
    let over = kept.len().saturating_sub(limits::HOOK_DELIVERIES_MAX);
    kept.drain(..over);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delivery(at: i64, verdict: Verdict) -> Delivery {
        let detail = Some("é".repeat(400));
        Delivery { at: Wall(at), verdict, key: None, run: None, bytes: 2, detail }
    }

    #[test]
    fn the_last_hundred_are_kept_and_a_flood_of_refusals_pushes_none_of_them_out() {
        let mut kept = Deliveries::default();
        (0..150).for_each(|at| kept.note(delivery(at, Verdict::Repeated)));
        (0..5_000).for_each(|at| kept.note(delivery(1_000 + at, Verdict::Refused)));
        assert_eq!((kept.verified.len(), kept.verified[0].at), (100, Wall(50)));
        assert_eq!((kept.refused.len(), kept.refused[99].at), (100, Wall(5_999)));
        assert_eq!((kept.verified_count, kept.refused_count), (150, 5_000));
        let detail = kept.refused[0].detail.as_ref().expect("a detail");
        assert!(detail.len() <= limits::HOOK_DETAIL_BYTES_MAX && detail.ends_with('é'));
    }

    #[test]
    fn the_newest_is_first_within_one_millisecond_too() {
        let mut kept = Deliveries::default();
        for bytes in 0..3 {
            kept.note(Delivery { bytes, ..delivery(7, Verdict::Refused) });
        }
        let order: Vec<_> = kept.newest_first().iter().map(|delivery| delivery.bytes).collect();
        assert_eq!(order, [2, 1, 0]);
    }

    #[test]
    fn what_two_processes_noted_is_joined_in_the_order_of_time() {
        let mut one = Deliveries::default();
        let mut other = Deliveries::default();
        for at in [1, 5] {
            one.note(delivery(at, Verdict::Started));
            other.note(delivery(at * 3 / 2 + 1, Verdict::Repeated));
        }
        let both = Deliveries::default().with(&one, "a".into()).with(&other, "b".into());
        let times: Vec<_> = both.newest_first().iter().map(|delivery| delivery.at.0).collect();
        assert_eq!((times, both.verified_count), (vec![8, 5, 2, 1], 4));
        let text = serde_json::to_string(&both).expect("plain data");
        assert_eq!(serde_json::from_str::<Deliveries>(&text).expect("read back"), both);
        assert_ne!(
            text,
            serde_json::to_string(&both.with(&Deliveries::default(), "c".into())).unwrap()
        );
    }
}
