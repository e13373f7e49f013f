//! Runs in a file: the migration that brings them, boots, and damage that an audit finds.

mod support;

use semel_core::journal::blob_digest;
use semel_core::run::Run;
use semel_store::Access;
use semel_store::conformance::{appends, delivery, finished, new_run, parked, taken};
use semel_store::sqlite::{FORMAT, Sqlite};
use semel_store::{
    Batch, Belonging, Clock, CommitError, ManualClock, RunQuery, Runs, Store, StoreError, Upkeep,
    Write,
};
use support::{Folder, WALL_MS, block_on, has, old_store};

/// Runs SQL as any other program may, past every guard of ours.
fn sql(folder: &Folder, text: &str) -> rusqlite::Result<()> {
    rusqlite::Connection::open(folder.store())?.execute_batch(text)
}

fn format(folder: &Folder) -> i64 {
    let connection = rusqlite::Connection::open(folder.store()).expect("a database");
    connection.pragma_query_value(None, "user_version", |row| row.get(0)).expect("a number")
}

fn write(store: &Sqlite, writes: Vec<Write>) -> Result<(), CommitError> {
    block_on(store.commit(Batch { writes: writes.into() }))
}

/// A run in a worker's hands, with so many entries.
fn running(store: &Sqlite, key: &str, number: i64, entries: usize) -> Run {
    let now = store.ground();
    let run = new_run(key, number, &now);
    let held = taken(&run, &now);
    let texts: Vec<_> = (0..entries).map(|count| format!("entry {count}")).collect();
    let texts: Vec<_> = texts.iter().map(String::as_str).collect();
    let mut writes = vec![Write::run(&run, &now.now), Write::run(&held, &now.now)];
    writes.extend(appends(&run, &texts).into_iter().map(Write::Append));
    assert_eq!(write(store, writes), Ok(()));
    held
}

#[test]
fn a_store_of_the_first_format_is_migrated_when_it_is_opened() {
    let folder = old_store(1);
    let store = folder.open();
    assert!(block_on(has(&store, "k")));
    running(&store, "r", 1, 3);
    assert_eq!(block_on(store.journal(1, 0, 10)).expect("a journal").len(), 3);
    folder.close_and_fold(store);
    assert_eq!((format(&folder), FORMAT), (5, 5));
    let store = folder.open();
    assert!(block_on(has(&store, "k")));
    assert_eq!(block_on(store.list_runs(&RunQuery::everywhere(9))).expect("runs").runs.len(), 1);
}

#[test]
fn a_store_of_the_first_format_can_be_looked_at_and_stays_as_it_is() {
    let folder = old_store(1);
    let reader = folder.open_to_read();
    assert!(block_on(has(&reader, "k")));
    assert_eq!(block_on(reader.run("default", "r")), Ok(None));
    assert_eq!(block_on(reader.list_runs(&RunQuery::everywhere(9))).expect("runs").runs, []);
    assert_eq!(block_on(reader.due_runs("default/w", 9)).expect("runs").runs, []);
    assert_eq!(block_on(reader.audit_runs(0, 9)).expect("an audit").problems, [""; 0]);
    let refused = write(&reader, vec![]);
    assert!(matches!(refused, Err(CommitError::Failed(StoreError::Unavailable(_)))), "{refused:?}");
    folder.close(reader);
    assert_eq!(format(&folder), 1);
    // Once somebody migrates it, whoever looks sees the runs.
    let reader = folder.open_to_read();
    let store = folder.open();
    running(&store, "r", 1, 1);
    assert_eq!(block_on(reader.list_runs(&RunQuery::everywhere(9))).expect("runs").runs.len(), 1);
}

#[test]
fn after_a_reboot_every_run_with_a_time_is_due() {
    let folder = Folder::new();
    let clock = ManualClock::new(WALL_MS);
    let store = folder.open_on(Clock::Manual(clock.clone()));
    let held = running(&store, "held", 1, 1);
    let asleep = running(&store, "asleep", 2, 1);
    let asleep = parked(&asleep, None, &store.ground());
    write(&store, vec![Write::run(&asleep, &store.ground().now)]).expect("a park");
    let due = |store: &Sqlite| {
        let due = block_on(store.due_runs("default/w", 9)).expect("due runs").runs;
        due.into_iter().map(|run| run.key).collect::<Vec<_>>()
    };
    assert_eq!(due(&store), [""; 0]);
    folder.close(store);
    clock.reboot("boot-2");
    let store = folder.open_on(Clock::Manual(clock.clone()));
    assert_eq!(due(&store), ["held"], "what waits for a signal alone still does");
    // A row that is written anew while its old lease stands does not wait on a clock that is gone.
    let cancelled = semel_core::run::cancel(&held, "ann", "no", &store.ground().now);
    let cancelled = cancelled.expect("an open run").expect("a first wish");
    write(&store, vec![Write::run(&cancelled, &store.ground().now)]).expect("a cancel");
    let due = block_on(store.due_runs(&cancelled.lane(), 9)).expect("due runs");
    assert_eq!((due.runs, due.next), (vec![cancelled], None));
}

#[test]
fn the_database_itself_refuses_a_run_that_waits_for_nothing() {
    let folder = Folder::new();
    let store = folder.open();
    running(&store, "k", 1, 1);
    let error = sql(&folder, "UPDATE runs SET wake_at = NULL").expect_err("a stuck run");
    assert!(error.to_string().starts_with("CHECK constraint failed"), "{error}");
    let copy = "INSERT INTO journal SELECT run, seq, link, entry FROM journal";
    let error = sql(&folder, copy).expect_err("a second entry").to_string();
    assert!(error.starts_with("UNIQUE constraint failed: journal.run, journal.seq"), "{error}");
    let copy = "INSERT INTO runs SELECT 2, namespace, id, version, workflow, key, lane, state, \
         parked, fence, created_at, wake_at, waits_on, sweep_at, sum, record, queue, seal \
         FROM runs";
    let error = sql(&folder, copy).expect_err("a second run").to_string();
    assert!(error.starts_with("UNIQUE constraint failed: runs.namespace, runs.id"), "{error}");
}

#[test]
fn statements_of_users_cannot_touch_runs() {
    let folder = Folder::new();
    let store = folder.open();
    running(&store, "k", 1, 2);
    for table in ["runs", "journal", "inbox", "blobs", "blob_uses", "cards"] {
        let text = format!("DELETE FROM {table}");
        let work: semel_store::sqlite::Work = Box::new(move |_, _, connection| {
            let failed = connection.execute_batch(&text).expect_err("it is refused");
            Err(semel_store::sqlite::TransactionError::Failed(failed.to_string()))
        });
        let answer = block_on(store.transaction(support::address("t"), work));
        let error = answer.expect_err("it failed").to_string();
        assert!(error.contains("not authorized"), "{table}: {error}");
    }
    assert_eq!(block_on(store.journal(1, 0, 9)).expect("a journal").len(), 2);
}

fn audit(store: &Sqlite) -> Vec<String> {
    let mut problems = Vec::new();
    let mut after = i64::MIN;
    loop {
        let page = block_on(store.audit_runs(after, 2)).expect("an audit");
        problems.extend(page.problems);
        let Some(next) = page.next else { break };
        after = next;
    }
    let strays = block_on(store.audit_strays(Belonging::Journal, i64::MIN, 100)).expect("an audit");
    problems.extend(strays.problems);
    problems
}

/// A store with a run of every kind, a journal of several pages, and a large value.
fn audited() -> (Folder, Sqlite) {
    let folder = Folder::new();
    let store = folder.open();
    let now = store.ground();
    let run = running(&store, "long", 1, 600);
    write(&store, vec![Write::Deliver(delivery(&run, "d", "1"))]).expect("a delivery");
    let blob = |text: &str| Write::Blob {
        namespace: "default".into(),
        digest: blob_digest(text),
        text: text.into(),
        run: 1,
    };
    let texts: Vec<_> = (0..20).map(|count| format!("large {count}")).collect();
    write(&store, texts.iter().map(|text| blob(text)).collect()).expect("blobs");
    let asleep = parked(&running(&store, "asleep", 2, 1), None, &now);
    let touch =
        Write::Touch { namespace: "default".into(), id: asleep.id.clone(), at: now.now.steady };
    write(&store, vec![Write::run(&asleep, &now.now), touch]).expect("a park");
    let end = finished(&running(&store, "end", 3, 2), &now);
    write(&store, vec![Write::run(&end, &now.now)]).expect("an end");
    running(&store, "empty", 4, 0);
    (folder, store)
}

#[test]
fn an_audit_finds_nothing_in_a_store_that_is_whole() {
    let (_folder, store) = audited();
    assert_eq!(audit(&store), [""; 0]);
}

#[test]
fn an_audit_finds_what_was_changed() {
    let cases = [
        ("UPDATE runs SET lane = 'x' WHERE number = 3", "run 3", "lane differs"),
        ("UPDATE runs SET key = 'x' WHERE number = 3", "run 3", "key differs"),
        ("UPDATE runs SET parked = 1 WHERE number = 1", "run 1", "park mark differs"),
        ("UPDATE runs SET fence = 9 WHERE number = 1", "run 1", "columns differ"),
        ("UPDATE runs SET state = 'failed' WHERE number = 3", "run 3", "state differs"),
        ("UPDATE runs SET wake_at = 5 WHERE number = 3", "run 3", "time to wake differs"),
        ("UPDATE runs SET waits_on = 'x' WHERE number = 1", "run 1", "wait differs"),
        ("UPDATE runs SET sweep_at = 5 WHERE number = 3", "run 3", "retention differs"),
        ("UPDATE runs SET record = replace(record, 'end', 'eve') WHERE number = 3", "run 3", "sum"),
        ("UPDATE journal SET entry = 'x' WHERE run = 1 AND seq = 3", "run 1", "entry 3 does not"),
        ("UPDATE journal SET entry = 'x' WHERE run = 1 AND seq = 300", "run 1", "entry 256 on"),
        ("DELETE FROM journal WHERE run = 1 AND seq = 256", "run 1", "is missing"),
        ("DELETE FROM journal WHERE run = 3 AND seq = 0", "run 3", "entry 0 is missing"),
        ("UPDATE journal SET link = x'00' WHERE run = 3 AND seq = 0", "run 3", ""),
        ("DELETE FROM runs WHERE number = 3", "run 3", "a journal, but no row"),
        ("UPDATE blobs SET text = 'x' WHERE text = 'large 17'", "run 1", "was changed"),
        ("DELETE FROM blobs WHERE text = 'large 17'", "run 1", "is missing"),
    ];
    let (folder, store) = audited();
    folder.close_and_fold(store);
    for (change, run, what) in cases {
        let copy = Folder::new();
        std::fs::copy(folder.store(), copy.store()).expect("a copy");
        sql(&copy, change).expect("SQL");
        let store = copy.try_open(Access::ReadOnly, Clock::Real).expect("the store opens");
        let problems = audit(&store);
        assert_eq!(problems.len(), 1, "{change}: {problems:?}");
        assert!(problems[0].starts_with(run) && problems[0].contains(what), "{problems:?}");
    }
}
