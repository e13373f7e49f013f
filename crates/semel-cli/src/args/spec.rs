//! Commands on what an application declares.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct Spec {
    /// An application in Python, such as app.py, or the registry.json of one in Rust
    pub(crate) file: PathBuf,
    /// Write it to this file instead of printing it
    #[arg(long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Compare it with this file; ends with 4 and shows what differs when it is not the same
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    pub(crate) check: Option<PathBuf>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Lint {
    /// An application in Python, such as app.py, and flags of its lint, or the registry.json of one
    /// in Rust
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    #[arg(value_name = "FILE")]
    pub(crate) line: Vec<OsString>,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Suspects {
    /// Only effects of this action
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// How far to look back
    #[arg(long, value_name = "DURATION", default_value = "7d")]
    pub(crate) since: String,
}
