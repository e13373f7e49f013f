//! Cards, queues and held effects on Postgres: the migration that brings them, damage, and several
//! processes that want the same cards.

mod support;

use std::sync::Arc;
use std::time::Duration;

use semel_core::effect::approve::Ask;
use semel_core::effect::{self, Decision};
use semel_core::run::Run;
use semel_core::time::Wall;
use semel_lab::{Cluster, Database, psql};
use semel_store::conformance::{
    self, Subject, appends, card, drop_card, new_run, next, queued, taken,
};
use semel_store::postgres::{FORMAT, Postgres};
use semel_store::{
    Batch, Card, CardQuery, Cards, CommitError, Query, Runs, Store, StoreError, Upkeep, Write,
};
use support::server::{batch, blocking, effect as new_effect, eventually, open, try_open};
use support::{address, has, put};
use tokio::task::JoinSet;

/// Two stores as two processes would have them: they share nothing but the schema.
async fn two(database: &Database) -> [Subject; 2] {
    [Arc::new(open(&database.url()).await), Arc::new(open(&database.url()).await)]
}

/// All batches at once, by turns in the one store and the other.
async fn at_once(stores: &[Subject; 2], batches: Vec<Batch>) -> Vec<Result<(), CommitError>> {
    let mut calls = JoinSet::new();
    for (index, batch) in batches.into_iter().enumerate() {
        let store = stores[index % 2].clone();
        calls.spawn(async move {
            // Far longer than a wait for a row may take.
            let answer = tokio::time::timeout(Duration::from_secs(20), store.commit(batch)).await;
            (index, answer.expect("nobody waits for ever"))
        });
    }
    let mut answers = calls.join_all().await;
    answers.sort_by_key(|(index, _)| *index);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

fn one_winner(answers: &[Result<(), CommitError>]) -> usize {
    let winners: Vec<_> = (0..answers.len()).filter(|index| answers[*index].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    let stale = answers.iter().filter(|answer| matches!(answer, Err(CommitError::Stale(_))));
    assert_eq!(stale.count(), answers.len() - 1, "{answers:?}");
    winners[0]
}

async fn found(store: &dyn Store, card: &Card) -> Option<Card> {
    store.card(&card.namespace, &card.kind, &card.name).await.expect("a card")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_of_writers_of_one_card_in_two_processes_one_wins() {
    let database = semel_lab::database();
    let stores = two(&database).await;
    for round in 0..8 {
        let first = card("gate", &round.to_string());
        let rival = |caller: usize| Card { record: caller.to_string(), ..first.clone() };
        let makes = (0..32).map(|caller| Write::Card(rival(caller)).into());
        let made = rival(one_winner(&at_once(&stores, makes.collect()).await));
        assert_eq!(found(&*stores[1], &first).await, Some(made.clone()));
        let rival = |caller: usize| next(&made, &format!("again {caller}"), None);
        let changes = (0..32).map(|caller| Write::Card(rival(caller)).into());
        let changed = rival(one_winner(&at_once(&stores, changes.collect()).await));
        assert_eq!(found(&*stores[0], &first).await, Some(changed.clone()));
        // Whoever drops it is one of those who wanted it, too.
        let rival = |caller: usize| next(&changed, &format!("last {caller}"), None);
        let mut ends: Vec<Batch> =
            (0..31).map(|caller| Write::Card(rival(caller)).into()).collect();
        ends.insert(16, drop_card(&changed).into());
        let winner = one_winner(&at_once(&stores, ends).await);
        let left = found(&*stores[0], &first).await;
        assert_eq!(left.is_none(), winner == 16, "{left:?}");
    }
}

/// As a gate is passed: a card and the run that changes it go together, on whatever is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_callers_in_two_processes_who_count_on_one_card_lose_no_count() {
    let database = semel_lab::database();
    let stores = two(&database).await;
    let mut callers = JoinSet::new();
    for caller in 0..16_i64 {
        let store = stores[caller as usize % 2].clone();
        callers.spawn(async move {
            for pass in 0..10 {
                pass_gate(&*store, 1 + caller * 10 + pass).await;
            }
        });
    }
    callers.join_all().await;
    let gate = found(&*stores[0], &card("gate", "mail")).await.expect("a card");
    let mut passed: Vec<i64> = gate.record.split(' ').map(|text| text.parse().unwrap()).collect();
    passed.sort_unstable();
    assert_eq!(passed, (1..=160).collect::<Vec<_>>());
    assert_eq!(gate.version, 160);
    assert_eq!(database.psql("SELECT count(*) FROM runs"), "160");
    assert_eq!(database.psql("SELECT count(*) FROM journal"), "160");
}

async fn pass_gate(store: &dyn Store, number: i64) {
    let ground = store.ground();
    let run = new_run(&number.to_string(), number, &ground);
    loop {
        let gate = card("gate", "mail");
        let after = match found(store, &gate).await {
            Some(before) => next(&before, &format!("{} {number}", before.record), None),
            None => Card { record: number.to_string(), ..gate },
        };
        let mut writes = vec![Write::run(&run, &ground.now)];
        writes.extend(appends(&run, &["{}"]).into_iter().map(Write::Append));
        writes.push(Write::Card(after));
        match store.commit(batch(writes)).await {
            Ok(()) => return,
            Err(CommitError::Stale(_) | CommitError::Failed(StoreError::Busy(_))) => {}
            Err(error) => panic!("{error}"),
        }
    }
}

/// Each batch changes the same cards, and an effect with them, in either order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cards_taken_in_opposite_orders_end_in_no_deadlock_that_lasts() {
    let database = semel_lab::database();
    let stores = two(&database).await;
    let ground = stores[0].ground();
    let names = ["a", "b", "c", "d"];
    let mut before: Vec<Card> = names.map(|name| Card { version: 0, ..card("gate", name) }).into();
    for round in 0..12 {
        let rival = |caller: usize| -> Vec<Card> {
            let record = format!("{round} {caller}");
            before.iter().map(|card| next(card, &record, None)).collect()
        };
        let batches = (0..32).map(|caller| {
            let mut writes: Vec<_> = rival(caller).into_iter().map(Write::Card).collect();
            let key = address(&format!("{round}"));
            let effect = conformance::armed(&key, &caller.to_string(), &ground);
            writes.push(conformance::insert(&effect, &ground));
            if caller % 2 == 1 {
                writes.reverse();
            }
            batch(writes)
        });
        let winner = rival(one_winner(&at_once(&stores, batches.collect()).await));
        for card in &winner {
            assert_eq!(found(&*stores[1], card).await.as_ref(), Some(card));
        }
        before = winner;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_card_that_somebody_holds_keeps_only_its_own_batch_waiting() {
    let cluster = Arc::new(Cluster::start());
    let store = Arc::new(open(&cluster.url()).await);
    let first = card("gate", "held");
    assert_eq!(store.commit(Write::Card(first.clone()).into()).await, Ok(()));
    let holder = {
        let cluster = cluster.clone();
        let lock = "BEGIN; SELECT 1 FROM semel.cards FOR UPDATE; SELECT pg_sleep(60)";
        std::thread::spawn(move || psql(&cluster.url(), &[lock]))
    };
    eventually("the card is held", || {
        let cluster = cluster.clone();
        let free = "SELECT count(*) FROM (SELECT 1 FROM semel.cards FOR UPDATE SKIP LOCKED) AS f";
        blocking(move || cluster.psql(free) == "0")
    })
    .await;
    let blocked = {
        let (store, second) = (store.clone(), next(&first, "second", None));
        tokio::spawn(async move { store.commit(Write::Card(second).into()).await })
    };
    for key in 0..20 {
        let ground = store.ground();
        assert_eq!(store.commit(new_effect(&format!("k{key}"), &ground)).await, Ok(()));
        let other = card("gate", &key.to_string());
        assert_eq!(store.commit(Write::Card(other).into()).await, Ok(()));
    }
    let blocked = blocked.await.expect("no panic");
    assert!(matches!(blocked, Err(CommitError::Failed(StoreError::Busy(_)))), "{blocked:?}");
    assert_eq!(found(&*store, &first).await, Some(first.clone()), "it wrote nothing");
    cluster.terminate_backends("query LIKE '%pg_sleep%'");
    let _ = holder.join();
    assert_eq!(store.commit(Write::Card(next(&first, "second", None)).into()).await, Ok(()));
}

/// One that waits for a person, and one that does not; one in a queue, and one that is ready; one
/// card that is due and one that never is.
async fn fill(store: &Postgres) {
    let ground = store.ground();
    let mut ask = conformance::begin(&address("asked"), "1");
    ask.approval = Some(Ask::default());
    let Ok(Decision::Hold(held)) = effect::begin(None, &ask, &ground) else { panic!("it waits") };
    let waits = queued(&taken(&new_run("waits", 1, &ground), &ground), "mail");
    let writes = vec![
        conformance::insert(&held, &ground),
        conformance::insert(&conformance::armed(&address("plain"), "1", &ground), &ground),
        Write::run(&Run { version: 1, ..waits }, &ground.now),
        Write::run(&new_run("ready", 2, &ground), &ground.now),
        Write::Card(Card { due: Some(Wall(5)), ..card("schedule", "due") }),
        Write::Card(card("gate", "never")),
    ];
    assert_eq!(store.commit(batch(writes)).await, Ok(()));
}

async fn audit(store: &Postgres) -> (Vec<String>, usize) {
    let mut problems = store.audit(0, 100).await.expect("an audit").problems;
    problems.extend(store.audit_runs(0, 100).await.expect("an audit").problems);
    let (mut after, mut count) = (None, 0);
    loop {
        let page = store.audit_cards(after, 1).await.expect("an audit");
        count += page.cards.len();
        problems.extend(page.problems);
        if page.next.is_none() {
            return (problems, count);
        }
        after = page.next;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_the_format_before_is_migrated_and_takes_cards() {
    let database = semel_lab::database();
    let store = open(&database.url()).await;
    put(&store, "kept", 10).await.expect("a row");
    let ground = store.ground();
    let run = new_run("kept", 7, &ground);
    assert_eq!(store.commit(Write::run(&run, &ground.now).into()).await, Ok(()));
    drop(store);
    // As the migration before left it.
    database.psql(
        "ALTER TABLE effects DROP COLUMN seal; ALTER TABLE runs DROP COLUMN seal; \
         ALTER TABLE inbox DROP COLUMN seal; ALTER TABLE returns DROP COLUMN seal; \
         ALTER TABLE lost DROP COLUMN seal; ALTER TABLE outbox DROP COLUMN seal; \
         ALTER TABLE meta DROP COLUMN seal; DROP FUNCTION seal; \
         DROP TABLE cards; ALTER TABLE runs DROP COLUMN queue; \
         ALTER TABLE effects DROP COLUMN held; DROP TABLE identity; \
         UPDATE meta SET format = 2, server = substring(server from '[^/]*/[^/]*/[0-9]*')",
    );
    let older = try_open(&database.url()).await.err();
    assert_eq!(older, Some(StoreError::Older { found: 2, needed: FORMAT }));
    assert_eq!(Postgres::migrate(&database.url()).await, Ok(2));
    let store = try_open(&database.url()).await.expect("it was migrated");
    assert!(has(&store, "kept").await);
    assert_eq!(store.run("default", &run.id).await, Ok(Some(run)));
    assert_eq!(store.next_queued("default/mail").await, Ok(None));
    fill(&store).await;
    let held = store.list(&Query { held: true, ..Query::everywhere(9) }).await.expect("a list");
    assert_eq!(held.effects.len(), 1);
    let queued = store.next_queued("default/mail").await.expect("a run");
    assert_eq!(queued.map(|run| run.number), Some(1));
    let due = store.due_cards("schedule", 9).await.expect("due cards");
    assert_eq!(due.len(), 1);
    assert_eq!(audit(&store).await, (vec![], 2));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_changed_in_cards_and_their_columns_is_found() {
    let cases = [
        ("UPDATE cards SET version = 2 WHERE name = 'due'", "card default/schedule/due: "),
        ("UPDATE cards SET due_at = 6 WHERE name = 'due'", "card default/schedule/due: "),
        ("UPDATE cards SET kind = 'x' WHERE name = 'due'", "card default/x/due: "),
        ("UPDATE cards SET record = '[]' WHERE name = 'due'", "card default/schedule/due: "),
        ("UPDATE cards SET sum = sum + 1 WHERE name = 'due'", "card default/schedule/due: "),
        ("UPDATE runs SET queue = NULL WHERE number = 1", "run 1 "),
        ("UPDATE runs SET queue = 'default/mail' WHERE number = 2", "run 2 "),
        ("UPDATE effects SET held = false WHERE key = 'asked'", "row 1 "),
        ("UPDATE effects SET held = true WHERE key = 'plain'", "row 2 "),
    ];
    for (change, wanted) in cases {
        let database = semel_lab::database();
        let store = open(&database.url()).await;
        fill(&store).await;
        assert_eq!(audit(&store).await, (vec![], 2));
        database.psql(change);
        let (problems, _) = audit(&store).await;
        assert_eq!(problems.len(), 1, "{change}: {problems:?}");
        assert!(problems[0].starts_with(wanted), "{change}: {problems:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_changed_card_is_not_believed_and_holds_nobody_up() {
    let database = semel_lab::database();
    let store = Arc::new(open(&database.url()).await);
    fill(&store).await;
    database.psql("UPDATE cards SET record = '[1]' WHERE name = 'due'");
    let loaded = store.card("default", "schedule", "due").await;
    assert!(matches!(loaded, Err(StoreError::Corrupt(_))), "{loaded:?}");
    let kind = "schedule".to_owned();
    let listed = store.cards(&CardQuery { namespace: None, kind, after: None, limit: 9 }).await;
    let unreadable = listed.expect("the others").unreadable;
    assert_eq!(unreadable.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["due"]);
    assert_eq!(store.due_cards("schedule", 9).await, Ok(vec![]), "it is in nobody's way");
    // It is not taken for free, and those of its group are written all the same.
    let anew = Write::Card(card("schedule", "due"));
    let others = [anew, Write::Card(card("gate", "new")), Write::Card(card("gate", "newer"))];
    let mut calls = JoinSet::new();
    for write in others {
        let store = store.clone();
        calls.spawn(async move { store.commit(write.into()).await });
    }
    let answers = calls.join_all().await;
    let refused = answers.iter().filter(|answer| **answer == Err(CommitError::Stale(vec![])));
    assert_eq!((refused.count(), answers.iter().filter(|answer| answer.is_ok()).count()), (1, 2));
}
