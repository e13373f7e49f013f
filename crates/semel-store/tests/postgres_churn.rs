//! Effects that come, are settled and go leave tables and indexes of a bounded size.
#![expect(clippy::print_stderr, reason = "figures for whoever asks")]

mod support;

use std::sync::Arc;

use semel_core::effect::Ground;
use semel_core::record::Effect;
use semel_lab::Cluster;
use semel_store::conformance::{address, armed, done, insert, update};
use semel_store::postgres::Postgres;
use semel_store::{Store, Write};
use support::server::{blocking, eventually, open};
use tokio::task::JoinSet;

const ROUNDS: i64 = 10;
const CALLERS: i64 = 64;

/// `SEMEL_CHURN` says how many effects: a million for a campaign.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_churn_leaves_tables_and_indexes_bounded() {
    let each = support::size("SEMEL_CHURN", 40_000) / ROUNDS;
    let cluster = Arc::new(Cluster::with(&[("autovacuum_naptime", "1s")]));
    let store = Arc::new(open(&cluster.url()).await);
    let mut sizes = Vec::new();
    for round in 0..ROUNDS {
        let mut tasks = JoinSet::new();
        for caller in 0..CALLERS {
            let store = store.clone();
            tasks.spawn(async move {
                for number in (caller..each).step_by(CALLERS as usize) {
                    live_and_go(&store, &format!("{round}-{number}")).await;
                }
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.expect("no panic");
        }
        sizes.push(size(&cluster));
    }
    eprintln!("{each} effects a round came and went; bytes after each: {sizes:?}");
    assert_eq!(cluster.psql("SELECT count(*) FROM semel.effects"), "0");
    // The first rounds may outrun the vacuum; later ones live in the space that it gave back.
    let early = sizes[1..4].iter().max().expect("some");
    let late = sizes.last().expect("some");
    assert!(late <= &(early * 2), "it grows with what came and went: {sizes:?}");
    eventually("dead rows are removed", || {
        let cluster = cluster.clone();
        let dead = "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'effects'";
        blocking(move || cluster.psql(dead).parse::<i64>().is_ok_and(|dead| dead <= each / 2))
    })
    .await;
}

/// Armed, done, and past its retention.
async fn live_and_go(store: &Postgres, key: &str) {
    let ground: Ground = store.ground();
    let first = armed(&address("churn", key), key, &ground);
    let last: Effect = done(&first, "1", &ground);
    let gone = Write::Remove {
        address: last.address.clone(),
        generation: last.generation,
        version: last.version,
    };
    for write in [insert(&first, &ground), update(&last, &ground), gone] {
        store.commit(write.into()).await.expect("it is written");
    }
}

fn size(cluster: &Cluster) -> i64 {
    let sql = "SELECT pg_total_relation_size('semel.effects')";
    cluster.psql(sql).parse().expect("a number")
}
