//! Runs: who may change them, what touches them, and what goes together.

use semel_core::run::{self, Pause, Run};
use semel_core::time::Wall;

use super::Subject;
use super::making::{address, armed, insert, update};
use super::making_runs::{
    appends, change, delivery, drop_run, finished, new_run, parked, refused, running, start,
    stored, taken, texts, tombstone, touch, write, write_all,
};
use crate::{Batch, CommitError, RunQuery, RunRow, Write};

/// A run starts once, whoever asks, and comes back as it was written.
pub async fn a_run_starts_once(store: Subject) {
    let ground = store.ground();
    let first = new_run("k", 1, &ground);
    write(&*store, start(&first, &ground)).await;
    assert_eq!(stored(&*store, &first).await, Some(first.clone()));
    refused(&*store, vec![start(&new_run("k", 2, &ground), &ground)]).await;
    assert_eq!(stored(&*store, &first).await, Some(first.clone()));
    // Who lost the answer asks again.
    write(&*store, start(&first, &ground)).await;
    let page = store.list_runs(&RunQuery::everywhere(10)).await.expect("a list");
    assert_eq!((page.runs, page.next), (vec![first], None));
}

/// A journal belongs to one run: its number is refused to another, and so is its id.
pub async fn a_taken_number_or_id_is_refused(store: Subject) {
    let ground = store.ground();
    let first = new_run("k", 1, &ground);
    write(&*store, start(&first, &ground)).await;
    let other = new_run("other", 1, &ground);
    refused(&*store, vec![start(&other, &ground)]).await;
    assert_eq!(stored(&*store, &other).await, None);
    let twin = Run { number: 2, ..first.clone() };
    refused(&*store, vec![start(&twin, &ground)]).await;
    let elsewhere = Run { namespace: "elsewhere".into(), number: 2, ..first.clone() };
    write(&*store, start(&elsewhere, &ground)).await;
    assert_eq!(stored(&*store, &elsewhere).await, Some(elsewhere));
    assert_eq!(stored(&*store, &first).await, Some(first));
}

/// A run is changed on the version before, and on no other.
pub async fn a_run_changes_on_the_version_before(store: Subject) {
    let ground = store.ground();
    let run = new_run("k", 1, &ground);
    let held = taken(&run, &ground);
    refused(&*store, vec![change(&held, &ground)]).await;
    write(&*store, start(&run, &ground)).await;
    for version in [1, 3] {
        refused(&*store, vec![change(&Run { version, ..held.clone() }, &ground)]).await;
        assert_eq!(stored(&*store, &run).await, Some(run.clone()));
    }
    refused(&*store, vec![change(&Run { number: 2, ..held.clone() }, &ground)]).await;
    write(&*store, change(&held, &ground)).await;
    assert_eq!(stored(&*store, &run).await, Some(held.clone()));
    // A rival that saw the same version.
    let rival = Run { fence: 9, ..held.clone() };
    refused(&*store, vec![change(&rival, &ground)]).await;
    assert_eq!(stored(&*store, &run).await, Some(held));
}

/// A touch makes a parked run due at once, and its version grows.
pub async fn a_touch_makes_a_parked_run_due(store: Subject) {
    let ground = store.ground();
    let held = running(&*store, "k", 1, &[]).await;
    let asleep = parked(&held, None, &ground);
    write(&*store, change(&asleep, &ground)).await;
    let due = store.due_runs("default/w", 10).await.expect("due runs");
    assert_eq!((due.runs.len(), due.next), (0, None), "it waits for a signal alone");
    write(&*store, touch(&asleep, &ground)).await;
    let touched = Run { version: asleep.version + 1, ..asleep };
    let due = store.due_runs("default/w", 10).await.expect("due runs");
    assert_eq!((due.runs, due.next), (vec![touched.clone()], None));
    assert_eq!(stored(&*store, &touched).await, Some(touched));
}

/// A touch leaves the time of a held run alone, but its holder does not park it unaware.
pub async fn a_touch_makes_a_park_on_what_was_before_stale(store: Subject) {
    let ground = store.ground();
    let held = running(&*store, "k", 1, &[]).await;
    let before = store.due_runs("default/w", 10).await.expect("due runs");
    assert!(before.runs.is_empty() && before.next.is_some(), "{before:?}");
    let unaware = parked(&held, None, &ground);
    write(&*store, touch(&held, &ground)).await;
    assert_eq!(store.due_runs("default/w", 10).await, Ok(before));
    refused(&*store, vec![change(&unaware, &ground)]).await;
    let seen = stored(&*store, &held).await.expect("a run");
    assert_eq!(seen, Run { version: held.version + 1, ..held });
    let aware = parked(&seen, None, &ground);
    write(&*store, change(&aware, &ground)).await;
    assert_eq!(stored(&*store, &aware).await, Some(aware));
}

/// A run that has ended, or is not there, is left alone, and that is no failure.
pub async fn a_touch_never_fails(store: Subject) {
    let ground = store.ground();
    let held = running(&*store, "k", 1, &[]).await;
    let end = finished(&held, &ground);
    write(&*store, change(&end, &ground)).await;
    write(&*store, touch(&end, &ground)).await;
    assert_eq!(stored(&*store, &end).await, Some(end));
    let missing = new_run("missing", 2, &ground);
    write(&*store, touch(&missing, &ground)).await;
    assert_eq!(stored(&*store, &missing).await, None);
    assert_eq!(store.due_runs("default/w", 10).await.expect("due runs").runs, []);
}

/// Only who holds the run under its newest fence, and has written what it says, passes.
pub async fn holds_is_for_the_holder_alone(store: Subject) {
    let ground = store.ground();
    let held = running(&*store, "k", 1, &["a", "b"]).await;
    let entries = appends(&held, &["a", "b", "c"]);
    let holds = |fence, entry: usize| Write::Holds {
        run: 1,
        fence,
        seq: entries[entry].seq,
        link: entries[entry].link,
    };
    for entry in [0, 1] {
        write(&*store, holds(held.fence, entry)).await;
    }
    let wrong_link = Write::Holds { run: 1, fence: held.fence, seq: 1, link: entries[0].link };
    let nobody = Write::Holds { run: 2, fence: held.fence, seq: 0, link: entries[0].link };
    for wrong in [holds(held.fence + 1, 1), holds(0, 1), holds(held.fence, 2), wrong_link, nobody] {
        refused(&*store, vec![wrong.clone()]).await;
        // What leaves no trace of its own does not make it pass.
        refused(&*store, vec![wrong, touch(&held, &ground)]).await;
    }
    assert_eq!(stored(&*store, &held).await, Some(held.clone()), "nothing was touched");
    let pause = Pause { id: None, code: "x".into(), detail: "y".into(), raised: None, at: Wall(0) };
    let paused = run::pause(&held, held.fence, pause).expect("a held run is paused");
    let resumed = run::retry(&paused, "ann", "again").expect("a paused run is resumed").run;
    for let_go in [paused, resumed] {
        write(&*store, change(&let_go, &ground)).await;
        refused(&*store, vec![holds(held.fence, 1)]).await;
    }
    let run = stored(&*store, &held).await.expect("a run");
    let again = taken(&run, &ground);
    write(&*store, change(&again, &ground)).await;
    refused(&*store, vec![holds(held.fence, 1)]).await;
    write(&*store, holds(again.fence, 1)).await;
    write(&*store, change(&finished(&again, &ground), &ground)).await;
    refused(&*store, vec![holds(again.fence, 1)]).await;
}

/// An effect and the run that begins it are written together or not at all.
pub async fn effects_and_runs_are_written_together_or_not_at_all(store: Subject) {
    let ground = store.ground();
    let held = running(&*store, "k", 1, &["a"]).await;
    let entries = appends(&held, &["a", "b", "c"]);
    let effect = armed(&address("a", "k"), "1", &ground);
    let holds = |fence| Write::Holds { run: 1, fence, seq: entries[0].seq, link: entries[0].link };
    let blob = Write::Blob {
        namespace: "default".into(),
        digest: "d".into(),
        text: "large".into(),
        run: 1,
    };
    // Everything but one guard holds, wherever that one is.
    let good = [
        touch(&held, &ground),
        blob.clone(),
        Write::Append(entries[1].clone()),
        insert(&effect, &ground),
        Write::Deliver(delivery(&held, "d1", "1")),
        Write::Consume { run: 1, identity: "d1".into() },
        start(&new_run("other", 2, &ground), &ground),
    ];
    let wrongs = [
        holds(held.fence + 1),
        Write::Append(entries[2].clone()),
        change(&finished(&held, &ground), &ground),
        Write::Consume { run: 1, identity: "none".into() },
        start(&new_run("another", 1, &ground), &ground),
        drop_run(&Run { version: 1, ..held.clone() }, None, &ground),
    ];
    for wrong in wrongs {
        // The wrong append follows the good one, the wrong change comes before the touch.
        let places = match &wrong {
            Write::Append(_) => 0..3,
            Write::UpdateRun(_) => 1..good.len() + 1,
            _ => 0..good.len() + 1,
        };
        for place in places {
            let mut writes = good.to_vec();
            writes.insert(place, wrong.clone());
            let answer = store.commit(Batch { writes: writes.into() }).await;
            assert_eq!(answer, Err(CommitError::Stale(vec![None])), "{wrong:?} at {place}");
            assert_eq!(stored(&*store, &held).await, Some(held.clone()));
            assert_eq!(texts(&*store, &held).await, ["a"]);
            assert_eq!(store.load(&effect.address).await, Ok(None));
            assert_eq!(store.delivery(1, "d1").await, Ok(None));
            assert_eq!(store.blob("default", "d").await, Ok(None));
            assert_eq!(
                store.list_runs(&RunQuery::everywhere(9)).await.expect("runs").runs.len(),
                1
            );
        }
    }
    let mut writes = good.to_vec();
    writes.insert(0, holds(held.fence));
    write_all(&*store, writes).await;
    assert_eq!(store.load(&effect.address).await, Ok(Some(effect)));
    assert_eq!(texts(&*store, &held).await, ["a", "b"]);
}

/// Who lost the answer repeats the batch: it is done once, whatever was touched since.
pub async fn a_repeated_batch_of_a_run_is_done_once(store: Subject) {
    let ground = store.ground();
    let held = running(&*store, "k", 1, &["a"]).await;
    let entries = appends(&held, &["a", "b"]);
    let effect = armed(&address("a", "k"), "1", &ground);
    let run = parked(&held, None, &ground);
    write(&*store, Write::Deliver(delivery(&held, "d1", "1"))).await;
    let touched = Run { version: run.version + 1, ..run };
    let batch = Batch {
        writes: [
            Write::Holds { run: 1, fence: held.fence, seq: 0, link: entries[0].link },
            Write::Append(entries[1].clone()),
            Write::Consume { run: 1, identity: "d1".into() },
            Write::Deliver(delivery(&held, "d2", "2")),
            insert(&effect, &ground),
            Write::UpdateRun(RunRow::new(
                &Run { version: touched.version + 1, ..touched.clone() },
                &ground.now,
            )),
        ]
        .into(),
    };
    assert_eq!(store.commit(batch.clone()).await, Ok(()));
    // Now nobody holds it, and somebody touches it: the repeat is done all the same.
    write(&*store, touch(&held, &ground)).await;
    let before = stored(&*store, &held).await.expect("a run");
    assert_eq!(before.version, touched.version + 2);
    assert_eq!(store.commit(batch.clone()).await, Ok(()));
    assert_eq!(stored(&*store, &held).await, Some(before.clone()));
    assert_eq!(texts(&*store, &held).await, ["a", "b"]);
    assert_eq!(store.inbox(1).await.expect("an inbox").len(), 1);
    // Once somebody else moved on, it is no repeat any more.
    write(&*store, change(&taken(&before, &ground), &ground)).await;
    let answer = store.commit(batch).await;
    assert_eq!(answer, Err(CommitError::Stale(vec![Some(effect)])));
}

/// Stale brings the newest row of each effect, in order, and none for what is no effect.
pub async fn stale_brings_rows_of_effects_alone(store: Subject) {
    let ground = store.ground();
    let there = armed(&address("a", "there"), "1", &ground);
    write(&*store, insert(&there, &ground)).await;
    let absent = armed(&address("a", "absent"), "1", &ground);
    let run = new_run("k", 1, &ground);
    let writes = [
        start(&run, &ground),
        insert(&absent, &ground),
        touch(&run, &ground),
        update(&there, &ground),
        Write::Consume { run: 1, identity: "none".into() },
    ];
    let answer = store.commit(Batch { writes: writes.into() }).await;
    assert_eq!(answer, Err(CommitError::Stale(vec![None, Some(there)])));
    assert_eq!(stored(&*store, &run).await, None);
}

/// A dropped run leaves its tombstone and nothing else; without one it leaves nothing.
pub async fn a_dropped_run_leaves_its_tombstone(store: Subject) {
    let ground = store.ground();
    let held = running(&*store, "k", 1, &["a", "b"]).await;
    let other = running(&*store, "other", 2, &["c"]).await;
    for (run, digest) in [(1, "mine"), (1, "ours"), (2, "ours")] {
        let (namespace, digest) = ("default".into(), digest.into());
        write(&*store, Write::Blob { namespace, digest, text: "large".into(), run }).await;
    }
    write(&*store, Write::Deliver(delivery(&held, "d", "1"))).await;
    let seen = stored(&*store, &held).await.expect("a run");
    let end = finished(&seen, &ground);
    write(&*store, change(&end, &ground)).await;
    let stone = tombstone(&end, &ground);
    refused(&*store, vec![drop_run(&held, Some(&stone), &ground)]).await;
    assert_eq!(texts(&*store, &held).await, ["a", "b"]);
    for _ in ["once", "and repeated"] {
        write(&*store, drop_run(&end, Some(&stone), &ground)).await;
        assert_eq!(stored(&*store, &end).await, Some(stone.clone()));
        assert_eq!(store.namespace_of(1).await, Ok(Some("default".into())));
        assert_eq!(texts(&*store, &end).await, [""; 0]);
        assert_eq!(store.delivery(1, "d").await, Ok(None));
        assert_eq!(store.blob("default", "mine").await, Ok(None));
        assert_eq!(store.blob("default", "ours").await, Ok(Some("large".into())));
    }
    assert_eq!(texts(&*store, &other).await, ["c"]);
    // What comes late finds nothing to follow.
    refused(&*store, vec![Write::Append(appends(&held, &["a", "b", "late"])[2].clone())]).await;
    refused(&*store, vec![Write::Deliver(delivery(&held, "e", "1"))]).await;
    for _ in ["once", "and repeated"] {
        write(&*store, drop_run(&stone, None, &ground)).await;
        assert_eq!(stored(&*store, &end).await, None);
        assert_eq!(store.namespace_of(1).await, Ok(None));
    }
    write(&*store, drop_run(&other, None, &ground)).await;
    assert_eq!(store.blob("default", "ours").await, Ok(None));
    write(&*store, start(&new_run("k", 3, &ground), &ground)).await;
}
