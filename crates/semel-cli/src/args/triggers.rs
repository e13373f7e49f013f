//! `semel triggers`, as it is typed.

use std::path::PathBuf;

use super::own_name;
use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, Subcommand)]
pub(crate) enum Triggers {
    /// List triggers by name
    Ls(TriggerLs),
    /// Show what is declared of one trigger, and where deliveries are posted to
    Show(TriggerName),
    /// Put the triggers of a TOML file: one table [triggers.NAME] each. What says the same is left
    /// as it is
    Put(TriggerPut),
    /// Remove a trigger; its runs stay
    Rm(TriggerRemove),
    /// Show what became of the last deliveries, the newest first
    Deliveries(TriggerDeliveries),
    /// Judge a delivery as the server would: signature, key and input. Starts nothing
    Test(TriggerTest),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TriggerLs {
    #[arg(long, default_value_t = 50)]
    pub(crate) limit: usize,
    /// Go on after this name, from `next` of the page before
    #[arg(long)]
    pub(crate) after: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TriggerName {
    pub(crate) name: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TriggerPut {
    /// The file, or stdin (-)
    pub(crate) file: PathBuf,
    /// Who puts them
    #[arg(long, env = "USER", default_value_t = own_name())]
    pub(crate) actor: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TriggerRemove {
    pub(crate) name: String,
    /// Who removes it
    #[arg(long, env = "USER", default_value_t = own_name())]
    pub(crate) actor: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TriggerDeliveries {
    pub(crate) name: String,
    #[arg(long, default_value_t = 20)]
    pub(crate) limit: usize,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TriggerTest {
    pub(crate) name: String,
    /// The body, from a file or stdin (-)
    #[arg(long, value_name = "FILE")]
    pub(crate) body: PathBuf,
    /// A header of the delivery, such as 'webhook-id: msg_1'; may be given often
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
}
