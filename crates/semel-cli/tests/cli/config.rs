//! Settings from file, environment and line, as the command meets them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use serde_json::json;
use tempfile::TempDir;

use super::common::{Ended, run, semel};

/// The command in a folder with a file of settings, for a user who has none.
fn within(text: &str) -> (TempDir, impl Fn(&[&str]) -> Command) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("semel.toml"), text).expect("a file");
    let path = folder.path().to_owned();
    let command = move |line: &[&str]| {
        let mut command = semel();
        command.current_dir(&path).env("HOME", &path).args(line);
        command
    };
    (folder, command)
}

fn setting(ended: &Ended, key: &str) -> serde_json::Value {
    let shown = ended.json();
    let all = shown["settings"].as_array().expect("a list");
    all.iter().find(|setting| setting["key"] == key).expect("it").clone()
}

#[test]
fn every_command_works_in_the_store_of_the_file() {
    let (folder, command) = within("store = \"sqlite:ours.db\"\nnamespace = \"shop\"\n");
    run(&mut command(&["migrate"])).expect(0);
    assert!(folder.path().join("ours.db").exists());
    let listed = run(&mut command(&["runs", "ls", "--json"])).expect(0).json();
    assert_eq!(listed["items"], json!([]), "{listed}");
    // The line and the environment stand before the file.
    let mut line = command(&["effects", "ls", "--store", "sqlite:other.db"]);
    assert!(run(&mut line).expect(3).stderr.contains("other.db"));
    let mut environment = command(&["effects", "ls"]);
    let ended = run(environment.env("SEMEL_STORE", "sqlite:third.db")).expect(3);
    assert!(ended.stderr.contains("third.db"), "{}", ended.stderr);
}

#[test]
fn what_counts_is_shown_with_its_origin_and_without_secrets() {
    let text = "store = \"postgres://ada:canary@db/ledger\"\nlimits.hold = \"10s\"\n";
    let (_folder, command) = within(text);
    let mut shown = command(&["config", "show", "--origin", "--set", "limits.hold=9s"]);
    let ended = run(shown.env("SEMEL_OTLP_HEADERS", "auth=canary").env("SEMEL_LISTEM", "a"));
    let ended = ended.expect(0);
    assert!(!format!("{ended:?}").contains("canary"), "{ended:?}");
    for line in [
        "store\tpostgres://ada:***@db/ledger\tsemel.toml:1",
        "limits.hold\t9s\tflag",
        "otlp.headers\t{\"auth\":\"***\"}\tenvironment: SEMEL_OTLP_HEADERS",
        "namespace\tdefault\tdefault",
        "public_url\t-\tdefault",
    ] {
        assert!(ended.stdout.lines().any(|found| found == line), "{line}\n{}", ended.stdout);
    }
    assert!(ended.stderr.contains("nobody reads SEMEL_LISTEM; did you mean SEMEL_LISTEN?"));
    let shown = run(&mut command(&["config", "show", "--json"])).expect(0);
    assert!(!shown.stdout.contains("canary"), "{}", shown.stdout);
    assert_eq!(
        setting(&shown, "limits.hold"),
        json!({
            "key": "limits.hold",
            "value": "10s",
            "origin": { "kind": "project_file", "name": "semel.toml:2" },
        }),
    );
}

#[test]
fn a_wrong_file_is_refused_before_anything_is_opened() {
    let (folder, command) = within("stroe = \"sqlite:ours.db\"\n");
    let ended = run(&mut command(&["migrate", "--json"])).expect(2);
    let error: serde_json::Value = serde_json::from_str(&ended.stderr).expect("JSON");
    assert_eq!(error["error"]["code"], "config_invalid", "{error}");
    assert!(ended.stderr.contains("semel.toml:1: `stroe` is no setting; did you mean `store`?"));
    let left: Vec<_> = fs::read_dir(folder.path()).expect("a folder").collect();
    assert_eq!(left.len(), 1, "{left:?}");
    // What has nothing to do with a place goes on.
    let schema = run(&mut command(&["config", "schema"])).expect(0).json();
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.schema.json");
    let kept: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(docs).expect("a file")).expect("JSON");
    assert_eq!(schema, kept);
    let named = run(&mut command(&["runs", "ls", "--config", "gone.toml"])).expect(2);
    assert!(named.stderr.contains("gone.toml: there is no such file"), "{}", named.stderr);
}

#[test]
fn python_gets_the_store_of_the_file_unless_somebody_else_named_one() {
    let (folder, command) = within("store = \"sqlite:ours.db\"\n");
    let python = folder.path().join("python");
    let script = "#!/bin/sh\n[ \"$1\" = -c ] && exit 0\necho \"$SEMEL_STORE\" \"$@\"\n";
    fs::write(&python, script).expect("a script");
    fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).expect("it may be run");
    let check = |line: &[&str], variable: &str, want: &str| {
        let mut command = command(line);
        let ended = run(command.env("SEMEL_PYTHON", &python).env("SEMEL_STORE", variable));
        assert_eq!(ended.expect(0).stdout.trim_end(), want, "{line:?} {variable}");
    };
    check(&["worker", "app.py"], "", "sqlite:ours.db -m semel worker app.py");
    check(&["worker", "app.py"], "sqlite:e.db", "sqlite:e.db -m semel worker app.py");
}
