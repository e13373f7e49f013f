//! The command line of proofs.

use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand};

#[derive(Debug, ClapArgs)]
#[command(subcommand_negates_reqs = true)]
pub(crate) struct Proof {
    #[command(subcommand)]
    pub(crate) command: Option<ProofCommand>,
    /// ACTION/KEY, WORKFLOW/KEY, or the id of a run or an effect
    #[arg(required = true)]
    pub(crate) subject: Option<String>,
    /// Write the whole proof, as JSON, into this file: what `proof verify` reads
    #[arg(short, long, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    /// Write a page for browsers into this file; it needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Sign it with this private key, from `proof keygen`
    #[arg(long, env = "SEMEL_PROOF_KEY", value_name = "FILE")]
    pub(crate) key: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ProofCommand {
    /// Check a proof without its store: everything is derived again from the evidence in it
    Verify(ProofVerify),
    /// Make a key to sign proofs with; the public one is written beside it, as FILE.pub
    Keygen {
        /// Where the private key goes; keep it away from the store
        file: PathBuf,
    },
}

#[derive(Debug, ClapArgs)]
pub(crate) struct ProofVerify {
    /// The proof, from `semel proof … -o FILE`
    pub(crate) file: PathBuf,
    /// Only a signature by this key will do
    #[arg(long, value_name = "FILE")]
    pub(crate) public_key: Option<PathBuf>,
}
