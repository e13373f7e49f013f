//! Children: this test binary started again, to play a role of the same test.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};

const ROLE: &str = "SEMEL_TEST_ROLE";
const STORE: &str = "SEMEL_TEST_STORE";

/// The part this process plays, when it is a child: its role and the store's file.
pub(crate) fn role() -> Option<(String, PathBuf)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, PathBuf::from(std::env::var_os(STORE)?)))
}

/// Says a line to the parent. Not by `println`, which the test harness may keep to itself.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The parent may be gone; then nobody needs the line.
    let _ = writeln!(out, "@{line}");
    let _ = out.flush();
}

/// A process that plays a role, killed when dropped.
pub(crate) struct Player {
    child: Child,
    lines: BufReader<ChildStdout>,
    errors: File,
}

impl Player {
    /// Starts `test` of this binary again as `role` on a store.
    pub(crate) fn start(test: &str, role: &str, store: &Path) -> Player {
        Player::start_under(&[], test, role, store)
    }

    /// The same under another program: `strace …`, `unshare …`.
    pub(crate) fn start_under(under: &[&str], test: &str, role: &str, store: &Path) -> Player {
        let this = std::env::current_exe().expect("this binary");
        let mut words = under.iter().map(std::ffi::OsString::from).collect::<Vec<_>>();
        words.push(this.into());
        words.extend(["--exact", test, "--nocapture", "--test-threads=1"].map(Into::into));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(ROLE, role).env(STORE, store);
        let errors = tempfile::tempfile().expect("a file for its errors");
        let stderr = errors.try_clone().expect("a second descriptor");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().expect("a child process");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        Player { child, lines, errors }
    }

    /// The next line the child says; `None` when it has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        loop {
            let mut line = String::new();
            // A line without an end was cut by the child's death: it was not said.
            if self.lines.read_line(&mut line).expect("a pipe") == 0 || !line.ends_with('\n') {
                return None;
            }
            // The harness prints the test's name without an end of line.
            if let Some((_, said)) = line.trim_end().split_once('@') {
                return Some(said.to_owned());
            }
        }
    }

    /// All that the child says until it ends.
    pub(crate) fn hear_all(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.hear()).collect()
    }

    pub(crate) fn expect(&mut self, wanted: &str) {
        assert_eq!(self.hear().as_deref(), Some(wanted));
    }

    pub(crate) fn pid(&self) -> Pid {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw).expect("a pid")
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("a signal");
    }

    /// `kill -9`, and waits until the process is gone.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a kill");
        self.child.wait().expect("a dead child");
    }

    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.wait().expect("a child that ended")
    }
}

impl Drop for Player {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let mut text = String::new();
            let _ = self.errors.seek(SeekFrom::Start(0));
            let _ = self.errors.read_to_string(&mut text);
            let _ = writeln!(std::io::stderr(), "the child said on stderr:\n{text}");
        }
    }
}
