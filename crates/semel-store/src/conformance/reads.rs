//! Reads: everything comes back as it was written, found by any of its columns, in one order.

use semel_core::effect::{Ground, State};
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::record::{self, Effect};
use semel_core::time::{Steady, Wall};

use super::Subject;
use super::making::{address, armed, begin, done, insert, superseded, update};
use crate::{Batch, Query, Row, Store, Write};

/// Nothing is an answer, not an error.
pub async fn an_empty_store_answers_everything(store: Subject) {
    let name = address("a", "k");
    assert_eq!(store.load(&name).await, Ok(None));
    assert_eq!(store.load_generation(&name, 0).await, Ok(None));
    let page = store.list(&Query::everywhere(10)).await.expect("a list");
    assert_eq!((page.effects, page.next), (vec![], None));
    let page = store.due(None, 10).await.expect("what is due");
    assert_eq!((page.effects, page.next_due), (vec![], None));
    assert_eq!(store.sweepable(10).await, Ok(vec![]));
}

/// Byte for byte: large values, exact numbers, any script.
pub async fn effects_come_back_as_they_were_written(store: Subject) {
    let ground = store.ground();
    let large = format!("\"{}\"", "x".repeat(900_000));
    let receipts =
        ["null", "false", "9007199254740993", "1.0", r#"{"b":1,  "a":"日本 🎫 \u0000"}"#];
    for (index, receipt) in receipts.into_iter().chain([large.as_str()]).enumerate() {
        let name = address("a", &format!("key-{index}"));
        let mut ask = begin(&name, "1");
        ask.input = Json::from_text(receipt).expect("JSON");
        let effect = match semel_core::effect::begin(None, &ask, &ground) {
            Ok(semel_core::effect::Decision::Arm(effect, _)) => done(&effect, receipt, &ground),
            other => panic!("a first begin arms: {other:?}"),
        };
        commit(&*store, insert(&effect, &ground)).await;
        let found = store.load(&name).await.expect("a load").expect("an effect");
        assert_eq!(found, effect);
        assert_eq!(record::encode(&found), record::encode(&effect));
        assert_eq!(found.receipt().map(Json::text), Some(receipt));
    }
}

/// `load` brings the newest generation, `load_generation` any.
pub async fn generations_are_loaded_apart(store: Subject) {
    let ground = store.ground();
    let first = done(&armed(&address("a", "k"), "1", &ground), "1", &ground);
    commit(&*store, insert(&first, &ground)).await;
    let (old, new) = superseded(&first, &ground);
    let writes = vec![update(&old, &ground), insert(&new, &ground)];
    store.commit(Batch { writes: writes.into() }).await.expect("a supersede");
    let name = &first.address;
    assert_eq!(store.load(name).await, Ok(Some(new.clone())));
    assert_eq!(store.load_generation(name, 0).await, Ok(Some(old)));
    assert_eq!(store.load_generation(name, 1).await, Ok(Some(new)));
    assert_eq!(store.load_generation(name, 2).await, Ok(None));
}

/// Names are compared as they are: nothing is folded, trimmed, or read as a number or pattern.
pub async fn names_are_never_mixed_up(store: Subject) {
    let ground = store.ground();
    let keys = [
        "k", "K", "k ", " k", "%", "_", "1", "01", "1.0", "1e0", "é", "e\u{301}", "a,b", "a b",
        "'", "\"", "null", "ß", "ss", "İ", "i",
    ];
    let mut names: Vec<_> = keys.iter().map(|key| address("a", key)).collect();
    names.extend([address("ab", "c"), address("a", "bc"), address("A", "k")]);
    let draft = Namespace::default().draft();
    names.push(Address { namespace: draft, ..address("a", "k") });
    for (index, name) in names.iter().enumerate() {
        commit(&*store, insert(&armed(name, &index.to_string(), &ground), &ground)).await;
    }
    for (index, name) in names.iter().enumerate() {
        let found = store.load(name).await.expect("a load").expect("an effect");
        assert_eq!(found.address, *name);
        assert_eq!(found.attempts[0].id, index.to_string(), "{name}");
    }
}

/// Every combination of filters brings exactly the rows that match all of them.
pub async fn lists_are_filtered(store: Subject) {
    let ground = store.ground();
    let rows = rows_of_all_kinds(&ground);
    for row in &rows {
        commit(&*store, Write::Insert(row.clone())).await;
    }
    let mut found_any = 0;
    for query in all_queries() {
        let page = store.list(&query).await.unwrap_or_else(|error| panic!("{query:?}: {error}"));
        let found: Vec<_> = page.effects.iter().map(|effect| &effect.address).collect();
        let wanted = rows.iter().rev().filter(|row| matches(&query, row));
        let wanted: Vec<_> = wanted.map(|row| &row.address).collect();
        assert_eq!(found, wanted, "{query:?}");
        found_any += usize::from(!found.is_empty());
    }
    assert!(found_any > 50, "the rows are too few to tell: {found_any}");
}

/// Pages are newest first, together complete, and the last one says so.
pub async fn lists_are_paged_newest_first(store: Subject) {
    let ground = store.ground();
    let mut written = Vec::new();
    for index in 0..10 {
        let effect = armed(&address("a", &format!("k{index}")), "1", &ground);
        commit(&*store, insert(&effect, &ground)).await;
        written.insert(0, effect);
    }
    // A later version does not move an effect to the front.
    written[7] = done(&written[7], "1", &ground);
    commit(&*store, update(&written[7], &ground)).await;
    for (limit, pages) in [(3, 4), (5, 2), (9, 2), (10, 1), (11, 1), (usize::MAX, 1)] {
        let (found, count) = all_pages(&*store, Query::all(Namespace::default(), limit)).await;
        assert_eq!(found, written, "limit {limit}");
        assert_eq!(count, pages, "limit {limit}");
    }
}

/// A cursor goes on where its page ended, whatever was written meanwhile.
pub async fn cursors_survive_writes_between_pages(store: Subject) {
    let ground = store.ground();
    let write = |key: &str| armed(&address("a", key), "1", &ground);
    for key in ["k1", "k2", "k3", "k4", "k5", "k6"] {
        commit(&*store, insert(&write(key), &ground)).await;
    }
    let mut query = Query::all(Namespace::default(), 2);
    let page = store.list(&query).await.expect("a page");
    assert_eq!(keys(&page.effects), ["k6", "k5"]);
    query.after = page.next;
    for key in ["k6", "k5", "k3"] {
        let remove = Write::Remove { address: address("a", key), generation: 0, version: 1 };
        commit(&*store, remove).await;
    }
    commit(&*store, insert(&write("k7"), &ground)).await;
    let page = store.list(&query).await.expect("a page");
    assert_eq!(keys(&page.effects), ["k4", "k2"]);
    query.after = page.next;
    let page = store.list(&query).await.expect("a page");
    assert_eq!((keys(&page.effects), page.next), (vec!["k1".to_owned()], None));
}

/// The longest waiting first, the older row first among equals, never before its time.
pub async fn due_is_in_order_with_a_cursor_and_the_next(store: Subject) {
    const HOUR: i64 = 3_600_000;
    let ground = store.ground();
    let now = ground.now.steady;
    let at = |ms: i64| Steady { ms: now.ms + ms, ..now };
    for (key, due) in [
        ("c", Some(at(-1_000))),
        ("later", Some(at(HOUR))),
        ("a", Some(at(-3_000))),
        ("never", None),
        ("d", Some(at(-1_000))),
        ("b", Some(at(-2_000))),
        ("latest", Some(at(2 * HOUR))),
    ] {
        let row = Row::new(&armed(&address("a", key), "1", &ground), &ground.now);
        commit(&*store, Write::Insert(Row { due, ..row })).await;
    }
    let page = store.due(None, 10).await.expect("what is due");
    assert_eq!(due_keys(&page), ["a", "b", "c", "d"]);
    assert_eq!(page.next_due.map(|due| due.ms), Some(now.ms + HOUR));
    let mut after = None;
    for (key, next) in [("a", -2_000), ("b", -1_000), ("c", -1_000), ("d", HOUR)] {
        let page = store.due(after, 1).await.expect("what is due");
        assert_eq!(due_keys(&page), [key]);
        assert_eq!(page.next_due.map(|due| due.ms), Some(now.ms + next), "after {key}");
        after = page.effects.last().map(|(cursor, _)| *cursor);
    }
    let page = store.due(after, 1).await.expect("what is due");
    assert_eq!(due_keys(&page), [""; 0]);
    assert_eq!(page.next_due.map(|due| due.ms), Some(now.ms + HOUR));
    // An update takes an effect out of the order, or gives it another place.
    for (key, due) in [("a", None), ("b", Some(at(-500))), ("later", None), ("latest", None)] {
        let effect = done(&armed(&address("a", key), "1", &ground), "1", &ground);
        let row = Row::new(&effect, &ground.now);
        commit(&*store, Write::Update(Row { due, ..row })).await;
    }
    let page = store.due(None, 10).await.expect("what is due");
    assert_eq!((due_keys(&page), page.next_due), (["c", "d", "b"].map(str::to_owned).into(), None));
}

/// What may be swept, the longest overdue first, up to the limit, never before its time.
pub async fn sweepable_is_in_order_of_its_time(store: Subject) {
    const HOUR: i64 = 3_600_000;
    let ground = store.ground();
    let at = |ms: i64| Wall(ground.now.wall.0 + ms);
    for (key, sweep_at) in [
        ("b", Some(at(-2_000))),
        ("later", Some(at(HOUR))),
        ("never", None),
        ("a", Some(at(-3_000))),
        ("c", Some(at(-2_000))),
    ] {
        let row = Row::new(&armed(&address("a", key), "1", &ground), &ground.now);
        commit(&*store, Write::Insert(Row { sweep_at, ..row })).await;
    }
    let sweepable = store.sweepable(10).await.expect("what may be swept");
    assert_eq!(keys(&sweepable), ["a", "b", "c"]);
    assert_eq!(keys(&store.sweepable(2).await.expect("two of it")), ["a", "b"]);
    let row = Row::new(&done(&armed(&address("a", "a"), "1", &ground), "1", &ground), &ground.now);
    commit(&*store, Write::Update(Row { sweep_at: None, ..row })).await;
    let sweepable = store.sweepable(10).await.expect("what may be swept");
    assert_eq!(keys(&sweepable), ["b", "c"]);
}

async fn commit(store: &dyn Store, write: Write) {
    store.commit(write.into()).await.expect("a guard that holds");
}

async fn all_pages(store: &dyn Store, mut query: Query) -> (Vec<Effect>, usize) {
    let mut found = Vec::new();
    for count in 1.. {
        let page = store.list(&query).await.expect("a page");
        found.extend(page.effects);
        if page.next.is_none() {
            return (found, count);
        }
        query.after = page.next;
    }
    unreachable!("pages end")
}

fn keys(effects: &[Effect]) -> Vec<String> {
    effects.iter().map(|effect| effect.address.key.as_str().to_owned()).collect()
}

fn due_keys(page: &crate::DuePage) -> Vec<String> {
    page.effects.iter().map(|(_, effect)| effect.address.key.as_str().to_owned()).collect()
}

fn namespaces() -> [Namespace; 2] {
    [Namespace::default(), Namespace::default().draft()]
}

/// Every state with and without an alarm, under few names. What is pending is also due.
fn rows_of_all_kinds(ground: &Ground) -> Vec<Row> {
    let mut rows = Vec::new();
    for (index, state) in State::ALL.into_iter().cycle().take(56).enumerate() {
        let name = Address {
            namespace: namespaces()[index % 2].clone(),
            ..address(["a", "b"][index / 2 % 2], ["k1", "k2"][index / 4 % 2])
        };
        let mut effect = armed(&name, "1", ground);
        effect.generation = u32::try_from(index).expect("few rows");
        let row = Row::new(&effect, &ground.now);
        rows.push(Row { state, alarmed: index % 3 == 0, held: index % 5 == 0, ..row });
    }
    rows
}

fn all_queries() -> Vec<Query> {
    let namespaces = namespaces().map(Some).into_iter().chain([None]);
    let names = |texts: [&'static str; 2]| texts.map(Some).into_iter().chain([None]);
    let states = State::ALL.map(Some).into_iter().chain([None]);
    let marks = [0, 1, 2, 3, 4, 5, 6, 7].map(|bits| [1, 2, 4].map(|bit| bits & bit != 0));
    let mut queries = Vec::new();
    for namespace in namespaces {
        let named = names(["a", "b"]).flat_map(|a| names(["k1", "k2"]).map(move |k| (a, k)));
        for (action, key) in named {
            let kinds = states.clone().flat_map(|state| marks.map(|marks| (state, marks)));
            for (state, [unsettled, alarmed, held]) in kinds {
                queries.push(Query {
                    namespace: namespace.clone(),
                    action: action.map(|name| Action::new(name).expect("a valid action")),
                    key: key.map(|name| Key::from_text(name).expect("a valid key")),
                    state,
                    unsettled,
                    alarmed,
                    held,
                    ..Query::everywhere(100)
                });
            }
        }
    }
    queries
}

fn matches(query: &Query, row: &Row) -> bool {
    query.namespace.as_ref().is_none_or(|namespace| *namespace == row.address.namespace)
        && query.action.as_ref().is_none_or(|action| *action == row.address.action)
        && query.key.as_ref().is_none_or(|key| *key == row.address.key)
        && query.state.is_none_or(|state| state == row.state)
        && (!query.unsettled || matches!(row.state, State::Pending | State::InDoubt))
        && (!query.alarmed || row.alarmed)
        && (!query.held || row.held)
}
