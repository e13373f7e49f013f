//! `semel schedules`, as it is typed.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

use super::Operator;

#[derive(Debug, Subcommand)]
pub(crate) enum Schedules {
    /// List schedules by name, each with its next tick
    Ls(ScheduleLs),
    /// Show one schedule with its next ticks
    Show(ScheduleShow),
    /// Put a schedule. One that says the same is left as it is; otherwise it is changed from now on
    Put(SchedulePut),
    /// Pass over the ticks of a schedule until it is resumed
    Pause(SchedulePause),
    /// Let a paused schedule go on, with the first tick from now on
    Resume(ScheduleName),
    /// Remove a schedule; its runs stay
    Remove(ScheduleName),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ScheduleLs {
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Go on after this name, from `next` of the page before
    #[arg(long)]
    pub(crate) after: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ScheduleShow {
    pub(crate) name: String,
    /// How many of the next ticks are listed
    #[arg(long, default_value_t = 5)]
    pub(crate) ticks: usize,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SchedulePut {
    pub(crate) name: String,
    /// The workflow that each tick starts
    #[arg(long)]
    pub(crate) workflow: String,
    /// Minute, hour, day of month, month, day of week, such as '0 3 * * *'; or @daily
    #[arg(long, value_name = "PATTERN")]
    pub(crate) cron: String,
    /// The time zone of the pattern, such as Europe/Rome
    #[arg(long, default_value = "UTC")]
    pub(crate) zone: String,
    /// What becomes of ticks that nobody was there for: skip them, run the latest once, or run all
    #[arg(long, default_value = "skip", value_name = "skip|once|all")]
    pub(crate) catch_up: String,
    /// What each run gets, as JSON
    #[arg(long, value_name = "JSON", default_value = "null")]
    pub(crate) input: String,
    /// Read the input from a file, or from stdin (-)
    #[arg(long, value_name = "FILE", conflicts_with = "input")]
    pub(crate) input_file: Option<PathBuf>,
    /// For how long the keys of its runs answer after their end
    #[arg(long, default_value = "30d", value_name = "DURATION")]
    pub(crate) replay_window: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ScheduleName {
    pub(crate) name: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct SchedulePause {
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) operator: Operator,
}
