//! Asking Postgres for due runs costs the same whatever the history, and shows a run to one process
//! at a time.
#![expect(clippy::print_stderr, reason = "figures for whoever asks")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use semel_lab::{Cluster, psql};
use semel_store::conformance::new_run;
use semel_store::{RunRow, Runs, Store, Write};
use support::server::{blocking, eventually, numbered, open};

/// Rows of runs as the store would have them, told apart by their numbers.
const COLUMNS: &str = "INSERT INTO semel.runs (number, namespace, id, version, workflow, key, \
     lane, state, parked, fence, created_at, wake_at, waits_on, sweep_at, sum, record, seal) ";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_a_claim_costs_the_same_after_a_long_history_and_under_an_old_snapshot() {
    // The server itself writes down the plan of what the store asks.
    let explain = [
        ("session_preload_libraries", "auto_explain"),
        ("auto_explain.log_analyze", "on"),
        ("auto_explain.log_buffers", "on"),
        ("auto_explain.log_timing", "off"),
        ("auto_explain.log_min_duration", "0"),
    ];
    let cluster = Arc::new(Cluster::with(&explain));
    let store = open(&cluster.url()).await;
    let lane = new_run("k", 1, &store.ground()).lane();
    let history = support::size("SEMEL_CLAIM_RUNS", 200_000);
    finished(&cluster, &lane, 1, history);
    cluster.psql("ANALYZE semel.runs");

    let snapshot = {
        let cluster = cluster.clone();
        std::thread::spawn(move || {
            let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ";
            let hold = ["SET application_name = 'old snapshot'", begin, "SELECT pg_sleep(120)"];
            psql(&cluster.url(), &hold)
        })
    };
    eventually("the snapshot is held", || {
        let cluster = cluster.clone();
        let held = "SELECT count(*) FROM pg_stat_activity \
             WHERE application_name = 'old snapshot' AND backend_xmin IS NOT NULL";
        blocking(move || cluster.psql(held) == "1")
    })
    .await;
    let through = finished_just_now(&cluster, &lane, history + 1, history / 4);
    assert_eq!(through, (history / 4).to_string());

    let whole = look(&store, &cluster, &lane).await;
    let after = look(&store, &cluster, &lane).await;
    let again = look(&store, &cluster, &lane).await;
    for plan in [&whole, &after, &again] {
        assert!(plan.text.contains("runs_wake"), "{}", plan.text);
    }
    let seen = [whole.buffers, after.buffers, again.buffers];
    eprintln!("{history} finished runs: buffers {seen:?} for the whole lane and from the floor");
    assert!(whole.buffers > 1_000, "the history was walked over once: {}", whole.text);
    assert!(after.buffers < 100, "{} buffers: {}", after.buffers, after.text);
    assert!(again.buffers < 100, "{} buffers: {}", again.buffers, again.text);

    // What becomes due meanwhile is found.
    let ground = store.ground();
    let number = 10 * history;
    let run = numbered(number, &ground);
    assert_eq!(store.commit(Write::run(&run, &ground.now).into()).await, Ok(()));
    let due = store.due_runs(&lane, 10).await.expect("due runs");
    assert_eq!(due.runs.iter().map(|run| run.number).collect::<Vec<_>>(), [number]);

    assert_eq!(cluster.terminate_backends("application_name = 'old snapshot'"), 1);
    assert!(snapshot.join().expect("no panic").is_err(), "it was held until now");
    cluster.psql("VACUUM semel.runs");
    let fresh = open(&cluster.url()).await;
    let swept = look(&fresh, &cluster, &lane).await;
    assert!(swept.text.contains("runs_wake") && swept.buffers < 100, "{}", swept.text);
}

/// Runs that ended long ago.
fn finished(cluster: &Cluster, lane: &str, first: i64, count: i64) {
    let last = first + count - 1;
    cluster.psql(&format!(
        "{COLUMNS} SELECT n, 'default', 'id-' || n, 3, 'w', n::text, '{lane}', 'done', false, 1, \
         0, NULL, NULL, 1, 0, '{{}}', '' FROM generate_series({first}, {last}) AS n"
    ));
}

/// Runs that were due in the last ten minutes, and were done: their places in the index stay
/// until a vacuum, which waits for the old snapshot.
fn finished_just_now(cluster: &Cluster, lane: &str, first: i64, count: i64) -> String {
    let last = first + count - 1;
    cluster.psql(&format!(
        "{COLUMNS} SELECT n, 'default', 'id-' || n, 3, 'w', n::text, '{lane}', 'ready', true, 1, \
         0, (extract(epoch FROM clock_timestamp()) * 1000)::bigint - boot_since - 6000 \
             - 594000::bigint * (n - {first}) / {count}, NULL, NULL, 0, '{{}}', '' \
         FROM generate_series({first}, {last}) AS n, semel.meta"
    ));
    cluster.psql(&format!(
        "WITH ended AS (UPDATE semel.runs SET state = 'done', wake_at = NULL, sweep_at = 1 \
         WHERE number BETWEEN {first} AND {last} RETURNING 1) SELECT count(*) FROM ended"
    ))
}

struct Plan {
    buffers: u64,
    text: String,
}

/// Asks for due runs, and reads in the server's log what that took.
async fn look(store: &dyn Store, cluster: &Arc<Cluster>, lane: &str) -> Plan {
    let before = cluster.log().len();
    let due = store.due_runs(lane, 10).await.expect("due runs");
    assert!(due.runs.len() <= 1, "the history is over");
    let log = cluster.log();
    let said = log.get(before..).unwrap_or_default();
    let asked = said.find("wake_at, shown_to = $4").expect("its plan is in the log");
    let text = &said[asked..];
    let end = text.find("\n20").unwrap_or(text.len());
    let text = text[..end].to_owned();
    // The outermost node counts what is below it, and comes first.
    let shared = text
        .split("Buffers: shared")
        .nth(1)
        .map_or("", |rest| rest.lines().next().unwrap_or_default());
    let numbers = shared.split_whitespace().filter_map(|word| {
        word.strip_prefix("hit=").or_else(|| word.strip_prefix("read="))?.parse::<u64>().ok()
    });
    Plan { buffers: numbers.sum(), text }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_due_run_is_shown_to_one_process_and_comes_back_when_that_died() {
    let database = semel_lab::database();
    let (first, second) = (open(&database.url()).await, open(&database.url()).await);
    let ground = first.ground();
    let mut lane = String::new();
    for number in 1..=10 {
        let run = numbered(number, &ground);
        lane = run.lane();
        assert_eq!(first.commit(Write::run(&run, &ground.now).into()).await, Ok(()));
    }
    let numbers =
        |due: semel_store::DueRuns| due.runs.iter().map(|run| run.number).collect::<Vec<_>>();
    let shown = numbers(first.due_runs(&lane, 5).await.expect("due runs"));
    assert_eq!(shown, [1, 2, 3, 4, 5]);
    let others = numbers(second.due_runs(&lane, 10).await.expect("due runs"));
    assert_eq!(others, [6, 7, 8, 9, 10], "what the first is about to take is left alone");
    let again = numbers(first.due_runs(&lane, 5).await.expect("due runs"));
    assert_eq!(again, [1, 2, 3, 4, 5], "its own it sees again");

    drop(first);
    tokio::time::sleep(Duration::from_millis(2_100)).await;
    let all = numbers(second.due_runs(&lane, 20).await.expect("due runs"));
    assert_eq!(all, (1..=10).collect::<Vec<i64>>());
}

/// A run whose holder died long ago is cancelled: it comes into the lane of those that end, with
/// the time at which its lease ran out.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn inv_i14_a_run_that_comes_into_a_lane_with_a_time_long_past_is_found_at_once() {
    let database = semel_lab::database();
    let store = open(&database.url()).await;
    let ground = store.ground();
    let run = numbered(1, &ground);
    let lane = run.lane();
    assert!(store.due_runs(&lane, 10).await.expect("due runs").runs.is_empty(), "a first look");
    let mut row = RunRow::new(&run, &ground.now);
    row.wake_at.as_mut().expect("it is due").ms -= 60_000;
    assert_eq!(store.commit(Write::StartRun(row).into()).await, Ok(()));
    let due = store.due_runs(&lane, 10).await.expect("due runs");
    assert_eq!(due.runs.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn processes_that_ask_at_once_get_different_runs() {
    let database = semel_lab::database();
    let stores = [open(&database.url()).await, open(&database.url()).await];
    let ground = stores[0].ground();
    let mut lane = String::new();
    for number in 1..=40 {
        let run = numbered(number, &ground);
        lane = run.lane();
        assert_eq!(stores[0].commit(Write::run(&run, &ground.now).into()).await, Ok(()));
    }
    let (left, right) = tokio::join!(stores[0].due_runs(&lane, 40), stores[1].due_runs(&lane, 40));
    let mut numbers: Vec<_> = [left, right]
        .into_iter()
        .flat_map(|due| due.expect("due runs").runs)
        .map(|run| run.number)
        .collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (1..=40).collect::<Vec<i64>>(), "each to one of them");
}
