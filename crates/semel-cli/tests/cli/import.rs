//! `semel effects import`: taking over a home-made dedupe table.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::common::{Ended, World};

const TABLE: &str = "\
workflow,key,status,created_at
triage,a,done,2026-01-02T03:04:05Z
triage,b,pending,2026-01-02 03:04:05
triage,c,DONE,1767323045
triage,d,done,1767323045000
";

fn file(world: &World, name: &str, text: &str) -> PathBuf {
    let path = world.dir.path().join(name);
    fs::write(&path, text).expect("a file");
    path
}

fn import(world: &World, path: &std::path::Path, args: &[&str]) -> Ended {
    let path = path.to_str().expect("a path");
    world.semel(&[&["effects", "import", path, "--json"], args].concat())
}

fn show(world: &World, name: &str) -> Value {
    world.semel(&["effects", "show", name, "--json"]).expect(0).json()
}

fn counts(done: u32, in_doubt: u32, present: u32) -> Value {
    json!({ "dry_run": false, "done": done, "in_doubt": in_doubt, "already_present": present })
}

#[test]
fn done_becomes_done_and_pending_becomes_a_doubt() {
    let world = World::new();
    let path = file(&world, "old.csv", TABLE);
    assert_eq!(import(&world, &path, &[]).expect(0).json(), counts(3, 1, 0));
    for key in ["a", "c", "d"] {
        let effect = show(&world, &format!("triage/{key}"));
        assert_eq!((&effect["state"], &effect["workflow"]), (&json!("done"), &json!("triage")));
        assert_eq!(effect["created_at"], "2026-01-02T03:04:05Z", "{key}: every way to say it");
        assert_eq!(effect["receipt"]["imported"], true);
        assert_eq!(effect["decisions"][0]["actor"], "ada");
    }
    let doubt = show(&world, "triage/b");
    assert_eq!(
        (&doubt["state"], &doubt["created_at"]),
        (&json!("in_doubt"), &json!("2026-01-02T03:04:05Z"))
    );
    world.semel(&["verify"]).expect(0);
}

#[test]
fn a_repeat_changes_nothing() {
    let world = World::new();
    let path = file(&world, "old.csv", TABLE);
    import(&world, &path, &[]).expect(0);
    let before: Vec<_> = ["a", "b"].map(|key| show(&world, &format!("triage/{key}"))).into();
    assert_eq!(import(&world, &path, &[]).expect(0).json(), counts(0, 0, 4));
    let after: Vec<_> = ["a", "b"].map(|key| show(&world, &format!("triage/{key}"))).into();
    assert_eq!(before, after);
    // What has moved on since is not put back, either.
    let changed = TABLE.replace("b,pending", "b,done");
    let path = file(&world, "newer.csv", &(changed + "triage,e,done,1\n"));
    assert_eq!(import(&world, &path, &[]).expect(0).json(), counts(1, 0, 4));
    assert_eq!(show(&world, "triage/b")["state"], "in_doubt");
}

/// What was done is not done again; what may have been done is not done again in silence.
#[test]
fn imported_keys_answer_callers() {
    let world = World::new();
    let text =
        "workflow,key,status,created_at\nold,yes,done,1767323045\nold,hm,pending,1767323045\n";
    let path = file(&world, "old.csv", text);
    import(&world, &path, &["--action", "crm-ticket"]).expect(0);
    let replayed = world.put("yes", Ok(json!("must not be called"))).expect("a replay");
    assert_eq!(replayed["imported"], true);
    // The worker wants a ticket, which the old table never had.
    for (key, code, error) in [("hm", 5, "in_doubt"), ("yes", 4, "receipt_mismatch")] {
        let mut worker = world.worker("at_most_once", &[key]);
        assert_eq!(worker.end(), Some(code));
        assert_eq!(worker.lines()[0].error.as_deref(), Some(error));
    }
    assert_eq!(world.crm.events().len(), 0, "nobody was called");
    world.decide("resolve", "hm", &["--failed"]).expect(0);
}

#[test]
fn a_dry_run_says_what_would_be_and_touches_nothing() {
    let world = World::new();
    let path = file(&world, "old.csv", TABLE);
    let said = import(&world, &path, &["--dry-run"]).expect(0).json();
    assert_eq!(said, json!({ "dry_run": true, "done": 3, "in_doubt": 1, "already_present": 0 }));
    assert!(!world.store().exists(), "not even a store");
    let path = path.to_str().expect("a path");
    let text = world.semel(&["effects", "import", path, "--dry-run"]).expect(0);
    assert_eq!(text.stdout, "3 would be imported as done, 1 as in doubt\n");
}

#[test]
fn one_wrong_line_imports_nothing() {
    let world = World::new();
    let wrong = [
        ("triage,x,lost,1767323045", "neither done nor pending"),
        ("triage,,done,1767323045", "key"),
        ("triage,x,done,yesterday", "not a time"),
        ("triage,x,done,9223372036854775807", "no time of this calendar"),
        ("triage,x,done,-9223372036854775808", "no time of this calendar"),
        ("tri/age,x,done,1767323045", "action has a `/`"),
    ];
    for (line, why) in wrong {
        let path = file(&world, "old.csv", &format!("{TABLE}{line}\n"));
        let ended = import(&world, &path, &[]).expect(1);
        assert!(ended.stderr.contains("line 6") && ended.stderr.contains(why), "{ended:?}");
        assert!(ended.stderr.contains("nothing was imported"), "{ended:?}");
        assert!(!world.store().exists(), "{line}");
    }
}

#[test]
fn a_file_that_is_no_such_table_is_refused() {
    let world = World::new();
    let missing = world.dir.path().join("missing.csv");
    import(&world, &missing, &[]).expect(1);
    let path = file(&world, "other.csv", "workflow,key,status\ntriage,a,done\n");
    let ended = import(&world, &path, &[]).expect(1);
    assert!(ended.stderr.contains("no column `created_at`"), "{ended:?}");
    let path = file(&world, "ragged.csv", "workflow,key,status,created_at\ntriage,a\n");
    import(&world, &path, &[]).expect(1);
    assert!(!world.store().exists());
}

#[test]
fn a_sqlite_table_is_read_by_name() {
    let world = World::new();
    let path = world.dir.path().join("old.sqlite");
    let old = rusqlite::Connection::open(&path).expect("a database");
    old.execute_batch(
        "CREATE TABLE dedupe (workflow TEXT, key, status TEXT, created_at);
         INSERT INTO dedupe VALUES ('mail', 7, 'done', 1767323045);
         INSERT INTO dedupe VALUES ('mail', 'x:y', 'pending', '2026-01-02 03:04:05');
         CREATE TABLE others AS SELECT 'sms' AS workflow, key, status, created_at FROM dedupe;",
    )
    .expect("a table");
    drop(old);
    assert_eq!(import(&world, &path, &[]).expect(0).json(), counts(1, 1, 0));
    assert_eq!(show(&world, "mail/7")["state"], "done");
    assert_eq!(import(&world, &path, &["--table", "others"]).expect(0).json(), counts(1, 1, 0));
    let listed = world.semel(&["effects", "ls", "--action", "sms", "--json"]).expect(0).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(2), "{listed}");
    import(&world, &path, &["--table", "missing"]).expect(1);
    import(&world, &path, &["--table", "dedupe\"; DROP TABLE dedupe; --"]).expect(1);
    let damaged = file(&world, "damaged.sqlite", "SQLite format 3\0 and then nothing of the sort");
    import(&world, &damaged, &[]).expect(1);
}

#[test]
fn a_key_of_the_old_table_is_the_key_that_callers_use() {
    let world = World::new();
    let text = "workflow,key,status,created_at\nold,order:7/eu,done,1767323045\n";
    let path = file(&world, "old.csv", text);
    import(&world, &path, &["--action", "crm-ticket"]).expect(0);
    let replayed = world.put("order:7/eu", Ok(json!("must not be called"))).expect("a replay");
    assert_eq!(replayed["imported"], true);
}
