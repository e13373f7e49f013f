//! Timers and waits are rows, not memory: they survive the process that set them.

use std::time::Duration;

use semel::{RunState, Semel};
use semel_core::journal::Event;
use semel_store::RunQuery;

use crate::worker::{Worker, count, journal, nap_ms, until};

const TIMERS: u32 = 10_000;
const WAITS: u32 = 1_000;
const LATE_MS: i64 = 2_000;

async fn start_all(semel: &Semel, workflow: &'static str, count: u32) {
    let mut tasks = tokio::task::JoinSet::new();
    for lane in 0..64 {
        let semel = semel.clone();
        tasks.spawn(async move {
            for number in (lane..count).step_by(64) {
                let start = semel.start(workflow).key(format!("{number}")).input(&number);
                start.run().await.expect("it starts");
            }
        });
    }
    while let Some(done) = tasks.join_next().await {
        done.expect("no start failed");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn req_a4_ten_thousand_timers_and_a_thousand_waits_survive_kill_9() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}/semel.db", folder.path().display());
    let semel = Semel::open(&url).await.expect("the store opens");
    let first = Worker::start(&url);
    start_all(&semel, "wait", WAITS).await;
    start_all(&semel, "nap", TIMERS).await;
    let all = (TIMERS + WAITS) as usize;
    until("all runs are parked", Duration::from_secs(60), async || {
        count(&semel, "nap", RunState::Waiting).await
            + count(&semel, "wait", RunState::Waiting).await
            == all
    })
    .await;
    first.kill();

    let recovered = semel.engine().store().ground().now.wall.0;
    let _second = Worker::start(&url);
    until("all timers have fired", Duration::from_secs(90), async || {
        count(&semel, "nap", RunState::Done).await == TIMERS as usize
    })
    .await;
    assert_eq!(count(&semel, "wait", RunState::Waiting).await, WAITS as usize);
    for number in 0..WAITS {
        let run = semel.start("wait").key(format!("{number}")).input(&number).run().await.unwrap();
        run.signal("go", "go", &number).await.expect("it is delivered");
    }
    until("all waits are over", Duration::from_secs(60), async || {
        count(&semel, "wait", RunState::Done).await == WAITS as usize
    })
    .await;
    check_times(&semel, recovered).await;
}

/// Never early, never twice, never later than two seconds after it was due or the recovery.
#[expect(clippy::print_stdout, reason = "how late the latest was is worth reading")]
async fn check_times(semel: &Semel, recovered: i64) {
    let mut query = RunQuery::everywhere(1_000);
    query.workflow = Some("nap".to_owned());
    let (mut seen, mut latest) = (0, 0);
    loop {
        let page = semel.engine().runs(&query).await.expect("a page");
        for run in &page.runs {
            let entries = journal(semel, run).await;
            let fired: Vec<_> =
                entries.iter().filter(|entry| matches!(entry.event, Event::Fired { .. })).collect();
            assert_eq!(fired.len(), 1, "run {}", run.id);
            let nap_ms = nap_ms(run.key.parse().expect("the key is its number"));
            let due = entries[0].at.0.0 + i64::try_from(nap_ms).unwrap();
            let late = fired[0].at.0.0 - due.max(recovered);
            assert!(fired[0].at.0.0 >= due, "run {} fired early", run.id);
            assert!(late <= LATE_MS, "run {} fired {late} ms late", run.id);
            latest = latest.max(late);
            seen += 1;
        }
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(seen, TIMERS);
    println!("{seen} timers, the latest {latest} ms after it was due");
}
