//! `semel dev`: the server and the life of its worker. The interpreter here is a script that takes
//! down what happens to it; with the package itself it is tested in Python.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::common::{run, semel, until};

/// Refuses to compile what is BROKEN, ends at once with what has CRASH in it, and else works until
/// it is told to end.
const PYTHON: &str = r#"#!/bin/sh
here=$(dirname "$0")
if [ "$1" = -c ]; then
  shift 2
  for file; do grep -q BROKEN "$file" && { echo "SyntaxError: $file" >&2; exit 1; }; done
  exit 0
fi
trap 'echo "end $$" >> "$here/book"; exit 0' TERM
echo "start $$ $*" >> "$here/book"
grep -q CRASH "$here/app.py" && exit 3
while :; do sleep 0.05; done
"#;

struct Dev {
    child: Child,
    folder: TempDir,
    url: String,
}

impl Dev {
    fn start(source: &str) -> Dev {
        let folder = TempDir::new().expect("a folder");
        let python = folder.path().join("python");
        fs::write(&python, PYTHON).expect("a script");
        fs::set_permissions(&python, fs::Permissions::from_mode(0o755)).expect("it may be run");
        fs::write(folder.path().join("app.py"), source).expect("an app");
        let errors = fs::File::create(folder.path().join("errors")).expect("a file");
        let mut command: Command = semel();
        command.env("SEMEL_PYTHON", &python).current_dir(folder.path());
        command.args(["dev", "app.py", "--store", "sqlite:here.db", "--listen", "127.0.0.1:0"]);
        let mut child = command.stdout(Stdio::piped()).stderr(errors).spawn().expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let first = lines.next().expect("a line").expect("text");
        let url = first.strip_prefix("listening on ").expect("an address").to_owned();
        for name in ["/docs", "/console"] {
            let line = lines.next().expect("a line").expect("text");
            assert!(line.ends_with(&format!("{url}{name}")), "{line}");
        }
        Dev { child, folder, url }
    }

    fn write(&self, source: &str) {
        fs::write(self.folder.path().join("app.py"), source).expect("an app");
    }

    fn book(&self) -> Vec<String> {
        let book = fs::read_to_string(self.folder.path().join("book")).unwrap_or_default();
        book.lines().map(str::to_owned).collect()
    }

    fn starts(&self) -> Vec<String> {
        let pid = |line: &String| line.strip_prefix("start ")?.split(' ').next().map(str::to_owned);
        self.book().iter().filter_map(pid).collect()
    }

    fn until_starts(&self, count: usize) -> String {
        let what = format!("{count} starts");
        until(&what, || (self.starts().len() >= count).then(|| self.starts()[count - 1].clone()))
    }

    fn errors(&self) -> String {
        fs::read_to_string(self.folder.path().join("errors")).expect("a file")
    }

    fn until_ended(&self, pid: &str) {
        until("it ended", || self.book().contains(&format!("end {pid}")).then_some(()));
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        // Not killed: its worker would go on without it.
        let _ = Command::new("kill").arg(self.child.id().to_string()).status();
        let _ = self.child.wait();
    }
}

fn is_alive(pid: &str) -> bool {
    Path::new("/proc").join(pid).exists()
}

#[test]
fn a_change_starts_a_new_worker_and_a_slip_of_the_pen_leaves_the_old_one() {
    let mut dev = Dev::start("one = 1\n");
    let first = dev.until_starts(1);
    let line = dev.book()[0].clone();
    let want = "-m semel worker --store sqlite:here.db --namespace default app.py --release dev";
    assert!(line.ends_with(want), "{line}");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let page = runtime.block_on(async {
        let answer = reqwest::get(format!("{}/console", dev.url)).await.expect("an answer");
        answer.text().await.expect("a page")
    });
    assert!(page.contains("Nothing is in doubt"), "{page}");
    dev.write("one = BROKEN\n");
    until("it is told", || dev.errors().contains("the worker stays as it was").then_some(()));
    assert!(dev.errors().contains("SyntaxError"), "{}", dev.errors());
    assert_eq!(dev.starts(), [first.as_str()], "nothing was started");
    assert!(is_alive(&first), "the old one works on");
    dev.write("one = 2 # mended\n");
    let second = dev.until_starts(2);
    dev.until_ended(&first);
    assert!(is_alive(&second));
    let pid = dev.child.id().to_string();
    run(Command::new("kill").args(["-INT", &pid])).expect(0);
    let status = dev.child.wait().expect("it ends");
    assert!(status.success(), "{status}: {}", dev.errors());
    assert!(dev.book().contains(&format!("end {second}")), "the worker ended first");
    assert!(dev.errors().contains("stopped"), "{}", dev.errors());
}

#[test]
fn a_worker_that_crashes_is_told_and_started_again_until_a_change_mends_it() {
    let dev = Dev::start("CRASH = 1\n");
    dev.until_starts(2);
    let told = dev.errors();
    assert!(
        told.contains("the worker ended (exit status: 3); it starts again in 500 ms"),
        "{told}"
    );
    until("the pause grows", || dev.errors().contains("again in 1000 ms").then_some(()));
    dev.write("fine = 1\n");
    until("one that lives", || dev.starts().last().is_some_and(|pid| is_alive(pid)).then_some(()));
}

#[test]
fn dev_without_a_file_or_without_python_says_what_to_do() {
    let folder = TempDir::new().expect("a folder");
    let dev = |python: &str| {
        let mut command = semel();
        command.env("SEMEL_PYTHON", python).current_dir(folder.path());
        command.args(["dev", "app.py", "--listen", "127.0.0.1:0"]);
        run(&mut command).expect(1).stderr
    };
    assert!(dev("python3").contains("there is no file app.py"));
    fs::write(folder.path().join("app.py"), "").expect("an app");
    assert!(dev("no/such/python").contains("cannot be run"));
}
