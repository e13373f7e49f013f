//! Postgres goes back in time: a lagging standby is promoted, a backup is put back. That is on
//! record before anything is written, and listed is what this process knows to be lost.

mod support;

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use semel_lab::Cluster;
use semel_store::conformance::{armed, done, insert, update};
use semel_store::{CommitError, Store, Write};
use support::address;
use support::server::{batch, effect, numbered, open, try_open, until_known};

/// A primary with a standby that stops listening after `kept`, and the URL of both.
struct Pair {
    primary: Cluster,
    standby: Cluster,
}

impl Pair {
    fn start() -> Pair {
        let primary = Cluster::start();
        let standby = primary.standby();
        Pair { primary, standby }
    }

    /// Both hosts: whoever takes writes is connected to.
    fn url(&self) -> String {
        let (first, second) = (self.primary.port(), self.standby.port());
        format!("postgres://semel@127.0.0.1:{first},127.0.0.1:{second}/semel")
    }

    /// From now on the primary commits what the standby will not know.
    fn lag(&self) {
        self.standby.wait_until_caught_up();
        self.standby.stop_receiving();
    }

    fn fail_over(&self) {
        self.primary.stop_immediately();
        self.standby.promote();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_live_store_finds_the_tail_that_a_promoted_standby_lost() {
    let pair = Pair::start();
    let store = open(&pair.url()).await;
    let old = store.ground();
    let kept = armed(&address("kept"), "1", &old);
    assert_eq!(store.commit(insert(&kept, &old).into()).await, Ok(()));
    let changed = armed(&address("changed"), "1", &old);
    assert_eq!(store.commit(insert(&changed, &old).into()).await, Ok(()));
    pair.lag();
    assert_eq!(store.commit(update(&done(&changed, "1", &old), &old).into()).await, Ok(()));
    assert_eq!(store.commit(effect("gone", &old)).await, Ok(()));
    let run = numbered(1, &old);
    assert_eq!(store.commit(Write::run(&run, &old.now).into()).await, Ok(()));

    pair.fail_over();
    let next = effect("next", &store.ground());
    assert_eq!(until_known(&store, &next).await, Ok(()));

    let new = store.ground();
    assert_eq!(new.epoch, old.epoch + 1);
    assert!(new.quarantine.is_some());
    assert!(new.now.steady.boot > old.now.steady.boot, "leases of before are over");
    let returns = pair.standby.psql("SELECT epoch, closed_at IS NULL, evidence FROM semel.returns");
    let [epoch, open, evidence] =
        returns.splitn(3, '|').collect::<Vec<_>>().try_into().expect("one row");
    assert_eq!((epoch, open), ("1", "t"));
    assert!(evidence.contains("server"), "{evidence}");
    let lost = pair.standby.psql("SELECT name, version, state FROM semel.lost ORDER BY name");
    let wanted = format!("{}|1|ready\nchanged|2|done\ngone|1|pending", run.id);
    let sorted = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    assert_eq!(sorted(&lost), sorted(&wanted), "exactly what is gone");
    let waiting = "SELECT count(*) FROM semel.effects WHERE due_at <> 0";
    assert_eq!(pair.standby.psql(waiting), "0", "everything that waited is due");
    let due = store.due(None, 10).await.expect("what is due");
    let due: BTreeSet<_> =
        due.effects.iter().map(|(_, effect)| effect.address.key.as_str().to_owned()).collect();
    // The last one was decided by the old clock, too, and came through the failover.
    assert_eq!(due, BTreeSet::from(["kept", "changed", "next"].map(str::to_owned)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_decided_before_the_return_is_stale() {
    let pair = Pair::start();
    let store = open(&pair.url()).await;
    let old = store.ground();
    pair.lag();
    pair.fail_over();
    let late = insert(&armed(&address("late"), "1", &old), &old);
    let late = batch(vec![Write::InEpoch(old.epoch), late]);
    assert_eq!(until_known(&store, &late).await, Err(CommitError::Stale(vec![None])));
    let new = store.ground();
    let anew = insert(&armed(&address("late"), "2", &new), &new);
    let anew = batch(vec![Write::InEpoch(new.epoch), anew]);
    assert_eq!(store.commit(anew).await, Ok(()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_store_opened_on_a_promoted_standby_is_in_quarantine() {
    let pair = Pair::start();
    drop(open(&pair.url()).await);
    pair.lag();
    pair.fail_over();
    // Several processes at once: one of them opens it, all of them see it.
    let url = pair.url();
    let opening = (0..6).map(|_| {
        let url = url.clone();
        tokio::spawn(async move { try_open(&url).await.expect("it opens").ground() })
    });
    for ground in opening.collect::<Vec<_>>() {
        let ground = ground.await.expect("no panic");
        assert_eq!(ground.epoch, 1);
        assert!(ground.quarantine.is_some());
    }
    assert_eq!(pair.standby.psql("SELECT count(*) FROM semel.returns"), "1");
    assert_eq!(try_open(&url).await.expect("again").ground().epoch, 1, "once for all time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn several_live_stores_open_one_quarantine_and_each_lists_its_own() {
    let pair = Pair::start();
    let stores = [open(&pair.url()).await, open(&pair.url()).await, open(&pair.url()).await];
    pair.lag();
    for (index, store) in stores.iter().enumerate() {
        let lost = effect(&format!("lost-{index}"), &store.ground());
        assert_eq!(store.commit(lost).await, Ok(()));
    }
    pair.fail_over();
    let keys = ["a", "b", "c"].map(|key| effect(key, &stores[0].ground()));
    let [first, second, third] = &stores;
    let answers = tokio::join!(
        until_known(first, &keys[0]),
        until_known(second, &keys[1]),
        until_known(third, &keys[2]),
    );
    assert_eq!(answers, (Ok(()), Ok(()), Ok(())));
    assert!(stores.iter().all(|store| store.ground().epoch == 1));
    assert_eq!(pair.standby.psql("SELECT count(*) FROM semel.returns"), "1");
    let lost = "SELECT count(*), count(DISTINCT name), count(DISTINCT worker) FROM semel.lost";
    assert_eq!(pair.standby.psql(lost), "3|3|3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_time_can_be_asked_for_while_the_store_goes_back() {
    let pair = Pair::start();
    let store = Arc::new(open(&pair.url()).await);
    pair.lag();
    let stop = Arc::new(AtomicBool::new(false));
    let asking = {
        let (store, stop) = (store.clone(), stop.clone());
        // A thread of its own: it asks in the middle of everything.
        std::thread::spawn(move || {
            let mut last = store.ground().now.wall;
            while !stop.load(Ordering::SeqCst) {
                last = store.ground().now.wall.max(last);
            }
            last
        })
    };
    pair.fail_over();
    assert_eq!(until_known(store.as_ref(), &effect("k", &store.ground())).await, Ok(()));
    stop.store(true, Ordering::SeqCst);
    asking.join().expect("the clock never stops");
    assert_eq!(store.ground().epoch, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_whose_answer_was_lost_counts_as_written_when_its_repeat_is_done() {
    let pair = Pair::start();
    let store = open(&pair.url()).await;
    pair.lag();
    let twin = effect("twin", &store.ground());
    // Another process wrote the very same batch: as if our own commit's answer had been lost.
    assert_eq!(open(&pair.primary.url()).await.commit(twin.clone()).await, Ok(()));
    assert_eq!(store.commit(twin).await, Ok(()), "it is told that it is done");
    pair.fail_over();
    assert_eq!(until_known(&store, &effect("next", &store.ground())).await, Ok(()));
    assert_eq!(pair.standby.psql("SELECT name FROM semel.lost"), "twin");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_removed_on_purpose_is_not_lost() {
    let pair = Pair::start();
    let store = open(&pair.url()).await;
    let ground = store.ground();
    let swept = armed(&address("swept"), "1", &ground);
    assert_eq!(store.commit(insert(&swept, &ground).into()).await, Ok(()));
    let remove = Write::Remove { address: swept.address.clone(), generation: 0, version: 1 };
    assert_eq!(store.commit(remove.into()).await, Ok(()));
    pair.lag();
    assert_eq!(store.commit(effect("lost", &ground)).await, Ok(()));
    pair.fail_over();
    assert_eq!(until_known(&store, &effect("next", &store.ground())).await, Ok(()));
    assert_eq!(pair.standby.psql("SELECT name FROM semel.lost"), "lost");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_a_crash_and_a_checkpoint_open_nothing() {
    let cluster = Cluster::durable();
    let store = open(&cluster.url()).await;
    for round in 0..3 {
        assert_eq!(
            until_known(&store, &effect(&format!("a{round}"), &store.ground())).await,
            Ok(())
        );
        cluster.psql("CHECKPOINT");
        match round {
            0 => cluster.stop_fast(),
            1 => cluster.stop_immediately(),
            _ => cluster.kill(),
        }
        cluster.start_again();
        assert_eq!(
            until_known(&store, &effect(&format!("b{round}"), &store.ground())).await,
            Ok(())
        );
        drop(open(&cluster.url()).await);
    }
    cluster.psql("VACUUM FULL");
    cluster.psql("SELECT pg_switch_wal()");
    drop(open(&cluster.url()).await);
    assert_eq!(store.ground().epoch, 0);
    assert_eq!(cluster.psql("SELECT count(*) FROM semel.returns"), "0");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_files_that_were_put_back_are_noticed_by_a_live_store() {
    let cluster = Cluster::start();
    let store = open(&cluster.url()).await;
    assert_eq!(store.commit(effect("kept", &store.ground())).await, Ok(()));
    let data = cluster.folder().join("data");
    let backup = cluster.folder().join("backup");
    cluster.stop_fast();
    copy(&data, &backup);
    cluster.start_again();
    // One single commit is enough to know that it is missing.
    assert_eq!(until_known(&store, &effect("gone", &store.ground())).await, Ok(()));
    let heard = store.hints();
    support::server::eventually("its end is known", || {
        let told = *heard.borrow() > 0;
        async move { told }
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    cluster.stop_fast();
    std::fs::remove_dir_all(&data).expect("the files go");
    copy(&backup, &data);
    cluster.start_again();
    assert_eq!(until_known(&store, &effect("next", &store.ground())).await, Ok(()));
    assert_eq!(store.ground().epoch, 1);
    let evidence = cluster.psql("SELECT evidence FROM semel.returns");
    assert!(evidence.contains("log"), "{evidence}");
    assert_eq!(cluster.psql("SELECT name FROM semel.lost"), "gone");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_a_dump_that_was_loaded_elsewhere_is_noticed() {
    let (from, to) = (Cluster::start(), Cluster::start());
    let store = open(&from.url()).await;
    assert_eq!(store.commit(effect("kept", &store.ground())).await, Ok(()));
    let dump = Command::new("pg_dump").args(["-d", &from.url(), "-n", "semel"]).output();
    let dump = dump.expect("pg_dump");
    assert!(dump.status.success(), "{}", String::from_utf8_lossy(&dump.stderr));
    let dump = String::from_utf8(dump.stdout).expect("text");
    let load = |cluster: &Cluster| {
        let path = cluster.folder().join("dump.sql");
        std::fs::write(&path, &dump).expect("a file");
        let mut psql = Command::new("psql");
        psql.args(["-qX", "-v", "ON_ERROR_STOP=1", "-d"]);
        let loaded = psql.arg(cluster.url()).arg("-f").arg(&path).output().expect("psql");
        assert!(loaded.status.success(), "{}", String::from_utf8_lossy(&loaded.stderr));
    };

    load(&to);
    let other = try_open(&to.url()).await.expect("it opens");
    assert_eq!(other.ground().epoch, 1, "on another server");
    assert!(other.ground().quarantine.is_some());

    drop(store);
    from.psql("DROP SCHEMA semel CASCADE");
    load(&from);
    let same = try_open(&from.url()).await.expect("it opens");
    assert_eq!(same.ground().epoch, 1, "on the same server");
}

fn copy(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").args([from, to]).status().expect("cp");
    assert!(copied.success());
}
