//! `semel serve …`, `semel dev …`, `semel tokens …`.

use std::path::PathBuf;

use super::own_name;
use clap::{Args as ClapArgs, Subcommand};

use super::config::ConfigFlags;

#[derive(Debug, ClapArgs)]
pub(crate) struct Serve {
    #[command(flatten)]
    pub(crate) flags: ConfigFlags,
}

#[derive(Debug, ClapArgs)]
pub(crate) struct Dev {
    /// The application in Python, such as app.py
    pub(crate) app: PathBuf,
    #[command(flatten)]
    pub(crate) flags: ConfigFlags,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Tokens {
    /// Make a token and print it, once
    Create(TokenCreate),
    /// List tokens, without their secrets
    Ls,
    /// End a token at once
    Revoke {
        /// Its id, from `ls`
        id: String,
        /// Who decides
        #[arg(long, env = "USER", default_value_t = own_name())]
        actor: String,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct TokenCreate {
    /// admin, operator, approver, trigger, worker or viewer
    #[arg(long)]
    pub(crate) role: String,
    /// Whose it is: the actor of what is decided with it
    #[arg(long)]
    pub(crate) label: Option<String>,
    /// After how long it ends, such as 90d
    #[arg(long, value_name = "DURATION")]
    pub(crate) expires_in: Option<String>,
    /// Who makes it
    #[arg(long, env = "USER", default_value_t = own_name())]
    pub(crate) actor: String,
}
