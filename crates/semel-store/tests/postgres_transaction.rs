//! `transaction` and the outbox on Postgres, as the engine reaches them: what is told to write, and
//! when a rule is asked.

mod support;

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use semel_core::contract::Declared;
use semel_core::effect::{self, Ground, Intended, State};
use semel_core::json::Json;
use semel_core::key::{Action, Namespace};
use semel_core::record::{Contract, Effect};
use semel_lab::{Cluster, Database};
use semel_store::postgres::{FORMAT, Forwarded, Outcome, Postgres, Ruling, Verdict};
use semel_store::sqlite::TransactionError;
use semel_store::{Access, Clock, Store, StoreError, conformance};
use support::{address, has, put};
use tokio_postgres::Transaction;

/// A receipt that is there already, or a transaction to run.
fn rule(
    stored: Option<&Effect>,
    key: &str,
    ground: &Ground,
) -> Result<Ruling<String>, TransactionError> {
    let mut ask = conformance::begin(&address(key), "attempt");
    ask.declared = Declared { contract: Some(Contract::Transaction), ..Declared::default() };
    match effect::transact(stored, &ask, ground).map_err(TransactionError::Refused)? {
        Ok(armed) => Ok(Ruling::Run(Box::new(armed))),
        Err(answer) => Ok(Ruling::Answer(format!("{answer:?}"))),
    }
}

async fn pay(store: &Postgres, key: &str, sql: &str) -> Result<bool, TransactionError> {
    let rule = |stored: Option<&Effect>, ground: &Ground| rule(stored, key, ground);
    let work = async |tx: &Transaction<'_>, _: &effect::Permit| {
        tx.batch_execute(sql).await.map_err(|error| error.to_string())?;
        Ok(Json::null())
    };
    match store.transaction(&address(key), rule, work).await? {
        Outcome::Done(..) => Ok(true),
        Outcome::Answer(_) => Ok(false),
    }
}

async fn fresh() -> (Postgres, Database) {
    let database = semel_lab::database();
    (support::postgres(&database, Clock::Real).await, database)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_of_the_first_format_is_migrated_and_keeps_its_rows() {
    let (store, database) = fresh().await;
    put(&store, "kept", 10).await.expect("a row");
    drop(store);
    // As the first migration left it.
    database.psql(
        "ALTER TABLE effects DROP COLUMN seal; ALTER TABLE runs DROP COLUMN seal; \
         ALTER TABLE inbox DROP COLUMN seal; ALTER TABLE returns DROP COLUMN seal; \
         ALTER TABLE lost DROP COLUMN seal; ALTER TABLE meta DROP COLUMN seal; \
         DROP FUNCTION seal; DROP TABLE cards; ALTER TABLE runs DROP COLUMN queue; \
         ALTER TABLE effects DROP COLUMN held; DROP FUNCTION intend; DROP TABLE outbox; \
         DROP TABLE identity; \
         UPDATE meta SET format = 1, server = substring(server from '[^/]*/[^/]*/[0-9]*')",
    );
    let url = database.url();
    let older = Postgres::open(&url, Access::ReadWrite, Clock::Real).await.err();
    assert_eq!(older, Some(StoreError::Older { found: 1, needed: FORMAT }));
    assert_eq!(Postgres::migrate(&url).await, Ok(1));
    let store = Postgres::open(&url, Access::ReadWrite, Clock::Real).await.expect("migrated");
    assert!(has(&store, "kept").await);
    assert_eq!(store.outbox(None, 10).await, Ok(Vec::new()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_open_for_reading_runs_nothing() {
    let (store, database) = fresh().await;
    let url = database.url();
    let reader = Postgres::open(&url, Access::ReadOnly, Clock::Real).await.expect("a reader");
    let refused = pay(&reader, "k", "SELECT 1").await;
    assert!(matches!(refused, Err(TransactionError::Store(StoreError::Unavailable(_)))));
    let judged = reader.forward(&[mail()], &|_, _, _, _| Verdict::Same).await;
    assert!(matches!(judged, Err(StoreError::Unavailable(_))));
    assert!(!has(&store, "k").await);
}

/// A server that dies at any moment leaves the rows with the receipt, or neither.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_l14_a_killed_server_leaves_rows_and_receipt_together() {
    let cluster = Cluster::durable();
    let url = format!("{}?schema=s&migrate=true", cluster.url());
    let store = Postgres::open(&url, Access::ReadWrite, Clock::Real).await.expect("a store");
    cluster.psql("CREATE TABLE payments (id text PRIMARY KEY)");
    let paid = AtomicU32::new(0);
    let paying = async {
        for number in 0..10_000 {
            let sql = format!("INSERT INTO payments VALUES ('{number}')");
            match pay(&store, &number.to_string(), &sql).await {
                Ok(_) => paid.store(number + 1, Ordering::SeqCst),
                Err(_) => return number,
            }
        }
        panic!("the server was not killed")
    };
    let killing = async {
        while paid.load(Ordering::SeqCst) < 20 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::task::block_in_place(|| {
            cluster.kill();
            cluster.start_again();
        });
    };
    let (stopped_at, ()) = tokio::join!(paying, killing);
    let store = Postgres::open(&url, Access::ReadWrite, Clock::Real).await.expect("a store");
    for number in 0..=stopped_at {
        let row = cluster.psql(&format!("SELECT 1 FROM payments WHERE id = '{number}'"));
        let effect = store.load(&address(&number.to_string())).await.expect("a load");
        let is_done = effect.is_some_and(|one| one.state(&store.ground().now) == State::Done);
        assert_eq!(row == "1", is_done, "{number} of {stopped_at}");
        assert!(is_done || number == stopped_at, "{number} was acknowledged");
    }
    let sql = format!("INSERT INTO payments VALUES ('{stopped_at}') ON CONFLICT DO NOTHING");
    pay(&store, &stopped_at.to_string(), &sql).await.expect("it goes on");
}

/// Two groups and a transaction that want the same key: one after the other, none forgotten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_transaction_and_the_group_never_write_one_key_twice() {
    let (store, database) = fresh().await;
    database.psql("CREATE TABLE payments (id text)");
    for round in 0..20 {
        let key = format!("k{round}");
        let sql = format!("INSERT INTO {}.payments VALUES ('{key}')", database.schema());
        let (paid, written) = tokio::join!(pay(&store, &key, &sql), put(&store, &key, 10));
        let rows = database.psql(&format!("SELECT count(*) FROM payments WHERE id = '{key}'"));
        match (&paid, &written) {
            (Ok(true), Err(_)) => assert_eq!(rows, "1"),
            // The row that the group wrote answers or refuses; nothing was run.
            (Ok(false) | Err(TransactionError::Refused(_)), Ok(())) => assert_eq!(rows, "0"),
            (_, _) => panic!("{key}: {paid:?}, {written:?}"),
        }
    }
}

fn mail() -> (Namespace, Action) {
    (Namespace::default(), Action::new("mail").expect("a name"))
}

/// Rows that one process has in hand are not seen by another, and nobody waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_who_forward_at_once_share_the_rows() {
    let (store, database) = fresh().await;
    let other = support::postgres(&database, Clock::Real).await;
    let count = 450;
    database.psql(&format!(
        "SELECT count(intend('mail', n::text, 'null')) FROM generate_series(1, {count}) n"
    ));
    let judge = |_: &semel_store::postgres::OutboxRow,
                 address: &semel_core::key::Address,
                 stored: Option<&Effect>,
                 ground: &Ground| {
        let ask = conformance::begin(address, "attempt");
        match effect::intend(stored, &ask, ground).expect("an intent") {
            Intended::Planned(effect) => Verdict::Plan(effect),
            Intended::Same => Verdict::Same,
        }
    };
    let all = async |store: &Postgres| {
        let mut planned = 0;
        let until = Instant::now() + Duration::from_secs(30);
        while !store.outbox(None, 1).await.expect("a list").is_empty() {
            assert!(Instant::now() < until, "{planned} so far");
            let Forwarded { planned: some, same, refused, .. } =
                store.forward(&[mail()], &judge).await.expect("a batch");
            assert_eq!((same, refused), (Vec::new(), 0), "no intent is met twice");
            planned += some.len();
        }
        planned
    };
    let (one, two) = tokio::join!(all(&store), all(&other));
    assert_eq!(one + two, count);
    let due = store.due(None, 1_000).await.expect("a page");
    assert_eq!(due.effects.len(), count, "a planned effect is due");
}
