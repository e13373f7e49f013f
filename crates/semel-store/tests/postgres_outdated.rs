//! What was decided or known before a store went back in time, and reaches it afterwards.

mod support;

use semel_lab::Cluster;
use semel_store::conformance::appends;
use semel_store::postgres::Postgres;
use semel_store::{CommitError, Runs, Store, Write};
use support::server::{batch, effect, numbered, open, try_open};

/// How long the clock of the store had run, in milliseconds: ten days.
const AGE_MS: i64 = 864_000_000;

/// A store that is ten days old.
async fn open_old(cluster: &Cluster) -> Postgres {
    drop(open(&cluster.url()).await);
    cluster.psql(&format!("UPDATE semel.meta SET boot_since = boot_since - {AGE_MS}"));
    try_open(&cluster.url()).await.expect("it opens")
}

/// Another process finds that the store went back; this one has not heard of it.
fn go_back_unheard(cluster: &Cluster) {
    cluster.psql(&format!(
        "UPDATE semel.meta SET epoch = epoch + 1, boot = boot + 1, \
         boot_since = boot_since + {AGE_MS}"
    ));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i27_an_entry_that_a_return_took_is_followed_by_none() {
    let cluster = Cluster::start();
    let store = open(&cluster.url()).await;
    let ground = store.ground();
    let run = numbered(1, &ground);
    let [first, second, third] =
        appends(&run, &["{}", "{}", "{}"]).try_into().expect("three entries");
    let start = batch(vec![Write::run(&run, &ground.now), Write::Append(first)]);
    assert_eq!(store.commit(start).await, Ok(()));
    assert_eq!(store.commit(Write::Append(second).into()).await, Ok(()));

    cluster.psql("DELETE FROM semel.journal WHERE seq = 1");
    go_back_unheard(&cluster);
    let answer = store.commit(Write::Append(third).into()).await;
    assert_eq!(answer, Err(CommitError::Stale(Vec::new())));
    assert_eq!(store.journal(1, 0, 10).await.expect("a journal").len(), 1, "without a gap");
    assert_eq!(store.ground().epoch, ground.epoch + 1, "it has heard of it by now");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_time_by_the_clock_of_before_a_return_is_due_and_not_ten_days_away() {
    let cluster = Cluster::start();
    let store = open_old(&cluster).await;
    let old = store.ground();
    let (at_once, looked_at) = (numbered(1, &old), numbered(2, &old));
    let lane = at_once.lane();
    go_back_unheard(&cluster);
    assert_eq!(store.commit(Write::run(&at_once, &old.now).into()).await, Ok(()));
    let with_effect = effect("armed", &old).writes.to_vec();
    let with_run = [with_effect, vec![Write::run(&looked_at, &old.now)]].concat();
    assert_eq!(store.commit(batch(with_run)).await, Ok(()));

    let due = store.due_runs(&lane, 10).await.expect("what is due");
    assert_eq!(due.runs.iter().map(|run| run.number).collect::<Vec<_>>(), [1, 2]);
    let due = store.due(None, 10).await.expect("what is due");
    assert_eq!(due.effects.len(), 1, "somebody looks whether it has lapsed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_was_shown_to_a_dead_process_before_a_return_is_shown_to_others() {
    let cluster = Cluster::start();
    let dead = open_old(&cluster).await;
    let ground = dead.ground();
    let run = numbered(1, &ground);
    assert_eq!(dead.commit(Write::run(&run, &ground.now).into()).await, Ok(()));
    assert_eq!(dead.due_runs(&run.lane(), 10).await.expect("it is due").runs.len(), 1);
    drop(dead);

    cluster.psql("UPDATE semel.meta SET server = 'another'");
    let other = try_open(&cluster.url()).await.expect("it opens");
    assert_eq!(other.ground().epoch, ground.epoch + 1);
    assert_eq!(other.due_runs(&run.lane(), 10).await.expect("it is due").runs.len(), 1);
}
