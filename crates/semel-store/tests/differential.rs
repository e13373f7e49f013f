//! All stores answer one sequence of operations identically: answers and snapshots.
//!
//! Batches are made by the rules themselves, out of order, repeated, and with wrong guards. A seed
//! names a whole history; the test is not done until every operation and answer has happened.

mod support;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use semel_core::effect::Ground;
use semel_core::key::Namespace;
use semel_core::record::Effect;
use semel_lab::Database;
use semel_store::conformance::Subject;
use semel_store::memory::Memory;
use semel_store::{Batch, Clock, CommitError, DueCursor, ManualClock, Query, Write};
use support::chance::Chance;
use support::history::{self, History};
use support::{Folder, WALL_MS};
use tokio::task::JoinSet;

/// Batches that are committed at once, so that the stores group them.
const GROUP: usize = 32;
const GROUPS: usize = 120;

/// The stores to compare; the first is the model. Another one is another line.
async fn stores(
    folder: &Folder,
    database: &Database,
    clock: &Arc<ManualClock>,
) -> Vec<(&'static str, Subject)> {
    let clock = || Clock::Manual(clock.clone());
    vec![
        ("memory", Arc::new(Memory::new(clock()))),
        ("sqlite", Arc::new(folder.open_on(clock()))),
        ("postgres", Arc::new(support::postgres(database, clock()).await)),
    ]
}

/// What happened, and how often.
type Seen = BTreeMap<&'static str, usize>;

// Four tests of two histories of 120 groups of 32 batches: 30,720. Those of runs are 20,480 more,
// so that a full run compares 51,200 batches over three stores.

#[tokio::test]
async fn inv_i30_stores_answer_one_history_alike_part_1() {
    check([1, 2]).await;
}

#[tokio::test]
async fn inv_i30_stores_answer_one_history_alike_part_2() {
    check([3, 5]).await;
}

#[tokio::test]
async fn inv_i30_stores_answer_one_history_alike_part_3() {
    check([8, 13]).await;
}

#[tokio::test]
async fn inv_i30_stores_answer_one_history_alike_part_4() {
    check([21, 34]).await;
}

/// Runs on one thread, whose tasks run in the order they were spawned: all stores see one order.
async fn check(seeds: [u64; 2]) {
    let mut seen = Seen::new();
    for seed in seeds {
        run(seed, &mut seen).await;
    }
    let missing = |kinds: &[&'static str]| {
        kinds.iter().filter(|kind| !seen.contains_key(*kind)).copied().collect::<Vec<_>>()
    };
    assert_eq!(missing(&history::OPERATIONS), [""; 0], "never happened; seen: {seen:?}");
    assert_eq!(missing(&ANSWERS), [""; 0], "never answered; seen: {seen:?}");
    assert_eq!(seen["steps"], 2 * GROUPS * GROUP, "{seen:?}");
}

const ANSWERS: [&str; 10] = [
    "answer: written",
    "answer: done before",
    "answer: stale, a row",
    "answer: stale, no row",
    "answer: stale, several writes",
    "answer: due",
    "answer: next due",
    "answer: sweepable",
    "answer: more pages",
    "answer: held",
];

async fn run(seed: u64, seen: &mut Seen) {
    let folder = Folder::new();
    let clock = ManualClock::new(WALL_MS);
    let database = semel_lab::database();
    let stores = stores(&folder, &database, &clock).await;
    let mut history = History::new(seed);
    let mut written = HashSet::new();
    for group in 0..GROUPS {
        let place = format!("seed {seed}, group {group}");
        history.pass_time(&clock);
        let ground = stores[0].1.ground();
        let batches = plan(&stores[0].1, &mut history, &ground, seen).await;
        *seen.entry("steps").or_default() += batches.len();
        let (_, wanted) = commit_all(&stores[0], &batches).await;
        count(&batches, &wanted, &mut written, seen);
        for store in &stores[1..] {
            let (name, answers) = commit_all(store, &batches).await;
            for (index, (answer, wanted)) in answers.iter().zip(&wanted).enumerate() {
                assert_eq!(answer, wanted, "{place}, batch {index}: {name} answers otherwise");
            }
        }
        if group % 8 == 7 {
            compare(&place, &stores, &mut history.chance, seen).await;
        }
    }
}

/// Batches for one group, all planned on what the model holds before it.
async fn plan(
    model: &Subject,
    history: &mut History,
    ground: &Ground,
    seen: &mut Seen,
) -> Vec<Batch> {
    let mut batches = Vec::new();
    while batches.len() < GROUP {
        let address = history.address();
        let stored = model.load(&address).await.expect("the model reads");
        let planned = history.next(&address, stored.as_ref(), ground);
        if let Some((operation, batch)) = planned {
            *seen.entry(operation).or_default() += 1;
            batches.push(batch);
        }
    }
    batches
}

type Answers = Vec<Result<(), CommitError>>;

async fn commit_all<'a>(store: &(&'a str, Subject), batches: &[Batch]) -> (&'a str, Answers) {
    let mut calls = JoinSet::new();
    for (index, batch) in batches.iter().cloned().enumerate() {
        let store = store.1.clone();
        calls.spawn(async move { (index, store.commit(batch).await) });
    }
    let mut answers = calls.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    (store.0, answers.into_iter().map(|(_, answer)| answer).collect())
}

/// Counts the answers. A batch that is done although all its records were written is a repeat.
fn count(batches: &[Batch], answers: &Answers, written: &mut HashSet<String>, seen: &mut Seen) {
    for (batch, answer) in batches.iter().zip(answers) {
        let records: Vec<_> = batch.writes.iter().filter_map(record).cloned().collect();
        let kind = match answer {
            Ok(()) if !records.is_empty() && records.iter().all(|text| written.contains(text)) => {
                "answer: done before"
            }
            Ok(()) => "answer: written",
            Err(CommitError::Stale(rows)) => match rows.as_slice() {
                [Some(_)] => "answer: stale, a row",
                [None] => "answer: stale, no row",
                _ => "answer: stale, several writes",
            },
            Err(error) => panic!("the model fails: {error}"),
        };
        *seen.entry(kind).or_default() += 1;
        if answer.is_ok() {
            written.extend(records);
        }
    }
}

fn record(write: &Write) -> Option<&String> {
    match write {
        Write::Insert(row) | Write::Update(row) => Some(&row.record),
        Write::StartRun(row) | Write::UpdateRun(row) => Some(&row.record),
        Write::Remove { .. }
        | Write::DropRun { .. }
        | Write::Append(_)
        | Write::InEpoch(_)
        | Write::Holds { .. }
        | Write::Deliver(_)
        | Write::Consume { .. }
        | Write::Touch { .. }
        | Write::Blob { .. }
        | Write::Card(_)
        | Write::DropCard { .. } => None,
    }
}

/// Compares everything that can be read, in pages of random sizes.
async fn compare(
    place: &str,
    stores: &[(&'static str, Subject)],
    chance: &mut Chance,
    seen: &mut Seen,
) {
    let limit = chance.up_to(30) + 1;
    let query = Query {
        namespace: chance.one_in(2).then(Namespace::default),
        state: chance.one_in(2).then(|| *chance.pick(&semel_core::effect::State::ALL)),
        unsettled: chance.one_in(4),
        alarmed: chance.one_in(4),
        held: chance.one_in(4),
        ..Query::everywhere(limit)
    };
    let address = history::address(chance);
    let generation = u32::try_from(chance.up_to(3)).expect("small");
    let mut wanted = None;
    for (name, store) in stores {
        let found = (
            snapshot(store, limit).await,
            pages(store, query.clone()).await,
            due(store, limit).await,
            store.sweepable(limit).await.expect("what may be swept"),
            store.load(&address).await.expect("a load"),
            store.load_generation(&address, generation).await.expect("a load"),
            pages(store, Query { held: true, ..Query::everywhere(limit) }).await,
        );
        let mut note = |kind, happened: bool| {
            if happened {
                *seen.entry(kind).or_default() += 1;
            }
        };
        note("answer: due", found.2.iter().any(|(effects, _)| !effects.is_empty()));
        note("answer: next due", found.2.iter().any(|(_, next)| next.is_some()));
        note("answer: sweepable", !found.3.is_empty());
        note("answer: more pages", found.1.len() > 1);
        note("answer: held", found.6.iter().any(|page| !page.is_empty()));
        match &wanted {
            None => wanted = Some(found),
            Some(wanted) => {
                assert_eq!(found.0, wanted.0, "{place}: {name} holds otherwise");
                assert_eq!(found.1, wanted.1, "{place}: {name} lists otherwise: {query:?}");
                assert_eq!(found.2, wanted.2, "{place}: {name} has other effects due");
                assert_eq!(found.3, wanted.3, "{place}: {name} has others to sweep");
                assert_eq!((&found.4, &found.5), (&wanted.4, &wanted.5), "{place}: {name} loads");
                assert_eq!(found.6, wanted.6, "{place}: {name} holds others for a person");
            }
        }
    }
}

/// Everything, newest first.
async fn snapshot(store: &Subject, limit: usize) -> Vec<Effect> {
    pages(store, Query::everywhere(limit)).await.concat()
}

/// All pages of a query. Cursors are a store's own affair and not compared.
async fn pages(store: &Subject, mut query: Query) -> Vec<Vec<Effect>> {
    let mut pages = Vec::new();
    loop {
        let page = store.list(&query).await.expect("a page");
        pages.push(page.effects);
        query.after = page.next;
        if page.next.is_none() {
            return pages;
        }
    }
}

type DuePages = Vec<(Vec<(i64, Effect)>, Option<i64>)>;

/// All pages of what is due: the time of each, and when the next one is.
async fn due(store: &Subject, limit: usize) -> DuePages {
    let mut pages = Vec::new();
    let mut after: Option<DueCursor> = None;
    loop {
        let page = store.due(after, limit).await.expect("what is due");
        after = page.effects.last().map(|(cursor, _)| *cursor);
        let effects: Vec<_> =
            page.effects.into_iter().map(|(cursor, effect)| (cursor.due_ms, effect)).collect();
        pages.push((effects, page.next_due.map(|due| due.ms)));
        if after.is_none() {
            return pages;
        }
    }
}
