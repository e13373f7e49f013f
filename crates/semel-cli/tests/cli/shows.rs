//! `semel demo`, `bench`, `completions`, help; and readers that go away.

use std::collections::BTreeMap;
use std::fs;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::common::{World, semel};
use crate::{assert_plain, semel_in};

fn scenario(name: &str, applied: u32, state: &str, attempts: u32) -> Value {
    json!({ "name": name, "applied": applied, "state": state, "attempts": attempts })
}

/// Two tickets without, one with each contract; `at_most_once` leaves a doubt to a person.
#[test]
fn demo_json_counts_what_the_customer_got() {
    let dir = tempfile::tempdir().expect("a folder");
    let demo = semel_in(dir.path(), &["demo", "--json"]);
    assert_eq!(demo.code, Some(0), "{demo:?}");
    let want = json!({ "scenarios": [
        scenario("unprotected", 2, "not kept", 2),
        scenario("native_key", 1, "done", 2),
        scenario("probe", 1, "done", 2),
        scenario("conditional", 1, "done", 2),
        scenario("transaction", 1, "done", 1),
        scenario("at_most_once", 1, "in_doubt", 1),
    ], "triage": {
        "triggers": 8, "kills": 3, "runs": 1, "takes": 4,
        "model_calls": 1, "tickets": 1, "mails": 1, "state": "done",
    }});
    assert_eq!(demo.json(), want);
    assert_eq!(fs::read_dir(dir.path()).expect("it").count(), 0, "it leaves nothing behind");
}

#[test]
fn demo_keeps_its_files_and_tells_its_story_plainly() {
    let dir = tempfile::tempdir().expect("a folder");
    let demo = semel_in(dir.path(), &["demo", "--keep", "kept"]);
    assert_eq!(demo.code, Some(0), "{demo:?}");
    assert_plain(&demo.stdout);
    assert!(demo.stdout.contains("$ semel effects resolve"), "{}", demo.stdout);
    assert!(demo.stderr.contains("all files are in kept"), "{}", demo.stderr);
    let kept = dir.path().join("kept");
    let tickets = fs::read_to_string(kept.join("tickets.jsonl")).expect("the CRM's file");
    let mut counts: BTreeMap<String, u32> = BTreeMap::new();
    for line in tickets.lines() {
        let ticket: Value = serde_json::from_str(line).expect("a ticket");
        let reference = ticket["reference"].as_str().expect("it").to_owned();
        *counts.entry(reference).or_default() += 1;
    }
    let want = [
        ("case-at_most_once", 1),
        ("case-conditional", 1),
        ("case-native_key", 1),
        ("case-probe", 1),
        ("case-unprotected", 2),
        ("request-42", 1),
    ];
    assert_eq!(counts, want.map(|(name, count)| (name.to_owned(), count)).into());
    for name in ["native_key", "probe", "conditional", "transaction", "at_most_once"] {
        let url = format!("sqlite:{}", kept.join(format!("{name}.db")).display());
        let verified = semel_in(dir.path(), &["--store", &url, "verify", "--json"]);
        assert_eq!(verified.json()["states"], json!({ "done": 1 }), "{name}");
    }
    // A second run in the same folder would count the tickets of the first.
    let again = semel_in(dir.path(), &["demo", "--keep", "kept", "--json"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("not empty"), "{again:?}");
}

#[test]
fn completions_come_for_every_shell() {
    let dir = tempfile::tempdir().expect("a folder");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let ended = semel_in(dir.path(), &["completions", shell]);
        assert_eq!(ended.code, Some(0), "{shell}");
        assert!(ended.stdout.contains("supersede"), "{shell}");
        assert!(ended.stdout.ends_with('\n') && ended.stderr.is_empty(), "{shell}");
    }
}

#[test]
fn help_and_version_are_data() {
    let dir = tempfile::tempdir().expect("a folder");
    let help = semel_in(dir.path(), &["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (Some(0), ""));
    assert_plain(&help.stdout);
    for hidden in ["demo-crm", "demo-worker", "bench-worker"] {
        assert!(!help.stdout.contains(hidden), "{hidden} is for tests only");
    }
    let version = semel_in(dir.path(), &["--version"]);
    assert_eq!(version.stdout, format!("semel {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let world = World::with_all_states();
    let url = format!("sqlite:{}", world.store().display());
    for args in [
        &["effects", "ls", "--json"][..],
        &["effects", "show", "crm-ticket/ok"],
        &["verify"],
        &["completions", "bash"],
        &["--help"],
    ] {
        let mut command = semel();
        command.args(["--store", &url]).args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it runs");
        drop(child.stdout.take());
        let output = child.wait_with_output().expect("it ends");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code().is_some_and(|code| code == 0), "{args:?}: {stderr}");
        assert!(!stderr.contains("panicked"), "{args:?}: {stderr}");
    }
}

#[test]
fn slow_bench_ledger_json_has_the_members_of_the_design() {
    let dir = tempfile::tempdir().expect("a folder");
    let bench = semel_in(dir.path(), &["bench", "ledger", "--json"]);
    assert_eq!(bench.code, Some(0), "{bench:?}");
    let bench = bench.json();
    let results = bench["results"].as_array().expect("results");
    let callers: Vec<_> = results.iter().map(|one| one["concurrency"].as_u64()).collect();
    assert_eq!(callers, [Some(1), Some(32), Some(256), Some(64)]);
    for one in results {
        assert_eq!(one["store"], "sqlite");
        assert!(one["name"].as_str().is_some_and(|name| name.starts_with("effects")), "{one}");
        for number in ["per_s", "p50_ms", "p99_ms", "raw_per_s", "ratio"] {
            assert!(one[number].as_f64().is_some_and(|value| value > 0.0), "{number}: {one}");
        }
        assert!(one["p50_ms"].as_f64() <= one["p99_ms"].as_f64(), "{one}");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("it").count(), 0);
}
