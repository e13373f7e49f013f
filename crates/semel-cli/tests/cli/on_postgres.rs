//! The command on Postgres: create, look, decide, check, play.

use serde_json::json;

use crate::semel_in;

#[test]
fn every_command_works_on_postgres() {
    let dir = tempfile::tempdir().expect("a folder");
    let database = semel_lab::database();
    let url = database.url();
    let semel = |words: &[&str]| semel_in(dir.path(), &[&["--store", &url], words].concat());

    let missing = semel(&["effects", "ls"]);
    assert_eq!(missing.code, Some(3), "{missing:?}");
    assert!(missing.stderr.contains("semel migrate"), "{missing:?}");
    let made = semel(&["migrate"]);
    assert!(made.stdout.contains("was created"), "{made:?}");
    let again = semel(&["migrate"]);
    assert!(again.stdout.contains("already"), "{again:?}");
    assert!(!again.stdout.contains("password"), "{again:?}");

    let started = semel(&["runs", "start", "order", "--key", "42", "--input", "{}", "--json"]);
    assert_eq!(started.code, Some(0), "{started:?}");
    let id = started.json()["id"].as_str().expect("an id").to_owned();
    let twice = semel(&["runs", "start", "order", "--key", "42", "--input", "{}", "--json"]);
    assert_eq!(twice.json()["id"], id);
    assert_eq!(semel(&["runs", "show", "order/42"]).code, Some(0));
    let cancelled = semel(&["runs", "cancel", &id, "--reason", "a test"]);
    assert_eq!(cancelled.code, Some(0), "{cancelled:?}");

    let verified = semel(&["verify", "--json"]);
    assert_eq!(verified.json()["violations"], json!([]), "{verified:?}");
    assert_eq!(verified.json()["runs"], 1);
    let shown = semel(&["quarantine", "show"]);
    assert_eq!(shown.code, Some(0), "{shown:?}");
    let closed = semel(&["quarantine", "close", "--reason", "a test"]);
    assert_eq!(closed.code, Some(4), "{closed:?}");
    assert_eq!(semel(&["doctor"]).code, Some(0));
}

#[test]
fn demo_plays_on_postgres_and_makes_the_store_itself() {
    let dir = tempfile::tempdir().expect("a folder");
    let database = semel_lab::database();
    let demo = semel_in(dir.path(), &["--store", &database.url(), "demo", "--json"]);
    assert_eq!(demo.code, Some(0), "{demo:?}");
    let scenarios = demo.json()["scenarios"].clone();
    let applied = |name: &str| {
        let all = scenarios.as_array().expect("scenarios").iter();
        let one = all.clone().find(|scenario| scenario["name"] == name);
        one.map(|scenario| scenario["applied"].clone())
    };
    assert_eq!(applied("unprotected"), Some(json!(2)));
    for name in ["native_key", "probe", "conditional", "at_most_once"] {
        assert_eq!(applied(name), Some(json!(1)), "{name}");
    }
    assert_eq!(demo.json()["triage"]["tickets"], 1);
}

/// A return by hand: what a worker remembers of the time before is listed, and does not become
/// sendable by closing.
#[test]
fn inv_i27_what_a_worker_remembers_is_in_doubt_when_the_quarantine_is_closed() {
    let dir = tempfile::tempdir().expect("a folder");
    let database = semel_lab::database();
    let url = database.url();
    let semel = |words: &[&str]| semel_in(dir.path(), &[&["--store", &url], words].concat());
    assert_eq!(semel(&["migrate"]).code, Some(0));
    database.psql(
        "UPDATE meta SET epoch = 1; \
         INSERT INTO returns (epoch, opened_at, recovered_at, evidence) VALUES (1, 1, 1, 'test'); \
         INSERT INTO lost (epoch, namespace, action, name, generation, version, state, written_at, \
             worker) VALUES (1, 'default', 'mail', 'sent', 0, 2, 'done', 1, 'w'), \
             (1, 'default', 'mail', 'wished', 0, 1, 'planned', 1, 'w'); \
         UPDATE meta SET seal = seal('meta', format::text, store_id, epoch::text, server, \
             boot::text, boot_since::text, wall_high::text); \
         UPDATE lost SET seal = seal('lost', epoch::text, namespace, action, name, \
             generation::text, version::text, state, written_at::text, worker)",
    );
    let shown = semel(&["quarantine", "show", "--json"]);
    assert_eq!(shown.code, Some(5), "{shown:?}");
    assert_eq!(shown.json()["lost"].as_array().map(Vec::len), Some(2), "{shown:?}");
    let closed =
        semel(&["quarantine", "close", "--reason", "looked at", "--actor", "ada", "--json"]);
    assert_eq!(closed.code, Some(0), "{closed:?}");
    assert_eq!((&closed.json()["remembered"], &closed.json()["in_doubt"]), (&json!(1), &json!(1)));
    let listed = semel(&["effects", "ls", "--state", "in_doubt", "--json"]);
    assert_eq!(listed.json()["items"][0]["key"], "sent", "{listed:?}");
    assert_eq!(listed.json()["items"].as_array().map(Vec::len), Some(1), "{listed:?}");
    assert_eq!(semel(&["quarantine", "show"]).code, Some(0));
    assert_eq!(semel(&["verify"]).code, Some(0));
}

#[test]
fn req_o1_intents_that_are_no_effects_yet_are_listed_and_refused_ones_can_be_dropped() {
    let dir = tempfile::tempdir().expect("a folder");
    let database = semel_lab::database();
    let url = database.url();
    let semel = |words: &[&str]| semel_in(dir.path(), &[&["--store", &url], words].concat());
    assert_eq!(semel(&["migrate"]).code, Some(0));
    assert_eq!(semel(&["outbox", "ls", "--json"]).json(), json!({ "items": [], "next": null }));
    database.psql("SELECT intend('mail', 'a', '{}'), intend('mail', 'b', '{}')");
    database.psql(
        "UPDATE outbox SET refused_code = 'input_changed', refused_text = 'other words' \
         WHERE key = 'b'",
    );
    let listed = semel(&["outbox", "ls", "--json"]).json();
    assert_eq!(listed["items"][0]["refused"], json!(null), "{listed}");
    assert_eq!(listed["items"][1]["refused"]["code"], "input_changed", "{listed}");
    let text = semel(&["outbox", "ls"]);
    assert!(text.stdout.contains("mail/a") && text.stdout.contains("other words"), "{text:?}");
    let doctor = semel(&["doctor"]);
    assert!(doctor.stdout.contains("1 waiting, 1 refused"), "{doctor:?}");
    let id = |index: usize| listed["items"][index]["id"].to_string();
    let waits = semel(&["outbox", "drop", &id(0)]);
    assert_eq!(waits.code, Some(3), "what only waits is kept: {waits:?}");
    assert_eq!(semel(&["outbox", "drop", &id(1)]).code, Some(0));
    assert_eq!(
        semel(&["outbox", "ls", "--json"]).json()["items"].as_array().map(Vec::len),
        Some(1)
    );
    let file = semel_in(dir.path(), &["--store", "sqlite:x.db", "migrate"]);
    assert_eq!(file.code, Some(0));
    let file = semel_in(dir.path(), &["--store", "sqlite:x.db", "outbox", "ls"]);
    assert_eq!(file.code, Some(2), "{file:?}");
}
