//! One throw-away Postgres server with a folder and a port of its own.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::account::Account;
use crate::guardian::{Guardian, Last, is_dead};
use crate::{installation, template};

/// Below the range from which systems hand out ports by themselves, so that a port still is free
/// when its cluster starts again.
const PORT_FIRST: u16 = 20_000;
const PORT_COUNT: u16 = 12_000;

/// Ports to try before giving up: another process may take one between our look and the start.
const PORT_TRIES_MAX: u32 = 20;

/// Recovery after a crash on a busy, slow machine takes seconds; a minute means that it hangs.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(60);
pub(crate) const POLL: Duration = Duration::from_millis(10);

/// For every cluster. Shared memory lies in the folder, so that it goes with the folder.
const SETTINGS: [(&str, &str); 12] = [
    ("listen_addresses", "127.0.0.1"),
    ("unix_socket_directories", ""),
    ("shared_buffers", "64MB"),
    ("dynamic_shared_memory_type", "mmap"),
    ("max_connections", "200"),
    ("wal_level", "replica"),
    ("max_wal_senders", "5"),
    ("hot_standby", "on"),
    ("wal_retrieve_retry_interval", "100ms"),
    ("synchronous_commit", "on"),
    ("log_line_prefix", "%m [%p] %a "),
    ("logging_collector", "off"),
];

/// A killed server keeps what it wrote, as the system survives; only a machine would lose it.
const QUICK: [(&str, &str); 2] = [("fsync", "off"), ("full_page_writes", "off")];
const DURABLE: [(&str, &str); 2] = [("fsync", "on"), ("full_page_writes", "on")];

pub struct Cluster {
    guardian: Guardian,
    binaries: PathBuf,
    pub(crate) account: Account,
    port: u16,
    /// Whom a standby follows.
    pub(crate) primary: Option<u16>,
}

impl Cluster {
    /// A server that forces nothing to disk: for tests of logic.
    #[must_use]
    pub fn start() -> Cluster {
        Cluster::with(&[])
    }

    /// A server that forces each commit to disk, as a careful operator would run it.
    #[must_use]
    pub fn durable() -> Cluster {
        Cluster::with(&DURABLE)
    }

    /// A quick server with settings of one's own, which win over ours.
    #[must_use]
    pub fn with(settings: &[(&str, &str)]) -> Cluster {
        done("starting Postgres", Cluster::try_with(settings))
    }

    /// As [`Cluster::with`], for programs that answer with an error.
    pub fn try_with(settings: &[(&str, &str)]) -> Result<Cluster> {
        let account = Account::find()?;
        let mut cluster = Cluster::prepare(account)?;
        template::copy_into(cluster.folder(), account)?;
        cluster.configure(&SETTINGS)?;
        cluster.configure(&QUICK)?;
        cluster.configure(settings)?;
        cluster.start_anywhere()?;
        Ok(cluster)
    }

    /// Where a client connects.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.port)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Holds all that the server keeps, and is gone when it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.guardian.folder()
    }

    /// Stops as a crash would: no checkpoint, connections cut, recovery at the next start.
    pub fn stop_immediately(&self) {
        done("stopping Postgres", self.guardian.stop("QUIT"));
    }

    /// Stops as an operator would: transactions rolled back, connections closed, all on disk.
    pub fn stop_fast(&self) {
        done("stopping Postgres", self.guardian.stop("INT"));
    }

    /// Kills the postmaster alone, as a system short of memory would; its children find out by
    /// themselves.
    pub fn kill(&self) {
        done("killing Postgres", self.guardian.stop("KILL"));
    }

    /// Starts a stopped server on its old port, and waits until it accepts connections.
    pub fn start_again(&self) {
        let until = Instant::now() + WAIT_MAX;
        loop {
            match self.start_here() {
                Ok(()) => return,
                Err(error) if is_passing(&error) && Instant::now() < until => sleep(POLL),
                Err(error) => panic!("starting Postgres again: {error:#}"),
            }
        }
    }

    /// What `psql` prints for the statements, unaligned and without headings.
    pub fn psql(&self, sql: &str) -> String {
        done("psql", self.try_psql(sql))
    }

    /// As [`Cluster::psql`], for statements that may fail.
    pub fn try_psql(&self, sql: &str) -> Result<String> {
        psql(&self.url(), &[sql])
    }

    /// Ends the client connections that fit a condition on `pg_stat_activity`; answers how many.
    pub fn terminate_backends(&self, condition: &str) -> usize {
        let answer = self.psql(&format!(
            "SELECT count(*) FILTER (WHERE pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND ({condition})"
        ));
        done("terminating backends", answer.parse().context(answer))
    }

    /// All that the server has said so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.guardian.log()
    }

    /// A cluster with a guardian and an empty folder.
    pub(crate) fn prepare(account: Account) -> Result<Cluster> {
        let binaries = installation::folder()?;
        let folder = template::folder(account, "cluster")?;
        let mut server = account.command(&binaries.join("postgres"));
        server.arg("-D").arg(folder.join("data"));
        let guardian = Guardian::hire(account, folder, Last::Quit, &server)?;
        Ok(Cluster { guardian, binaries, account, port: 0, primary: None })
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.guardian.folder().join("data")
    }

    pub(crate) fn binary(&self, name: &str) -> PathBuf {
        self.binaries.join(name)
    }

    /// Appends settings: of two lines for one setting Postgres takes the last.
    pub(crate) fn configure(&self, settings: &[(&str, &str)]) -> Result<()> {
        let path = self.data().join("postgresql.conf");
        let mut file = OpenOptions::new()
            .append(true)
            .open(&path)
            .with_context(|| format!("opening {}", path.display()))?;
        for (name, value) in settings {
            writeln!(file, "{name} = '{}'", value.replace('\'', "''"))?;
        }
        Ok(())
    }

    /// Picks a port and starts there; picks another when it was taken.
    pub(crate) fn start_anywhere(&mut self) -> Result<()> {
        for _ in 0..PORT_TRIES_MAX {
            self.port = free_port()?;
            self.configure(&[("port", &self.port.to_string())])?;
            match self.start_here() {
                Err(error) if is_port_taken(&error) => {}
                other => return other,
            }
        }
        bail!("no free port in {PORT_TRIES_MAX} tries");
    }

    fn start_here(&self) -> Result<()> {
        let log_before = self.log().len();
        let pid = self.guardian.start()?;
        let ready = wait_until("Postgres accepts connections", || {
            Ok(is_ready(&self.data(), pid) || is_dead(pid))
        });
        let log = self.log();
        let said = log.get(log_before..).unwrap_or_default();
        ready.with_context(|| said.to_owned())?;
        if is_dead(pid) {
            self.guardian.stop("QUIT")?;
            bail!("Postgres ended at its start: {said}");
        }
        Ok(())
    }
}

pub(crate) fn url(port: u16) -> String {
    format!("postgres://semel@127.0.0.1:{port}/semel")
}

/// What `psql` prints for the statements, each a request of its own on one connection.
pub fn psql(url: &str, statements: &[&str]) -> Result<String> {
    let mut command = Command::new(installation::psql()?);
    command.args(["-AtXq", "-v", "ON_ERROR_STOP=1", "-d", url]);
    command.args(statements.iter().flat_map(|sql| ["-c", sql]));
    let output = command.output().context("running psql")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{}: {}", output.status, said.trim());
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// Polls until the answer is yes; there is no signal to wait for across these processes.
pub(crate) fn wait_until(what: &str, mut ask: impl FnMut() -> Result<bool>) -> Result<()> {
    let until = Instant::now() + WAIT_MAX;
    while !ask()? {
        ensure!(Instant::now() < until, "waited {WAIT_MAX:?} in vain until {what}");
        sleep(POLL);
    }
    Ok(())
}

/// The laboratory's one way to fail.
pub(crate) fn done<T>(what: &str, result: Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{what}: {error:#}"))
}

/// The server's own word, in its folder: a port could be answered by somebody else.
fn is_ready(data: &Path, pid: u32) -> bool {
    let text = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let mut lines = text.lines().map(str::trim);
    lines.next() == Some(&pid.to_string()) && lines.nth(6) == Some("ready")
}

fn is_port_taken(error: &anyhow::Error) -> bool {
    error.to_string().contains("Address already in use")
}

/// Somebody borrowed the port, or children of a killed server are still dying.
fn is_passing(error: &anyhow::Error) -> bool {
    is_port_taken(error) || error.to_string().contains("pre-existing shared memory block")
}

pub(crate) fn free_port() -> Result<u16> {
    for _ in 0..PORT_TRIES_MAX {
        let random = getrandom::u32().context("asking for a random number")?;
        let port = PORT_FIRST + u16::try_from(random % u32::from(PORT_COUNT))?;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no free port in {PORT_TRIES_MAX} tries");
}
