//! What the tests of the command share: the program itself, its CRM and its workers, all of them
//! real processes on real files.

#![allow(dead_code, reason = "not every test uses every helper")]

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Longer than anything here takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program under test, untouched by the environment of whoever runs the tests.
pub(crate) fn semel() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_semel"));
    command.stdin(Stdio::null());
    for name in [
        "SEMEL_STORE",
        "SEMEL_TOKEN",
        "SEMEL_NAMESPACE",
        "SEMEL_CONFIG",
        "SEMEL_KEY_FILE",
        "SEMEL_SECRETS",
        "XDG_CONFIG_HOME",
        "SEMEL_NOTIFY",
        "SEMEL_NOTIFY_SECRET",
        "SEMEL_PROOF_KEY",
        "SEMEL_PYTHON",
        "RUST_LOG",
        "NO_COLOR",
    ] {
        command.env_remove(name);
    }
    command.env("USER", "ada");
    command
}

/// How a command ended, and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// The one JSON document on stdout.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    pub(crate) fn expect(self, code: i32) -> Ended {
        assert_eq!(self.code, Some(code), "{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// Runs a command to its end.
pub(crate) fn run(command: &mut Command) -> Ended {
    let output = command.output().expect("the program runs");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Waits until `found` finds something.
pub(crate) fn until<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    while started.elapsed() < PATIENCE {
        if let Some(found) = found() {
            return found;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    panic!("waited too long: {what}");
}

/// A folder with a CRM and a store.
pub(crate) struct World {
    pub(crate) crm: Crm,
    pub(crate) dir: TempDir,
}

impl World {
    pub(crate) fn new() -> World {
        let dir = tempfile::tempdir().expect("a folder");
        World { crm: Crm::start(dir.path()), dir }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.dir.path().join("semel.db")
    }

    /// A command on this store.
    pub(crate) fn semel(&self, args: &[&str]) -> Ended {
        run(self.command().args(args))
    }

    /// The same, to be changed before it runs.
    pub(crate) fn command(&self) -> Command {
        let mut command = semel();
        command.args(["--store", &format!("sqlite:{}", self.store().display())]);
        command
    }

    /// What the ledger says of one ticket.
    pub(crate) fn show(&self, reference: &str) -> Value {
        let name = format!("crm-ticket/{reference}");
        self.semel(&["effects", "show", &name, "--json"]).expect(0).json()
    }

    /// Starts a worker. It writes to files, so that also a killed one is heard.
    pub(crate) fn worker(&self, protection: &str, args: &[&str]) -> Worker {
        let file = |kind: &str| {
            let name = format!("worker-{:08x}.{kind}", rand());
            self.dir.path().join(name)
        };
        let (out, err) = (file("out"), file("err"));
        let create = |path: &Path| File::create(path).expect("a file");
        let mut command = semel();
        command.arg("--store").arg(format!("sqlite:{}", self.store().display()));
        command.args(["demo-worker", "--crm", &self.crm.url, "--protection", protection]);
        command.args(args).stdout(create(&out)).stderr(create(&err));
        let child = command.spawn().expect("a worker");
        Worker { pid: child.id(), child, out, err }
    }
}

/// A number nobody else in this process has drawn.
fn rand() -> u32 {
    use std::sync::atomic::{AtomicU32, Ordering};
    static NEXT: AtomicU32 = AtomicU32::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The CRM, and its files: they are the oracle.
pub(crate) struct Crm {
    process: Child,
    pub(crate) url: String,
    pub(crate) dir: PathBuf,
}

/// One thing the CRM did.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Event {
    pub(crate) kind: String,
    pub(crate) reference: String,
    pub(crate) key: Option<String>,
    /// The process that asked.
    pub(crate) worker: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Ticket {
    pub(crate) id: String,
    pub(crate) reference: String,
}

impl Crm {
    pub(crate) fn start(dir: &Path) -> Crm {
        let process = semel().arg("demo-crm").arg(dir).spawn().expect("a CRM");
        let url = until("the CRM starts", || fs::read_to_string(dir.join("crm.addr")).ok());
        Crm { process, url, dir: dir.to_owned() }
    }

    /// Tells the CRM what to do with the next requests for a reference.
    pub(crate) fn script(&self, reference: &str, answers: &[&str]) {
        let body = json!({ "reference": reference, "answers": answers }).to_string();
        let host = self.url.strip_prefix("http://").expect("an address");
        let mut stream = TcpStream::connect(host).expect("the CRM listens");
        let head = format!(
            "POST /control/script HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all((head + &body).as_bytes()).expect("the CRM hears");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("the CRM answers");
        assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        lines(&self.dir.join("events.jsonl"))
    }

    /// What it did of one kind for one reference.
    pub(crate) fn did(&self, kind: &str, reference: &str) -> Vec<Event> {
        let is_it = |event: &Event| event.kind == kind && event.reference == reference;
        self.events().into_iter().filter(is_it).collect()
    }

    /// The tickets of one reference.
    pub(crate) fn applied(&self, reference: &str) -> Vec<Ticket> {
        let tickets: Vec<Ticket> = lines(&self.dir.join("tickets.jsonl"));
        tickets.into_iter().filter(|ticket| ticket.reference == reference).collect()
    }
}

impl Drop for Crm {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A worker process. It does not outlive this value.
pub(crate) struct Worker {
    pub(crate) pid: u32,
    pub(crate) child: Child,
    pub(crate) out: PathBuf,
    pub(crate) err: PathBuf,
}

/// What a worker printed about one call.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) reference: String,
    pub(crate) receipt: Option<Value>,
    pub(crate) error: Option<String>,
    pub(crate) ms: u64,
}

impl Worker {
    /// Waits for its end and returns its exit code, or `None` when it was killed.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let ended = until("a worker ends", || self.child.try_wait().expect("a worker"));
        ended.code()
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        lines(&self.out)
    }

    /// Kills it the hard way. It must still have been alive.
    pub(crate) fn kill(&mut self) {
        use std::os::unix::process::ExitStatusExt;
        self.child.kill().expect("SIGKILL");
        let status = self.child.wait().expect("it ends");
        let words = fs::read_to_string(&self.err).expect("its words");
        assert_eq!(status.signal(), Some(9), "it ended before it was killed: {status}: {words}");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The whole lines of a file of JSON lines. An unfinished one at the end was never said.
pub(crate) fn lines<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let read = |line: &str| {
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{path:?}: {error}: {line}"))
    };
    whole.lines().map(read).collect()
}
