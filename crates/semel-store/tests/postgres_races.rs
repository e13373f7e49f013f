//! Two processes on one Postgres want the same rows at once: one of them wins, and the other is
//! told what is there. Nobody waits for ever, and nothing that should wake somebody is lost.

mod support;

use std::sync::Arc;
use std::time::Duration;

use semel_core::run::Run;
use semel_lab::Database;
use semel_store::conformance::{
    Subject, appends, armed, delivery, done, insert, new_run, parked, taken, update,
};
use semel_store::{Batch, CommitError, Store, Write};
use support::address;
use support::server::{batch, open};
use tokio::task::JoinSet;

/// Callers in each of the two.
const CALLERS: usize = 16;
const ROUNDS: usize = 12;

/// Two stores as two processes would have them: they share nothing but the schema.
async fn two(database: &Database) -> [Subject; 2] {
    [Arc::new(open(&database.url()).await), Arc::new(open(&database.url()).await)]
}

type Answers = Vec<Result<(), CommitError>>;

/// All batches at once, by turns in the one store and the other.
async fn at_once(stores: &[Subject; 2], batches: Vec<Batch>) -> Answers {
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

fn one_winner(answers: &Answers) -> usize {
    let winners: Vec<_> = (0..answers.len()).filter(|index| answers[*index].is_ok()).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    for answer in answers {
        assert!(matches!(answer, Ok(()) | Err(CommitError::Stale(_))), "{answer:?}");
    }
    winners[0]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_of_inserts_in_two_processes_one_wins_and_all_see_it() {
    let database = semel_lab::database();
    let stores = two(&database).await;
    let ground = stores[0].ground();
    for round in 0..ROUNDS {
        let name = address(&format!("k{round}"));
        let rival = |caller: usize| armed(&name, &caller.to_string(), &ground);
        let batches = (0..2 * CALLERS).map(|caller| insert(&rival(caller), &ground).into());
        let answers = at_once(&stores, batches.collect()).await;
        let winner = rival(one_winner(&answers));
        for store in &stores {
            assert_eq!(store.load(&name).await, Ok(Some(winner.clone())));
        }
        for answer in answers.iter().filter(|answer| answer.is_err()) {
            assert_eq!(*answer, Err(CommitError::Stale(vec![Some(winner.clone())])));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_of_updates_in_two_processes_one_wins() {
    let database = semel_lab::database();
    let stores = two(&database).await;
    let ground = stores[0].ground();
    for round in 0..ROUNDS {
        let first = armed(&address(&format!("k{round}")), "1", &ground);
        assert_eq!(stores[0].commit(insert(&first, &ground).into()).await, Ok(()));
        let rival = |caller: usize| done(&first, &caller.to_string(), &ground);
        let batches = (0..2 * CALLERS).map(|caller| update(&rival(caller), &ground).into());
        let answers = at_once(&stores, batches.collect()).await;
        let winner = rival(one_winner(&answers));
        assert_eq!(stores[1].load(&first.address).await, Ok(Some(winner)));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i15_of_takes_in_two_processes_one_wins_and_only_its_entries_stand() {
    let database = semel_lab::database();
    let stores = two(&database).await;
    let ground = stores[0].ground();
    for round in 1..=ROUNDS {
        let run = started(&stores[0], round).await;
        let takes = (0..2 * CALLERS).map(|caller| {
            let mut by = taken(&run, &ground);
            by.lease.as_mut().expect("a lease").worker = format!("worker-{caller}");
            let entry = format!("{{\"worker\":{caller}}}");
            let mut writes = vec![Write::run(&by, &ground.now)];
            writes.extend(appends(&run, &[&entry]).into_iter().map(Write::Append));
            batch(writes)
        });
        let winner = one_winner(&at_once(&stores, takes.collect()).await);
        let journal = stores[1].journal(run.number, 0, 10).await.expect("a journal");
        let texts: Vec<_> = journal.iter().map(|entry| entry.text.as_str()).collect();
        assert_eq!(texts, [format!("{{\"worker\":{winner}}}")]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i11_of_appends_at_one_place_one_stands() {
    let database = semel_lab::database();
    let stores = two(&database).await;
    for round in 1..=ROUNDS {
        let run = started(&stores[0], round).await;
        let rivals = (0..2 * CALLERS).map(|caller| {
            let texts = [format!("{{\"a\":{caller}}}"), format!("{{\"b\":{caller}}}")];
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            batch(appends(&run, &texts).into_iter().map(Write::Append).collect())
        });
        let winner = one_winner(&at_once(&stores, rivals.collect()).await);
        let journal = stores[0].journal(run.number, 0, 10).await.expect("a journal");
        let texts: Vec<_> = journal.iter().map(|entry| entry.text.clone()).collect();
        assert_eq!(texts, [format!("{{\"a\":{winner}}}"), format!("{{\"b\":{winner}}}")]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_of_two_processes_all_come_once_and_in_one_order() {
    let database = semel_lab::database();
    let stores = two(&database).await;
    let run = started(&stores[0], 1).await;
    for round in 0..ROUNDS {
        // Each identity from both processes, with payloads that differ.
        let rivals = (0..2 * CALLERS).map(|caller| {
            let identity = format!("{round}-{}", caller / 2);
            Write::Deliver(delivery(&run, &identity, &caller.to_string())).into()
        });
        let answers = at_once(&stores, rivals.collect()).await;
        for pair in answers.chunks(2) {
            assert_eq!(pair.iter().filter(|answer| answer.is_ok()).count(), 1, "{pair:?}");
        }
    }
    let inbox = stores[1].inbox(run.number).await.expect("an inbox");
    assert_eq!(inbox.len(), ROUNDS * CALLERS);
    let numbers: Vec<_> = inbox.iter().map(|delivery| delivery.number).collect();
    assert_eq!(numbers, (1..).take(inbox.len()).collect::<Vec<i64>>(), "no gap");
    let stored = stores[1].run(&run.namespace, &run.id).await.expect("a run").expect("a run");
    assert_eq!(stored.version, run.version + inbox.len() as u64, "each one touched it");
}

/// Parking is compare-and-set: a delivery either makes the park stale or finds the run parked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i14_a_delivery_that_meets_a_park_wakes_the_run() {
    let database = semel_lab::database();
    let stores = two(&database).await;
    for round in 1..=40 {
        let ground = stores[0].ground();
        let run = started(&stores[0], round).await;
        let held = taken(&run, &ground);
        assert_eq!(stores[0].commit(Write::run(&held, &ground.now).into()).await, Ok(()));
        let park = parked(&held, None, &ground);
        let [parking, delivering] = [
            Write::run(&park, &ground.now).into(),
            Write::Deliver(delivery(&run, "go", "1")).into(),
        ];
        let (parking, delivering) =
            tokio::join!(stores[0].commit(parking), stores[1].commit(delivering));
        assert_eq!(delivering, Ok(()), "a delivery waits for nobody");
        if parking.is_ok() {
            assert!(comes_due(stores[0].as_ref(), &run).await, "round {round} sleeps");
        } else {
            assert!(matches!(parking, Err(CommitError::Stale(_))), "{parking:?}");
        }
    }
}

/// Whether the run is shown within a second. Not at once: what two processes take for the server's
/// time are lower bounds, and the one that delivered may be ahead of the one that asks.
async fn comes_due(store: &dyn Store, run: &Run) -> bool {
    for _ in 0..50 {
        let due = store.due_runs(&run.lane(), 100).await.expect("due runs");
        if due.runs.iter().any(|due| due.number == run.number) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    false
}

/// Each batch touches two keys, in either order, as two processes that wait for each other would.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_taken_in_opposite_orders_end_in_no_deadlock_that_lasts() {
    let database = semel_lab::database();
    let stores = two(&database).await;
    let ground = stores[0].ground();
    for round in 0..ROUNDS {
        let names = [0, 1].map(|side| address(&format!("{round}-{side}")));
        let batches = (0..2 * CALLERS).map(|caller| {
            let mut writes: Vec<_> = names
                .iter()
                .map(|name| insert(&armed(name, &caller.to_string(), &ground), &ground))
                .collect();
            if caller % 2 == 1 {
                writes.reverse();
            }
            batch(writes)
        });
        one_winner(&at_once(&stores, batches.collect()).await);
    }
}

async fn started(store: &Subject, number: usize) -> Run {
    let ground = store.ground();
    let number = i64::try_from(number).expect("small");
    let run = new_run(&number.to_string(), number, &ground);
    assert_eq!(store.commit(Write::run(&run, &ground.now).into()).await, Ok(()));
    run
}
