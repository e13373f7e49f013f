//! One Postgres, one CRM, four workers with a wire each.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use semel_lab::{Cluster, Proxy};
use semel_store::postgres::Postgres;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::common::Crm;
use crate::worker::{CRM, STORE};

const WORKERS: usize = 4;
/// Two of the workers live ten minutes off; leases must not care.
const SKEWS: [Option<&str>; WORKERS] = [None, Some("+10m"), None, Some("-10m")];

pub(crate) struct Stage {
    pub(crate) workers: Vec<Worker>,
    pub(crate) proxies: Vec<Proxy>,
    pub(crate) crm: Crm,
    pub(crate) cluster: Cluster,
    dir: TempDir,
    started: usize,
}

impl Stage {
    pub(crate) fn new(cluster: Cluster) -> Stage {
        let dir = tempfile::tempdir().expect("a folder");
        let runtime = Runtime::new().expect("a runtime");
        runtime.block_on(Postgres::migrate(&cluster.url())).expect("the store is made");
        let crm = Crm::start(dir.path());
        // Some answers of the destination are lost, too.
        control(&crm, "/control/default", r#"{"every": 41, "answer": "reset"}"#);
        let proxies = (0..WORKERS).map(|_| Proxy::start(cluster.port())).collect();
        let mut stage = Stage { workers: Vec::new(), proxies, crm, cluster, dir, started: 0 };
        for place in 0..WORKERS {
            let worker = stage.start_worker(place);
            stage.workers.push(worker);
        }
        stage
    }

    fn start_worker(&mut self, place: usize) -> Worker {
        self.started += 1;
        let words = self.dir.path().join(format!("worker-{:04}.err", self.started));
        let host = self.crm.url.strip_prefix("http://").expect("an address");
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--ignored", "--exact", "a_worker", "--nocapture"]);
        command.env(STORE, format!("{}?connections=6", self.proxies[place].url()));
        command.env(CRM, host).stdin(Stdio::piped()).stdout(Stdio::null());
        command.stderr(File::create(&words).expect("a file"));
        if let (Some(library), Some(skew)) = (faketime(), SKEWS[place]) {
            // The steady clock is the kernel's business: a wait of the runtime until a time that
            // only the library knows would not end.
            command.env("LD_PRELOAD", library).env("FAKETIME", skew);
            command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
        }
        let mut child = command.spawn().expect("a worker starts");
        let stdin = child.stdin.take();
        Worker { child, _stdin: stdin }
    }

    /// SIGKILL, and another one in its place.
    pub(crate) fn replace(&mut self, place: usize) {
        self.workers[place].end();
        self.workers[place] = self.start_worker(place);
    }

    /// Nobody works any more.
    pub(crate) fn end_workers(&mut self) {
        self.workers.iter_mut().for_each(Worker::end);
    }

    pub(crate) fn skewed(&self) -> usize {
        let is_here = usize::from(faketime().is_some());
        SKEWS.iter().flatten().count() * is_here
    }

    /// Why the store was found to have gone back, each time that it was.
    pub(crate) fn returns(&self) -> String {
        self.cluster.psql("SELECT evidence FROM semel.returns ORDER BY epoch")
    }

    /// What workers said that nobody should ever say.
    pub(crate) fn alarming_words(&self) -> Vec<String> {
        let mut alarming = Vec::new();
        for entry in fs::read_dir(self.dir.path()).expect("the folder") {
            let path = entry.expect("a file").path();
            if path.extension().is_some_and(|end| end == "err") {
                alarming.extend(words(&path).lines().filter(|line| is_alarming(line)).map(from));
            }
        }
        alarming
    }

    /// Where everything is, kept for whoever has to find out.
    pub(crate) fn keep(&mut self) -> PathBuf {
        self.dir.disable_cleanup(true);
        self.dir.path().to_owned()
    }
}

fn from(line: &str) -> String {
    line.to_owned()
}

fn words(path: &Path) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// A panic; or a pause, which no fault of the store or of a worker is a reason for.
fn is_alarming(line: &str) -> bool {
    line.contains("panicked at") || line.contains(" paused") || line.contains("corrupt")
}

fn faketime() -> Option<&'static str> {
    const PLACES: [&str; 3] = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
        "/usr/lib64/faketime/libfaketime.so.1",
    ];
    PLACES.into_iter().find(|place| Path::new(place).exists())
}

fn control(crm: &Crm, path: &str, body: &str) {
    use std::io::{Read, Write};
    let host = crm.url.strip_prefix("http://").expect("an address");
    let mut stream = std::net::TcpStream::connect(host).expect("the CRM listens");
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + body).as_bytes()).expect("the CRM hears");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("the CRM answers");
    assert!(answer.starts_with("HTTP/1.1 204"), "{answer}");
}

/// A worker process. It ends with this value, and also when this process dies: its input does.
pub(crate) struct Worker {
    child: Child,
    _stdin: Option<ChildStdin>,
}

impl Worker {
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stop(&self) {
        self.signal(Signal::STOP);
    }

    pub(crate) fn go_on(&self) {
        self.signal(Signal::CONT);
    }

    fn end(&mut self) {
        self.child.kill().expect("it can be killed");
        self.child.wait().expect("it has ended");
    }

    fn signal(&self, signal: Signal) {
        let pid = i32::try_from(self.id()).ok().and_then(Pid::from_raw).expect("a process id");
        kill_process(pid, signal).expect("a signal");
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
