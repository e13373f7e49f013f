//! One tenant's rows are in nobody else's way: what no engine writes is refused, and what cannot be
//! read or taken up is set aside.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join_all;
use rusqlite::Connection;
use semel_core::access::Role;
use semel_core::code::Code;
use semel_core::effect::Ground;
use semel_core::journal::{At, Entry, Event, Link, Value};
use semel_core::json::Json;
use semel_core::key::{Action, Key, Namespace};
use semel_core::run::{self, Run, State};
use semel_core::schedule::{self, CatchUp, Change, Content};
use semel_core::time::{Moment, Wall};
use semel_core::{journal, limits};
use semel_engine::Engine;
use semel_lab::Database;
use semel_store::conformance::{address, armed};
use semel_store::{
    Access, Append, Batch, Card, Clock, CommitError, Opened, Row, RunQuery, RunRow, Store, Write,
};
use tempfile::TempDir;

use crate::served::Served;

/// Where a store is kept.
pub(crate) enum Home {
    File(TempDir),
    Server(Database),
}

impl Home {
    pub(crate) fn both() -> [Home; 2] {
        let folder = tempfile::tempdir().expect("a folder");
        [Home::File(folder), Home::Server(semel_lab::database())]
    }

    pub(crate) fn url(&self) -> String {
        match self {
            Home::File(folder) => format!("sqlite:{}/semel.db", folder.path().display()),
            Home::Server(database) => format!("{}&migrate=true", database.url()),
        }
    }

    pub(crate) async fn open(&self) -> Opened {
        Opened::open(&self.url(), Access::ReadWrite, Clock::Real).await.expect("a store")
    }

    /// Changes rows below the boundary, while nobody has the store open.
    pub(crate) fn sql(&self, text: &str) {
        match self {
            Home::File(folder) => {
                let file = Connection::open(folder.path().join("semel.db")).expect("a file");
                file.execute_batch(text).expect("SQL");
            }
            Home::Server(database) => drop(database.psql(text)),
        }
    }
}

pub(crate) fn new_run(namespace: &str, key: &str, number: i64, now: &Moment) -> Run {
    let start = run::Start {
        namespace: Namespace::new(namespace).expect("a namespace"),
        workflow: Action::new("triage").expect("a workflow"),
        key: Key::from_text(key).expect("a key"),
        input: Json::null(),
        number,
        window_ms: 1_000,
        deadline_ms: None,
        release: None,
        strict: false,
        passes: Vec::new(),
        parent: None,
    };
    run::start(&start, now)
}

/// A run that is to be cancelled from its first version on.
fn cancelled(run: &Run, now: &Moment) -> Run {
    let cancelled = run::cancel(run, "eve", "why not", now).expect("it is open");
    Run { version: run.version, ..cancelled.expect("it was not asked before") }
}

pub(crate) fn first_entry(run: &Run, now: &Moment, event: Option<Event>) -> Write {
    let started =
        Event::Started { workflow: run.workflow.clone(), input: Value::Json(Json::null()) };
    let event = event.unwrap_or(started);
    let entry = Entry { format: journal::FORMAT, at: At::from(now), event };
    append(run, journal::encode(&entry))
}

fn append(run: &Run, text: String) -> Write {
    let after = Link::of_run(&run.namespace, &run.id);
    Write::Append(Append { run: run.number, seq: 0, after, link: after.then(&text), text })
}

pub(crate) fn start(run: &Run, now: &Moment) -> Write {
    Write::StartRun(RunRow::new(run, now))
}

pub(crate) async fn commit(store: &dyn Store, writes: Vec<Write>) -> Result<(), CommitError> {
    store.commit(Batch { writes: writes.into() }).await
}

fn code(answer: Result<(), CommitError>) -> Code {
    match answer {
        Err(CommitError::Failed(error)) => error.code(),
        other => panic!("it is not refused: {other:?}"),
    }
}

/// Writes runs of a namespace that are to be cancelled and have no journal.
async fn plant(store: &dyn Store, namespace: &str, count: i64) {
    let now = store.ground().now;
    let runs: Vec<Write> = (1..=count)
        .map(|number| {
            start(&cancelled(&new_run(namespace, &number.to_string(), number, &now), &now), &now)
        })
        .collect();
    for some in runs.chunks(100) {
        commit(store, some.to_vec()).await.expect("they are planted");
    }
}

/// A run of a namespace as an engine writes it, that somebody has asked to cancel since.
async fn to_be_cancelled(store: &dyn Store, namespace: &str) -> Run {
    let now = store.ground().now;
    let run = new_run(namespace, "honest", 1 << 40, &now);
    commit(store, vec![start(&run, &now), first_entry(&run, &now, None)]).await.expect("a start");
    let asked = run::cancel(&run, "ann", "no", &now).expect("open").expect("not yet asked");
    store.commit(Write::run(&asked, &now).into()).await.expect("a wish");
    asked
}

async fn state_of(store: &dyn Store, run: &Run) -> State {
    store.run(&run.namespace, &run.id).await.expect("read").expect("a run").state()
}

/// One look for due runs, until everything that it took up is over.
async fn turn(engine: &Engine) {
    engine.dispatch_once().await.expect("a look");
    while engine.runs_held() > 0 {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// What was written to the log by this thread.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl io::Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Lines {
    fn count(&self) -> usize {
        self.0.lock().expect("no panic").iter().filter(|byte| **byte == b'\n').count()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sec_6_a_worker_starts_no_run_that_no_engine_starts() {
    for home in Home::both() {
        let served = Served::quiet(&home.url()).await;
        let worker = served.remote(&served.token("acme", Role::Worker).await).await;
        let now = worker.ground().now;
        let bad = |number: i64| {
            let run = new_run("acme", &number.to_string(), number, &now);
            commit(&worker, vec![start(&cancelled(&run, &now), &now)])
        };
        for refused in join_all((1..=1_000).map(bad)).await {
            assert_eq!(code(refused), Code::RequestInvalid);
        }
        let run = new_run("acme", "k", 7, &now);
        let other = new_run("acme", "other", 7, &now);
        let renamed = Run { id: other.id.clone(), ..run.clone() };
        let taken = Event::Taken { fence: 1, worker: "w".into(), release: "r".into(), hears: true };
        let what = "effect nothing".to_owned();
        let planned = Event::Planned { id: "e#0".into(), what, undo: false };
        let asked = cancelled(&run, &now);
        for batch in [
            vec![start(&run, &now)],
            vec![start(&asked, &now), first_entry(&asked, &now, None)],
            vec![start(&run, &now), first_entry(&run, &now, Some(taken))],
            vec![start(&run, &now), append(&run, "garbage".into())],
            vec![start(&run, &now), first_entry(&other, &now, None)],
            vec![start(&renamed, &now), first_entry(&renamed, &now, None)],
            vec![start(&Run { version: 2, ..run.clone() }, &now), first_entry(&run, &now, None)],
        ] {
            assert_eq!(
                code(commit(&worker, batch.clone()).await),
                Code::RequestInvalid,
                "{batch:?}"
            );
        }
        let all = served.store.list_runs(&RunQuery::everywhere(9)).await.expect("a list");
        assert_eq!(all.runs, []);
        commit(&worker, vec![start(&run, &now), first_entry(&run, &now, None)])
            .await
            .expect("an honest start");
        assert_eq!(
            code(commit(&worker, vec![first_entry(&run, &now, Some(planned))]).await),
            Code::RequestInvalid
        );
    }
}

#[tokio::test]
async fn sec_6_a_thousand_runs_without_a_journal_cost_another_tenant_no_turn() {
    for home in Home::both() {
        let lines = Lines::default();
        let written = lines.clone();
        let log = tracing_subscriber::fmt().with_writer(move || written.clone()).finish();
        let opened = home.open().await;
        let store = opened.store();
        plant(&*store, "acme", 1_000).await;
        let honest = to_be_cancelled(&*store, "bolt").await;
        let engine = Engine::on(&opened, "server").expect("an engine");
        let listening = tracing::subscriber::set_default(log);
        turn(&engine).await;
        assert_eq!(state_of(&*store, &honest).await, State::Cancelled);
        // What cannot be taken up is set aside, one share after the other, and says why.
        for _ in 0..20 {
            turn(&engine).await;
        }
        let told = lines.count();
        drop(listening);
        let acme = RunQuery { namespace: Some("acme".into()), ..RunQuery::everywhere(1_000) };
        let runs = store.list_runs(&acme).await.expect("a list").runs;
        assert!(runs.iter().all(|run| run.set_aside.is_some()), "{:?}", runs.first());
        let why = runs[0].waits_on().expect("it says what it waits for");
        assert!(why.starts_with("another try: ") && why.contains("it is empty"), "{why}");
        assert!((1..=10).contains(&told), "{told} lines");
    }
}

#[tokio::test]
async fn sec_6_rows_that_cannot_be_read_are_passed_over_by_everybody_who_looks_for_work() {
    for home in Home::both() {
        let opened = home.open().await;
        let store = opened.store();
        plant(&*store, "acme", 300).await;
        plant_effects(&*store).await;
        plant_cards(&*store).await;
        let honest = to_be_cancelled(&*store, "bolt").await;
        let ended = ended_run(&*store).await;
        drop((store, opened));
        home.sql("UPDATE runs SET sum = sum + 1 WHERE namespace = 'acme'");
        home.sql("UPDATE effects SET sum = sum + 1 WHERE action = 'damaged'");
        home.sql("UPDATE cards SET sum = sum + 1 WHERE namespace = 'acme' AND name > 'd2'");
        let opened = home.open().await;
        let store = opened.store();
        let engine = Engine::on(&opened, "server").expect("an engine");
        turn(&engine).await;
        assert_eq!(state_of(&*store, &honest).await, State::Cancelled);
        let mut due = Vec::new();
        let mut place = None;
        loop {
            let page = store.due(place, 100).await.expect("a page");
            due.extend(page.effects.into_iter().map(|(_, effect)| effect));
            place = page.seen_to;
            if place.is_none() {
                break;
            }
        }
        assert_eq!(due.len(), 1, "{due:?}");
        let sweepable = store.sweepable(100).await.expect("a page");
        assert_eq!(sweepable.len(), 1, "{sweepable:?}");
        let runs = store.sweepable_runs(100).await.expect("a page");
        assert_eq!(runs.iter().map(|run| &run.id).collect::<Vec<_>>(), [&ended.id]);
        // Schedules: those that make no sense are put behind the one that does.
        engine.turn_schedules().await.expect("a turn");
        let fired = store.card("bolt", schedule::CARD, "s").await.expect("read").expect("a card");
        assert!(fired.version > 1, "it got on");
        assert_eq!(store.due_cards(schedule::CARD, 9).await.expect("cards"), []);
        engine.turn().await.expect("a whole turn of the job");
    }
}

/// Effects that are due and effects past their retention: many, to be damaged, and one of each.
async fn plant_effects(store: &dyn Store) {
    let ground = store.ground();
    let row = |action: &str, key: String, ground: &Ground| {
        Row::new(&armed(&address(action, &key), "1", ground), &ground.now)
    };
    let mut writes = Vec::new();
    for number in 0..300 {
        let due =
            Row { due: Some(ground.now.steady), ..row("damaged", format!("d{number}"), &ground) };
        let old = row("damaged", format!("o{number}"), &ground);
        let old = Row { due: None, sweep_at: Some(Wall(1)), ..old };
        writes.extend([Write::Insert(due), Write::Insert(old)]);
    }
    let due = Row { due: Some(ground.now.steady), ..row("whole", "due".into(), &ground) };
    let old = Row { due: None, sweep_at: Some(Wall(2)), ..row("whole", "old".into(), &ground) };
    writes.extend([Write::Insert(due), Write::Insert(old)]);
    commit(store, writes).await.expect("they are planted");
}

/// Schedules that cannot be read, in either way, and one that can.
async fn plant_cards(store: &dyn Store) {
    let card = |namespace: &str, name: String, due: i64, record: String| {
        let (namespace, kind) = (namespace.to_owned(), schedule::CARD.to_owned());
        Write::Card(Card { namespace, kind, name, version: 1, due: Some(Wall(due)), record })
    };
    let mut writes: Vec<Write> = (0..limits::SWEEP_ROWS_MAX + 50)
        .map(|number| card("acme", format!("d{number}"), 1, "garbage".into()))
        .collect();
    let content = Content {
        workflow: "w".into(),
        input: Json::null(),
        cron: "* * * * *".into(),
        zone: "UTC".into(),
        catch_up: CatchUp::Skip,
        window_ms: 1,
    };
    let mut long_ago = store.ground().now;
    long_ago.wall = Wall(long_ago.wall.0 - 3_600_000);
    let Change::To(put) = schedule::put(None, &content, &long_ago) else { panic!("it is new") };
    writes.push(card("bolt", "s".into(), 2, schedule::encode(&put)));
    commit(store, writes).await.expect("they are planted");
}

/// A run whose retention is over.
async fn ended_run(store: &dyn Store) -> Run {
    let now = store.ground().now;
    let run = new_run("bolt", "ended", 2 << 40, &now);
    let ended = run::Ended { how: run::How::Done, at: Wall(1) };
    let run = Run { ended: Some(ended), ..run };
    commit(store, vec![start(&run, &now), first_entry(&run, &now, None)]).await.expect("a start");
    run
}
