//! The hand: the `semel` command as a library, so that the Python package can offer it, too.

mod args;
mod commands;
mod crm;
mod demo;
mod exit;
mod mail;
mod model;
mod print;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};

pub use commands::bench::Place as BenchPlace;
pub use commands::verify::{export_head, problems};

use args::Args;
use exit::Failed;
use print::Printer;

/// Runs one command line and returns its exit code.
pub fn run(line: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run_to_code(line))
}

/// Like [`run`], for a program that ends itself.
pub fn run_to_code(line: impl IntoIterator<Item = OsString>) -> u8 {
    let args = match parse(line) {
        Ok(args) => args,
        Err(error) => {
            // Help and version are no mistakes; clap knows which stream each belongs to.
            let _ = error.print();
            return u8::from(error.use_stderr()) * 2;
        }
    };
    start_logging();
    let printer = Printer::new(args.json);
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            printer.error(&Failed::internal(format!("no runtime: {error}")));
            return exit::OUR_FAULT;
        }
    };
    match runtime.block_on(commands::run(args, &printer)) {
        Ok(()) => 0,
        Err(failed) => {
            printer.error(&failed);
            failed.exit()
        }
    }
}

fn parse(line: impl IntoIterator<Item = OsString>) -> Result<Args, clap::Error> {
    let matches = Args::command().try_get_matches_from(line)?;
    let mut args = Args::from_arg_matches(&matches)?;
    let is_named = |name| matches.value_source(name) == Some(ValueSource::CommandLine);
    args.store_is_named = is_named("store");
    args.namespace_is_named = is_named("namespace");
    Ok(args)
}

/// Talk goes to stderr; what is asked for with `RUST_LOG` is shown, by default only warnings.
fn start_logging() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("RUST_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("warn"));
    let set = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_target(false)
        .try_init();
    // A program that embeds us may have set up its own.
    drop(set);
}
