//! `semel double`: the stand-in for an HTTP service, as a process of its own.

use std::fs;
use std::io::Read;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args as ClapArgs;
use rustix::fs::{FileType, fstat};
use semel_check::double::{Double, Mode, Script};
use serde_json::json;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::oneshot;

use crate::exit::Failed;
use crate::print::Printer;

/// One that a crashed test left behind ends by itself, where nothing tells that its parent left.
const LIFE_MAX: Duration = Duration::from_secs(30 * 60);

#[derive(Debug, ClapArgs)]
pub(crate) struct Options {
    /// How it treats repeats: keys, lookup, conditional, plain or model; without it the script's
    #[arg(value_parser = parse_mode)]
    mode: Option<Mode>,
    /// Where it listens; only addresses of this machine are taken
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// What it poses as: routes and answers, as JSON (docs/double.md)
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
}

fn parse_mode(text: &str) -> Result<Mode, String> {
    let names = || Mode::ALL.map(Mode::name).join(", ");
    let found = Mode::ALL.into_iter().find(|mode| mode.name() == text);
    found.ok_or_else(|| format!("there are {}", names()))
}

pub(crate) async fn run(options: &Options, printer: &Printer) -> Result<(), Failed> {
    let script = script(options)?;
    // Before the address is told: whoever knows it may end us.
    let mut terminate = signal(SignalKind::terminate()).map_err(anyhow::Error::from)?;
    let double = Double::listen(script, options.listen)
        .map_err(|error| Failed::new(format!("cannot listen on {}: {error}", options.listen)))?;
    let url = double.url();
    if printer.wants_json() {
        // One line: whoever started us reads it while we run on.
        printer.line(&json!({ "url": url, "pid": std::process::id() }).to_string());
    } else {
        printer.line(&url);
    }
    tokio::select! {
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
        () = nobody_needs_it(LIFE_MAX) => {}
    }
    Ok(())
}

fn script(options: &Options) -> Result<Script, Failed> {
    let mut script = match &options.script {
        None => Script::default(),
        Some(path) => {
            let shown = path.display();
            let text = fs::read_to_string(path)
                .map_err(|error| Failed::usage(format!("cannot read {shown}: {error}")))?;
            Script::from_json(&text)
                .map_err(|error| Failed::usage(format!("{shown} is no script: {error}")))?
        }
    };
    script.mode = options.mode.unwrap_or(script.mode);
    Ok(script)
}

/// Ends when the other side of our input is closed. Only a pipe or a socket says something about a
/// parent: a terminal must not be read from, and an empty file is at its end from the start. There
/// it ends after `life_max`; a parent that is still there may need it for longer.
async fn nobody_needs_it(life_max: Duration) {
    let kind = fstat(std::io::stdin()).map(|stat| FileType::from_raw_mode(stat.st_mode));
    if !matches!(kind, Ok(FileType::Fifo | FileType::Socket)) {
        return tokio::time::sleep(life_max).await;
    }
    let (left, told) = oneshot::channel();
    // A thread of its own: a runtime would wait for a read that never ends.
    std::thread::spawn(move || {
        let mut input = std::io::stdin();
        let mut bytes = [0; 256];
        while input.read(&mut bytes).is_ok_and(|count| count > 0) {}
        let _ = left.send(());
    });
    // Neither outcome but the end of the input lets go of the sender.
    let _ = told.await;
}
