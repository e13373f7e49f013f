//! Lists over many rows: every filter is served by an index, or its page passes over a bounded
//! number of rows and says where the search goes on.

mod support;

use semel_core::effect::State;
use semel_core::key::{Action, Key, Namespace};
use semel_core::limits::LIST_ROWS_MAX;
use semel_core::run;
use semel_store::conformance::{address, armed, new_run};
use semel_store::{Batch, Query, Row, RunQuery, RunRow, Store, Write};
use support::{Folder, server};

/// Twice what one page passes over.
const ROWS: usize = 2 * LIST_ROWS_MAX;

async fn fill(store: &dyn Store) {
    let ground = store.ground();
    let number = |index: usize| i64::try_from(index).expect("a number") + 1;
    let effect = |index: usize| {
        let row =
            Row::new(&armed(&address("mail", &format!("k{index}")), "1", &ground), &ground.now);
        Write::Insert(Row { state: State::Done, due: None, ..row })
    };
    let run = |index: usize| {
        let row = RunRow::new(&new_run(&format!("k{index}"), number(index), &ground), &ground.now);
        Write::StartRun(RunRow { state: run::State::Done, ..row })
    };
    for indexes in (0..ROWS).collect::<Vec<_>>().chunks(2_000) {
        let effects = indexes.iter().map(|index| effect(*index));
        let runs = indexes.iter().map(|index| run(*index));
        let writes: Vec<Write> = effects.chain(runs).collect();
        store.commit(Batch { writes: writes.into() }).await.expect("they are written");
    }
}

/// Every combination of filters that any door offers, with a namespace that has nothing.
fn queries() -> Vec<Query> {
    let states = State::ALL.into_iter().map(Some).chain([None]);
    let mut all = Vec::new();
    for state in states {
        for bits in 0..32_u8 {
            let is = |bit: u8| bits & (1 << bit) != 0;
            all.push(Query {
                namespace: Namespace::new("nobody").ok(),
                action: if is(0) { Action::new("mail").ok() } else { None },
                key: if is(1) { Key::from_text("k0").ok() } else { None },
                state,
                unsettled: is(2),
                alarmed: is(3),
                held: is(4),
                ..Query::everywhere(10)
            });
        }
    }
    all
}

async fn searches_are_bounded(store: &dyn Store) {
    fill(store).await;
    for mut query in queries() {
        let mut pages = 0;
        loop {
            let page = store.list(&query).await.expect("a page");
            pages += 1;
            assert_eq!(page.effects, [], "{query:?}");
            let Some(next) = page.next else { break };
            assert!(query.after.is_none_or(|after| next < after), "{query:?} got on");
            query.after = Some(next);
        }
        let is_walk = !(query.unsettled || query.held || query.alarmed)
            && matches!(query.state, None | Some(State::Done | State::Expired))
            && (query.action.is_none() || query.key.is_none());
        // Two that are full, and perhaps an empty one.
        let wanted = if is_walk { 2..=3 } else { 1..=1 };
        assert!(wanted.contains(&pages), "{pages} pages: {query:?}");
    }
    // What is there is found, however far down it lies.
    let oldest = Key::from_text("k0").expect("a key");
    let mut query = Query { key: Some(oldest), ..Query::everywhere(10) };
    let mut found = Vec::new();
    loop {
        let page = store.list(&query).await.expect("a page");
        found.extend(page.effects);
        query.after = page.next;
        if page.next.is_none() {
            break;
        }
    }
    assert_eq!(found.len(), 1);
    for state in [None, Some(run::State::Done), Some(run::State::Ready)] {
        let mut query = RunQuery { state, key: Some("none".into()), ..RunQuery::everywhere(10) };
        let mut pages = 0;
        loop {
            let page = store.list_runs(&query).await.expect("a page");
            pages += 1;
            assert_eq!(page.runs, []);
            query.after = page.next;
            if page.next.is_none() {
                break;
            }
        }
        let wanted = if state == Some(run::State::Ready) { 1..=1 } else { 2..=3 };
        assert!(wanted.contains(&pages), "{pages} pages: {query:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_passes_over_a_bounded_number_of_rows_in_a_file() {
    let folder = Folder::new();
    searches_are_bounded(&folder.open()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_search_passes_over_a_bounded_number_of_rows_on_postgres() {
    let database = semel_lab::database();
    searches_are_bounded(&server::open(&database.url()).await).await;
}
