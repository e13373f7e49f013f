//! `semel triggers`: what is printed where, and how it ends.

use std::fs;

use serde_json::json;

use crate::assert_plain;
use crate::common::{Ended, World, run, semel};

const FILE: &str = r#"
[triggers.repository]
workflow = "triage"
scheme = "github"
secret = "env:HOOK_SECRET"

[triggers.form]
workflow = "intake"
scheme = "bearer"
secret = "file:form.token"
key = ["{header:idempotency-key}"]
input = { client_key = "{header:idempotency-key}", order = "{body:/order}", test = false }
redelivers_for = "7d"
"#;

/// A world with a store: a decision does not create one.
fn world() -> World {
    let world = World::new();
    world.semel(&["migrate"]).expect(0);
    world
}

fn put(world: &World, text: &str) -> Ended {
    let file = world.dir.path().join("triggers.toml");
    fs::write(&file, text).expect("a file");
    world.semel(&["triggers", "put", &file.display().to_string(), "--json"])
}

#[test]
fn triggers_are_put_once_shown_removed_and_all_of_it_is_audited() {
    let world = world();
    let first = put(&world, FILE).expect(0).json();
    let changed = |put: &serde_json::Value| {
        let items = put["items"].as_array().expect("items").clone();
        items.iter().map(|item| item["changed"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(changed(&first), [json!(true), json!(true)]);
    assert_eq!(changed(&put(&world, FILE).expect(0).json()), [json!(false), json!(false)]);
    let other = FILE.replace("\"triage\"", "\"label\"");
    assert_eq!(changed(&put(&world, &other).expect(0).json()), [json!(false), json!(true)]);
    let shown = world.semel(&["triggers", "show", "repository", "--json"]).expect(0).json();
    assert_eq!(shown["path"], "/hooks/repository");
    assert_eq!((&shown["version"], &shown["declared"]["workflow"]), (&json!(2), &json!("label")));
    let listed = world.semel(&["triggers", "ls"]).expect(0).stdout;
    assert_plain(&listed);
    assert!(listed.contains("form") && listed.contains("/hooks/repository"), "{listed}");
    let none = world.semel(&["triggers", "deliveries", "form", "--json"]).expect(0).json();
    assert_eq!(none, json!({ "items": [], "verified": 0, "refused": 0 }));
    world.semel(&["triggers", "rm", "form"]).expect(0);
    let gone = world.semel(&["triggers", "show", "form"]).expect(3);
    assert!(gone.stderr.contains("semel triggers ls"), "{}", gone.stderr);
    world.semel(&["triggers", "rm", "form"]).expect(3);
    let audit = world.semel(&["audit", "ls", "--json"]).expect(0).json();
    let entries = audit["items"].as_array().expect("entries");
    let deeds: Vec<_> = entries.iter().map(|one| (&one["verb"], &one["subject"])).collect();
    let (removed, put) = (json!("remove_trigger"), json!("put_trigger"));
    let (form, repository) = (json!("trigger form"), json!("trigger repository"));
    let want = [(&removed, &form), (&put, &repository), (&put, &repository), (&put, &form)];
    assert_eq!(deeds, want);
    assert!(entries.iter().all(|entry| entry["actor"] == "ada"), "{audit}");
}

#[test]
fn what_cannot_work_is_refused_before_anything_is_written() {
    let world = world();
    let check = |text: &str, code: i32, want: &str| {
        let refused = put(&world, text).expect(code);
        assert!(refused.stderr.contains(want), "{}", refused.stderr);
    };
    let redelivers = FILE.replace("\"7d\"", "\"60d\"");
    check(&redelivers, 2, "[triggers.form] the sender delivers again for 60d");
    check(&redelivers, 2, "retry_beyond_retention");
    check(&FILE.replace("env:HOOK_SECRET", "whsec_canary"), 2, "never written down");
    check(&FILE.replace("scheme = \"github\"", "scheme = \"md5\""), 2, "trigger_invalid");
    check(&FILE.replace("workflow = \"intake\"", "speed = 3"), 2, "unknown field `speed`");
    check("[other]\na = 1\n", 2, "write [triggers.NAME]");
    check("", 2, "no table [triggers.NAME]");
    check("[triggers.a\n", 2, "triggers.toml");
    let canary = put(&world, &FILE.replace("env:HOOK_SECRET", "whsec_canary")).expect(2);
    assert!(!canary.stderr.contains("canary"), "{}", canary.stderr);
    let listed = world.semel(&["triggers", "ls", "--json"]).expect(0).json();
    assert_eq!(listed["items"], json!([]));
}

#[test]
fn a_delivery_is_tried_without_starting_anything() {
    let world = world();
    put(&world, FILE).expect(0);
    let body = world.dir.path().join("body.json");
    fs::write(&body, r#"{"order":{"n":1.50}}"#).expect("a file");
    fs::write(world.dir.path().join("form.token"), "s3cret\n").expect("a file");
    let store = format!("sqlite:{}", world.store().display());
    let test = |token: &str, headers: &[&str]| {
        let mut command = semel();
        command.current_dir(world.dir.path()).args(["--store", &store, "triggers", "test", "form"]);
        command.args(["--json", "--body"]).arg(&body);
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
        command.args(headers.iter().flat_map(|header| ["--header", header]));
        run(&mut command)
    };
    let good = test("s3cret", &["Idempotency-Key: \"order-7\""]).expect(0).json();
    assert_eq!((&good["signature"], &good["key"]), (&json!("genuine"), &json!("order-7")));
    let want = json!({ "client_key": "order-7", "order": { "n": 1.50 }, "test": false });
    assert_eq!((&good["input"], &good["then"]), (&want, &json!("started")));
    let wrong = test("guess", &["Idempotency-Key: order-7"]).expect(4);
    assert_eq!(wrong.json()["signature"], "signature_wrong");
    let unusable = test("s3cret", &[]).expect(2);
    assert!(unusable.stderr.contains("idempotency-key is missing"), "{}", unusable.stderr);
    for output in [&wrong.stderr, &wrong.stdout, &unusable.stderr] {
        assert!(!output.contains("s3cret"), "{output}");
    }
    assert_eq!(world.semel(&["runs", "ls", "--json"]).expect(0).json()["items"], json!([]));
}
