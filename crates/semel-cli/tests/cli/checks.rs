//! `semel verify` and `semel doctor`, on stores that are well and stores that are not.

use std::fs;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use semel_store::sqlite::Sqlite;
use semel_store::{Access, Card, Clock, Store, Write};
use serde_json::{Value, json};

use crate::common::{World, until};
use crate::{assert_plain, call, receipt};

pub(crate) fn tamper(world: &World, statement: &str) {
    let connection = rusqlite::Connection::open(world.store()).expect("the file");
    let changed = connection.execute(statement, []).expect("a statement");
    assert!(changed > 0, "{statement} changed nothing");
}

#[test]
fn verify_counts_every_effect_in_one_state() {
    let world = World::with_all_states();
    let verified = world.semel(&["verify", "--json"]).expect(0).json();
    let states = json!({ "done": 1, "failed": 1, "in_doubt": 1, "planned": 1 });
    let want = json!({
        "effects": 4, "states": states, "runs": 0, "run_states": {}, "cards": 0, "approvals": 0,
        "large_values": 0, "outbox": 0, "audit_entries": 0, "head_lines": 0,
        "key_dropped": 0, "violations": []
    });
    assert_eq!(verified, want);
    let text = world.semel(&["verify"]).expect(0);
    assert_plain(&text.stdout);
    assert!(text.stdout.ends_with("every invariant holds\n"), "{text:?}");
}

#[test]
fn verify_looks_at_a_live_store_and_disturbs_nobody() {
    let world = World::new();
    world.crm.script("live", &["slow:1500"]);
    let mut worker = world.worker("at_most_once", &["live"]);
    let written = until("the CRM has it", || world.crm.did("written", "live").pop());
    assert_eq!(written.worker, Some(worker.pid.to_string()));
    let verified = world.semel(&["verify", "--json"]).expect(0).json();
    assert_eq!(verified["states"], json!({ "pending": 1 }));
    assert_eq!(worker.end(), Some(0));
}

#[test]
fn verify_finds_what_was_changed_behind_the_ledger() {
    let check = |statement: &str, invariant: &str| {
        let world = World::with_all_states();
        tamper(&world, statement);
        let ended = world.semel(&["verify", "--json"]).expect(1);
        let verified = ended.json();
        let found = verified["violations"].as_array().expect("a list").iter();
        let found: Vec<_> = found.map(|one| one["invariant"].as_str().expect("it")).collect();
        assert!(found.contains(&invariant), "{statement}: {verified}");
        let text = world.semel(&["verify"]).expect(1);
        assert!(text.stdout.contains(invariant) && text.stderr.contains("hint:"), "{text:?}");
    };
    check("UPDATE effects SET record = replace(record, 'T-ok', 'T-no')", "I9");
    check("UPDATE effects SET sum = sum + 1 WHERE key = 'ok'", "I9");
    check("UPDATE effects SET alarmed = 1 WHERE key = 'ok'", "I9");
    check("UPDATE effects SET key = 'ko' WHERE key = 'ok'", "I9");
    check("UPDATE effects SET sweep_at = NULL WHERE key = 'ok'", "I9");
    check("UPDATE effects SET version = 9 WHERE key = 'ok'", "I9");
    check("UPDATE effects SET held = 1 WHERE key = 'ok'", "I9");
}

/// A card as a worker would write it.
fn put_card(world: &World, name: &str) {
    let store = Sqlite::open(&world.store(), Access::ReadWrite, Clock::Real).expect("the store");
    let card = Card {
        namespace: "default".into(),
        kind: "gate".into(),
        name: name.into(),
        version: 1,
        due: None,
        record: r#"{"inside":[]}"#.into(),
    };
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(store.commit(Write::Card(card).into())).expect("a new card");
}

#[test]
fn verify_counts_cards_and_finds_a_changed_one() {
    let world = World::new();
    put_card(&world, "mail");
    put_card(&world, "sms");
    assert_eq!(world.semel(&["verify", "--json"]).expect(0).json()["cards"], json!(2));
    assert!(world.semel(&["verify"]).expect(0).stdout.contains("2 cards\n"));
    tamper(&world, "UPDATE cards SET record = '[]' WHERE name = 'sms'");
    let verified = world.semel(&["verify", "--json"]).expect(1).json();
    let found = &verified["violations"][0];
    assert_eq!((&found["invariant"], &verified["cards"]), (&json!("I9"), &json!(1)));
    let what = found["what"].as_str().expect("a text");
    assert!(what.starts_with("card default/gate/sms: "), "{what}");
}

#[test]
fn verify_finds_damaged_pages() {
    let world = World::new();
    world.sdk(async |semel| {
        for number in 0..200 {
            let key = format!("k{number}");
            let says = Ok(receipt(&key));
            call(&semel, &key, Duration::ZERO, says).await.expect("done");
        }
    });
    tamper(&world, "UPDATE meta SET wall_high = wall_high"); // all of the log is in the file now
    let file = fs::File::options().write(true).open(world.store()).expect("the file");
    let length = file.metadata().expect("its length").len();
    for offset in (4 * 4096..length).step_by(3 * 4096) {
        file.write_all_at(&[0xa5; 512], offset).expect("damage");
    }
    let ended = world.semel(&["verify", "--json"]).expect(1);
    assert!(ended.stdout.contains("I31") || ended.stderr.contains("store_corrupt"), "{ended:?}");
}

#[test]
fn a_store_of_a_newer_format_is_refused_untouched() {
    let world = World::with_all_states();
    let connection = rusqlite::Connection::open(world.store()).expect("the file");
    connection.pragma_update(None, "user_version", 99).expect("a newer format");
    drop(connection);
    let before = fs::read(world.store()).expect("the file");
    let decision = ["--failed", "--version", "2", "--reason", "x"];
    for args in [
        &["effects", "ls"][..],
        &["effects", "show", "crm-ticket/ok"],
        &[&["effects", "resolve", "crm-ticket/hm"], &decision[..]].concat(),
        &["verify"],
    ] {
        let ended = world.semel(args).expect(1);
        assert!(ended.stderr.contains("store_newer"), "{args:?}: {ended:?}");
    }
    let mut worker = world.worker("at_most_once", &["new"]);
    assert_eq!(worker.end(), Some(1));
    assert_eq!(fs::read(world.store()).expect("the file"), before);
    assert_eq!(world.crm.events().len(), 0);
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let world = World::new();
    fs::write(world.store(), "Dear diary, this is no database at all. ".repeat(200)).expect("it");
    let ended = world.semel(&["verify"]).expect(1);
    assert!(ended.stderr.contains("store_corrupt"), "{ended:?}");
    fs::remove_file(world.store()).expect("gone");
    let other = rusqlite::Connection::open(world.store()).expect("a database");
    other.execute_batch("CREATE TABLE recipes (name TEXT)").expect("of another program");
    drop(other);
    let before = fs::read(world.store()).expect("the file");
    for args in [&["verify"][..], &["effects", "ls"]] {
        let ended = world.semel(args).expect(1);
        assert!(ended.stderr.contains("store_foreign"), "{ended:?}");
    }
    let mut worker = world.worker("at_most_once", &["new"]);
    assert_eq!(worker.end(), Some(1));
    assert_eq!(fs::read(world.store()).expect("the file"), before, "it is left as it is");
}

pub(crate) fn finding<'a>(doctor: &'a Value, what: &str) -> &'a Value {
    let findings = doctor["findings"].as_array().expect("findings");
    findings.iter().find(|one| one["what"] == what).unwrap_or_else(|| panic!("{what}: {doctor}"))
}

#[test]
fn doctor_says_what_is_in_order() {
    let world = World::new();
    world.put_done("ok");
    let doctor = world.semel(&["doctor", "--json"]).expect(0).json();
    assert_eq!(doctor["ok"], true);
    let beside = ["quarantine", "doubts", "unattended", "runs"];
    for what in ["sqlite", "disk", "log", "turn", "store", "clock"].into_iter().chain(beside) {
        assert_eq!(finding(&doctor, what)["ok"], true, "{doctor}");
    }
    let text = world.semel(&["doctor"]).expect(0);
    assert_plain(&text.stdout);
    assert_eq!(text.stdout.lines().filter(|line| line.starts_with("ok ")).count(), 10, "{text:?}");
}

#[test]
fn doctor_names_a_way_out_for_each_finding() {
    let world = World::with_all_states();
    let doctor = world.semel(&["doctor", "--json"]).expect(1).json();
    assert_eq!(doctor["ok"], false);
    assert_eq!(finding(&doctor, "doubts")["fix"], "semel effects ls --state in_doubt");
    let text = world.semel(&["doctor"]).expect(1);
    assert!(text.stdout.contains("fix: semel effects ls --state in_doubt"), "{text:?}");
    let nothing = World::new();
    let doctor = nothing.semel(&["doctor", "--json"]).expect(1).json();
    assert_eq!(finding(&doctor, "store")["ok"], false);
    assert!(finding(&doctor, "store")["fix"].is_string());
    assert!(!nothing.store().exists(), "looking creates nothing");
}

/// It needs no turn itself, so it works where nobody can write.
#[test]
fn doctor_names_the_process_that_keeps_the_turn() {
    let world = World::new();
    world.put_done("ok");
    let turn = world.dir.path().join("semel.db-semel/turn");
    // Closing it drops what this process has locked.
    while super::is_open_here(&turn) {
        std::thread::sleep(Duration::from_millis(5));
    }
    let turn = fs::File::options().read(true).write(true).open(turn).expect("a lock file");
    rustix::fs::fcntl_lock(&turn, rustix::fs::FlockOperation::LockExclusive).expect("the lock");
    let hold_since = |ms: i64| {
        let note = format!("{:10} {ms:20}\n", std::process::id());
        turn.write_all_at(note.as_bytes(), 0).expect("a note");
        world.semel(&["doctor", "--json"])
    };
    let holder = format!("process {} has held the turn to write since", std::process::id());
    let doctor = hold_since(1_790_000_000_000).expect(1).json();
    let found = finding(&doctor, "turn");
    assert_eq!(found["says"], format!("{holder} 2026-09-21T14:13:20Z"));
    assert!(found["fix"].as_str().is_some_and(|fix| fix.contains("or end it")), "{doctor}");
    let now = std::time::UNIX_EPOCH.elapsed().expect("a clock").as_millis();
    let doctor = hold_since(i64::try_from(now).expect("milliseconds")).expect(0).json();
    let says = finding(&doctor, "turn")["says"].as_str().expect("words");
    assert!(says.starts_with(&holder), "{says}");
}

#[test]
fn doctor_tells_of_a_store_that_went_back_in_time() {
    let world = World::restored();
    let mut worker = world.worker("at_most_once", &["second"]);
    assert_eq!(worker.end(), Some(5), "created in doubt, not sent: {:?}", worker.lines());
    assert_eq!(world.crm.events().len(), 0);
    let doctor = world.semel(&["doctor", "--json"]).expect(1).json();
    let quarantine = finding(&doctor, "quarantine");
    assert_eq!(
        (&quarantine["ok"], &quarantine["fix"]),
        (&json!(false), &json!("semel quarantine show"))
    );
}
