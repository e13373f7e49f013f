//! A small process that outlives us just long enough to end the server we started.
//!
//! A test can die by SIGKILL and run no code at all; then the kernel closes its pipes. The
//! guardian reads from one, in a process group of its own so that it is not killed along. It is
//! the server's parent, so no server can be between "being started" and "known by its id".

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::account::Account;

const SCRIPT: &str = include_str!("guardian.sh");
const DISMISSED: &str = "the guardian was dismissed";

pub(crate) struct Guardian {
    folder: PathBuf,
    child: Child,
    /// Taken when dropped: the closed pipe is the order to end.
    pipes: Mutex<Option<Pipes>>,
}

struct Pipes {
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    /// The server started last and not stopped since.
    server: Option<u32>,
}

/// What stops the server at once, as a crash would.
#[derive(Clone, Copy)]
pub(crate) enum Last {
    Quit,
    Term,
}

impl Last {
    fn signal(self) -> &'static str {
        match self {
            Last::Quit => "QUIT",
            Last::Term => "TERM",
        }
    }
}

impl Guardian {
    /// Watches over a folder and, from the first `start` on, over the server that lives in it.
    pub(crate) fn hire(
        account: Account,
        folder: PathBuf,
        last: Last,
        server: &Command,
    ) -> Result<Guardian> {
        let mut command = account.command(Path::new("/bin/sh"));
        command.args(["-c", SCRIPT, "guardian"]).arg(&folder).arg(last.signal());
        command.arg(server.get_program()).args(server.get_args());
        command.process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("starting the guardian")?;
        let orders = child.stdin.take().context("the guardian has no input")?;
        let answers = child.stdout.take().context("the guardian has no output")?;
        let pipes = Pipes { orders, answers: BufReader::new(answers), server: None };
        Ok(Guardian { folder, child, pipes: Mutex::new(Some(pipes)) })
    }

    /// Starts the server and answers its process id. One that ended by itself, as at a taken
    /// port, is buried first.
    pub(crate) fn start(&self) -> Result<u32> {
        let mut pipes = self.lock();
        let pipes = pipes.as_mut().context(DISMISSED)?;
        if let Some(pid) = pipes.server {
            ensure!(is_dead(pid), "the server runs already, as {pid}");
            pipes.order("CONT")?;
        }
        let answer = pipes.order("start")?;
        let pid = answer.parse().with_context(|| format!("the guardian answered `{answer}`"))?;
        pipes.server = Some(pid);
        Ok(pid)
    }

    /// Sends the server a signal that ends it, and waits for its end.
    pub(crate) fn stop(&self, signal: &str) -> Result<()> {
        let mut pipes = self.lock();
        let pipes = pipes.as_mut().context(DISMISSED)?;
        pipes.server = None;
        pipes.order(signal).map(drop)
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn log(&self) -> String {
        fs::read(self.folder.join("log"))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, Option<Pipes>> {
        self.pipes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pipes {
    fn order(&mut self, word: &str) -> Result<String> {
        writeln!(self.orders, "{word}").context("the guardian is gone")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).context("the guardian is gone")?;
        Ok(answer.trim().to_owned())
    }
}

impl Drop for Guardian {
    fn drop(&mut self) {
        drop(self.lock().take());
        // Waiting keeps the next test's machine quiet.
        let _ = self.child.wait();
    }
}

/// Whether a process has ended, even if its parent has not noticed. Where there is no `/proc`,
/// nobody is known to be dead, and whoever waits runs into its own limit instead.
pub(crate) fn is_dead(pid: u32) -> bool {
    if !Path::new("/proc/self/stat").exists() {
        return false;
    }
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        // The state follows the name, which may itself hold brackets.
        Ok(stat) => stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')),
        Err(_) => true,
    }
}
