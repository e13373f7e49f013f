//! How far a token reaches into a store that a server keeps for it: one namespace and its draft
//! twin, the cards that an engine uses, and the decisions that its role may make.

use crate::access::{Permission, Role};
use crate::key::Namespace;
use crate::record::{Answer, Effect};
use crate::{audit, entity, gate, repeats, schedule};

/// Whoever holds a token.
#[derive(Clone, Debug)]
pub struct Reach {
    live: Namespace,
    draft: Namespace,
    role: Role,
}

/// The kinds of cards that an engine reads and writes. All others are the server's own, such as
/// tokens and triggers: for whoever works over the wire they are not there.
const KINDS: [&str; 8] = [
    audit::CARD,
    "callback",
    entity::CARD,
    gate::CARD,
    "rate",
    repeats::CARD,
    schedule::CARD,
    "workflow",
];

impl Reach {
    pub fn new(namespace: &Namespace, role: Role) -> Reach {
        Reach { live: namespace.live(), draft: namespace.draft(), role }
    }

    /// The namespace that lists are narrowed to.
    pub fn namespace(&self) -> &Namespace {
        &self.live
    }

    /// Whether a namespace is the token's own, or its draft twin.
    pub fn sees(&self, namespace: &str) -> bool {
        namespace == self.live.as_str() || namespace == self.draft.as_str()
    }

    /// The same of a lane or a queue, which begin with the namespace of their runs.
    pub fn sees_lane(&self, lane: &str) -> bool {
        lane.split_once('/').is_some_and(|(namespace, _)| self.sees(namespace))
    }

    /// Whether a kind of card is there for it at all.
    pub fn sees_kind(&self, kind: &str) -> bool {
        KINDS.contains(&kind)
    }

    /// Whether it may see tokens of callbacks: whoever may signal a run anyway.
    pub fn sees_tokens(&self) -> bool {
        self.role.may(Permission::Start)
    }

    /// Whether it may write cards of a kind. Schedules are an operator's, and fire by themselves.
    pub fn may_write_kind(&self, kind: &str) -> bool {
        self.sees_kind(kind) && (kind != schedule::CARD || self.role.may(Permission::Operate))
    }

    /// Whether it may remove what is past its retention. Otherwise that is left to the server.
    pub fn may_remove(&self) -> bool {
        self.role.may(Permission::Operate)
    }

    /// Whether it may write that somebody decided something.
    pub fn may_audit(&self) -> bool {
        self.role.may(Permission::Operate) || self.role.may(Permission::Approve)
    }

    /// Whether it may write every word about an effect: then none of them is compared.
    pub fn may_decide(&self) -> bool {
        self.role.may(Permission::Operate) && self.role.may(Permission::Approve)
    }

    /// Whether it may write an effect over the one that is stored: a worker says what it did, and
    /// only people decide and approve.
    pub fn may_write(&self, stored: Option<&Effect>, next: &Effect) -> bool {
        (self.role.may(Permission::Operate) || !decides(stored, next))
            && (self.role.may(Permission::Approve) || !answers(stored, next))
    }
}

/// Whether a record can hold something that only people say. To be asked before the stored one is
/// looked up.
pub fn has_said(effect: &Effect) -> bool {
    decides(None, effect) || answers(None, effect)
}

/// Other decisions than the stored effect has, or a further go, which is one.
fn decides(stored: Option<&Effect>, next: &Effect) -> bool {
    let before = stored.map_or(&[][..], |stored| &stored.decisions);
    let is_further = stored.is_none() && next.generation > 0;
    is_further || next.decisions != before
}

/// Another answer than the stored effect has, or none any more, or no question. Silence is
/// nobody's: time gives it.
fn answers(stored: Option<&Effect>, next: &Effect) -> bool {
    let of = |effect: &Effect| {
        let judgement = effect.approval.as_ref()?.judgement.clone();
        judgement.filter(|judgement| judgement.answer != Answer::Expired)
    };
    // What was answered is one exact payload, asked in one way.
    let asked = |effect: &Effect| {
        let asked = effect.approval.clone()?;
        Some((asked.digest, asked.requester, asked.four_eyes, asked.note, asked.only))
    };
    let is_unasked = next.approval.is_none() && stored.is_some_and(|it| it.approval.is_some());
    let answer = of(next);
    let is_changed = answer.is_some() && stored.is_some_and(|it| asked(it) != asked(next));
    is_unasked || is_changed || answer != stored.and_then(of)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::effect::testing::Desk;
    use crate::record::{Approval, Decision, Judgement, Verdict};
    use crate::time::Wall;

    fn reach(role: Role) -> Reach {
        Reach::new(&Namespace::new("acme").unwrap(), role)
    }

    fn effect() -> Effect {
        let mut desk = Desk::new("harmless");
        desk.run("begin");
        desk.effect().unwrap().clone()
    }

    fn decided(effect: &Effect) -> Effect {
        let decision = Decision {
            verdict: Verdict::Retry,
            actor: "ada".into(),
            reason: "once more".into(),
            at: Wall(1),
            version: effect.version,
        };
        Effect { decisions: vec![decision], ..effect.clone() }
    }

    fn answered(effect: &Effect, answer: Answer) -> Effect {
        let judgement = Judgement { answer, actor: "ada".into(), note: "".into(), at: Wall(1) };
        let approval = Approval {
            asked: Wall(0),
            digest: "d".into(),
            expires: None,
            requester: None,
            four_eyes: false,
            note: None,
            only: false,
            after: 0,
            judgement: Some(judgement),
        };
        Effect { approval: Some(approval), ..effect.clone() }
    }

    #[test]
    fn sec_6_a_token_reaches_its_namespace_and_the_draft_twin_alone() {
        let reach = reach(Role::Admin);
        for (namespace, seen) in
            [("acme", true), ("acme~draft", true), ("acm", false), ("acme2", false), ("", false)]
        {
            assert_eq!(reach.sees(namespace), seen, "{namespace}");
            assert_eq!(reach.sees_lane(&format!("{namespace}/w@1")), seen, "{namespace}");
        }
        assert!(!reach.sees_lane("acme"));
        assert!(reach.sees_kind("gate") && !reach.sees_kind("token"));
        assert!(!reach.sees_kind("trigger"));
    }

    #[test]
    fn sec_6_only_people_decide_and_approve() {
        let plain = effect();
        let retried = decided(&plain);
        let approved = answered(&plain, Answer::Approved);
        let further = Effect { generation: 1, ..plain.clone() };
        for (role, may_decide, may_approve) in [
            (Role::Worker, false, false),
            (Role::Operator, true, false),
            (Role::Approver, false, true),
            (Role::Admin, true, true),
        ] {
            let reach = reach(role);
            assert!(reach.may_write(None, &plain) && reach.may_write(Some(&plain), &plain));
            assert_eq!(reach.may_write(Some(&plain), &retried), may_decide, "{role:?}");
            assert_eq!(reach.may_write(None, &further), may_decide, "{role:?}");
            assert_eq!(reach.may_write(Some(&plain), &approved), may_approve, "{role:?}");
            assert_eq!(reach.may_write(None, &approved), may_approve, "{role:?}");
            // What was said before may be repeated, and silence is nobody's word.
            assert!(reach.may_write(Some(&retried), &retried));
            assert!(reach.may_write(Some(&approved), &approved));
            assert!(reach.may_write(Some(&further), &further));
            assert!(reach.may_write(Some(&plain), &answered(&plain, Answer::Expired)));
            let denied = answered(&plain, Answer::Denied);
            assert_eq!(reach.may_write(Some(&denied), &approved), may_approve, "{role:?}");
            // Nor is what people said taken away, or their question.
            assert_eq!(reach.may_write(Some(&retried), &plain), may_decide, "{role:?}");
            assert_eq!(reach.may_write(Some(&denied), &plain), may_approve, "{role:?}");
            // What was approved stays what was approved.
            let mut other = approved.clone();
            other.approval.as_mut().unwrap().digest = "another".into();
            assert_eq!(reach.may_write(Some(&approved), &other), may_approve, "{role:?}");
        }
        assert!(!has_said(&plain));
        assert!(has_said(&retried) && has_said(&approved) && has_said(&further));
    }
}
