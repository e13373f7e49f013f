//! What the laboratory breaks is really broken: lost tails, lost answers, bouncers in between.

use std::thread;
use std::time::{Duration, Instant};

use semel_lab::{Bouncer, Cluster, Proxy, psql};

#[test]
fn a_promoted_standby_lacks_the_tail_that_it_did_not_receive() {
    let primary = Cluster::start();
    primary.psql("CREATE TABLE t (n int)");
    let standby = primary.standby();
    primary.psql("INSERT INTO t VALUES (1)");
    standby.wait_until_caught_up();
    assert_eq!(standby.psql("SELECT n FROM t"), "1");
    assert!(standby.try_psql("INSERT INTO t VALUES (9)").is_err(), "a standby takes no writes");

    standby.stop_receiving();
    primary.psql("INSERT INTO t VALUES (2)");
    assert_eq!(primary.psql("SELECT count(*) FROM t"), "2", "answered as committed");
    primary.stop_immediately();
    standby.promote();
    assert_eq!(standby.psql("SELECT n FROM t"), "1");
    standby.psql("INSERT INTO t VALUES (3)");
    assert_eq!(standby.psql("SELECT string_agg(n::text, ',' ORDER BY n) FROM t"), "1,3");
}

#[test]
fn a_cut_before_the_answer_leaves_the_commit_and_takes_the_answer() {
    let cluster = Cluster::start();
    cluster.psql("CREATE TABLE t (n int)");
    let proxy = Proxy::start(cluster.port());
    let insert = ["BEGIN", "INSERT INTO t VALUES (1)", "COMMIT"];

    proxy.cut_before_answer(b"COMMIT");
    psql(&proxy.url(), &insert).expect_err("no answer came");
    assert_eq!(cluster.psql("SELECT count(*) FROM t"), "1", "the request arrived and was done");
    assert_eq!(proxy.cuts(), 1);

    // To the client it looks the same, and nothing was done.
    proxy.cut_before_request(b"COMMIT");
    psql(&proxy.url(), &insert).expect_err("no answer came");
    assert_eq!(cluster.psql("SELECT count(*) FROM t"), "1");
    assert_eq!(proxy.cuts(), 2);

    // Each cut holds for one request.
    psql(&proxy.url(), &insert).expect("the wire is whole again");
    assert_eq!(cluster.psql("SELECT count(*) FROM t"), "2");
    assert_eq!(proxy.cuts(), 2);
}

#[test]
fn a_wire_refuses_cuts_and_delays_as_told() {
    let cluster = Cluster::start();
    let proxy = Proxy::start(cluster.port());
    assert_eq!(psql(&proxy.url(), &["SELECT 1"]).unwrap(), "1");

    proxy.refuse();
    psql(&proxy.url(), &["SELECT 1"]).expect_err("refused");
    proxy.pass();
    assert_eq!(psql(&proxy.url(), &["SELECT 1"]).unwrap(), "1");

    thread::scope(|scope| {
        let waits = "SET application_name = 'waits'";
        let asleep = scope.spawn(|| psql(&proxy.url(), &[waits, "SELECT pg_sleep(600)"]));
        let there = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
        let until = Instant::now() + Duration::from_secs(30);
        while cluster.psql(there) != "1" {
            assert!(Instant::now() < until, "it never slept");
        }
        let cuts = proxy.cuts();
        proxy.cut_all();
        assert_eq!(proxy.cuts(), cuts + 1);
        asleep.join().unwrap().expect_err("cut while it waited");
        // The server does not look at its wire while it sleeps.
        assert_eq!(cluster.terminate_backends("application_name = 'waits'"), 1);
        assert_eq!(cluster.terminate_backends("application_name = 'nobody'"), 0);
    });

    proxy.delay(50);
    let before = Instant::now();
    assert_eq!(psql(&proxy.url(), &["SELECT 1"]).unwrap(), "1");
    assert!(before.elapsed().as_millis() >= 100, "held up at least there and back");
}

#[test]
fn a_bouncer_answers_for_its_cluster() {
    let cluster = Cluster::start();
    let bouncer = Bouncer::start(&cluster);
    assert_ne!(bouncer.port(), cluster.port());
    let asked = psql(&bouncer.url(), &["SHOW port"]).unwrap();
    assert_eq!(asked, cluster.port().to_string());
    // Transaction mode: clients that only sit there hold no backend.
    let proxy = Proxy::start(bouncer.port());
    assert_eq!(psql(&proxy.url(), &["BEGIN", "SELECT 2", "COMMIT"]).unwrap(), "2");
    let mode = psql(&admin(&bouncer), &["SHOW CONFIG"]).unwrap();
    assert!(mode.contains("pool_mode|transaction"), "{mode}");
}

fn admin(bouncer: &Bouncer) -> String {
    format!("postgres://semel@127.0.0.1:{}/pgbouncer", bouncer.port())
}
