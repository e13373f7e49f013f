//! Intents that a user's own transaction wrote are delivered once each, whoever forwards them.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use semel::tokio_postgres::Transaction;
use semel::{Approval, Code, Failure, Intent, Json, Semel};
use semel_core::contract::Declared;
use semel_core::effect::{Abort, State};
use semel_core::key::{Action, Namespace};
use semel_core::retry::Retry;
use semel_engine::{Doer, Engine, Executor, Handler};
use semel_lab::Cluster;
use semel_store::postgres::{OutboxRow, Postgres};
use semel_store::{Access, Clock};

use crate::kit::{Ledger, Outside, state};

async fn outbox(ledger: &Ledger) -> Vec<OutboxRow> {
    let url = ledger.database.url();
    let store = Postgres::open(&url, Access::ReadOnly, Clock::Real).await.expect("a store");
    store.outbox(None, 10_000).await.expect("a list")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_o1_an_intent_is_delivered_when_its_transaction_was_committed() {
    let ledger = Ledger::new().await;
    let (semel, outside) = (ledger.open().await, Outside::default());
    outside.attend(&semel, "mail");
    let mut client = ledger.client().await;
    let tx = client.transaction().await.unwrap();
    let intend = r#"SELECT intend('mail', 'order-1', '{"to": "ada"}')"#;
    tx.batch_execute(&format!("{}; {intend}", ledger.pay("undone"))).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(outbox(&ledger).await, [], "rolled back, there is no intent");
    let tx = client.transaction().await.unwrap();
    let intend = intend.replace("order-1", "order,2");
    tx.batch_execute(&format!("{}; {intend}", ledger.pay("done"))).await.unwrap();
    tx.commit().await.unwrap();
    outside.wait_for(1).await;
    let seen: Vec<_> = outside.seen().into_iter().collect();
    assert_eq!(seen, [("order%2C2".to_owned(), vec![r#"{"to": "ada"}"#.to_owned()])]);
    while state(&semel, "mail", "order,2").await != Some(State::Done) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(state(&semel, "mail", "order-1").await, None);
    assert_eq!(outbox(&ledger).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_o1_a_thousand_intents_are_delivered_once_each_by_two_engines() {
    let ledger = Ledger::new().await;
    let outside = Outside::default();
    ledger.database.psql(
        "SELECT count(intend('mail', 'order-' || n, to_json(n))) FROM generate_series(1, 1000) n",
    );
    let (one, two) = (ledger.open().await, ledger.open().await);
    outside.attend(&one, "mail");
    outside.attend(&two, "mail");
    let started = Instant::now();
    outside.wait_for(1_000).await;
    // A second or two; a look only now and then for what found no room would take forty.
    assert!(started.elapsed() < Duration::from_secs(25), "{:?}", started.elapsed());
    for (key, inputs) in outside.seen() {
        assert_eq!(inputs.len(), 1, "{key} was delivered more than once");
        assert_eq!(format!("order-{}", inputs[0]), key);
    }
    assert_eq!(outbox(&ledger).await, []);
    assert_eq!(ledger.lines("SELECT count(*) FROM effects"), ["1000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i1_a_cut_at_the_commit_neither_loses_nor_doubles_an_intent() {
    let ledger = Ledger::new().await;
    let outside = Outside::default();
    let proxy = ledger.proxy();
    let semel = ledger.engine_behind(&proxy).await;
    outside.attend(&semel, "mail");
    ledger.database.psql("SELECT intend('mail', 'order-1', '1'), intend('mail', 'order-2', '2')");
    proxy.cut_before_request(b"COMMIT\0");
    let error = semel.engine().forward().await.unwrap_err();
    assert_eq!((error.code(), proxy.cuts()), (Code::StoreUnavailable, 1));
    assert_eq!(outbox(&ledger).await.len(), 2, "they wait as before");
    proxy.cut_before_answer(b"COMMIT\0");
    semel.engine().forward().await.unwrap_err();
    assert_eq!(proxy.cuts(), 2);
    assert_eq!(outbox(&ledger).await, [], "the commit was done");
    assert_eq!(semel.engine().forward().await, Ok(0));
    assert_eq!(state(&semel, "mail", "order-1").await, Some(State::Planned));
    semel.engine().turn().await.unwrap();
    outside.wait_for(2).await;
    semel.engine().turn().await.unwrap();
    assert!(outside.seen().values().all(|inputs| inputs.len() == 1), "{:?}", outside.seen());
}

/// The server dies while intents are forwarded and delivered, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_o1_a_killed_server_neither_loses_nor_doubles_an_intent() {
    let cluster = Cluster::durable();
    let url = format!("{}?schema=s", cluster.url());
    Postgres::migrate(&url).await.expect("a store");
    let semel = Semel::open(&url).await.expect("a ledger");
    let outside = Outside::default();
    cluster.psql("SELECT s.intend('mail', n::text, 'null') FROM generate_series(1, 600) n");
    outside.attend(&semel, "mail");
    outside.wait_for(100).await;
    tokio::task::block_in_place(|| {
        cluster.kill();
        cluster.start_again();
    });
    outside.wait_for(600).await;
    assert!(outside.seen().values().all(|inputs| inputs.len() == 1), "{:?}", outside.seen());
    assert_eq!(cluster.psql("SELECT count(*) FROM s.outbox"), "0");
    assert_eq!(cluster.psql("SELECT count(*) FROM s.effects"), "600");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_o1_the_same_intent_again_goes_and_another_input_stays_refused() {
    let ledger = Ledger::new().await;
    let (semel, outside) = (ledger.engine().await, Outside::default());
    outside.attend(&semel, "mail");
    ledger.database.psql(
        r#"SELECT intend('mail', 'k', '{"a": 1, "b": 2}'),
            intend('mail', 'k', '{"b": 2, "a": 1.0}'), intend('mail', 'k', '{"a": 2}')"#,
    );
    // What the function refuses, its owner may write.
    ledger.database.psql(
        "INSERT INTO outbox (namespace, action, key, input) VALUES \
         ('default', 'mail', 'bad%key', 'null'), ('default', 'mail', 'bad', 'not JSON')",
    );
    assert_eq!(semel.engine().forward().await, Ok(1));
    let refused: Vec<_> = outbox(&ledger).await;
    let refused: Vec<_> = refused.iter().map(|row| (&*row.key, row.refused.clone())).collect();
    let codes: Vec<_> = refused
        .iter()
        .map(|(key, refused)| (*key, refused.as_ref().unwrap().code.as_str()))
        .collect();
    assert_eq!(
        codes,
        [("k", "input_changed"), ("bad%key", "key_invalid"), ("bad", "input_invalid")]
    );
    semel.engine().turn().await.unwrap();
    outside.wait_for(1).await;
    assert_eq!(outside.seen()["k"], [r#"{"a": 1, "b": 2}"#]);
    // Done by now: the same intent goes, too, and nothing is sent.
    while state(&semel, "mail", "k").await != Some(State::Done) {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    ledger.database.psql(r#"SELECT intend('mail', 'k', '{"a": 1, "b": 2}')"#);
    semel.engine().turn().await.unwrap();
    assert_eq!((outbox(&ledger).await.len(), outside.seen()["k"].len()), (3, 1));
    let url = ledger.database.url();
    let store = Postgres::open(&url, Access::ReadWrite, Clock::Real).await.expect("a store");
    let first = outbox(&ledger).await[0].id;
    assert_eq!(store.drop_refused(first).await, Ok(true));
    assert_eq!(store.drop_refused(first).await, Ok(false));
    assert_eq!(outbox(&ledger).await.len(), 2);
}

/// The row is there before the send and says so, and holds the receipt after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_33_an_intent_whose_effect_cannot_be_read_is_refused_and_the_others_go() {
    let ledger = Ledger::new().await;
    let (semel, outside) = (ledger.engine().await, Outside::default());
    outside.attend(&semel, "mail");
    ledger.database.psql("SELECT intend('mail', 'lost', '1')");
    assert_eq!(semel.engine().forward().await, Ok(1));
    ledger.database.psql("UPDATE effects SET sum = sum + 1 WHERE key = 'lost'");
    ledger.database.psql("SELECT intend('mail', 'lost', '1'), intend('mail', 'whole', '2')");
    assert_eq!(semel.engine().forward().await, Ok(1));
    let rows = outbox(&ledger).await;
    let refused: Vec<_> = rows.iter().map(|row| (&*row.key, row.refused.as_ref())).collect();
    assert!(
        matches!(&refused[..], [("lost", Some(refused))] if refused.code == "store_corrupt"),
        "{refused:?}"
    );
    semel.engine().turn().await.unwrap();
    outside.wait_for(1).await;
    assert_eq!(outside.seen().keys().collect::<Vec<_>>(), ["whole"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_o2_the_ledger_is_asked_before_a_delivery_and_written_after_it() {
    let ledger = Arc::new(Ledger::new().await);
    let semel = ledger.engine().await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (asked, asking) = (seen.clone(), ledger.clone());
    let send = move |_: Intent| {
        let state = asking.database.psql("SELECT key || ' ' || state FROM effects");
        asked.lock().unwrap().push(state);
        async { Ok::<_, Failure>("sent") }
    };
    semel.handler("mail").register(send).unwrap();
    for _ in 0..3 {
        ledger.database.psql("SELECT intend('mail', 'k', 'null')");
        semel.engine().turn().await.unwrap();
        while state(&semel, "mail", "k").await != Some(State::Done) {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    assert_eq!(*seen.lock().unwrap(), ["k pending"]);
    let effect = semel.find("mail", "k").await.unwrap().unwrap();
    assert_eq!(effect.receipt().map(Json::text), Some("\"sent\""));
    assert_eq!(outbox(&ledger).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_waits_until_there_is_a_handler_for_its_action_and_namespace() {
    let ledger = Ledger::new().await;
    let (semel, outside) = (ledger.engine().await, Outside::default());
    outside.attend(&semel, "other");
    ledger
        .database
        .psql("SELECT intend('mail', 'k', 'null'), intend('mail', 'k', 'null', 'tenant')");
    assert_eq!(semel.engine().forward().await, Ok(0));
    let waiting = outbox(&ledger).await;
    assert!(waiting.len() == 2 && waiting.iter().all(|row| row.refused.is_none()), "{waiting:?}");
    outside.attend(&semel.namespace("tenant").unwrap(), "mail");
    assert_eq!(semel.engine().forward().await, Ok(1));
    assert_eq!(outbox(&ledger).await[0].namespace, "default");
    outside.attend(&semel, "mail");
    assert_eq!(semel.engine().forward().await, Ok(1));
    assert_eq!(outbox(&ledger).await, []);
}

/// The declaration asks a person, so the intent waits for that, whichever way it came.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_a3_an_intent_from_the_outbox_waits_for_the_approval_that_its_handler_declares() {
    let ledger = Ledger::new().await;
    let (semel, outside) = (ledger.engine().await, Outside::default());
    outside.attend_with(semel.handler("mail").approval(Approval::required()));
    ledger.database.psql("SELECT intend('mail', 'k', 'null')");
    for _ in 0..3 {
        semel.engine().turn().await.unwrap();
    }
    assert_eq!((outside.seen().len(), state(&semel, "mail", "k").await), (0, Some(State::Planned)));
    let asked = semel.approvals().find("mail", "k").await.expect("a question");
    asked.approve("ann", "read").await.expect("approved");
    semel.engine().turn().await.unwrap();
    outside.wait_for(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_intent_whose_declaration_needs_a_calls_arguments_is_refused_and_kept() {
    let ledger = Ledger::new().await;
    let semel = ledger.engine().await;
    let send = |_| async { panic!("it is refused") }.boxed();
    let (abort, executor) = (Abort::Possible, Executor::default());
    let doer = Doer { send: Box::new(send), look: None, abort, executor };
    let mut handler = Handler::new(Arc::new(doer), Declared::default(), Retry::default());
    let part = "downstream_key= is made from the call's arguments";
    handler.planning.only_by_call = Some(part.to_owned());
    let (namespace, action) = (Namespace::new("default"), Action::new("mail"));
    semel.engine().handle(namespace.expect("a name"), action.expect("a name"), handler);
    ledger.database.psql("SELECT intend('mail', 'k', 'null')");
    semel.engine().turn().await.unwrap();
    assert_eq!(state(&semel, "mail", "k").await, None);
    let waiting = outbox(&ledger).await;
    assert!(format!("{:?}", waiting[0].refused).contains("downstream_key"), "{waiting:?}");
}

/// The intent that meets a held key waits; those beside it go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_key_makes_only_its_own_intent_wait() {
    let ledger = Ledger::new().await;
    let (semel, outside) = (ledger.engine().await, Outside::default());
    outside.attend(&semel, "mail");
    let mut client = ledger.client().await;
    let tx = client.transaction().await.unwrap();
    let work = async |_: &Transaction<'_>| Ok::<_, String>(1);
    let _: i32 = semel.transaction("mail").key("b").within(&tx, work).await.unwrap();
    ledger
        .database
        .psql("SELECT intend('mail', key, 'null') FROM unnest(ARRAY['a', 'b', 'c']) AS key");
    assert_eq!(semel.engine().forward().await, Ok(2));
    let waiting: Vec<_> = outbox(&ledger).await.into_iter().map(|row| row.key).collect();
    assert_eq!(waiting, ["b"]);
    tx.commit().await.unwrap();
    assert_eq!(semel.engine().forward().await, Ok(0), "it is done already");
    assert_eq!(outbox(&ledger).await, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_store_has_no_outbox() {
    let store = semel_store::memory::Memory::new(Clock::Real);
    let engine = Engine::new(Arc::new(store), "worker").unwrap();
    assert_eq!(engine.forward().await, Ok(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_r10_intents_keep_to_the_rate_of_their_handler() {
    let ledger = Ledger::new().await;
    let (semel, sent) = (ledger.engine().await, Arc::new(Mutex::new(0)));
    let count = sent.clone();
    let handler = semel.handler("mail").rate(1, Duration::from_secs(3_600));
    let send = move |_| {
        *count.lock().unwrap() += 1;
        async move { Ok::<_, Failure>(1) }
    };
    handler.register(send).unwrap();
    ledger.database.psql(
        "SELECT count(intend('mail', 'order-' || n, to_json(n))) FROM generate_series(1, 10) n",
    );
    for _ in 0..4 {
        semel.engine().turn().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(*sent.lock().unwrap(), 1);
    let planned = "SELECT count(*) FROM effects WHERE state = 'planned'";
    assert_eq!(ledger.lines(planned), ["9"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn req_r10_an_intent_is_tried_as_often_as_its_handler_declares() {
    let ledger = Ledger::new().await;
    let (semel, sent) = (ledger.engine().await, Arc::new(Mutex::new(0)));
    let count = sent.clone();
    let retry = Retry { attempts_max: 3, total_ms: 60_000, delay_ms: 1, delay_ms_max: 1 };
    let send = move |_| {
        *count.lock().unwrap() += 1;
        async move { Err::<u32, _>(Failure::not_applied("down")) }
    };
    semel.handler("mail").retry(retry).register(send).unwrap();
    ledger.database.psql("SELECT intend('mail', 'order-1', '1')");
    for _ in 0..10 {
        semel.engine().turn().await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(*sent.lock().unwrap(), 3);
}
