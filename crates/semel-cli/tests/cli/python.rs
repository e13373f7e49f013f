//! Commands on code in Python become `python3 -m semel`. The interpreter here is a script that says
//! how it was called; what the package does is tested with the package.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::common::{Ended, run, semel};

/// An interpreter that answers the question for the package with `look`, and to everything else
/// tells its process and its arguments, one a line.
fn interpreter(folder: &Path, look: &str) -> PathBuf {
    let path = folder.join("python");
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -c ] && {{ {look}; }}\necho $$ \"$SEMEL_STORE\"\n\
         printf '<%s>\\n' \"$@\"\nexit 7\n"
    );
    fs::write(&path, script).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("it may be run");
    path
}

fn with_python(python: &Path, args: &[&str]) -> Command {
    let mut command = semel();
    command.env("SEMEL_PYTHON", python).args(args);
    command
}

fn called(args: &[&str]) -> String {
    let folder = TempDir::new().expect("a folder");
    let python = interpreter(folder.path(), "exit 0");
    // Its exit code is that of the command.
    let said = run(&mut with_python(&python, args)).expect(7).stdout;
    let given: Vec<&str> = said.lines().skip(1).collect();
    given.concat()
}

fn refused(look: &str) -> Ended {
    let folder = TempDir::new().expect("a folder");
    let python = interpreter(folder.path(), look);
    run(&mut with_python(&python, &["worker", "app.py"])).expect(1)
}

#[test]
fn a_worker_gets_its_line_and_what_the_command_was_told_before_it() {
    let check = |line: &[&str], want: &str| assert_eq!(called(line), want, "{line:?}");
    check(&["worker", "app.py"], "<-m><semel><worker><app.py>");
    check(
        &["worker", "--store", "sqlite:a b.db", "app.py", "--reload", "-v", "x y"],
        "<-m><semel><worker><--store><sqlite:a b.db><app.py><--reload><-v><x y>",
    );
    check(
        &["--namespace", "n", "--json", "worker", "app.py"],
        "<-m><semel><worker><--namespace><n><--json><app.py>",
    );
    // Behind the file everything is the worker's own.
    check(
        &["worker", "app.py", "--store", "memory:", "--json", "--help", "--", "-"],
        "<-m><semel><worker><app.py><--store><memory:><--json><--help><--><->",
    );
}

#[test]
fn lint_gets_its_line_with_its_flags_on_either_side_of_the_file() {
    let check = |line: &[&str], want: &str| assert_eq!(called(line), want, "{line:?}");
    check(&["lint", "app.py", "more"], "<-m><semel><lint><app.py><more>");
    check(&["--json", "lint", "app.py"], "<-m><semel><lint><--json><app.py>");
    check(
        &["lint", "--select", "SML001", "app.py", "--all", "--json"],
        "<-m><semel><lint><--select><SML001><app.py><--all><--json>",
    );
}

#[test]
fn the_bench_of_python_gets_its_line() {
    let want = "<-m><semel><bench><python><--store><memory:><--json><--seconds><1>";
    assert_eq!(
        called(&["--store", "memory:", "--json", "bench", "python", "--seconds", "1"]),
        want
    );
    let postgres = ["bench", "python", "--store", "postgres://nowhere/x"];
    assert_eq!(called(&postgres), "<-m><semel><bench><python><--store><postgres://nowhere/x>");
    assert_eq!(called(&["bench", "python"]), "<-m><semel><bench><python>");
}

#[test]
fn python_takes_the_place_of_the_command_and_has_its_environment() {
    let folder = TempDir::new().expect("a folder");
    let python = interpreter(folder.path(), "exit 0");
    let mut command = with_python(&python, &["worker", "app.py"]);
    command.env("SEMEL_STORE", "sqlite:from-env.db").stdout(Stdio::piped());
    let child = command.spawn().expect("the program runs");
    let id = child.id();
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8(output.stdout).expect("text");
    let want = format!("{id} sqlite:from-env.db\n<-m>\n<semel>\n<worker>\n<app.py>\n");
    assert_eq!(said, want, "a signal to the command reaches Python, and nothing is said twice");
}

#[test]
fn an_interpreter_without_the_package_is_told_from_one_that_does_not_run() {
    let missing = refused("exit 9");
    assert!(missing.stderr.contains("has no package semel"), "{missing:?}");
    assert!(missing.stderr.contains("hint: pip install semel"), "{missing:?}");
    let broken = refused("echo 'No module named encodings' >&2; exit 1");
    assert!(broken.stderr.contains("cannot be run: exit status: 1; No module"), "{broken:?}");
    let nowhere = run(&mut with_python(Path::new("no/such/python"), &["worker", "app.py"]));
    let nowhere = nowhere.expect(1).stderr;
    assert!(nowhere.contains("`no/such/python` cannot be run"), "{nowhere}");
    assert!(nowhere.contains("SEMEL_PYTHON"), "{nowhere}");
}

#[test]
fn a_worker_without_a_file_is_a_mistake_and_help_lists_it() {
    run(semel().arg("worker")).expect(2);
    let help = run(semel().arg("--help")).expect(0).stdout;
    assert!(help.lines().any(|line| line.trim_start().starts_with("worker ")), "{help}");
    let help = run(semel().args(["worker", "--help"])).expect(0).stdout;
    assert!(help.contains("python3 -m semel"), "{help}");
}
