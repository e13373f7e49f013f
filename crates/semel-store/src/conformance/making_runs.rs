//! Runs to write, made by the rules themselves.

use semel_core::effect::Ground;
use semel_core::journal::{At, Link};
use semel_core::json::Json;
use semel_core::key::{Action, Key, Namespace};
use semel_core::run::{self, How, On, Run, Start, Sweep, Take, Wait};
use semel_core::time::Wall;

use crate::{Append, Batch, CommitError, Delivery, RunRow, Store, Write};

/// An hour: what is due and what is not lies this far apart.
pub(super) const HOUR_MS: u64 = 3_600_000;

/// A run of the workflow `w`, not yet written.
pub fn new_run(key: &str, number: i64, ground: &Ground) -> Run {
    run_of("w", key, number, ground)
}

/// A run of a workflow, not yet written.
pub fn run_of(workflow: &str, key: &str, number: i64, ground: &Ground) -> Run {
    let start = Start {
        namespace: Namespace::default(),
        workflow: Action::new(workflow).expect("a valid workflow"),
        key: Key::from_text(key).expect("a valid key"),
        input: Json::from_text("{}").expect("JSON"),
        number,
        window_ms: HOUR_MS,
        deadline_ms: None,
        release: None,
        strict: false,
        passes: Vec::new(),
        parent: None,
    };
    run::start(&start, &ground.now)
}

/// The run in a worker's hands, for an hour.
pub fn taken(run: &Run, ground: &Ground) -> Run {
    let take =
        Take { worker: "worker".into(), session: None, lease_ms: HOUR_MS, epoch: ground.epoch };
    run::take(run, &take, &ground.now).expect("a new run is taken")
}

/// The run let go, waiting for a signal, for so long.
pub fn parked(run: &Run, due_ms: Option<u64>, ground: &Ground) -> Run {
    let due = due_ms.map(|ms| At::from(&ground.now).plus(ms));
    // Told byte for byte by whatever store keeps it.
    let note = Json::from_text("{\"to\":  \"ann\"}").ok();
    let wait = Wait { id: "signal#0".into(), on: On::Signal("go".into()), due, note };
    run::park(run, run.fence, vec![wait]).expect("a held run is parked")
}

/// The run let go, waiting for a place at a gate.
pub fn queued(run: &Run, gate: &str) -> Run {
    let wait = Wait { id: "slot#0".into(), on: On::Slot(gate.into()), due: None, note: None };
    run::park(run, run.fence, vec![wait]).expect("a held run is parked")
}

/// The run at its end.
pub fn finished(run: &Run, ground: &Ground) -> Run {
    run::finish(run, run.fence, How::Done, &ground.now).expect("a held run is finished")
}

/// What stays of a finished run after its retention.
pub(super) fn tombstone(run: &Run, ground: &Ground) -> Run {
    let mut later = ground.now;
    later.wall = Wall(later.wall.0).plus(2 * HOUR_MS);
    match run::sweep(run, &later) {
        Sweep::Tombstone(run) => *run,
        other => panic!("its retention is over: {other:?}"),
    }
}

/// Entries of a run's journal, from the first on, each after the one before.
pub fn appends(run: &Run, texts: &[&str]) -> Vec<Append> {
    let mut after = Link::of_run(&run.namespace, &run.id);
    let mut appends = Vec::new();
    for (seq, text) in (0..).zip(texts) {
        let link = after.then(text);
        appends.push(Append { run: run.number, seq, after, link, text: (*text).to_owned() });
        after = link;
    }
    appends
}

/// A delivery that nobody has seen yet.
pub fn delivery(run: &Run, identity: &str, payload: &str) -> Delivery {
    Delivery {
        run: run.number,
        number: 0,
        identity: identity.into(),
        name: "go".into(),
        payload: payload.into(),
        at: Wall(7),
        consumed: false,
    }
}

pub(super) fn start(run: &Run, ground: &Ground) -> Write {
    Write::StartRun(RunRow::new(run, &ground.now))
}

pub(super) fn change(run: &Run, ground: &Ground) -> Write {
    Write::UpdateRun(RunRow::new(run, &ground.now))
}

pub(super) fn touch(run: &Run, ground: &Ground) -> Write {
    Write::Touch { namespace: run.namespace.clone(), id: run.id.clone(), at: ground.now.steady }
}

/// Drops a run at its version, with or without a tombstone.
pub(super) fn drop_run(run: &Run, stone: Option<&Run>, ground: &Ground) -> Write {
    Write::DropRun {
        namespace: run.namespace.clone(),
        id: run.id.clone(),
        number: run.number,
        version: run.version,
        row: stone.map(|stone| RunRow::new(stone, &ground.now)),
    }
}

pub(super) async fn write(store: &dyn Store, write: Write) {
    assert_eq!(store.commit(write.into()).await, Ok(()));
}

pub(super) async fn write_all(store: &dyn Store, writes: Vec<Write>) {
    assert_eq!(store.commit(Batch { writes: writes.into() }).await, Ok(()));
}

/// Expects that a guard fails, in a batch without effects.
pub(super) async fn refused(store: &dyn Store, writes: Vec<Write>) {
    let answer = store.commit(Batch { writes: writes.clone().into() }).await;
    assert_eq!(answer, Err(CommitError::Stale(Vec::new())), "{writes:?}");
}

/// The run as it is stored now.
pub(super) async fn stored(store: &dyn Store, run: &Run) -> Option<Run> {
    store.run(&run.namespace, &run.id).await.expect("a run")
}

/// A started run in a worker's hands, with these entries in its journal.
pub(super) async fn running(store: &dyn Store, key: &str, number: i64, texts: &[&str]) -> Run {
    let ground = store.ground();
    let run = new_run(key, number, &ground);
    write(store, start(&run, &ground)).await;
    let run = taken(&run, &ground);
    write(store, change(&run, &ground)).await;
    write_all(store, appends(&run, texts).into_iter().map(Write::Append).collect()).await;
    run
}

/// The texts of a run's journal.
pub(super) async fn texts(store: &dyn Store, run: &Run) -> Vec<String> {
    let entries = store.journal(run.number, 0, 100).await.expect("a journal");
    entries.into_iter().map(|entry| entry.text).collect()
}
