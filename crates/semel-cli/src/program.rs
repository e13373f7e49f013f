//! This command, to be started again in a process of its own. In the Python package the running
//! program is the interpreter, which is told to run the package.

use std::ffi::OsString;
use std::sync::OnceLock;

use anyhow::Context;
use tokio::process::Command;

static STARTED_BY: OnceLock<Vec<OsString>> = OnceLock::new();

/// Sets the program and the arguments that start this command, where that is not the running file.
/// The first call counts.
pub fn start_again_by(line: Vec<OsString>) {
    let _ = STARTED_BY.set(line);
}

/// This very command, without arguments of its own.
pub(crate) fn again() -> anyhow::Result<Command> {
    match STARTED_BY.get().and_then(|line| line.split_first()) {
        Some((program, arguments)) => {
            let mut command = Command::new(program);
            command.args(arguments);
            Ok(command)
        }
        None => {
            Ok(Command::new(std::env::current_exe().context("finding this program's own file")?))
        }
    }
}
