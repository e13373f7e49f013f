//! A transaction of its own: everything or nothing, once per key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use semel::tokio_postgres::{Error as SqlError, Transaction};
use semel::{Code, Error, Failure, NotApplied, Retry, Semel};
use semel_core::effect::State;

use crate::kit::{Ledger, state};

/// Books a payment and counts how often it ran.
async fn book(semel: &Semel, sql: &str, key: &str, ran: &AtomicU32) -> Result<String, Error> {
    let work = async |tx: &Transaction<'_>| {
        let number = ran.fetch_add(1, Ordering::SeqCst) + 1;
        tx.batch_execute(sql).await?;
        Ok::<_, SqlError>(format!("R-{number}"))
    };
    semel.transaction("pay").key(key).input(&"5 EUR").run_on_postgres(work).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_l14_rows_and_receipt_are_in_one_commit_on_postgres() {
    let ledger = Ledger::new().await;
    let semel = ledger.open().await;
    let (ran, pay) = (Arc::new(AtomicU32::new(0)), ledger.pay("one"));
    // In a task: what users write is `Send`.
    let (own, counter, sql) = (semel.clone(), ran.clone(), pay.clone());
    let first = tokio::spawn(async move { book(&own, &sql, "k", &counter).await });
    assert_eq!(first.await.unwrap().unwrap(), "R-1");
    assert_eq!(book(&semel, &pay, "k", &ran).await.unwrap(), "R-1");
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(ledger.payments(), ["one"]);
    let effect = semel.find("pay", "k").await.unwrap().unwrap();
    assert_eq!((effect.version, effect.attempts.len()), (1, 1), "absent to done in one step");
    assert_eq!(state(&semel, "pay", "k").await, Some(State::Done));
    let work = async |_: &Transaction<'_>| Ok::<_, SqlError>(String::new());
    let other = semel.transaction("pay").key("k").input(&"6 EUR").run_on_postgres(work).await;
    assert_eq!(other.unwrap_err().code(), Code::InputChanged);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_l15_of_many_that_race_for_a_key_one_runs() {
    let ledger = Ledger::new().await;
    let (one, two) = (ledger.open().await, ledger.open().await);
    let (ran, pay) = (Arc::new(AtomicU32::new(0)), ledger.pay("one"));
    let calls = (0..40).map(|number| {
        let semel = if number % 2 == 0 { one.clone() } else { two.clone() };
        let (ran, pay) = (ran.clone(), pay.clone());
        tokio::spawn(async move { book(&semel, &pay, "k", &ran).await })
    });
    for call in calls.collect::<Vec<_>>() {
        assert_eq!(call.await.unwrap().unwrap(), "R-1");
    }
    assert_eq!(ran.load(Ordering::SeqCst), 1, "nobody works in vain");
    assert_eq!(ledger.payments(), ["one"]);
}

/// What must leave nothing behind, and not hinder the next.
async fn undone(what: &str, code: Code, work: impl AsyncFnOnce(&Transaction<'_>) -> Worked) {
    let ledger = Ledger::new().await;
    let semel = ledger.open().await;
    let schema = ledger.database.schema().to_owned();
    let work = async move |tx: &Transaction<'_>| {
        let path = format!("SET LOCAL search_path TO {schema}; INSERT INTO payments VALUES ('x')");
        tx.batch_execute(&path).await.map_err(|error| error.to_string())?;
        work(tx).await
    };
    let transaction = semel.transaction("pay").key("k").input(&"5 EUR");
    let error = transaction.run_on_postgres(work).await.expect_err(what);
    assert_eq!(error.code(), code, "{what}: {error}");
    assert_eq!(ledger.payments(), [""; 0], "{what}: rows stayed");
    assert_eq!(state(&semel, "pay", "k").await, None, "{what}: the effect stayed");
    let ran = AtomicU32::new(0);
    assert_eq!(book(&semel, &ledger.pay("x"), "k", &ran).await.unwrap(), "R-1", "{what}");
    assert_eq!(ledger.payments(), ["x"], "{what}: it can be done after all");
}

type Worked = Result<String, String>;

async fn run(tx: &Transaction<'_>, sql: &str) -> Worked {
    tx.batch_execute(sql).await.map(|()| "R-1".to_owned()).map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_or_a_panic_undoes_everything() {
    let failed = Code::TransactionFailed;
    undone("an error", failed, async |_| Err("not enough money".to_owned())).await;
    undone("a panic", failed, async |_| panic!("a bug of the user's")).await;
    undone("SQL", failed, async |tx| run(tx, "INSERT INTO payments VALUES ('x')").await).await;
    let swallowed = async |tx: &Transaction<'_>| {
        let _ = run(tx, "SELECT 1 / 0").await;
        Ok("R-1".to_owned())
    };
    undone("an error that was swallowed", failed, swallowed).await;
    let put_off = "SET CONSTRAINTS ALL DEFERRED; INSERT INTO payments VALUES ('x')";
    undone("a constraint at COMMIT", failed, async |tx| run(tx, put_off).await).await;
    undone("ROLLBACK", failed, async |tx| run(tx, "ROLLBACK").await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_than_a_second_undoes_everything() {
    let started = Instant::now();
    let long = Code::TransactionTooLong;
    undone("a slow statement", long, async |tx| run(tx, "SELECT pg_sleep(30)").await).await;
    let asleep = async |_: &Transaction<'_>| {
        tokio::time::sleep(Duration::from_secs(30)).await;
        Ok("R-1".to_owned())
    };
    undone("a slow function", long, asleep).await;
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

/// What a function commits behind our back cannot be undone; it is never done a second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_function_that_commits_leaves_an_attempt_that_blocks_the_next() {
    let ledger = Ledger::new().await;
    let semel = ledger.open().await;
    let ran = AtomicU32::new(0);
    let sql = format!("{}; COMMIT", ledger.pay("one"));
    let error = book(&semel, &sql, "k", &ran).await.unwrap_err();
    assert_eq!(error.code(), Code::TransactionFailed, "{error}");
    assert!(error.detail().contains("ended the transaction"), "{error}");
    assert_eq!(state(&semel, "pay", "k").await, Some(State::Pending));
    let again = book(&semel, &ledger.pay("two"), "k", &ran).await.unwrap_err();
    assert_eq!(again.code(), Code::InProgress);
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(ledger.payments(), ["one"]);
}

/// Books a payment whose COMMIT meets a cut: set before, it would take the BEGIN, which names
/// `READ COMMITTED`.
async fn book_and_cut(semel: &Semel, sql: &str, cut: impl Fn()) -> Result<String, Error> {
    let work = async |tx: &Transaction<'_>| {
        tx.batch_execute(sql).await?;
        cut();
        Ok::<_, SqlError>("R-1".to_owned())
    };
    semel.transaction("pay").key("k").input(&"5 EUR").run_on_postgres(work).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_a_lost_answer_to_commit_gives_the_receipt() {
    let ledger = Ledger::new().await;
    let proxy = ledger.proxy();
    let semel = ledger.engine_behind(&proxy).await;
    let cut = || proxy.cut_before_answer(b"COMMIT");
    assert_eq!(book_and_cut(&semel, &ledger.pay("one"), cut).await.unwrap(), "R-1");
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(ledger.payments(), ["one"]);
    assert_eq!(state(&semel, "pay", "k").await, Some(State::Done));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_a_commit_that_never_arrived_is_told_as_nothing_written() {
    let ledger = Ledger::new().await;
    let proxy = ledger.proxy();
    let semel = ledger.engine_behind(&proxy).await;
    let pay = ledger.pay("one");
    let cut = || proxy.cut_before_request(b"COMMIT");
    let error = book_and_cut(&semel, &pay, cut).await.unwrap_err();
    assert_eq!(error.code(), Code::StoreUnavailable);
    assert!(error.detail().contains("nothing was written"), "{error}");
    assert_eq!(proxy.cuts(), 1);
    assert_eq!(ledger.payments(), [""; 0]);
    let ran = AtomicU32::new(0);
    assert_eq!(book(&semel, &pay, "k", &ran).await.unwrap(), "R-1");
    assert_eq!(ledger.payments(), ["one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_function_sets_does_not_outlive_it() {
    let ledger = Ledger::new().await;
    let semel = ledger.narrow_engine().await;
    let look = "SELECT concat_ws(' ', current_setting('application_name'), \
         current_setting('search_path'), to_regclass('pg_temp.left_here'), \
         (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()), \
         pg_backend_pid())";
    let ask = async |key: &str, sql: &str| -> Result<String, Error> {
        let work = async |tx: &Transaction<'_>| {
            let before: String = tx.query_one(look, &[]).await?.get(0);
            tx.batch_execute(sql).await?;
            Ok::<_, SqlError>(before)
        };
        semel.transaction("set").key(key).run_on_postgres(work).await
    };
    let leave = "SET application_name = 'mine'; SET search_path = nowhere; \
         CREATE TEMP TABLE left_here (); SELECT pg_advisory_lock(1)";
    let before = ask("1", leave).await.unwrap();
    let (setting, connection) = before.rsplit_once(' ').unwrap();
    let mut met = 0;
    for key in 2..12 {
        let after = ask(&key.to_string(), "SELECT 1").await.unwrap();
        assert!(after.starts_with(setting), "{before} became {after}");
        met += u32::from(after.ends_with(connection));
    }
    assert!(met > 0, "the connection was met again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_planned_effect_becomes_done_in_a_transaction() {
    let ledger = Ledger::new().await;
    let semel = ledger.open().await;
    let once = Retry { attempts_max: 1, total_ms: 1_000, delay_ms: 1, delay_ms_max: 1 };
    let refuse = |_| async { Err::<String, Failure>(NotApplied("later".into()).into()) };
    let call = semel.effect("pay").key("k").input(&"5 EUR").retry(once).call(refuse);
    call.await.unwrap_err();
    assert_eq!(state(&semel, "pay", "k").await, Some(State::Planned));
    let ran = AtomicU32::new(0);
    let (until, pay) = (Instant::now() + Duration::from_secs(10), ledger.pay("one"));
    // The proof may have asked for a short wait before the next attempt.
    while let Err(error) = book(&semel, &pay, "k", &ran).await {
        assert_eq!(error.code(), Code::InProgress);
        assert!(Instant::now() < until);
    }
    assert_eq!(state(&semel, "pay", "k").await, Some(State::Done));
    assert_eq!(ledger.payments(), ["one"]);
}

#[tokio::test]
async fn a_store_without_postgres_refuses() {
    let semel = Semel::open("memory:").await.unwrap();
    let work = async |_: &Transaction<'_>| Ok::<_, SqlError>(String::new());
    let refused = semel.transaction("pay").key("k").run_on_postgres(work).await;
    assert_eq!(refused.unwrap_err().code(), Code::TransactionUnsupported);
}
