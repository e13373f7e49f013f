//! Commands on stores of other kinds, and the demo on a store that is named.

use serde_json::json;

use crate::common::{World, run, semel};
use crate::semel_in;

#[test]
fn a_store_in_memory_has_nothing_to_look_at() {
    let folder = tempfile::tempdir().expect("a folder");
    for args in [
        &["effects", "ls"][..],
        &["runs", "ls"],
        &["verify"],
        &["quarantine", "show"],
        &["quarantine", "close", "--reason", "r"],
        &["migrate"],
        &["demo"],
    ] {
        let ended = semel_in(folder.path(), &[args, &["--store", "memory:"]].concat()).expect(2);
        assert!(ended.stderr.contains("store_url_invalid"), "{args:?}: {ended:?}");
    }
    let doctor = semel_in(folder.path(), &["doctor", "--store", "memory:", "--json"]).expect(1);
    let findings = doctor.json()["findings"].clone();
    let named: Vec<_> =
        findings.as_array().expect("a list").iter().map(|one| &one["what"]).collect();
    assert_eq!(named, [&json!("store")], "a store that is no file has no disk and no log");
}

/// A store that the environment names is somebody's own: the demo leaves it alone.
#[test]
fn the_demo_plays_only_on_a_store_that_its_line_names() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("something"), "here").expect("a file");
    let keep = ["demo", "--keep", folder.path().to_str().expect("a path")];
    let ended = run(semel().env("SEMEL_STORE", "memory:").args(keep)).expect(1);
    assert!(ended.stderr.contains("is not empty"), "{ended:?}");
}

#[test]
fn the_demo_on_a_named_store_has_a_namespace_of_its_own() {
    let world = World::new();
    world.put_done("case-native_key");
    let demo = world.semel(&["demo", "--json"]).expect(0).json();
    let names: Vec<_> = demo["scenarios"].as_array().expect("a list").iter().collect();
    let names: Vec<_> = names.iter().filter_map(|one| one["name"].as_str()).collect();
    let want = ["unprotected", "native_key", "probe", "conditional", "at_most_once"];
    assert_eq!(names, want, "a transaction would make a table in it");
    assert_eq!(demo["triage"]["state"], "done");
    let listed = world.semel(&["effects", "ls", "--json"]).expect(0).json();
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "what was there is as it was");
    let verified = world.semel(&["verify", "--json"]).expect(0).json();
    assert_eq!((&verified["effects"], &verified["runs"]), (&json!(7), &json!(1)));
}
