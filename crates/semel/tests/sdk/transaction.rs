//! An effect that is rows in the ledger's own database.

use semel::rusqlite::{self, Connection};
use semel::{Code, Semel};

use crate::common::{Ledger, code};

fn book(db: &Connection, amount: i64) -> rusqlite::Result<i64> {
    db.execute_batch("CREATE TABLE IF NOT EXISTS books (amount INTEGER NOT NULL)")?;
    db.execute("INSERT INTO books VALUES (?1)", [amount])?;
    Ok(db.last_insert_rowid())
}

/// How many rows the user's table has, read by a stranger.
fn rows(ledger: &Ledger) -> i64 {
    let db = Connection::open(ledger.path()).unwrap();
    db.query_row("SELECT count(*) FROM books", [], |row| row.get(0)).unwrap()
}

async fn run(semel: &Semel, key: &str, amount: i64) -> Result<i64, semel::Error> {
    let transaction = semel.transaction("book").key(key).input(&amount).workflow("ledger");
    transaction.run(move |db| book(db, amount)).await
}

#[tokio::test]
async fn req_l14_rows_and_receipt_commit_together_or_not_at_all() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    assert_eq!(run(&semel, "order-7", 5).await.unwrap(), 1);
    let failed = semel.transaction("book").key("order-8").run(|db| {
        book(db, 6).map_err(|error| error.to_string())?;
        Err::<i64, _>("the stock is empty".to_owned())
    });
    let error = failed.await.unwrap_err();
    assert_eq!(error.code(), Code::TransactionFailed);
    assert!(error.detail().contains("the stock is empty"));
    assert_eq!(rows(&ledger), 1);
    assert!(semel.find("book", "order-8").await.unwrap().is_none());
    assert_eq!(run(&semel, "order-8", 6).await.unwrap(), 2, "the key is free");
    assert_eq!(rows(&ledger), 2);
}

#[tokio::test]
async fn a_repeat_runs_nothing_and_another_input_is_refused() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    for _ in 0..3 {
        assert_eq!(run(&semel, "order-7", 5).await.unwrap(), 1);
    }
    assert_eq!(code(run(&semel, "order-7", 6).await), Code::InputChanged);
    assert_eq!(rows(&ledger), 1);
    let effect = semel.find("book", "order-7").await.unwrap().unwrap();
    assert_eq!(effect.workflow.as_deref(), Some("ledger"));
    let counts = |words: &str| {
        let input = serde_json::json!({"order": 9, "words": words});
        let transaction = semel.transaction("book").key("order-9").input(&input);
        transaction.fingerprint(["order"]).run(|db| book(db, 9))
    };
    assert_eq!(counts("hello").await.unwrap(), counts("good day").await.unwrap());
    assert_eq!(rows(&ledger), 2);
}

#[tokio::test]
async fn req_l15_a_unique_constraint_of_the_database_rejects_the_duplicate() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    run(&semel, "order-7", 5).await.unwrap();
    // Whoever writes past the ledger meets the constraint.
    let db = Connection::open(ledger.path()).unwrap();
    let copied = db.execute_batch(
        "CREATE TEMP TABLE copy AS SELECT * FROM effects; UPDATE copy SET row = row + 1; \
         INSERT INTO effects SELECT * FROM copy",
    );
    let error = copied.unwrap_err();
    assert_eq!(error.sqlite_error_code(), Some(rusqlite::ErrorCode::ConstraintViolation));
    // And the user's own unique column undoes the whole, receipt included.
    let insert = |key: &'static str| {
        semel.transaction("user").key(key).run(|db| {
            db.execute_batch("CREATE TABLE IF NOT EXISTS users (mail TEXT UNIQUE)")?;
            db.execute("INSERT INTO users VALUES ('ada@example.org')", [])
        })
    };
    assert_eq!(insert("first").await.unwrap(), 1);
    assert_eq!(code(insert("second").await), Code::TransactionFailed);
    assert!(semel.find("user", "second").await.unwrap().is_none());
}

#[tokio::test]
async fn a_receipt_that_cannot_be_kept_undoes_the_rows() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    let large = semel
        .transaction("book")
        .key("k")
        .run(|db| book(db, 1).map(|_| "x".repeat(2 * 1024 * 1024)));
    assert_eq!(code(large.await), Code::TransactionFailed);
    run(&semel, "order-7", 5).await.unwrap();
    assert_eq!(rows(&ledger), 1);
}

#[tokio::test]
async fn bad_keys_are_refused_and_memory_has_no_database() {
    let ledger = Ledger::new();
    let semel = ledger.open().await;
    assert_eq!(code(run(&semel, "", 1).await), Code::KeyInvalid);
    let memory = Semel::open("memory:").await.unwrap();
    assert_eq!(code(run(&memory, "k", 1).await), Code::TransactionUnsupported);
}
