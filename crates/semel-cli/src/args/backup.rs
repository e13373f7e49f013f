//! `semel backup …`, `semel keys …`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, ClapArgs)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Backup {
    /// The file to write; it must not be there yet
    #[arg(required = true)]
    pub(crate) file: Option<PathBuf>,
    #[command(subcommand)]
    pub(crate) command: Option<BackupCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupCommand {
    /// Put a backup where no store is (--store), check it, and open its quarantine
    Restore {
        /// The backup
        file: PathBuf,
    },
    /// Read a backup from end to end: is it whole, and what does it hold
    Verify {
        /// The backup
        file: PathBuf,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum Keys {
    /// Put a new key into a key file, which is made if it is not there; from now on it writes
    New {
        /// The key file
        file: PathBuf,
        /// What texts name it by; derived from the key if it is not given
        #[arg(long)]
        id: Option<String>,
        /// Only for this namespace, so that it can be dropped alone
        #[arg(long = "for", value_name = "NAMESPACE")]
        only_for: Option<String>,
    },
    /// List the keys of a file, without the keys themselves
    Ls {
        /// The key file
        file: PathBuf,
    },
    /// Forget a key of one namespace: what was written with it is gone for ever
    Drop {
        /// The key file
        file: PathBuf,
        /// The key, from `ls`
        id: String,
        /// Said on purpose: there is no way back
        #[arg(long, required = true)]
        for_ever: bool,
    },
}
