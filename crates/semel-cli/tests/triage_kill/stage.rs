//! The destinations, shared by all points, and for each point a store, its workers and its oracle.

use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use semel::{Action, Address, IntoKey, Namespace};
use semel_core::effect::State;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{Crm, Ended, lines, run, semel, until};
use crate::ledger::Ledger;

const SENDER: &str = "ada@customer.example";
const SETTLE_MS: &str = "300";
/// Between two looks at the store: a look costs more than a file.
const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Servers {
    crm: Crm,
    _others: [Process; 2],
    dir: TempDir,
}

impl Servers {
    pub(crate) fn start() -> Servers {
        let dir = tempfile::tempdir().expect("a folder");
        let start =
            |command: &str| Process(semel().arg(command).arg(dir.path()).spawn().expect(command));
        let others = [start("demo-model"), start("demo-mail")];
        Servers { crm: Crm::start(dir.path()), _others: others, dir }
    }

    fn address(&self, name: &str) -> String {
        let file = self.dir.path().join(format!("{name}.addr"));
        until("a server starts", || fs::read_to_string(&file).ok())
    }
}

/// A process that does not outlive this value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// One request, its event, and a store of its own.
pub(crate) struct Case<'a> {
    servers: &'a Servers,
    pub(crate) request: String,
    dir: TempDir,
    workers: AtomicU32,
}

impl Case<'_> {
    pub(crate) fn new<'a>(servers: &'a Servers, request: &str) -> Case<'a> {
        let dir = tempfile::tempdir().expect("a folder");
        Case { servers, request: request.to_owned(), dir, workers: AtomicU32::new(0) }
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.dir.path().join("semel.db")
    }

    fn command(&self) -> Command {
        let mut command = semel();
        command.arg("--store").arg(format!("sqlite:{}", self.store().display()));
        command
    }

    pub(crate) fn semel(&self, args: &[&str]) -> Ended {
        run(self.command().args(args))
    }

    /// Starts a worker that triggers the event twice, and dies at a point.
    pub(crate) fn worker(&self, die_at: Option<&str>) -> Worker {
        let number = self.workers.fetch_add(1, Ordering::Relaxed);
        let file = |kind: &str| self.dir.path().join(format!("worker-{number}.{kind}"));
        let (out, err) = (file("out"), file("err"));
        let create = |path: &Path| File::create(path).expect("a file");
        let mut command = self.command();
        command.args(["demo-triage-worker", &self.request, "--settle-ms", SETTLE_MS]);
        for name in ["model", "crm", "mail"] {
            command.arg(format!("--{name}")).arg(self.servers.address(name));
        }
        command.env("SEMEL_REHEARSE_DIE_AT", die_at.unwrap_or_default());
        let child = command.stdout(create(&out)).stderr(create(&err)).spawn().expect("a worker");
        Worker { process: Process(child), out, err }
    }

    pub(crate) fn address(&self, action: &str) -> Address {
        let key = match action {
            "ack-mail" => [self.request.as_str(), SENDER, "v1"].into_key(),
            _ => [self.request.as_str()].into_key(),
        };
        Address {
            namespace: Namespace::default(),
            action: Action::new(action).expect("a name"),
            key: key.expect("a key"),
        }
    }

    pub(crate) fn tickets(&self) -> usize {
        self.servers.crm.applied(&self.request).len()
    }

    pub(crate) fn crm_arrivals(&self) -> usize {
        self.servers.crm.did("arrived", &self.request).len()
    }

    pub(crate) fn model_calls(&self) -> usize {
        let subject = format!("{}:", self.request);
        let calls: Vec<Value> = lines(&self.servers.dir.path().join("calls.jsonl"));
        let is_ours =
            |call: &&Value| call["subject"].as_str().is_some_and(|s| s.starts_with(&subject));
        calls.iter().filter(is_ours).count()
    }

    fn message_id(&self) -> String {
        let mail = Ledger::open(&self.store()).effect(&self.address("ack-mail"));
        let plan = mail.and_then(|mail| mail.plan).expect("the mail was begun");
        format!("<{}@triage.example>", plan.downstream_key)
    }

    /// How many mails the mail server has accepted under the id of this intent.
    pub(crate) fn mails(&self) -> usize {
        let id = self.message_id();
        let mails: Vec<Value> = lines(&self.servers.dir.path().join("mails.jsonl"));
        mails.iter().filter(|mail| mail["message_id"] == id.as_str()).count()
    }

    pub(crate) fn is_in_doubt(&self) -> bool {
        let mail = self.address("ack-mail");
        let state = Ledger::find(&self.store()).and_then(|ledger| ledger.state(&mail));
        state == Some(State::InDoubt)
    }

    /// The workers find out that the one before them was cut, and wait for a person.
    pub(crate) fn until_in_doubt(&self, workers: &mut [Worker]) {
        until("the mail is in doubt", || {
            let has_ended = workers.iter_mut().any(|worker| worker.has_ended());
            assert!(!has_ended, "{}: a worker ended without a word", self.request);
            std::thread::sleep(LOOK);
            self.is_in_doubt().then_some(())
        });
    }

    /// Waits for the end of a worker, with a person at hand who settles doubts. Returns its exit
    /// code and how many doubts there were.
    pub(crate) fn finish(&self, worker: &mut Worker) -> (Option<i32>, usize) {
        let mut doubts = 0;
        until("the worker ends", || {
            if worker.has_ended() {
                return Some(());
            }
            if self.is_in_doubt() {
                doubts += 1;
                self.resolve();
            }
            std::thread::sleep(LOOK);
            None
        });
        (worker.end(), doubts)
    }

    /// What an operator does: look at the mail server, then say what is there.
    pub(crate) fn resolve(&self) {
        let address = self.address("ack-mail");
        let receipt = json!({ "message_id": self.message_id() }).to_string();
        let decision: &[&str] = match self.mails() {
            0 => &["--retry"],
            _ => &["--done", "--receipt", &receipt],
        };
        // A retry is refused until the settle window has passed, and the version moves when the run
        // begins to wait.
        until("the doubt is settled", || {
            let effect = Ledger::open(&self.store()).effect(&address).expect("the mail");
            let (name, version) = (address.to_string(), effect.version.to_string());
            let person =
                ["--version", &version, "--actor", "ada", "--reason", "looked at the server"];
            let line = [&["effects", "resolve", &name], decision, &person].concat();
            let ended = self.semel(&line);
            assert!([Some(0), Some(4)].contains(&ended.code), "{ended:?}");
            std::thread::sleep(LOOK);
            (ended.code == Some(0)).then_some(())
        });
    }
}

/// A worker process. It writes to files, so that also a killed one is heard.
pub(crate) struct Worker {
    process: Process,
    out: PathBuf,
    err: PathBuf,
}

impl Worker {
    pub(crate) fn has_ended(&mut self) -> bool {
        self.process.0.try_wait().expect("a worker").is_some()
    }

    /// Waits for its end and returns its exit code, or `None` when it was killed.
    pub(crate) fn end(&mut self) -> Option<i32> {
        let ended = until("a worker ends", || self.process.0.try_wait().expect("a worker"));
        assert!(ended.code().is_some() || ended.signal() == Some(9), "{ended}: {}", self.words());
        ended.code()
    }

    pub(crate) fn words(&self) -> String {
        fs::read_to_string(&self.err).expect("its words")
    }

    /// What it printed: one line about the run.
    pub(crate) fn said(&self) -> Value {
        let said: Vec<Value> = lines(&self.out);
        assert_eq!(said.len(), 1, "{said:?}");
        said[0].clone()
    }

    /// The points that it passed, each by its first name.
    pub(crate) fn points(&self) -> Vec<String> {
        let words = self.words();
        let names = words.lines().filter_map(|line| line.strip_prefix("point: "));
        let first = |names: &str| names.split(" | ").next().unwrap_or_default().to_owned();
        names.map(first).filter(|name| !name.is_empty()).collect()
    }
}
