//! `semel runs` and `semel signals`, as they are typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::Operator;

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List runs, newest first
    Ls(RunLs),
    /// Show one run with all that happened in it
    Show(RunShow),
    /// Start a run, or attach to the one that its key started before
    Start(RunStart),
    /// Ask for the end of a run; what it has under way outside is settled first
    Cancel(RunDecision),
    /// Let a paused run try again what it could not do
    Retry(RunDecision),
    /// End a paused run as failed
    Fail(RunDecision),
    /// Give the step on which a run is paused its value
    Skip(RunSkip),
    /// Let a run go on with another release of its code; it pauses where its journal does not fit
    Move(RunMove),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunLs {
    #[arg(long)]
    pub(crate) workflow: Option<String>,
    /// ready, running, waiting, paused, cancelling, done, failed, cancelled or expired
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// The key, as `ls` and `show` print it
    #[arg(long)]
    pub(crate) key: Option<String>,
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Go on after this cursor, from `next` of the page before
    #[arg(long)]
    pub(crate) after: Option<i64>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunShow {
    /// The id, or WORKFLOW/KEY
    pub(crate) run: String,
    /// Print what happens until the run ends or pauses; ends with 0, 1 or 4 like the run
    #[arg(long)]
    pub(crate) follow: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunStart {
    pub(crate) workflow: String,
    /// The stable name of what started it: the same key is the same run
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// What the workflow gets, as JSON
    #[arg(long, value_name = "JSON", default_value = "null")]
    pub(crate) input: String,
    /// Read the input from a file, or from stdin (-)
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    pub(crate) input_file: Option<PathBuf>,
    /// The release to start on, instead of the live one; a draft runs in the draft twin
    #[arg(long)]
    pub(crate) release: Option<String>,
    /// End the run by itself after this time, such as 1h
    #[arg(long, value_name = "DURATION")]
    pub(crate) deadline: Option<String>,
    /// Wait for the end and print the result
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunDecision {
    /// The id, or WORKFLOW/KEY
    pub(crate) run: String,
    #[command(flatten)]
    pub(crate) operator: Operator,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunSkip {
    /// The id, or WORKFLOW/KEY
    pub(crate) run: String,
    /// The step, as `show` prints it
    pub(crate) step: String,
    /// What the workflow gets instead, as JSON
    #[arg(long, value_name = "JSON")]
    pub(crate) value: String,
    #[command(flatten)]
    pub(crate) operator: Operator,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct RunMove {
    /// The id, or WORKFLOW/KEY
    pub(crate) run: String,
    /// The release, as `semel releases show` prints it
    #[arg(long, value_name = "RELEASE")]
    pub(crate) to: String,
    #[command(flatten)]
    pub(crate) operator: Operator,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Signals {
    /// Put a signal into a run's inbox; it is kept until the run takes it
    Send(SignalSend),
    /// Answer a callback by its token; the first answer stands
    Callback(SignalCallback),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SignalSend {
    /// The id of the run, or WORKFLOW/KEY
    pub(crate) run: String,
    /// What the run waits for
    pub(crate) name: String,
    #[arg(long, value_name = "JSON", default_value = "null")]
    pub(crate) payload: String,
    /// Names the delivery: sent again under the same identity, it changes nothing
    #[arg(long, value_name = "IDENTITY")]
    pub(crate) id: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SignalCallback {
    /// The token that the run gave out, or - to read it from stdin: others may see a command line
    pub(crate) token: String,
    #[arg(long, value_name = "JSON", default_value = "null")]
    pub(crate) payload: String,
}
