//! How far a token reaches into a store that a server keeps for it: one namespace and its draft
//! twin, the cards that an engine uses, and the decisions that its role may make.

use crate::access::{Permission, Role};
use crate::journal::{self, Entry, Event};
use crate::key::{Action, Key, Namespace};
use crate::record::{Answer, Effect};
use crate::run::Run;
use crate::{audit, derive, entity, gate, repeats, schedule};

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
        match lane.split_once('/') {
            // Of runs that need no code.
            Some(("", namespace)) => self.sees(namespace),
            Some((namespace, _)) => self.sees(namespace),
            None => false,
        }
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

/// Whether a run has the id that every engine gives it, made of its workflow and key.
pub fn is_run_id(id: &str, namespace: &str, workflow: &str, key: &str) -> bool {
    let (Ok(namespace), Ok(key)) = (Namespace::stored(namespace), Key::parse(key)) else {
        return false;
    };
    Action::new(workflow).is_ok() && derive::run_id(&namespace, workflow, &key).to_string() == id
}

/// What an engine never writes as the start of a run: the server itself takes such runs up, and one
/// without its first entry can neither go on nor be ended. `first` is the entry that comes with it.
pub fn check_start(run: &Run, first: Option<&Entry>) -> Result<(), &'static str> {
    let Some(first) = first else { return Err("a run starts with its first entry") };
    match &first.event {
        Event::Started { workflow, .. } if *workflow == run.workflow => {}
        _ => return Err("the first entry of a run says what was started"),
    }
    let is_new = run.version == 1
        && run.cancel.is_none()
        && run.paused.is_none()
        && run.set_aside.is_none()
        && run.ended.is_none()
        && run.expired.is_none();
    if is_new { Ok(()) } else { Err("a run that starts is neither steered nor over") }
}

/// Reads an entry of a journal, as an engine would have written it.
pub fn read_entry(text: &str) -> Result<Entry, String> {
    let entry = journal::decode(text)?;
    if let Event::Planned { what, .. } = &entry.event
        && !["child ", "entity "].iter().any(|kind| what.starts_with(kind))
    {
        let named = what.strip_prefix("effect ").and_then(|name| name.split_once('/'));
        let is_named = named
            .is_some_and(|(action, key)| Action::new(action).is_ok() && Key::parse(key).is_ok());
        if !is_named {
            return Err("a planned effect is named by action and key".into());
        }
    }
    Ok(entry)
}

/// Whether a record can hold something that only people say. To be asked before the stored one is
/// looked up.
pub fn has_said(effect: &Effect) -> bool {
    decides(None, effect) || answers(None, effect)
}

/// Other decisions than the stored effect has, or a further go or budget, which are one.
fn decides(stored: Option<&Effect>, next: &Effect) -> bool {
    let before = stored.map_or(&[][..], |stored| &stored.decisions);
    let is_further = stored.is_none() && next.generation > 0;
    let is_granted = next.granted_after != stored.map_or(0, |stored| stored.granted_after);
    is_further || is_granted || next.decisions != before
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
        assert!(!reach.sees_lane("acme") && !reach.sees_lane("") && !reach.sees_lane("/"));
        assert!(reach.sees_lane("/acme") && reach.sees_lane("/acme~draft"));
        assert!(!reach.sees_lane("/other") && !reach.sees_lane("/acme/w"));
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

    fn started(change: impl Fn(&mut Run)) -> Run {
        let ask = crate::run::Start {
            namespace: Namespace::new("acme").unwrap(),
            workflow: Action::new("triage").unwrap(),
            key: Key::from_text("k").unwrap(),
            input: crate::json::Json::null(),
            number: 7,
            window_ms: 1,
            deadline_ms: None,
            release: None,
            strict: false,
            passes: Vec::new(),
            parent: None,
        };
        let steady = crate::time::Steady { boot: 1, ms: 1 };
        let now = crate::time::Moment { wall: Wall(1), steady, wall_is_behind: false };
        let mut run = crate::run::start(&ask, &now);
        change(&mut run);
        run
    }

    fn entry(event: Event) -> Entry {
        let at = journal::At(Wall(1), crate::time::Steady { boot: 1, ms: 1 });
        Entry { format: journal::FORMAT, at, event }
    }

    #[test]
    fn sec_6_a_run_starts_with_its_first_entry_and_as_nothing_else() {
        let said = |workflow: &str| {
            let input = journal::Value::Json(crate::json::Json::null());
            entry(Event::Started { workflow: workflow.into(), input })
        };
        let new = started(|_| {});
        let is_named = |run: &Run| is_run_id(&run.id, &run.namespace, &run.workflow, &run.key);
        assert!(is_named(&new));
        assert_eq!(check_start(&new, Some(&said("triage"))), Ok(()));
        assert!(check_start(&new, None).is_err(), "no entry");
        assert!(check_start(&new, Some(&said("other"))).is_err(), "another run's entry");
        let taken = Event::Taken { fence: 1, worker: "w".into(), release: "r".into(), hears: true };
        assert!(check_start(&new, Some(&entry(taken))).is_err(), "no start");
        let changes: [fn(&mut Run); 4] = [
            |run| run.version = 2,
            |run| {
                let (actor, reason) = ("a".into(), "r".into());
                run.cancel = Some(crate::run::Cancel { actor, reason, at: Wall(1), fault: None });
            },
            |run| run.expired = Some(Wall(1)),
            |run| {
                let how = crate::run::How::Done;
                run.ended = Some(crate::run::Ended { how, at: Wall(1) });
            },
        ];
        for change in changes {
            let run = started(change);
            assert!(check_start(&run, Some(&said("triage"))).is_err(), "{run:?}");
        }
        assert!(!is_named(&started(|run| run.key = "l".into())));
        assert!(!is_named(&started(|run| run.id.push('0'))));
    }

    #[test]
    fn sec_6_an_entry_is_one_that_an_engine_reads_back() {
        let planned = |what: &str| {
            let event = Event::Planned { id: "e#0".into(), what: what.into(), undo: false };
            read_entry(&journal::encode(&entry(event)))
        };
        for good in ["effect mail/k", "child w/k", "entity account/7"] {
            assert!(planned(good).is_ok(), "{good}: {:?}", planned(good));
        }
        for bad in ["", "mail/k", "effect mail", "effect /k", "effect a b/k"] {
            assert!(planned(bad).is_err(), "{bad}");
        }
        assert!(read_entry("one").is_err());
    }
}
