//! `semel spec` and `semel lint` on the registry of an application in Rust.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::semel_in;

fn declared(key: &Value, contract: &Value) -> Value {
    json!({
        "format": 1,
        "declarations": [{
            "language": "rust", "kind": "effect", "name": "crm-ticket", "action": "crm-ticket",
            "file": "src/lib.rs", "line": 7, "intent": "Create the ticket of a request",
            "parameters": ["request_id"], "key": key, "contract": contract,
            "key_passed_on": "yes", "receipt": { "name": "Ticket", "fields": ["id"] },
        }],
    })
}

fn good() -> Value {
    let key = json!({ "parts": ["{request_id}"], "fields": ["request_id"] });
    declared(&key, &json!({ "native_key": { "retention_ms": 86_400_000 } }))
}

fn folder(registry: &Value) -> TempDir {
    let folder = TempDir::new().expect("a folder");
    write(folder.path(), registry);
    folder
}

fn write(folder: &Path, registry: &Value) {
    fs::write(folder.join("registry.json"), registry.to_string()).expect("written");
}

#[test]
fn req_s1_a_registry_is_written_down_and_checked() {
    let folder = folder(&good());
    let printed = semel_in(folder.path(), &["spec", "registry.json"]).expect(0).stdout;
    assert!(printed.contains("| Key fields | `request_id`, as `{request_id}`"), "{printed}");
    let output = ["spec", "registry.json", "--output", "SPEC.md"];
    assert_eq!(semel_in(folder.path(), &output).expect(0).stdout, "");
    let written = fs::read_to_string(folder.path().join("SPEC.md")).expect("the spec");
    assert_eq!(written, printed);
    let check = ["spec", "registry.json", "--check", "SPEC.md"];
    assert_eq!(semel_in(folder.path(), &check).expect(0).stdout, "");

    // Another contract, and the committed page is old.
    let key = json!({ "parts": ["{request_id}"], "fields": ["request_id"] });
    write(folder.path(), &declared(&key, &json!("at_most_once")));
    let ended = semel_in(folder.path(), &check).expect(4);
    assert!(
        ended.stdout.contains("- | Contract | `native_key` (retention 1d) |"),
        "{}",
        ended.stdout
    );
    assert!(ended.stdout.contains("+ | Contract | `at_most_once` |"), "{}", ended.stdout);
    assert!(ended.stderr.contains("SPEC.md is not what the code declares"), "{}", ended.stderr);
}

#[test]
fn req_s2_the_checklist_is_data_too() {
    let folder = folder(&good());
    let spec = semel_in(folder.path(), &["spec", "registry.json", "--json"]).expect(0).json();
    let checklist = spec["effects"][0]["checklist"].as_array().expect("a list").clone();
    assert_eq!(checklist.len(), 6);
    assert!(checklist.iter().all(|check| check["answer"] == "yes"), "{checklist:?}");
}

#[test]
fn a_registry_is_judged_with_codes_places_and_a_better_way() {
    let bad = folder(&declared(&json!({ "parts": ["{?}"], "signs": ["time"] }), &json!(null)));
    let ended = semel_in(bad.path(), &["lint", "registry.json"]).expect(1);
    let first = ended.stdout.lines().next().expect("a finding");
    let want =
        "src/lib.rs:7: error SML001 key-from-time: `crm-ticket`: a part of the key is a time";
    assert!(first.starts_with(want), "{first}");
    assert!(ended.stdout.contains("better: make the key of `request_id`"), "{}", ended.stdout);
    assert!(ended.stdout.contains("info SML022 contract-undeclared"), "{}", ended.stdout);

    let found = semel_in(bad.path(), &["lint", "registry.json", "--json"]).expect(1).json();
    let codes: Vec<_> = found["findings"].as_array().expect("a list").iter().collect();
    assert_eq!(codes[0]["code"], "SML001");
    let good = folder(&good());
    assert_eq!(semel_in(good.path(), &["lint", "registry.json"]).expect(0).stdout, "");
}

#[test]
fn what_is_no_registry_is_refused() {
    let folder = folder(&json!({ "format": 9, "declarations": [] }));
    semel_in(folder.path(), &["spec", "registry.json"]).expect(2);
    semel_in(folder.path(), &["spec", "nothing.json"]).expect(3);
    semel_in(folder.path(), &["lint", "nothing.json"]).expect(3);
    semel_in(folder.path(), &["lint", "registry.json", "--what"]).expect(2);
    write(folder.path(), &good());
    semel_in(folder.path(), &["spec", "registry.json", "--check", "nothing.md"]).expect(3);
}
