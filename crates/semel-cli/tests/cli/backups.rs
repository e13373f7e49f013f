//! `semel backup`: taken from a store that is in use, checked, and put back in quarantine.

use std::fs;
use std::path::Path;

use semel::Code;
use serde_json::{Value, json};

use crate::common::{World, run, semel};
use crate::{receipt, semel_in};

#[test]
fn inv_i27_a_restored_backup_sends_nothing_twice_without_evidence() {
    let world = World::new();
    world.put_done("before");
    let file = world.dir.path().join("one.semel");
    let file = file.to_str().expect("a path");
    let taken = world.semel(&["backup", file, "--json"]).expect(0).json();
    assert_eq!((&taken["kind"], &taken["rows"]["effects"]), (&json!("sqlite"), &json!(1)));
    assert_eq!(taken["parts"][0]["sha256"].as_str().map(str::len), Some(64));
    let again = world.semel(&["backup", file]).expect(4);
    assert!(again.stderr.contains("store_not_empty"), "{again:?}");
    // Sent after the backup: the ledger that comes back has never heard of it.
    world.put_done("after");

    let verified = world.semel(&["backup", "verify", file, "--json"]).expect(0).json();
    assert_eq!(verified, taken);
    let over = world.semel(&["backup", "restore", file]).expect(4);
    assert!(over.stderr.contains("store_not_empty"), "{over:?}");
    let other = World::new();
    let restored = other.semel(&["backup", "restore", file]).expect(0);
    assert!(restored.stderr.contains("quarantine is open"), "{restored:?}");
    let shown = other.semel(&["quarantine", "show", "--json"]).expect(5).json();
    assert!(shown["returns"][0]["evidence"].as_str().is_some_and(|text| text.contains("backup")));
    assert_eq!(other.put("before", Ok(Value::Null)), Ok(receipt("before")), "the first receipt");
    let error = other.put("after", Ok(receipt("after"))).expect_err("it may have been sent");
    assert_eq!(error.code(), Code::InDoubt);
    other.semel(&["verify"]).expect(0);
}

#[test]
fn a_backup_that_is_cut_or_none_is_refused() {
    let world = World::new();
    world.put_done("ok");
    let file = world.dir.path().join("one.semel");
    let name = file.to_str().expect("a path");
    world.semel(&["backup", name]).expect(0);
    let whole = fs::read(&file).expect("its bytes");
    for (bytes, what) in [(&whole[..whole.len() / 2], "cut"), (b"SQLite format 3\0", "no backup")] {
        fs::write(&file, bytes).expect("written");
        let other = World::new();
        for verb in ["verify", "restore"] {
            let refused = other.semel(&["backup", verb, name]).expect(1);
            assert!(refused.stderr.contains("backup_invalid"), "{refused:?}");
            assert!(refused.stderr.contains(what), "{refused:?}");
        }
        assert!(!other.store().exists(), "nothing was restored");
    }
    let missing = world.semel(&["backup", "verify", "/none"]).expect(3);
    assert!(missing.stderr.contains("store_missing"), "{missing:?}");
}

#[test]
fn a_backup_of_postgres_is_put_back_on_postgres() {
    let dir = tempfile::tempdir().expect("a folder");
    let databases = [semel_lab::database(), semel_lab::database()];
    let urls = databases.each_ref().map(|database| database.url());
    let on = |place: usize, words: &[&str]| {
        semel_in(dir.path(), &[&["--store", &urls[place]], words].concat())
    };
    on(0, &["migrate"]).expect(0);
    on(0, &["runs", "start", "order", "--key", "42", "--input", "{}"]).expect(0);
    let taken = on(0, &["backup", "pg.semel", "--json"]).expect(0).json();
    assert_eq!((&taken["kind"], &taken["rows"]["runs"]), (&json!("postgres"), &json!(1)));
    let taken_place = on(0, &["backup", "restore", "pg.semel"]).expect(4);
    assert!(!taken_place.stderr.contains("password"), "{taken_place:?}");
    on(1, &["backup", "restore", "pg.semel"]).expect(0);
    on(1, &["runs", "show", "order/42"]).expect(0);
    on(1, &["quarantine", "show"]).expect(5);
    on(1, &["verify"]).expect(0);
    let file = dir.path().join("file.db");
    let other = format!("sqlite:{}", file.display());
    let words = ["--store", &other, "backup", "restore", "pg.semel"];
    let refused = semel_in(dir.path(), &words).expect(1);
    assert!(refused.stderr.contains("backup of Postgres"), "{refused:?}");
    assert!(!file.exists());
}

fn keys(file: &Path, words: &[&str]) -> crate::common::Ended {
    let file = file.to_str().expect("a path");
    let (verb, rest) = words.split_first().expect("a verb");
    run(semel().args(["keys", verb, file]).args(rest))
}

#[test]
fn sec_33_keys_are_made_rotated_and_dropped_and_never_shown() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let file = world.dir.path().join("keys");
    let name = file.to_str().expect("a path");
    keys(&file, &["new"]).expect(0);
    assert_eq!(fs::metadata(&file).expect("a file").permissions().mode() & 0o777, 0o600);
    let own = keys(&file, &["new", "--for", "default"]).expect(0);
    let secret = fs::read_to_string(&file).expect("keys");
    let bytes = secret.split(": ").nth(1).and_then(|rest| rest.lines().next()).expect("a key");
    assert!(!own.stdout.contains(bytes) && !own.stderr.contains(bytes));
    let listed = keys(&file, &["ls", "--json"]).expect(0).json();
    let ids: Vec<_> =
        listed["items"].as_array().expect("keys").iter().map(|key| &key["id"]).collect();
    let ids: Vec<String> =
        ids.into_iter().map(|id| id.as_str().expect("an id").to_owned()).collect();
    let [own_id, shared_id] = &ids[..] else { panic!("two keys: {ids:?}") };
    assert!(own_id.starts_with("default-") && shared_id.starts_with("key-"), "{ids:?}");
    assert_eq!((own_id.len(), shared_id.len()), ("default-".len() + 12, "key-".len() + 12));

    world.semel(&["migrate"]).expect(0);
    let start = ["runs", "start", "order", "--key", "1", "--input", "\"canary-of-acme\""];
    world.semel(&[&start[..], &["--key-file", name]].concat()).expect(0);
    let bytes = [world.store(), world.dir.path().join("semel.db-wal")]
        .iter()
        .flat_map(|path| fs::read(path).unwrap_or_default())
        .collect::<Vec<u8>>();
    assert!(!String::from_utf8_lossy(&bytes).contains("canary"), "it lies there in clear");
    let refused = world.semel(&["runs", "ls"]).expect(1);
    assert!(refused.stderr.contains(&format!("`{own_id}`")), "{refused:?}");
    assert!(refused.stderr.contains("encryption_key_missing"), "{refused:?}");
    keys(&file, &["new"]).expect(0);
    let shown = world.semel(&["runs", "show", "order/1", "--json", "--key-file", name]).expect(0);
    assert!(shown.stdout.contains("canary-of-acme"), "{shown:?}");

    let shared = keys(&file, &["drop", shared_id, "--for-ever"]).expect(4);
    assert!(shared.stderr.contains("for all namespaces"), "{shared:?}");
    keys(&file, &["drop", own_id, "--for-ever"]).expect(0);
    let gone = world.semel(&["runs", "show", "order/1", "--key-file", name]).expect(1);
    assert!(gone.stderr.contains("was dropped"), "{gone:?}");
    let verified = world.semel(&["verify", "--json", "--key-file", name]).expect(0).json();
    assert_eq!((&verified["violations"], &verified["key_dropped"]), (&json!([]), &json!(1)));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("set");
    let open = world.semel(&["runs", "ls", "--key-file", name]).expect(2);
    assert!(open.stderr.contains("key_file_invalid"), "{open:?}");
}

#[test]
fn sec_33_the_key_file_of_the_settings_is_made_by_the_command_that_makes_key_files() {
    let world = World::new();
    let file = world.dir.path().join("keys");
    let made = run(semel().env("SEMEL_KEY_FILE", &file).args(["keys", "new"]).arg(&file));
    made.expect(0);
    assert!(file.exists());
    // A second one is added to it, under an id of its own.
    run(semel().env("SEMEL_KEY_FILE", &file).args(["keys", "new"]).arg(&file)).expect(0);
    assert_eq!(fs::read_to_string(&file).expect("keys").lines().count(), 2);
}

#[test]
fn sec_33_another_key_file_is_refused_at_open_and_writes_nothing() {
    let world = World::new();
    let files = ["right", "wrong"].map(|name| world.dir.path().join(name));
    for file in &files {
        run(semel().args(["keys", "new", "--id", "key-1"]).arg(file)).expect(0);
    }
    let [right, wrong] = files.each_ref().map(|file| file.to_str().expect("a path"));
    let start = |key: &str, file: &str| {
        let words = ["runs", "start", "order", "--key", key, "--input", "1", "--key-file", file];
        world.semel(&words)
    };
    world.semel(&["migrate"]).expect(0);
    start("1", right).expect(0);
    let refused = start("2", wrong).expect(1);
    assert!(refused.stderr.contains("encryption_key_mismatch"), "{refused:?}");
    assert!(refused.stderr.contains("`key-1`"), "{refused:?}");
    let listed = world.semel(&["runs", "ls", "--json", "--key-file", right]).expect(0).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    world.semel(&["runs", "ls", "--key-file", wrong]).expect(1);
    // A backup carries the check value.
    let backup = world.dir.path().join("all.semel");
    let backup = backup.to_str().expect("a path");
    world.semel(&["backup", backup, "--key-file", right]).expect(0);
    let other = world.dir.path().join("other.db");
    let other = format!("sqlite:{}", other.display());
    let restore = ["--store", &other, "backup", "restore", backup, "--key-file", right];
    run(semel().args(restore)).expect(0);
    let refused = run(semel().args(["--store", &other, "runs", "ls", "--key-file", wrong]));
    assert!(refused.stderr.contains("encryption_key_mismatch"), "{refused:?}");
}

#[test]
fn sec_33_a_row_that_cannot_be_read_is_named_by_the_lists_of_the_command() {
    let world = World::new();
    world.semel(&["migrate"]).expect(0);
    for key in ["1", "2"] {
        world.semel(&["runs", "start", "order", "--key", key, "--input", "1"]).expect(0);
        let put = ["schedules", "put", key, "--workflow", "order", "--cron", "0 3 * * *"];
        world.semel(&put).expect(0);
        world.semel(&["tokens", "create", "--role", "worker"]).expect(0);
    }
    let file = rusqlite::Connection::open(world.store()).expect("a file");
    let first = semel_core::audit::card_name(1);
    file.execute_batch(&format!(
        "UPDATE runs SET sum = sum + 1 WHERE key = '1';
         UPDATE cards SET sum = sum + 1 WHERE kind = 'schedule' AND name = '1';
         UPDATE cards SET sum = sum + 1 WHERE name = '{first}';
         UPDATE cards SET sum = sum + 1 WHERE kind = 'token' AND name = \
             (SELECT min(name) FROM cards WHERE kind = 'token')",
    ))
    .expect("SQL");
    drop(file);
    for list in ["runs", "schedules", "tokens", "audit"] {
        let listed = world.semel(&[list, "ls", "--json"]).expect(0).json();
        let count = |member: &str| listed[member].as_array().map_or(0, Vec::len);
        let whole = if list == "audit" { 3 } else { 1 };
        assert_eq!((count("items"), count("unreadable")), (whole, 1), "{list}: {listed}");
        assert_eq!(listed["unreadable"][0]["code"], "store_corrupt");
        let shown = world.semel(&[list, "ls"]).expect(0);
        assert!(shown.stderr.contains("cannot be read"), "{list}: {shown:?}");
    }
}
