//! Exit codes: 0 done, 1 failed, 2 usage, 3 not found, 4 refused, 5 in doubt, 75 try again later.

use std::fs;

use crate::common::{World, run, semel, until};
use crate::semel_in;

fn work(world: &World, contract: &str, args: &[&str]) -> (Option<i32>, Option<String>) {
    let mut worker = world.worker(contract, args);
    let code = worker.end();
    (code, worker.lines().remove(0).error)
}

fn said(code: i32, error: &str) -> (Option<i32>, Option<String>) {
    (Some(code), Some(error.to_owned()))
}

#[test]
fn a_worker_ends_with_the_code_of_its_last_refusal() {
    let world = World::new();
    assert_eq!(work(&world, "at_most_once", &["ok"]), (Some(0), None));
    let changed = work(&world, "at_most_once", &["--note", "another", "ok"]);
    assert_eq!(changed, said(4, "input_changed"));
    world.crm.script("no", &["status:422"]);
    assert_eq!(work(&world, "at_most_once", &["no"]), said(4, "effect_failed"));
    world.crm.script("later", &["status:401"]);
    assert_eq!(
        work(&world, "at_most_once", &["--attempts", "1", "later"]),
        said(75, "not_applied")
    );
    world.crm.script("never", &["status:401", "status:401"]);
    let exhausted = work(&world, "at_most_once", &["--attempts", "2", "--delay-ms", "1", "never"]);
    assert_eq!(exhausted, said(75, "retries_exhausted"));
    world.crm.script("hm", &["reset"]);
    assert_eq!(work(&world, "at_most_once", &["hm"]), said(5, "in_doubt"));
    let long = "k".repeat(256);
    assert_eq!(work(&world, "at_most_once", &[&long]), said(2, "key_invalid"));
    assert_eq!(work(&world, "at_most_once", &["--lease-ms", "1", "x"]), said(2, "terms_invalid"));
}

#[test]
fn case_c4_a_duplicate_is_told_to_come_back_when_the_hold_is_over() {
    let world = World::new();
    world.crm.script("busy", &["hold"]);
    let mut winner = world.worker("at_most_once", &["busy"]);
    until("the CRM holds the request", || world.crm.did("held", "busy").pop());
    let told = work(&world, "at_most_once", &["--hold-ms", "100", "busy"]);
    assert_eq!(told, said(75, "in_progress"));
    assert_eq!(world.crm.did("arrived", "busy").len(), 1);
    winner.kill();
}

#[test]
fn a_slow_transaction_is_undone_and_ends_with_one() {
    let world = World::new();
    let told = work(&world, "transaction", &["--pause-ms", "1200", "slow"]);
    assert_eq!(told, said(1, "transaction_too_long"));
    assert_eq!(work(&world, "transaction", &["slow"]), (Some(0), None));
}

fn check_no_store(url: &str, code: i32, why: &str) {
    let dir = tempfile::tempdir().expect("a folder");
    let person = ["--version", "1", "--reason", "x"];
    for command in [
        &["effects", "ls"][..],
        &["effects", "show", "a/b"],
        &["verify"],
        &[&["effects", "resolve", "a/b", "--failed"], &person[..]].concat(),
        &[&["effects", "supersede", "a/b"], &person[..]].concat(),
        &[&["effects", "void", "a/b"], &person[..]].concat(),
        &["runs", "ls"],
        &["runs", "show", "a/b"],
        &["runs", "start", "a"],
        &["runs", "cancel", "a/b", "--reason", "x"],
        &["runs", "skip", "a/b", "s#0", "--value", "1", "--reason", "x"],
        &["signals", "send", "a/b", "go"],
    ] {
        let ended = semel_in(dir.path(), &[&["--store", url], command].concat());
        assert_eq!(ended.code, Some(code), "{url:?} {command:?}: {ended:?}");
        assert!(ended.stderr.contains(why), "{url:?}: {ended:?}");
        assert_eq!(ended.stdout, "");
    }
    let left = fs::read_dir(dir.path()).expect("it").count();
    assert_eq!(left, 0, "neither looking nor deciding creates a store");
}

#[test]
fn an_address_that_is_no_store_ends_with_two() {
    for url in
        ["sqlite:", "postgres://localhost:port/x", "mysql://localhost/x", "semel.db", "memory:"]
    {
        check_no_store(url, 2, "store_url_invalid");
    }
    check_no_store("", 2, "config_invalid");
}

#[test]
fn a_server_that_does_not_answer_ends_with_seventy_five_and_says_why() {
    let dir = tempfile::tempdir().expect("a folder");
    let url = "postgres://ada:secret@127.0.0.1:1/x";
    let ended = semel_in(dir.path(), &["--store", url, "effects", "ls"]);
    assert_eq!(ended.code, Some(75), "{ended:?}");
    assert!(ended.stderr.contains("refused") && !ended.stderr.contains("secret"), "{ended:?}");
}

#[test]
fn a_store_that_is_not_there_ends_with_three() {
    check_no_store("sqlite:missing.db", 3, "store_missing");
}

#[test]
fn a_command_line_without_sense_ends_with_two() {
    let world = World::with_all_states();
    for args in [
        &["frobnicate"][..],
        &[],
        &["effects"],
        &["effects", "show"],
        &["effects", "show", "no-slash"],
        &["effects", "show", "bad action/x"],
        &["effects", "show", "crm-ticket/"],
        &["effects", "ls", "--limit", "many"],
        &["effects", "ls", "--unattended", "--state", "done"],
        &["effects", "ls", "--namespace", "bad namespace"],
        &["runs"],
        &["runs", "show"],
        &["runs", "show", "bad workflow/x"],
        &["runs", "ls", "--state", "lost"],
        &["runs", "ls", "--key", "50%"],
        &["runs", "start", "bad workflow"],
        &["runs", "start", "a", "--input", "{"],
        &["runs", "start", "a", "--input", "1", "--input-file", "-"],
        &["runs", "start", "a", "--deadline", "soon"],
        &["runs", "retry", "a/b"],
        &["runs", "skip", "a/b", "s#0", "--reason", "x"],
        &["runs", "skip", "a/b", "s#0", "--value", "{", "--reason", "x"],
        &["signals", "send", "a/b", "go", "--payload", "{"],
        &["completions", "cobol"],
    ] {
        let ended = world.semel(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {ended:?}");
        assert_eq!(ended.stdout, "", "{args:?}: talk belongs to stderr");
    }
}

#[test]
fn decisions_about_what_is_not_there_end_with_three() {
    let world = World::with_all_states();
    let person = ["--version", "1", "--reason", "x"];
    for command in [
        &["effects", "resolve", "crm-ticket/nothing", "--failed"][..],
        &["effects", "supersede", "crm-ticket/nothing"],
        &["effects", "void", "crm-ticket/nothing"],
    ] {
        world.semel(&[command, &person].concat()).expect(3);
    }
}

#[test]
fn the_environment_names_store_and_namespace() {
    let world = World::with_all_states();
    let url = format!("sqlite:{}", world.store().display());
    let show = |namespace: &str| {
        let mut command = semel();
        command.env("SEMEL_STORE", &url).env("SEMEL_NAMESPACE", namespace);
        run(command.args(["effects", "show", "crm-ticket/ok"])).code
    };
    assert_eq!((show("default"), show("another")), (Some(0), Some(3)));
}

#[test]
fn an_error_follows_json_too() {
    let line = ["--json", "--store", "sqlite:missing.db", "effects", "ls"];
    let ended = run(semel().args(line)).expect(3);
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).expect("one document");
    assert_eq!(error["error"]["code"], "store_missing");
    assert!(error["error"]["hint"].is_string(), "{error}");
    assert_eq!(ended.stdout, "", "data only when there is some");
}
