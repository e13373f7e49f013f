//! Runs a command with a throw-away Postgres beside it, so that all tests share one server.

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use semel_lab::{Cluster, SERVER_VARIABLE};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// How shells report a command that was ended by a signal.
const SIGNAL_CODE_FIRST: i32 = 128;
const INTERRUPTED: u8 = 130;

/// Answers with the command's own exit code.
pub(crate) fn run(args: &[&str]) -> Result<ExitCode> {
    let [program, rest @ ..] = args else { bail!("`postgres --` needs a command to run") };
    let mut command = Command::new(program);
    command.args(rest);
    // `cargo run` tells these to us. To a cargo further down they would be news that rebuild.
    let ours = std::env::vars_os().map(|(name, _)| name).filter(|name| {
        name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        })
    });
    for name in ours {
        command.env_remove(name);
    }

    // A server that was named by the caller is used as it is.
    let is_given = std::env::var_os(SERVER_VARIABLE).is_some_and(|url| !url.is_empty());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // Caught before the server starts, so that no signal finds us unprepared.
    let mut signals = runtime.block_on(async { Signals::catch() })?;
    let cluster = if is_given { None } else { Some(Cluster::try_with(&[])?) };
    command.envs(cluster.as_ref().map(|cluster| (SERVER_VARIABLE, cluster.url())));
    if runtime.block_on(signals.came()) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let child = command.spawn().with_context(|| format!("starting {program}"))?;
    let status = runtime.block_on(wait(child, signals))?;
    drop(cluster);
    Ok(code(status))
}

struct Signals {
    interrupt: Signal,
    terminate: Signal,
    hang_up: Signal,
}

impl Signals {
    fn catch() -> Result<Signals> {
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hang_up: signal(SignalKind::hangup())?,
        })
    }

    /// Whether one came so far.
    async fn came(&mut self) -> bool {
        tokio::select! {
            biased;
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => true,
            _ = self.hang_up.recv() => true,
            // Signals are noticed between two turns of the runtime.
            () = tokio::time::sleep(Duration::from_millis(1)) => false,
        }
    }
}

/// Waits for the command, come what may: it needs the server until its own end.
async fn wait(mut child: Child, mut signals: Signals) -> Result<ExitStatus> {
    let pid = rustix::process::Pid::from_child(&child);
    let mut waiting = tokio::task::spawn_blocking(move || child.wait());
    loop {
        tokio::select! {
            status = &mut waiting => return Ok(status??),
            // A terminal interrupts the whole group: the command has heard it already.
            _ = signals.interrupt.recv() => {}
            _ = signals.hang_up.recv() => {}
            // This one is meant for us alone, so it is passed on.
            _ = signals.terminate.recv() => {
                // It may have ended in the meantime.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            }
        }
    }
}

fn code(status: ExitStatus) -> ExitCode {
    let signal = status.signal().map(|signal| SIGNAL_CODE_FIRST + signal);
    let code = status.code().or(signal).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_code_of_the_command_is_passed_on() {
        let check = |script: &str, want: u8| {
            let status = Command::new("sh").args(["-c", script]).status().unwrap();
            assert_eq!(code(status), ExitCode::from(want), "for {script}");
        };
        check("exit 0", 0);
        check("exit 100", 100);
        check("kill -TERM $$", 143);
    }
}
