//! `semel dev app.py`: the server with its console in this process, and a worker beside it that
//! starts again whenever a file changes.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use semel_server::{Server, Settings};
use semel_store::Veil;
use serde_json::json;
use tokio::process::{Child, Command};
use tokio::task::JoinSet;

use super::python::{by_files, interpreter, look_for_semel};
use super::serve::{failed, settings, stopped};
use crate::args;
use crate::config::Config;
use crate::exit::Failed;
use crate::print::Printer;

/// How often files are looked at.
const LOOK: Duration = Duration::from_millis(300);
/// A worker that crashed is started again after a pause, which doubles up to this.
const PAUSE_MAX: Duration = Duration::from_secs(30);
const PAUSE_MIN: Duration = Duration::from_millis(500);
/// One that lived so long had not crashed because of how it starts.
const LIVED: Duration = Duration::from_secs(10);
/// A worker that is told to end gets this long: a little more than it gives its steps.
const PATIENCE: Duration = Duration::from_secs(35);
/// Files that are watched at most.
const FILES_MAX: usize = 10_000;
/// One name for all that is tried: runs of the code before a change go on with the new one at once.
const RELEASE: &str = "dev";
/// Compiles the files that it is given, and does not run them.
const COMPILE: &str = "import sys\n\
                       for f in sys.argv[1:]: compile(open(f, 'rb').read(), f, 'exec')";

pub(crate) async fn run(
    options: &args::Dev,
    config: &Config,
    veil: Veil,
    printer: &Printer,
) -> Result<(), Failed> {
    if !options.app.is_file() {
        let text = format!("there is no file {}", options.app.display());
        return Err(Failed::new(text).hint("name the Python file with your workflows"));
    }
    let python = interpreter();
    look_for_semel(&python)?;
    let stop = stopped()?;
    let server = Server::bind(Settings { veil, ..settings(config)? }).await.map_err(failed)?;
    announce(&server, config, printer)?;
    let (end, mut ended) = tokio::sync::watch::channel(false);
    let serving = tokio::spawn(server.run(async move {
        let _ = ended.wait_for(|is_over| *is_over).await;
    }));
    let folder = match options.app.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    let mut desk = Desk {
        python,
        line: line(&options.app, config),
        environment: by_files(config),
        seen: stamps(&folder),
        folder,
        worker: None,
        leaving: JoinSet::new(),
        pause: PAUSE_MIN,
        start_at: None,
        printer,
    };
    desk.try_start(std::slice::from_ref(&options.app)).await;
    desk.attend(stop).await;
    // The server stays until the last worker has said what became of its runs.
    end.send_replace(true);
    let served = serving.await.map_err(|error| Failed::internal(error.to_string()))?;
    served.map_err(failed)?;
    printer.talk("stopped");
    Ok(())
}

/// Where everything is.
fn announce(server: &Server, config: &Config, printer: &Printer) -> Result<(), Failed> {
    let address = server.address().map_err(failed)?;
    let scheme = if config.set.tls.cert.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    let (docs, console) = (format!("{url}/docs"), format!("{url}/console"));
    if printer.wants_json() {
        return printer.json(&json!({ "url": url, "docs": docs, "console": console }));
    }
    printer.line(&format!("listening on {url}"));
    printer.line(&format!("  API      {docs}"));
    printer.line(&format!("  console  {console}"));
    Ok(())
}

/// What the worker is called with: the very store of the server.
fn line(app: &Path, config: &Config) -> Vec<OsString> {
    let set = &config.set;
    let mut line: Vec<OsString> = vec!["-m".into(), "semel".into(), "worker".into()];
    for (option, value) in [("--store", &set.store), ("--namespace", &set.namespace)] {
        line.extend([option.into(), value.into()]);
    }
    line.extend([app.into(), "--release".into(), RELEASE.into()]);
    line
}

type Stamps = BTreeMap<PathBuf, (SystemTime, u64)>;

/// The worker and all that decides about it.
struct Desk<'a> {
    python: OsString,
    line: Vec<OsString>,
    /// What the settings say of keys and secrets.
    environment: Vec<(String, String)>,
    folder: PathBuf,
    seen: Stamps,
    worker: Option<(Child, Instant)>,
    /// Workers of older code, which finish what they have under way.
    leaving: JoinSet<()>,
    pause: Duration,
    /// When one that crashed is started again.
    start_at: Option<Instant>,
    printer: &'a Printer,
}

impl Desk<'_> {
    /// Looks after the worker until it is time to stop, then lets all of them end.
    async fn attend(&mut self, stop: impl Future<Output = ()>) {
        let mut stop = std::pin::pin!(stop);
        let mut look = tokio::time::interval(LOOK);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = &mut stop => break,
                _ = look.tick() => {}
            }
            self.note_end();
            let now = stamps(&self.folder);
            if now != self.seen {
                let is_new = |(path, stamp): &(&PathBuf, &(SystemTime, u64))| {
                    self.seen.get(*path) != Some(*stamp)
                };
                let changed: Vec<PathBuf> =
                    now.iter().filter(is_new).map(|(path, _)| path.clone()).collect();
                self.seen = now;
                self.try_start(&changed).await;
            } else if self.start_at.is_some_and(|at| Instant::now() >= at) {
                self.start();
            }
        }
        self.dismiss();
        while self.leaving.join_next().await.is_some() {}
    }

    /// Starts with the changed code, if it can be read as Python. The worker that is there stays
    /// until then: a slip of the pen stops nothing.
    async fn try_start(&mut self, changed: &[PathBuf]) {
        let mut compile = Command::new(&self.python);
        compile.arg("-c").arg(COMPILE).args(changed).stdin(Stdio::null()).kill_on_drop(true);
        match compile.output().await {
            Ok(output) if output.status.success() => {}
            Ok(output) => {
                self.printer.talk(String::from_utf8_lossy(&output.stderr).trim_end());
                let stays = if self.worker.is_some() { "; the worker stays as it was" } else { "" };
                self.printer.talk(&format!("dev: this is no Python yet{stays}"));
                return;
            }
            Err(error) => {
                self.printer.talk(&format!("dev: Python cannot be run: {error}"));
                return;
            }
        }
        if self.worker.is_some() {
            self.printer.talk("dev: a file changed; a worker with the new code starts");
        }
        self.dismiss();
        self.pause = PAUSE_MIN;
        self.start();
    }

    fn start(&mut self) {
        self.start_at = None;
        let mut command = Command::new(&self.python);
        command
            .args(&self.line)
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        match command.spawn() {
            Ok(child) => self.worker = Some((child, Instant::now())),
            Err(error) => self.again_later(&format!("it cannot be started: {error}")),
        }
    }

    /// Takes note of a worker that ended by itself.
    fn note_end(&mut self) {
        let Some((child, since)) = &mut self.worker else { return };
        let Ok(Some(status)) = child.try_wait() else { return };
        if since.elapsed() >= LIVED {
            self.pause = PAUSE_MIN;
        }
        self.worker = None;
        self.again_later(&status.to_string());
    }

    fn again_later(&mut self, why: &str) {
        let pause = self.pause.as_millis();
        self.printer.talk(&format!("dev: the worker ended ({why}); it starts again in {pause} ms"));
        self.start_at = Some(Instant::now() + self.pause);
        self.pause = (self.pause * 2).min(PAUSE_MAX);
    }

    /// Tells the worker to end, and lets it finish what it has under way.
    fn dismiss(&mut self) {
        self.start_at = None;
        let Some((mut child, _)) = self.worker.take() else { return };
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(pid) = pid {
            // It may have ended meanwhile, which is what is wanted.
            let _ = kill_process(pid, Signal::TERM);
        }
        self.leaving.spawn(async move {
            if tokio::time::timeout(PATIENCE, child.wait()).await.is_err() {
                let _ = child.kill().await;
            }
        });
    }
}

/// When each Python file below a folder was last written. Environments and hidden folders are not
/// the application's.
fn stamps(folder: &Path) -> Stamps {
    let mut stamps = Stamps::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            // Links are not followed: they may lead in circles.
            let Ok(about) = entry.metadata() else { continue };
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if about.is_dir() {
                let is_own = !name.starts_with('.')
                    && !matches!(&*name, "__pycache__" | "node_modules" | "target")
                    && !path.join("pyvenv.cfg").exists();
                folders.extend(is_own.then_some(path));
            } else if name.ends_with(".py") && stamps.len() < FILES_MAX {
                let written = about.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                stamps.insert(path, (written, about.len()));
            }
        }
    }
    stamps
}
