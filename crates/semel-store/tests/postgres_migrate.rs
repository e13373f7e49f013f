//! A store on Postgres is created and brought forward only by who was told to, and worked on by a
//! role that owns nothing.

mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use semel_lab::{Cluster, Database, psql};
use semel_store::conformance::{self, Subject};
use semel_store::postgres::{FORMAT, Postgres};
use semel_store::{Access, Clock, ManualClock, Store, StoreError};
use support::WALL_MS;
use support::server::{effect, open, try_open};

async fn refused(url: &str) -> StoreError {
    try_open(url).await.err().expect("it must not open")
}

fn tables(database: &Database) -> String {
    let sql = format!(
        "SELECT count(*) FROM pg_class WHERE relnamespace = to_regnamespace('{}')",
        database.schema()
    );
    database.psql(&sql)
}

#[tokio::test]
async fn a_store_that_is_not_there_is_missing_and_not_created() {
    let database = semel_lab::database();
    let missing = refused(&database.url()).await;
    assert!(matches!(missing, StoreError::Missing(_)), "{missing:?}");
    assert!(missing.to_string().contains("`semel migrate`"), "{missing}");
    assert_eq!(tables(&database), "0");

    let read = format!("{}&migrate=true", database.url());
    let reading = Postgres::open(&read, Access::ReadOnly, Clock::Real).await.err();
    assert!(matches!(reading, Some(StoreError::Missing(_))), "a reader creates nothing");

    assert_eq!(Postgres::migrate(&database.url()).await, Ok(0), "there was none");
    assert_eq!(Postgres::migrate(&database.url()).await, Ok(FORMAT), "nothing is left to do");
    assert!(try_open(&database.url()).await.is_ok());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_migrate_at_once_one_does() {
    let database = semel_lab::database();
    let migrating = (0..8).map(|_| {
        let url = database.url();
        tokio::spawn(async move { Postgres::migrate(&url).await })
    });
    let mut found = Vec::new();
    for one in migrating.collect::<Vec<_>>() {
        found.push(one.await.expect("no panic").expect("it migrates"));
    }
    found.sort_unstable();
    assert_eq!(found, [vec![0], vec![FORMAT; 7]].concat());
    assert_eq!(database.psql("SELECT count(*) FROM meta"), "1");
}

#[tokio::test]
async fn inv_i26_a_newer_store_is_refused_untouched_and_an_older_one_not_opened() {
    let database = semel_lab::database();
    let store = open(&database.url()).await;
    assert_eq!(store.commit(effect("a", &store.ground())).await, Ok(()));
    drop(store);
    database.psql("UPDATE meta SET format = 99");
    let before = database.psql("SELECT m::text FROM meta AS m");
    let newer = StoreError::Newer { found: 99, known: FORMAT };
    assert_eq!(refused(&database.url()).await, newer);
    assert_eq!(refused(&format!("{}&migrate=true", database.url())).await, newer);
    assert_eq!(Postgres::migrate(&database.url()).await, Err(newer));
    assert_eq!(database.psql("SELECT m::text FROM meta AS m"), before);

    database.psql("UPDATE meta SET format = -1");
    let older = StoreError::Older { found: -1, needed: FORMAT };
    assert_eq!(refused(&database.url()).await, older);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i26_a_live_store_that_was_migrated_beyond_it_writes_no_more_after_a_reconnect() {
    let cluster = Cluster::start();
    let store = open(&cluster.url()).await;
    cluster.psql("UPDATE semel.meta SET format = 99");
    cluster.terminate_backends("application_name = 'semel'");
    let newer = StoreError::Newer { found: 99, known: FORMAT };
    support::server::eventually("it reconnects", || async {
        let answer = store.commit(effect("a", &store.ground())).await;
        assert_ne!(answer, Ok(()), "written to a format it does not know");
        answer == Err(newer.clone().into())
    })
    .await;
    assert_eq!(cluster.psql("SELECT count(*) FROM semel.effects"), "0");
}

/// Word for word what `docs/store-postgres.md` tells operators to grant.
fn grants(schema: &str, role: &str) -> Vec<String> {
    let page = include_str!("../../../docs/store-postgres.md");
    let lines = page.lines().filter(|line| line.starts_with("GRANT"));
    let lines = lines.filter(|line| line.contains("semel_worker"));
    let lines = lines.map(|line| {
        line.replace("SCHEMA semel ", &format!("SCHEMA {schema} ")).replace("semel_worker", role)
    });
    lines.collect()
}

/// A store made by its owner, and the address by which a role that owns nothing works on it.
fn as_worker(cluster: &Cluster, schema: &str) -> String {
    let granted = grants(schema, "worker");
    assert_eq!(granted.len(), 3, "{granted:?}");
    let granted: Vec<&str> = granted.iter().map(String::as_str).collect();
    psql(&cluster.url(), &granted).expect("the grants of the page");
    format!("postgres://worker@127.0.0.1:{}/semel?schema={schema}", cluster.port())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_owns_nothing_keeps_every_law_with_the_grants_of_the_page() {
    let cluster = Arc::new(Cluster::start());
    cluster.psql("CREATE ROLE worker LOGIN");
    let count = AtomicUsize::new(0);
    conformance::run_all(|| {
        let schema = format!("w{}", count.fetch_add(1, Ordering::SeqCst));
        let cluster = cluster.clone();
        async move {
            let url = format!("{}?schema={schema}", cluster.url());
            Postgres::migrate(&url).await.expect("its owner migrates");
            let clock = Clock::Manual(ManualClock::new(WALL_MS));
            let store =
                Postgres::open(&as_worker(&cluster, &schema), Access::ReadWrite, clock).await;
            Arc::new(store.expect("a worker's store")) as Subject
        }
    })
    .await;
    assert!(count.into_inner() > 40);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_role_that_owns_nothing_cannot_migrate_but_can_open_a_quarantine() {
    let cluster = Cluster::start();
    cluster.psql("CREATE ROLE worker LOGIN");
    drop(open(&cluster.url()).await);
    let url = as_worker(&cluster, "semel");
    let elsewhere = url.replace("schema=semel", "schema=other");
    let denied = Postgres::migrate(&elsewhere).await.expect_err("it must not create");
    assert!(denied.to_string().contains("permission denied"), "{denied}");
    assert_eq!(cluster.psql("SELECT to_regnamespace('other') IS NULL"), "t");

    cluster.psql("UPDATE semel.meta SET server = 'elsewhere'");
    let store = try_open(&url).await.expect("it opens");
    assert_eq!(store.ground().epoch, 1);
    assert!(store.ground().quarantine.is_some());
}

#[tokio::test]
async fn a_role_that_may_not_ask_which_server_this_is_is_told_what_it_needs() {
    let cluster = Cluster::start();
    cluster.psql("CREATE ROLE worker LOGIN");
    drop(open(&cluster.url()).await);
    let url = as_worker(&cluster, "semel");
    cluster.psql("REVOKE EXECUTE ON FUNCTION pg_control_system() FROM PUBLIC");
    let denied = refused(&url).await;
    assert!(denied.to_string().contains("pg_control_system"), "{denied}");
    cluster.psql("GRANT EXECUTE ON FUNCTION pg_control_system() TO worker");
    assert!(try_open(&url).await.is_ok());
}
