//! A worker that is stopped beyond its lease and then goes on.

use std::time::Duration;

use semel::{RunState, Semel};
use semel_core::journal::Event;

use crate::worker::{Worker, journal, until};

#[tokio::test(flavor = "multi_thread")]
async fn inv_i5_a_zombie_appends_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let url = format!("sqlite:{}/semel.db", folder.path().display());
    let semel = Semel::open(&url).await.expect("the store opens");
    let zombie = Worker::start(&url);
    let run = semel.start("steps").key("k").input(&30).run().await.expect("it starts");
    until("some steps are done", Duration::from_secs(20), async || {
        journal(&semel, &run.status().await.unwrap()).await.len() > 5
    })
    .await;
    zombie.send("STOP");
    tokio::time::sleep(Duration::from_millis(300)).await;
    let before = journal(&semel, &run.status().await.unwrap()).await.len();
    let heir = Worker::start(&url);
    until("the lease has lapsed and the heir is at work", Duration::from_secs(60), async || {
        journal(&semel, &run.status().await.unwrap()).await.len() > before + 3
    })
    .await;
    zombie.send("CONT");
    until("the run has ended", Duration::from_secs(30), async || {
        run.state().await.unwrap() == RunState::Done
    })
    .await;
    tokio::time::sleep(Duration::from_millis(500)).await;

    let entries = journal(&semel, &run.status().await.unwrap()).await;
    let takes: Vec<u64> = entries
        .iter()
        .filter_map(|entry| match &entry.event {
            Event::Taken { fence, .. } => Some(*fence),
            _ => None,
        })
        .collect();
    assert_eq!(takes, [1, 2], "taken over once");
    let by_whom: Vec<u32> =
        entries[before..].iter().filter_map(|entry| step_by(&entry.event)).collect();
    assert!(!by_whom.is_empty());
    assert!(by_whom.iter().all(|process| *process == heir.id()), "{by_whom:?}");
    let steps = entries.iter().filter(|entry| step_by(&entry.event).is_some()).count();
    assert_eq!(steps, 30);
    assert!(matches!(entries.last().unwrap().event, Event::Finished { .. }));
}

fn step_by(event: &Event) -> Option<u32> {
    let semel_core::journal::Value::Json(value) = event.value()? else { return None };
    matches!(event, Event::Step { .. }).then(|| value.read().expect("a process id"))
}
