//! What waits its turn: runs in queues, and effects held for a person.

use semel_core::effect::approve::{self, Ask};
use semel_core::effect::{self, Decision, Ground, Person};
use semel_core::record::{Answer, Effect};
use semel_core::run::{self, How, Run};

use super::Subject;
use super::making::{address, begin, done, insert, update};
use super::making_runs::{
    change, delivery, drop_run, finished, new_run, queued, start, stored, taken, tombstone, touch,
    write,
};
use crate::{Query, Row, Store, Write};

/// The run with the least number is next, whenever it came, and each queue has its own.
pub async fn the_least_number_of_a_queue_is_next(store: Subject) {
    let ground = store.ground();
    assert_eq!(next(&*store, "mail").await, None);
    for (number, gate) in [(7, "mail"), (3, "mail"), (5, "sms"), (4, "mail")] {
        write(&*store, start(&in_queue(number, gate, &ground), &ground)).await;
    }
    write(&*store, start(&new_run("ready", 1, &ground), &ground)).await;
    assert_eq!(next(&*store, "mail").await, Some(3));
    assert_eq!(next(&*store, "sms").await, Some(5));
    assert_eq!(next(&*store, "mai").await, None);
    assert_eq!(store.next_queued("mail").await, Ok(None), "queues are of a namespace");
    let elsewhere = Run { namespace: "elsewhere".into(), ..in_queue(2, "mail", &ground) };
    write(&*store, start(&elsewhere, &ground)).await;
    assert_eq!(next(&*store, "mail").await, Some(3));
    let found = store.next_queued("elsewhere/mail").await.expect("a run");
    assert_eq!(found, Some(elsewhere));
}

/// A touch or a delivery leaves a run in its queue; whoever takes, pauses or ends it does not.
pub async fn a_run_leaves_its_queue_when_it_is_taken(store: Subject) {
    let ground = store.ground();
    for number in 1..=4 {
        write(&*store, start(&in_queue(number, "mail", &ground), &ground)).await;
    }
    let first = in_queue(1, "mail", &ground);
    write(&*store, touch(&first, &ground)).await;
    write(&*store, Write::Deliver(delivery(&first, "d", "1"))).await;
    let first = stored(&*store, &first).await.expect("a run");
    assert_eq!(first.version, 3, "it was touched twice");
    assert_eq!(store.next_queued("default/mail").await, Ok(Some(first.clone())));
    let held = taken(&first, &ground);
    write(&*store, change(&held, &ground)).await;
    assert_eq!(next(&*store, "mail").await, Some(2));
    // It may stand in it again, at its old place.
    let again = queued(&held, "mail");
    write(&*store, change(&again, &ground)).await;
    assert_eq!(next(&*store, "mail").await, Some(1));
    let end = finished(&taken(&again, &ground), &ground);
    write(&*store, change(&Run { version: again.version + 1, ..end.clone() }, &ground)).await;
    assert_eq!(next(&*store, "mail").await, Some(2));
    // So for one that is cancelled, and one that is gone without a stone.
    let second = taken(&in_queue(2, "mail", &ground), &ground);
    let cancelled = run::finish(&second, second.fence, How::Cancelled, &ground.now);
    let cancelled = Run { version: 2, ..cancelled.expect("it was held") };
    write(&*store, change(&cancelled, &ground)).await;
    assert_eq!(next(&*store, "mail").await, Some(3));
    write(&*store, drop_run(&in_queue(3, "mail", &ground), None, &ground)).await;
    assert_eq!(next(&*store, "mail").await, Some(4));
    let stone =
        tombstone(&finished(&taken(&in_queue(4, "mail", &ground), &ground), &ground), &ground);
    write(&*store, drop_run(&in_queue(4, "mail", &ground), Some(&stone), &ground)).await;
    assert_eq!(next(&*store, "mail").await, None);
}

/// An effect is listed as held from the question to the answer, newest first.
pub async fn held_effects_are_listed_until_they_are_judged(store: Subject) {
    let ground = store.ground();
    let asked: Vec<Effect> = ["a", "b", "c"].map(|key| held(key, &ground)).into();
    for effect in &asked {
        write(&*store, insert(effect, &ground)).await;
    }
    let plain = super::armed(&address("a", "plain"), "1", &ground);
    write(&*store, insert(&plain, &ground)).await;
    write(&*store, update(&done(&plain, "1", &ground), &ground)).await;
    assert_eq!(listed(&*store, 10).await, [["c", "b", "a"]].concat());
    assert_eq!(listed(&*store, 1).await, ["c"]);
    let answers = [(&asked[2], Answer::Approved), (&asked[0], Answer::Denied)];
    for (effect, answer) in answers {
        let digest = &effect.approval.as_ref().expect("it was asked for").digest;
        let person = Person { actor: "ann".into(), reason: "so".into(), version: effect.version };
        let judged = approve::judge(effect, &person, answer, digest, &ground.now);
        let judged = judged.expect("it is held").effect.expect("the first answer");
        write(&*store, update(&judged, &ground)).await;
    }
    assert_eq!(listed(&*store, 10).await, ["b"]);
    // The mark is as it was written: time ends a hold without a write.
    let late = Row { held: true, ..Row::new(&held("late", &ground), &ground.now) };
    write(&*store, Write::Insert(late)).await;
    assert_eq!(listed(&*store, 10).await, ["late", "b"]);
}

fn held(key: &str, ground: &Ground) -> Effect {
    let mut ask = begin(&address("a", key), "1");
    ask.approval = Some(Ask::default());
    match effect::begin(None, &ask, ground) {
        Ok(Decision::Hold(effect)) => *effect,
        other => panic!("it must wait for a person: {other:?}"),
    }
}

async fn listed(store: &dyn Store, limit: usize) -> Vec<String> {
    let query = Query { held: true, ..Query::everywhere(limit) };
    let page = store.list(&query).await.expect("a page");
    page.effects.into_iter().map(|effect| effect.address.key.as_str().to_owned()).collect()
}

/// A run that waits in a queue, at its first version.
fn in_queue(number: i64, gate: &str, ground: &Ground) -> Run {
    let run = taken(&new_run(&number.to_string(), number, ground), ground);
    Run { version: 1, ..queued(&run, gate) }
}

async fn next(store: &dyn Store, gate: &str) -> Option<i64> {
    let found = store.next_queued(&format!("default/{gate}")).await.expect("a run");
    found.map(|run| run.number)
}
