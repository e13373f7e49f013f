//! `semel releases`, as it is typed.

use clap::{Args as ClapArgs, Subcommand};

use super::Operator;

#[derive(Debug, Subcommand)]
pub(crate) enum Releases {
    /// List the releases of all workflows, with their open runs
    Ls,
    /// Show the releases of one workflow, and how the live one came to be so
    Show(ReleaseShow),
    /// Make a release live: new runs start on it. Runs under way stay with theirs
    Promote(ReleasePromote),
    /// Make the release live again that was so before
    Rollback(ReleaseDecision),
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReleaseShow {
    pub(crate) workflow: String,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReleasePromote {
    pub(crate) workflow: String,
    pub(crate) release: String,
    #[command(flatten)]
    pub(crate) operator: Operator,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ReleaseDecision {
    pub(crate) workflow: String,
    #[command(flatten)]
    pub(crate) operator: Operator,
}
