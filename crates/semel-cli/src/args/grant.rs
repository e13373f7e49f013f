//! `semel effects grant`.

use super::own_name;
use clap::Args as ClapArgs;

#[derive(Debug, ClapArgs)]
pub(crate) struct Grant {
    /// ACTION/KEY; or choose several by `--action`, `--state` and `--key-prefix`
    #[arg(required_unless_present_any = ["action", "state", "key_prefix"])]
    #[arg(conflicts_with_all = ["action", "state", "key_prefix"])]
    pub(crate) effect: Option<String>,
    /// All exhausted effects of this action
    #[arg(long)]
    pub(crate) action: Option<String>,
    /// All exhausted effects in this state: planned or in_doubt
    #[arg(long)]
    pub(crate) state: Option<String>,
    /// All exhausted effects whose key begins like this
    #[arg(long)]
    pub(crate) key_prefix: Option<String>,
    /// Why, for the record
    #[arg(long)]
    pub(crate) reason: String,
    /// The version you looked at, from `show`; without it, the one that is stored
    #[arg(long, requires = "effect")]
    pub(crate) version: Option<u64>,
    /// Who decides
    #[arg(long, env = "USER", default_value_t = own_name())]
    pub(crate) actor: String,
    /// Do not ask before several are granted
    #[arg(long)]
    pub(crate) yes: bool,
    /// Only count
    #[arg(long)]
    pub(crate) dry_run: bool,
}
