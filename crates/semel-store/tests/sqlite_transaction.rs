//! `transaction`: the user's rows and the receipt in one commit, or neither, whatever the user's
//! statements do; and the writer goes on.

mod support;

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use semel_core::contract::Declared;
use semel_core::effect::{self, Ground, State};
use semel_core::json::Json;
use semel_core::record::{Contract, Effect};
use semel_store::sqlite::{Sqlite, TransactionError, Work};
use semel_store::{CommitError, Store, conformance};
use support::{Folder, address, block_on, has, problems, put};

/// What `begin` makes of a transaction: the effect as it is committed, done.
fn done(stored: Option<&Effect>, key: &str, ground: &Ground) -> Result<Effect, TransactionError> {
    let mut ask = conformance::begin(&address(key), "attempt");
    ask.declared = Declared { contract: Some(Contract::Transaction), ..Declared::default() };
    match effect::transact(stored, &ask, ground).map_err(TransactionError::Refused)? {
        Ok(armed) => Ok(armed.done(Json::from_text("\"paid\"").expect("JSON"), &ground.now)),
        Err(answer) => Err(TransactionError::Failed(format!("{answer:?}"))),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` wants")]
fn failed(error: rusqlite::Error) -> TransactionError {
    TransactionError::Failed(error.to_string())
}

/// Runs SQL and is done; an error of the SQL is the user's error.
fn run(key: &'static str, sql: &'static str) -> Work {
    Box::new(move |stored, ground, connection| {
        connection.execute_batch(sql).map_err(failed)?;
        done(stored.as_ref(), key, ground).map(Some)
    })
}

/// A store with a table of the user's, which holds the row `first`.
fn store_with_table(folder: &Folder) -> Sqlite {
    let store = folder.open();
    let table = "CREATE TABLE payments (id TEXT PRIMARY KEY) STRICT; \
         INSERT INTO payments VALUES ('first');";
    block_on(store.transaction(address("setup"), run("setup", table))).expect("a table");
    store
}

/// The user's rows, as another connection sees them.
fn payments(folder: &Folder) -> Vec<String> {
    let connection = Connection::open(folder.store()).expect("a connection");
    let mut rows = connection.prepare("SELECT id FROM payments ORDER BY id").expect("a table");
    let ids = rows.query_map([], |row| row.get(0)).expect("rows");
    ids.collect::<Result<_, _>>().expect("texts")
}

#[test]
fn req_l14_rows_and_receipt_are_in_one_commit() {
    let folder = Folder::new();
    let store = store_with_table(&folder);
    let pay = || run("k", "INSERT INTO payments VALUES ('second')");
    block_on(store.transaction(address("k"), pay())).expect("a payment");
    let effect = block_on(store.load(&address("k"))).expect("a load").expect("an effect");
    assert_eq!(effect.state(&store.ground().now), State::Done);
    assert_eq!(effect.receipt().map(Json::text), Some("\"paid\""));
    assert_eq!((effect.version, effect.attempts.len()), (1, 1), "absent to done in one step");
    assert_eq!(payments(&folder), ["first", "second"]);
    // The function that repeats it decides on the stored effect, and writes nothing.
    let repeat: Work = Box::new(|stored, ground, connection| {
        let replay = done(stored.as_ref(), "k", ground).expect_err("it is done");
        assert!(replay.to_string().contains("Replay"), "{replay}");
        connection.execute_batch("INSERT INTO payments VALUES ('third')").map_err(failed)?;
        Ok(None)
    });
    block_on(store.transaction(address("k"), repeat)).expect("an answer");
    assert_eq!(payments(&folder), ["first", "second"]);
}

/// Runs work that must be undone, and checks that nothing of it stayed and the writer goes on.
fn undone(what: &str, work: impl FnOnce() -> Work) -> TransactionError {
    let folder = Folder::new();
    let store = store_with_table(&folder);
    let error = block_on(store.transaction(address("k"), work())).expect_err(what);
    assert_eq!(payments(&folder), ["first"], "{what}: rows stayed");
    assert!(!block_on(has(&store, "k")), "{what}: the receipt stayed");
    assert!(block_on(has(&store, "setup")), "{what}: the ledger was changed");
    assert_eq!(block_on(problems(&store)), [""; 0], "{what}");
    block_on(put(&store, "next", 10)).unwrap_or_else(|error| panic!("{what}: {error}"));
    let pay = run("k", "INSERT INTO payments VALUES ('second')");
    block_on(store.transaction(address("k"), pay))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    assert_eq!(payments(&folder), ["first", "second"], "{what}: it can be done after all");
    folder.close(store);
    let store = folder.open();
    assert!(block_on(has(&store, "k")) && block_on(has(&store, "next")), "{what}: not durable");
    error
}

#[test]
fn the_users_error_undoes_everything() {
    let work = || run("k", "INSERT INTO payments VALUES ('second'), ('first')");
    let error = undone("a broken constraint", work);
    assert!(error.to_string().contains("UNIQUE"), "{error}");
    let refuse: fn() -> Work = || {
        Box::new(|_, _, connection| {
            connection.execute_batch("INSERT INTO payments VALUES ('second')").map_err(failed)?;
            Err(TransactionError::Failed("not enough money".into()))
        })
    };
    assert_eq!(undone("a refusal", refuse).to_string(), "not enough money");
}

#[test]
fn a_panic_undoes_everything() {
    let work: fn() -> Work = || {
        Box::new(|_, _, connection| {
            let mut statement =
                connection.prepare("INSERT INTO payments VALUES (?1)").expect("SQL");
            statement.execute(["second"]).expect("a row");
            panic!("a bug of the user's")
        })
    };
    assert_eq!(undone("a panic", work).to_string(), "the function panicked");
}

const ENDLESS: &str = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) \
     INSERT INTO payments SELECT 'n' || x FROM n";

#[test]
fn more_than_a_second_undoes_everything() {
    let endless = || run("k", ENDLESS);
    assert!(matches!(undone("an endless statement", endless), TransactionError::TooLong));
    let sleepy: fn() -> Work = || {
        Box::new(|stored, ground, connection| {
            connection.execute_batch("INSERT INTO payments VALUES ('second')").map_err(failed)?;
            std::thread::sleep(Duration::from_millis(1_100));
            done(stored.as_ref(), "k", ground).map(Some)
        })
    };
    assert!(matches!(undone("a slow function", sleepy), TransactionError::TooLong));
}

/// After an error that rolled back by itself, what follows must not commit by itself.
#[test]
fn what_follows_an_automatic_rollback_is_undone_too() {
    let conflict = "INSERT OR ROLLBACK INTO payments VALUES ('first')";
    for (what, statement) in [("a conflict that rolls back", conflict), ("an interrupt", ENDLESS)] {
        let work = move || -> Work {
            Box::new(move |stored, ground, connection| {
                connection
                    .execute_batch("INSERT INTO payments VALUES ('second')")
                    .map_err(failed)?;
                assert!(connection.execute_batch(statement).is_err());
                // The user does not care.
                let _ = connection.execute_batch("INSERT INTO payments VALUES ('third')");
                let _ = connection.execute_batch("INSERT INTO payments VALUES ('fourth')");
                done(stored.as_ref(), "k", ground).map(Some)
            })
        };
        let error = undone(what, work);
        let clear = matches!(error, TransactionError::TooLong)
            || error.to_string().contains("rolled the transaction back");
        assert!(clear, "{what}: {error}");
    }
}

#[test]
fn the_ledger_and_the_transaction_are_out_of_reach() {
    for sql in [
        "INSERT INTO effects SELECT * FROM effects",
        "UPDATE effects SET version = 7",
        "UPDATE Effects SET version = 7",
        "UPDATE main.effects SET version = 7",
        "DELETE FROM effects",
        "REPLACE INTO meta (id) VALUES (1)",
        "UPDATE meta SET commits = 0",
        "DELETE FROM returns",
        "DROP TABLE effects",
        "ALTER TABLE effects RENAME TO gone",
        "ALTER TABLE meta ADD COLUMN x",
        "DROP INDEX effects_due",
        "CREATE INDEX theirs ON effects (key)",
        "CREATE TRIGGER t AFTER INSERT ON effects BEGIN DELETE FROM payments; END",
        "CREATE TEMP TRIGGER t AFTER INSERT ON effects BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TEMP TABLE effects AS SELECT * FROM main.effects",
        "CREATE TEMP VIEW effects AS SELECT 1",
        "CREATE TRIGGER t AFTER INSERT ON payments BEGIN DELETE FROM effects; END;
         INSERT INTO payments VALUES ('second')",
        "COMMIT",
        "END",
        "ROLLBACK",
        "BEGIN",
        "PRAGMA writable_schema = 1",
        "PRAGMA synchronous = OFF",
        "ATTACH ':memory:' AS other",
    ] {
        let work = move || -> Work {
            Box::new(move |stored, ground, connection| {
                connection.execute_batch("INSERT INTO payments VALUES ('k')").map_err(failed)?;
                connection.execute_batch(sql).map_err(failed)?;
                done(stored.as_ref(), "k", ground).map(Some)
            })
        };
        let error = undone(sql, work).to_string();
        let clear = error.contains("not authorized") || error.contains("prohibited");
        assert!(clear, "{sql}: {error}");
    }
}

/// The writer keeps its own statements prepared; the user must not get at them.
#[test]
fn prepared_statements_of_the_writer_are_out_of_reach() {
    for sql in ["COMMIT", "ROLLBACK", "BEGIN IMMEDIATE"] {
        let work = move || -> Work {
            Box::new(move |stored, ground, connection| {
                connection.execute_batch("INSERT INTO payments VALUES ('k')").map_err(failed)?;
                connection.prepare_cached(sql).and_then(|mut it| it.execute([])).map_err(failed)?;
                done(stored.as_ref(), "k", ground).map(Some)
            })
        };
        let error = undone(sql, work).to_string();
        assert!(error.contains("not authorized"), "{sql}: {error}");
    }
}

#[test]
fn savepoints_are_the_users_own() {
    let folder = Folder::new();
    let store = store_with_table(&folder);
    let sql = "SAVEPOINT a; INSERT INTO payments VALUES ('gone'); ROLLBACK TO a; RELEASE a; \
         SAVEPOINT b; INSERT INTO payments VALUES ('second')";
    block_on(store.transaction(address("k"), run("k", sql))).expect("a payment");
    assert_eq!(payments(&folder), ["first", "second"]);
    block_on(put(&store, "next", 10)).expect("a commit");
}

#[test]
fn an_effect_that_does_not_follow_the_stored_one_is_refused() {
    let other: fn() -> Work =
        || Box::new(|stored, ground, _| done(stored.as_ref(), "other", ground).map(Some));
    let error = undone("another effect", other);
    assert!(error.to_string().contains("another effect"), "{error}");
    let ahead: fn() -> Work = || {
        Box::new(|stored, ground, _| {
            let effect = done(stored.as_ref(), "k", ground)?;
            Ok(Some(Effect { version: 5, ..effect }))
        })
    };
    let error = undone("a version ahead", ahead);
    assert!(error.to_string().contains("does not follow"), "{error}");
}

/// One key, transactions and group commits at once: one wins, the others see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_transactions_and_groups_race_to_one_winner() {
    let folder = Folder::new();
    let store = Arc::new(tokio::task::block_in_place(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| store_with_table(&folder)).join().expect("a store")
        })
    }));
    for round in 0..10 {
        let key: &'static str = format!("k{round}").leak();
        let row: &'static str = format!("INSERT INTO payments VALUES ('{key}')").leak();
        let mut calls = tokio::task::JoinSet::new();
        for caller in 0..16 {
            let store = store.clone();
            calls.spawn(async move {
                if caller % 2 == 0 {
                    return store.transaction(address(key), run(key, row)).await.is_ok();
                }
                match put(&*store, key, caller).await {
                    Ok(()) => true,
                    Err(CommitError::Stale(_)) => false,
                    Err(error) => panic!("{error}"),
                }
            });
        }
        let winners = calls.join_all().await.into_iter().filter(|won| *won).count();
        assert_eq!(winners, 1, "{key}");
        let effect = store.load(&address(key)).await.expect("a load").expect("an effect");
        let is_paid = payments(&folder).contains(&key.to_owned());
        assert_eq!(effect.state(&store.ground().now) == State::Done, is_paid, "{key}");
    }
}
