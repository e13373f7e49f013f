//! Finding runs: by what is due, by what they are, by what may be swept.

use semel_core::run::{Run, State};
use semel_core::time::Wall;

use super::Subject;
use super::making_runs::{HOUR_MS, change, finished, new_run, parked, run_of, start, taken, write};
use crate::{RunQuery, Store};

/// Nothing there is no failure.
pub async fn a_store_without_runs_answers_everything(store: Subject) {
    assert_eq!(store.run("default", "x").await, Ok(None));
    assert_eq!(store.namespace_of(1).await, Ok(None));
    assert_eq!(store.journal(1, 0, 10).await, Ok(vec![]));
    assert_eq!(store.last_entry(1).await, Ok(None));
    assert_eq!(store.inbox(1).await, Ok(vec![]));
    assert_eq!(store.delivery(1, "d").await, Ok(None));
    assert_eq!(store.blob("default", "d").await, Ok(None));
    assert_eq!(store.due_runs("default/w", 10).await, Ok(crate::DueRuns::default()));
    assert_eq!(store.list_runs(&RunQuery::everywhere(10)).await, Ok(crate::RunPage::default()));
    assert_eq!(store.sweepable_runs(10).await, Ok(vec![]));
}

/// Each lane shows its own, the longest waiting first, and when the next one is due.
pub async fn due_runs_are_of_their_lane_in_order(store: Subject) {
    let ground = store.ground();
    let earlier = |hours: i64| {
        let mut ground = ground;
        ground.now.steady.ms -= hours * HOUR_MS as i64;
        ground
    };
    // Written out of order; each is ready since its hours.
    for (key, number, hours) in [("b", 1, 2), ("c", 2, 1), ("a", 3, 3)] {
        write(&*store, start(&new_run(key, number, &ground), &earlier(hours))).await;
    }
    write(&*store, start(&run_of("other", "k", 4, &ground), &earlier(4))).await;
    let held = taken(&new_run("held", 5, &ground), &ground);
    write(&*store, start(&Run { version: 1, ..held }, &ground)).await;
    let keys = |runs: &[Run]| runs.iter().map(|run| run.key.clone()).collect::<Vec<_>>();
    let after = ground.now.steady;
    let due = store.due_runs("default/w", 10).await.expect("due runs");
    assert_eq!(keys(&due.runs), ["a", "b", "c"]);
    assert_eq!(due.next, Some(after.plus(HOUR_MS)), "when the lease lapses");
    let due = store.due_runs("default/w", 2).await.expect("due runs");
    assert_eq!(keys(&due.runs), ["a", "b"]);
    assert_eq!(due.next, Some(earlier(1).now.steady), "the next one is due already");
    let due = store.due_runs("default/other", 10).await.expect("due runs");
    assert_eq!((keys(&due.runs), due.next), (vec!["k".to_owned()], None));
    // Waiting for a time, and for a signal alone.
    for (key, number, due_ms) in [("timer", 6, Some(2 * HOUR_MS)), ("signal", 7, None)] {
        let run = parked(&taken(&run_of("third", key, number, &ground), &ground), due_ms, &ground);
        write(&*store, start(&Run { version: 1, ..run }, &ground)).await;
    }
    let due = store.due_runs("default/third", 10).await.expect("due runs");
    assert_eq!((due.runs, due.next), (vec![], Some(after.plus(2 * HOUR_MS))));
}

/// Runs are listed newest first, by what is asked for, in pages.
pub async fn runs_are_listed_by_what_they_are(store: Subject) {
    let ground = store.ground();
    for (workflow, key, number) in [("w", "a", 1), ("v", "a", 2), ("w", "b", 5), ("w", "c", 4)] {
        write(&*store, start(&run_of(workflow, key, number, &ground), &ground)).await;
    }
    let elsewhere = Run { namespace: "elsewhere".into(), ..new_run("a", 3, &ground) };
    write(&*store, start(&elsewhere, &ground)).await;
    let held = taken(&run_of("w", "b", 5, &ground), &ground);
    write(&*store, change(&held, &ground)).await;
    let end = taken(&run_of("w", "c", 4, &ground), &ground);
    write(&*store, change(&end, &ground)).await;
    write(&*store, change(&finished(&end, &ground), &ground)).await;
    let all = RunQuery::everywhere(10);
    let text = |text: &str| Some(text.to_owned());
    let cases = [
        (all.clone(), vec![5, 4, 3, 2, 1]),
        (RunQuery { namespace: text("default"), ..all.clone() }, vec![5, 4, 2, 1]),
        (RunQuery { namespace: text("none"), ..all.clone() }, vec![]),
        (RunQuery { workflow: text("w"), ..all.clone() }, vec![5, 4, 3, 1]),
        (RunQuery { key: text("a"), ..all.clone() }, vec![3, 2, 1]),
        (RunQuery { workflow: text("w"), key: text("a"), ..all.clone() }, vec![3, 1]),
        (RunQuery { state: Some(State::Ready), ..all.clone() }, vec![3, 2, 1]),
        (RunQuery { state: Some(State::Running), ..all.clone() }, vec![5]),
        (RunQuery { state: Some(State::Done), ..all.clone() }, vec![4]),
        (RunQuery { state: Some(State::Paused), ..all.clone() }, vec![]),
        (RunQuery { state: Some(State::Ready), after: Some(3), ..all.clone() }, vec![2, 1]),
    ];
    for (query, wanted) in cases {
        let all = pages(&*store, query.clone()).await;
        assert_eq!(all, std::slice::from_ref(&wanted), "{query:?}");
        let query = RunQuery { limit: 2, ..query };
        let paged = pages(&*store, query.clone()).await;
        let chunks: Vec<Vec<i64>> = wanted.chunks(2).map(<[i64]>::to_vec).collect();
        assert_eq!(paged, if chunks.is_empty() { vec![vec![]] } else { chunks }, "{query:?}");
    }
}

async fn pages(store: &dyn Store, mut query: RunQuery) -> Vec<Vec<i64>> {
    let mut pages = Vec::new();
    loop {
        let page = store.list_runs(&query).await.expect("a page");
        pages.push(page.runs.iter().map(|run| run.number).collect());
        query.after = page.next;
        if page.next.is_none() {
            return pages;
        }
    }
}

/// What ended longest ago comes first; what is kept still does not come.
pub async fn sweepable_runs_come_in_order_of_their_time(store: Subject) {
    let ground = store.ground();
    for (number, hours) in [(1, 3), (2, 5), (3, 0), (4, 4)] {
        let mut then = ground;
        then.now.wall = Wall(then.now.wall.0 - hours * HOUR_MS as i64);
        let run = taken(&new_run(&number.to_string(), number, &ground), &ground);
        let end = Run { version: 1, ..finished(&run, &then) };
        write(&*store, start(&end, &ground)).await;
    }
    write(&*store, start(&new_run("open", 5, &ground), &ground)).await;
    let numbers = async |limit| {
        let runs = store.sweepable_runs(limit).await.expect("runs to sweep");
        runs.into_iter().map(|run| run.number).collect::<Vec<_>>()
    };
    assert_eq!(numbers(10).await, [2, 4, 1]);
    assert_eq!(numbers(2).await, [2, 4]);
}
