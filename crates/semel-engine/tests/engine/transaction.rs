//! `transaction`: the user's rows and the receipt in one commit, exactly once.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use futures_util::future::join_all;
use semel_core::code::Code;
use semel_core::effect::State;
use semel_core::record::Contract;
use semel_engine::{Engine, Error};

use crate::common::{
    File, NATIVE, Script, address, ask, call, check, json, single, unknown, world,
};

/// Books a row and counts how often it ran.
async fn book(engine: &Engine, key: &str, ran: &Arc<AtomicU32>) -> Result<String, Error> {
    let ran = ran.clone();
    let receipt = engine.transaction(ask(key, Contract::Transaction), move |db, permit| {
        ran.fetch_add(1, Ordering::SeqCst);
        let text = |error: rusqlite::Error| error.to_string();
        db.execute_batch("CREATE TABLE IF NOT EXISTS books (entry TEXT)").map_err(text)?;
        db.execute("INSERT INTO books VALUES (?1)", [&permit.downstream_key]).map_err(text)?;
        Ok(json(&format!(r#"{{"row":{}}}"#, db.last_insert_rowid())))
    });
    receipt.await.map(|json| json.text().to_owned())
}

/// How many rows there are, asked of the same database.
async fn rows(engine: &Engine, key: &str) -> u32 {
    let count = engine.transaction(ask(key, Contract::Transaction), |db, _| {
        let text = |error: rusqlite::Error| error.to_string();
        db.execute_batch("CREATE TABLE IF NOT EXISTS books (entry TEXT)").map_err(text)?;
        let count = db.query_row("SELECT count(*) FROM books", [], |row| row.get::<_, u32>(0));
        Ok(json(&count.map_err(text)?.to_string()))
    });
    count.await.unwrap().read().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn duplicates_of_a_transaction_run_it_exactly_once() {
    let file = File::new();
    let (one, two) = (file.engine(), file.engine());
    let ran = Arc::new(AtomicU32::new(0));
    let calls = (0..200).map(|number| {
        let engine = if number % 2 == 0 { one.clone() } else { two.clone() };
        let ran = ran.clone();
        tokio::spawn(async move { book(&engine, "k", &ran).await })
    });
    for answer in join_all(calls.collect::<Vec<_>>()).await {
        assert_eq!(answer.unwrap().unwrap(), r#"{"row":1}"#);
    }
    assert_eq!(ran.load(Ordering::SeqCst), 1);
    assert_eq!(rows(&one, "count").await, 1);
    let effect = one.effect(&address("k")).await.unwrap();
    assert_eq!(effect.state(&one.store().ground().now), State::Done);
    check(&effect, one.store());
}

#[tokio::test]
async fn an_error_or_a_panic_undoes_rows_and_receipt_together() {
    let file = File::new();
    let engine = file.engine();
    let ran = Arc::new(AtomicU32::new(0));
    book(&engine, "first", &ran).await.unwrap();
    for panics in [false, true] {
        let failed = engine.transaction(ask("k", Contract::Transaction), move |db, _| {
            db.execute("INSERT INTO books VALUES ('never')", []).unwrap();
            assert!(!panics, "as planned");
            Err("the user said no".to_owned())
        });
        assert_eq!(failed.await.unwrap_err().code(), Code::TransactionFailed);
        let gone = engine.effect(&address("k")).await.unwrap_err();
        assert_eq!(gone.code(), Code::NotFound, "nothing was stored");
    }
    assert_eq!(rows(&engine, "count").await, 1);
    // The key is free, and now it works.
    assert_eq!(book(&engine, "k", &ran).await.unwrap(), r#"{"row":2}"#);
    assert_eq!(ran.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn another_input_is_refused_and_runs_nothing() {
    let file = File::new();
    let engine = file.engine();
    let ran = Arc::new(AtomicU32::new(0));
    book(&engine, "k", &ran).await.unwrap();
    let mut changed = ask("k", Contract::Transaction);
    changed.input = json(r#"{"amount":8}"#);
    let refused = engine.transaction(changed, |_, _| panic!("must not run")).await;
    assert_eq!(refused.unwrap_err().code(), Code::InputChanged);
}

#[tokio::test]
async fn a_transaction_meets_other_contracts_of_its_key_with_care() {
    let file = File::new();
    let engine = file.engine();
    let script = Script::gated([unknown()]);
    let (caller, doer) = (engine.clone(), script.doer());
    let first =
        tokio::spawn(async move { caller.call(single("k", Contract::AtMostOnce), doer).await });
    script.entered().await;
    let never = |_: &rusqlite::Connection, _: &_| panic!("must not run");
    let busy = engine.transaction(ask("k", Contract::Transaction), never).await;
    assert_eq!(busy.unwrap_err().code(), Code::InProgress);
    script.release();
    assert!(first.await.unwrap().is_err());
    let doubt = engine.transaction(ask("k", Contract::Transaction), never).await;
    assert_eq!(doubt.unwrap_err().code(), Code::ContractChanged);
    // What a transaction did, a call gets back.
    let ran = Arc::new(AtomicU32::new(0));
    let receipt = book(&engine, "booked", &ran).await.unwrap();
    let script = Script::new([]);
    let answer = engine.call(call("booked", NATIVE), script.doer()).await.unwrap();
    assert_eq!((answer.text(), script.sends()), (receipt.as_str(), 0));
}

#[tokio::test]
async fn the_ledgers_own_tables_are_out_of_reach() {
    let file = File::new();
    let engine = file.engine();
    for text in ["DELETE FROM effects", "UPDATE meta SET epoch = 9", "COMMIT", "ROLLBACK"] {
        let tried = engine.transaction(ask("k", Contract::Transaction), move |db, _| {
            db.execute_batch(text).map_err(|error| error.to_string())?;
            Ok(json("1"))
        });
        assert_eq!(tried.await.unwrap_err().code(), Code::TransactionFailed, "{text}");
    }
    assert_eq!(engine.effect(&address("k")).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_store_without_transactions_refuses_and_runs_nothing() {
    let world = world();
    let asked = ask("k", Contract::Transaction);
    let refused = world.engine.transaction(asked, |_, _| panic!("must not run")).await;
    assert_eq!(refused.unwrap_err().code(), Code::TransactionUnsupported);
    let script = Script::new([]);
    let refused = world.engine.call(call("k", Contract::Transaction), script.doer()).await;
    assert_eq!(refused.unwrap_err().code(), Code::TermsInvalid);
    assert!(world.store.load(&address("k")).await.unwrap().is_none());
}

/// The caller leaves; what was committed stands, and the next one gets it.
#[tokio::test]
async fn a_caller_that_leaves_does_not_undo_what_was_committed() {
    let file = File::new();
    let engine = file.engine();
    let ran = Arc::new(AtomicU32::new(0));
    for round in 0..50 {
        let key = format!("k{round}");
        let (caller, counted, own) = (engine.clone(), ran.clone(), key.clone());
        let first = tokio::spawn(async move { book(&caller, &own, &counted).await });
        tokio::task::yield_now().await;
        first.abort();
        assert!(book(&engine, &key, &ran).await.is_ok());
    }
    assert_eq!(ran.load(Ordering::SeqCst), 50);
    assert_eq!(rows(&engine, "count").await, 50);
}
