//! The hand: the `semel` command as a library, so that the Python package can offer it, too.

mod args;
mod commands;
mod config;
mod crm;
mod demo;
mod exit;
mod mail;
mod model;
mod print;
mod program;
mod veil;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{CommandFactory, FromArgMatches};
use semel_core::redact::Redactor;
use semel_server::operate::{self, Otlp, Telemetry, Watching};

pub use commands::bench::Place as BenchPlace;
pub use commands::verify::{export_head, problems};
pub use program::start_again_by;

use args::Args;
use config::{Config, LogFormat, Sources};
use exit::Failed;
use print::Printer;

/// How long spans are gathered before they are sent.
const TRACES_GATHERED: Duration = Duration::from_secs(2);

/// Runs one command line and returns its exit code.
pub fn run(line: impl IntoIterator<Item = OsString>) -> ExitCode {
    ExitCode::from(run_to_code(line))
}

/// Like [`run`], for a program that ends itself.
pub fn run_to_code(line: impl IntoIterator<Item = OsString>) -> u8 {
    let mut args = match parse(line) {
        Ok(args) => args,
        Err(error) => {
            // Help and version are no mistakes; clap knows which stream each belongs to.
            let _ = error.print();
            return u8::from(error.use_stderr()) * 2;
        }
    };
    let printer = Printer::new(args.json);
    let config = match settle(&mut args) {
        Ok(config) => config,
        Err(failed) => {
            printer.error(&failed);
            return failed.exit();
        }
    };
    let veil = match veil::of(&config, &args.command) {
        Ok(veil) => veil,
        Err(failed) => {
            printer.error(&failed);
            return failed.exit();
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            printer.error(&Failed::internal(format!("no runtime: {error}")));
            return exit::OUR_FAULT;
        }
    };
    let inside = runtime.enter();
    let watching = match start_logging(&args, &config.set, veil.redactor()) {
        Ok(watching) => watching,
        Err(failed) => {
            printer.error(&failed);
            return failed.exit();
        }
    };
    drop(inside);
    let ended = runtime.block_on(async {
        let ended = commands::run(args, &config, veil.clone(), &printer).await;
        watching.end().await;
        ended
    });
    match ended {
        Ok(()) => 0,
        Err(mut failed) => {
            failed.message = veil.redactor().text(&failed.message).into_owned();
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

/// Reads all settings, and lets those that files hold count where the line says nothing.
fn settle(args: &mut Args) -> Result<Config, Failed> {
    let environment = |name: &str| std::env::var(name).ok();
    let config = Config::load(&Sources {
        files: args.command.files(args.config.clone()),
        flags: args.settings(),
        environment: &environment,
        folder: Path::new(""),
    })?;
    args.store.clone_from(&config.set.store);
    args.namespace.clone_from(&config.set.namespace);
    Ok(config)
}

/// Talk goes to stderr, by default only warnings, and without secrets; a server sends its traces,
/// too, where there is somebody to take them. A program that embeds us may have set up its own.
fn start_logging(args: &Args, set: &config::Set, redactor: &Redactor) -> Result<Watching, Failed> {
    let serves = matches!(args.command, args::Command::Serve(_));
    let endpoint = set.otlp.endpoint.clone().filter(|_| serves);
    let telemetry = Telemetry {
        format: match set.log.format {
            LogFormat::Text => operate::LogFormat::Text,
            LogFormat::Json => operate::LogFormat::Json,
        },
        filter: set.log.filter.clone(),
        otlp: endpoint.map(|endpoint| Otlp {
            endpoint,
            headers: set.otlp.headers.clone(),
            delay: TRACES_GATHERED,
        }),
    };
    let invalid = |text| Failed::coded(semel_core::code::Code::ConfigInvalid, text);
    telemetry.start_to(veil::Redacted(Arc::new(redactor.clone()))).map_err(invalid)
}
