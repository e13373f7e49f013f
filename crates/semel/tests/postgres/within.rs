//! A transaction that the user hands in and commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use semel::tokio_postgres::{Error as SqlError, Transaction};
use semel::{Code, Error, Failure, Retry, Semel};
use semel_core::effect::State;

use crate::kit::{Ledger, state};

async fn book(
    semel: &Semel,
    tx: &Transaction<'_>,
    sql: &str,
    ran: &AtomicU32,
) -> Result<String, Error> {
    let work = async |tx: &Transaction<'_>| {
        let number = ran.fetch_add(1, Ordering::SeqCst) + 1;
        tx.batch_execute(sql).await?;
        Ok::<_, SqlError>(format!("R-{number}"))
    };
    semel.transaction("pay").key("k").within(tx, work).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_l14_the_receipt_is_there_when_the_user_has_committed() {
    let ledger = Ledger::new().await;
    let semel = ledger.open().await;
    let mut client = ledger.client().await;
    let (ran, pay) = (AtomicU32::new(0), ledger.pay("one"));
    let tx = client.transaction().await.unwrap();
    tx.batch_execute(&ledger.pay("before")).await.unwrap();
    assert_eq!(book(&semel, &tx, &pay, &ran).await.unwrap(), "R-1");
    // Twice in one transaction is once.
    assert_eq!(book(&semel, &tx, &pay, &ran).await.unwrap(), "R-1");
    assert_eq!(state(&semel, "pay", "k").await, None, "visible before the commit");
    assert_eq!(ledger.payments(), [""; 0]);
    tx.commit().await.unwrap();
    assert_eq!(state(&semel, "pay", "k").await, Some(State::Done));
    assert_eq!(ledger.payments(), ["before", "one"]);
    let tx = client.transaction().await.unwrap();
    assert_eq!(book(&semel, &tx, &pay, &ran).await.unwrap(), "R-1");
    tx.commit().await.unwrap();
    assert_eq!(ran.load(Ordering::SeqCst), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rolled_back_by_the_user_nothing_happened() {
    let ledger = Ledger::new().await;
    let semel = ledger.open().await;
    let mut client = ledger.client().await;
    let (ran, pay) = (AtomicU32::new(0), ledger.pay("one"));
    let tx = client.transaction().await.unwrap();
    assert_eq!(book(&semel, &tx, &pay, &ran).await.unwrap(), "R-1");
    tx.rollback().await.unwrap();
    assert_eq!(state(&semel, "pay", "k").await, None);
    assert_eq!(ledger.payments(), [""; 0]);
    let tx = client.transaction().await.unwrap();
    assert_eq!(book(&semel, &tx, &pay, &ran).await.unwrap(), "R-2");
    tx.commit().await.unwrap();
    assert_eq!(ledger.payments(), ["one"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_leaves_the_users_transaction_as_it_was() {
    let ledger = Ledger::new().await;
    let semel = ledger.open().await;
    let mut client = ledger.client().await;
    let ran = AtomicU32::new(0);
    let tx = client.transaction().await.unwrap();
    tx.batch_execute("SET LOCAL lock_timeout = '7s'").await.unwrap();
    tx.batch_execute(&ledger.pay("before")).await.unwrap();
    let sql = format!("{}; SELECT 1 / 0", ledger.pay("one"));
    let error = book(&semel, &tx, &sql, &ran).await.unwrap_err();
    assert_eq!(error.code(), Code::TransactionFailed);
    assert!(error.detail().contains("division by zero"), "{error}");
    let kept: String = tx.query_one("SHOW lock_timeout", &[]).await.unwrap().get(0);
    assert_eq!(kept, "7s");
    book(&semel, &tx, &ledger.pay("two"), &ran).await.unwrap();
    let kept: String = tx.query_one("SHOW lock_timeout", &[]).await.unwrap().get(0);
    assert_eq!(kept, "7s");
    tx.commit().await.unwrap();
    assert_eq!(ledger.payments(), ["before", "two"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_on_another_database_is_refused() {
    let (ledger, other) = (Ledger::new().await, Ledger::new().await);
    let semel = ledger.open().await;
    let _ = other.open().await;
    let mut client = ledger.client().await;
    let tx = client.transaction().await.unwrap();
    // The same schema name, but the store of somebody else is in it.
    let (ours, theirs) = (ledger.database.schema(), other.database.schema());
    let swap =
        format!("ALTER SCHEMA {ours} RENAME TO {ours}_x; ALTER SCHEMA {theirs} RENAME TO {ours}");
    tx.batch_execute(&swap).await.unwrap();
    let error = book(&semel, &tx, "SELECT 1", &AtomicU32::new(0)).await.unwrap_err();
    assert_eq!(error.code(), Code::TransactionFailed);
    assert!(error.detail().contains("another database"), "{error}");
}

/// While a user holds one key, all others are written as ever; whoever needs it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_key_makes_only_its_own_callers_wait() {
    let ledger = Ledger::new().await;
    let semel = ledger.open().await;
    let mut client = ledger.client().await;
    let tx = client.transaction().await.unwrap();
    book(&semel, &tx, &ledger.pay("one"), &AtomicU32::new(0)).await.unwrap();
    let once = Retry { attempts_max: 1, total_ms: 1_000, delay_ms: 1, delay_ms_max: 1 };
    let asking = semel.clone();
    let refused = Arc::new(AtomicU32::new(0));
    let counter = refused.clone();
    let asker = tokio::spawn(async move {
        for _ in 0..2 {
            let started = Instant::now();
            let send = |_| async { Ok::<_, Failure>("sent".to_owned()) };
            let call = asking.effect("pay").key("k").retry(once).call(send);
            let error = call.await.expect_err("somebody holds it");
            assert_eq!(error.code(), Code::StoreBusy, "{error}");
            assert!(started.elapsed() >= Duration::from_secs(2), "{:?}", started.elapsed());
            counter.fetch_add(1, Ordering::SeqCst);
        }
    });
    let (mut slowest, mut written) = (Duration::ZERO, 0);
    while !asker.is_finished() {
        let started = Instant::now();
        let send = |_| async { Ok::<_, Failure>("sent".to_owned()) };
        semel.effect("other").key(format!("{written}")).call(send).await.unwrap();
        slowest = slowest.max(started.elapsed());
        written += 1;
    }
    asker.await.unwrap();
    assert_eq!(refused.load(Ordering::SeqCst), 2);
    assert!(slowest < Duration::from_millis(1_000), "{slowest:?} among {written}");
    assert!(written > 20, "{written}");
    tx.commit().await.unwrap();
    let send = |_| async { Ok::<_, Failure>("sent".to_owned()) };
    let receipt: String = semel.effect("pay").key("k").retry(once).call(send).await.unwrap();
    assert_eq!(receipt, "R-1");
}
