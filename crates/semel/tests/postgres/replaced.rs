//! A dump is loaded, or a new store made, under a live process that has sent an effect since.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use semel::{Contract, Failure, Semel};
use semel_core::code::Code;
use semel_core::effect::State;
use semel_lab::Cluster;
use semel_store::postgres::Postgres;

use crate::kit::state;

/// Sends the ticket of a request, or does not.
async fn ticket(semel: &Semel, key: &str, sent: &Arc<AtomicU32>) -> Result<String, semel::Error> {
    let effect = semel.effect("crm-ticket").key(key).contract(Contract::AtMostOnce);
    let sent = sent.clone();
    let send = move |_| {
        sent.fetch_add(1, Ordering::SeqCst);
        async { Ok::<_, Failure>("T-1".to_owned()) }
    };
    effect.call(send).await
}

fn psql(cluster: &Cluster, script: &str) {
    let path = cluster.folder().join("script.sql");
    std::fs::write(&path, script).expect("a file");
    let mut psql = Command::new("psql");
    psql.args(["-qX1", "-v", "ON_ERROR_STOP=1", "-d", &cluster.url(), "-f"]);
    let loaded = psql.arg(&path).output().expect("psql");
    assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_dump_loaded_under_a_live_process_never_sends_twice() {
    let (cluster, sent) = (Cluster::start(), Arc::new(AtomicU32::new(0)));
    Postgres::migrate(&cluster.url()).await.expect("a store");
    let semel = Semel::open(&cluster.url()).await.expect("a ledger");
    assert_eq!(ticket(&semel, "kept", &sent).await.expect("sent"), "T-1");
    let dump = Command::new("pg_dump").args(["-d", &cluster.url(), "-n", "semel"]).output();
    let dump = String::from_utf8(dump.expect("pg_dump").stdout).expect("text");
    assert_eq!(ticket(&semel, "42", &sent).await.expect("sent"), "T-1");
    psql(&cluster, &format!("DROP SCHEMA semel CASCADE;\n{dump}"));
    for _ in 0..2 {
        let again = ticket(&semel, "42", &sent).await.expect_err("it must not be sent");
        assert_eq!(again.code(), Code::InDoubt);
    }
    assert_eq!(state(&semel, "crm-ticket", "42").await, Some(State::InDoubt));
    assert_eq!(ticket(&semel, "kept", &sent).await.expect("known"), "T-1");
    assert_eq!(sent.load(Ordering::SeqCst), 2);
    assert_eq!(cluster.psql("SELECT name, state FROM semel.lost"), "42|done");
    assert_eq!(cluster.psql("SELECT count(*) FROM semel.returns"), "1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_new_store_under_a_live_process_never_sends_twice() {
    let (cluster, sent) = (Cluster::start(), Arc::new(AtomicU32::new(0)));
    Postgres::migrate(&cluster.url()).await.expect("a store");
    let semel = Semel::open(&cluster.url()).await.expect("a ledger");
    assert_eq!(ticket(&semel, "42", &sent).await.expect("sent"), "T-1");
    cluster.psql("DROP SCHEMA semel CASCADE");
    Postgres::migrate(&cluster.url()).await.expect("a new store");
    let again = ticket(&semel, "42", &sent).await.expect_err("it must not be sent");
    assert_eq!(again.code(), Code::InDoubt);
    assert_eq!(sent.load(Ordering::SeqCst), 1);
    assert_eq!(cluster.psql("SELECT name, state FROM semel.lost"), "42|done");
}
