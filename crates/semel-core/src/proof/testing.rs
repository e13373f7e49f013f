//! Evidence for tests: of a story that was played, and of a journal that was written.

use super::{Card, EntryEvidence, Evidence, RULES, RunEvidence, Standing, Subject};
use crate::effect::Ground;
use crate::effect::testing::Desk;
use crate::journal::{At, Entry, Event, FORMAT, Link, Outcome, Value, encode};
use crate::json::Json;
use crate::key::{Action, Key, Namespace};
use crate::record;
use crate::repeats::{self, Door, Repeats};
use crate::run::{self, Start};
use crate::time::{Moment, Steady, Wall};

/// What the desk has of its key.
pub(super) fn of_desk(desk: &Desk) -> Evidence {
    let address = desk.effect().expect("a row").address.clone();
    let ground = Ground { now: desk.now, epoch: 0, quarantine: None };
    Evidence {
        rules: RULES,
        subject: Subject::Effect {
            namespace: address.namespace.as_str().into(),
            action: address.action.as_str().into(),
            key: address.key.as_str().into(),
        },
        standing: Standing::of(&ground),
        effects: desk.rows.iter().map(record::encode).collect(),
        runs: Vec::new(),
        repeats: Vec::new(),
        unreadable: Vec::new(),
    }
}

/// The evidence after a story, one wish a line.
pub(super) fn played(terms: &str, story: &[&str]) -> Evidence {
    let mut desk = Desk::new(terms);
    for line in story {
        let answer = desk.run(line);
        assert!(!answer.starts_with('!'), "{line}: {answer}");
    }
    of_desk(&desk)
}

/// Three direct repeats of the effect of a story.
pub(super) fn with_repeats(mut evidence: Evidence) -> Evidence {
    let effect = record::decode(&evidence.effects[0]).expect("a record");
    let mut repeats = Repeats::of(&repeats::Subject::Effect(effect.address.clone()));
    (0..3).for_each(|at| repeats.note(Door::Call, Wall(at)));
    let record = serde_json::to_string(&repeats).expect("plain data");
    evidence.repeats.push(Card { name: repeats::card_of(&effect.address).to_string(), record });
    evidence
}

/// A run that charged, by the story's effect, and has ended.
pub(super) fn of_run() -> Evidence {
    let mut desk = Desk::new("native_key");
    let steady = Steady { boot: 1, ms: 5 };
    let now = Moment { wall: Wall(1_700_000_000_000), steady, wall_is_behind: false };
    let start = Start {
        namespace: Namespace::default(),
        workflow: Action::new("refund").expect("a name"),
        key: Key::from_text("event-7").expect("a key"),
        input: Json::from_text(r#"{"id":7}"#).expect("JSON"),
        number: 1,
        window_ms: 1_000,
        deadline_ms: None,
        release: None,
        strict: false,
        passes: Vec::new(),
        parent: None,
    };
    let run = run::start(&start, &now);
    let take = |run: &run::Run, worker: &str| {
        let ask = run::Take { worker: worker.into(), session: None, lease_ms: 10, epoch: 0 };
        run::take(run, &ask, &now).expect("it is free")
    };
    let first = take(&run, "worker-1");
    let second = take(&run::Run { lease: None, ..first.clone() }, "worker-2");
    let ended = run::finish(&second, second.fence, run::How::Done, &now).expect("it ends");
    desk.run("begin");
    desk.run(r#"receipt 1 "0""#);
    let what = format!("effect {}", desk.effect().expect("a row").address);
    let taken = |run: &run::Run, worker: &str| Event::Taken {
        fence: run.fence,
        worker: worker.into(),
        release: "1".into(),
        hears: true,
    };
    let value = |text: &str| Value::Json(Json::from_text(text).expect("JSON"));
    let events = [
        Event::Started { workflow: "refund".into(), input: value(r#"{"id":7}"#) },
        taken(&first, "worker-1"),
        Event::Planned { id: "charge".into(), what: what.clone(), undo: false },
        Event::Planned { id: "ask".into(), what: "child audit/event-7".into(), undo: false },
        taken(&second, "worker-2"),
        Event::Effect {
            id: "charge".into(),
            what,
            result: Outcome::Value(value("\"0\"")),
            repeat: true,
        },
        Event::Finished { end: crate::journal::Ending::Done(value("null")) },
    ];
    let entries = chained(&ended, &events, &now);
    let effect = of_desk(&desk);
    let record = run::encode(&ended);
    Evidence {
        subject: Subject::Run { namespace: ended.namespace.clone(), id: ended.id.clone() },
        runs: vec![RunEvidence { record, version: ended.version, entries }],
        ..effect
    }
}

fn chained(run: &run::Run, events: &[Event], now: &Moment) -> Vec<EntryEvidence> {
    let mut link = Link::of_run(&run.namespace, &run.id);
    let mut entries = Vec::new();
    for (seq, event) in (0..).zip(events) {
        let text = encode(&Entry { format: FORMAT, at: At::from(now), event: event.clone() });
        link = link.then(&text);
        entries.push(EntryEvidence { seq, link: link.to_string(), text });
    }
    entries
}

/// The evidence with one row changed.
pub(super) fn tampered(mut evidence: Evidence, from: &str, to: &str) -> Evidence {
    let text = evidence.effects.iter_mut().find(|text| text.contains(from)).expect("it is there");
    *text = text.replacen(from, to, 1);
    evidence
}
