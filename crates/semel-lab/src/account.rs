//! Who runs the servers: Postgres refuses root, so root lends it an unprivileged account.

use std::os::unix::fs::{MetadataExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

/// In the order of preference; the second exists everywhere.
const NAMES: [&str; 2] = ["postgres", "nobody"];

/// Where tests leave their folders when the usual place is closed to the account.
const FOLDER_OPEN: &str = "/tmp";

#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) uid: u32,
    gid: u32,
    is_lent: bool,
}

impl Account {
    pub(crate) fn find() -> Result<Account> {
        let own = rustix::process::geteuid();
        if !own.is_root() {
            let gid = rustix::process::getegid().as_raw();
            return Ok(Account { uid: own.as_raw(), gid, is_lent: false });
        }
        let accounts = std::fs::read_to_string("/etc/passwd").context("reading /etc/passwd")?;
        let (uid, gid) = NAMES
            .iter()
            .find_map(|name| ids(&accounts, name))
            .with_context(|| format!("no account to run Postgres under: none of {NAMES:?}"))?;
        Ok(Account { uid, gid, is_lent: true })
    }

    /// A command under this account, in a folder it may enter, blind to the caller's `PG…`
    /// variables.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("LC_ALL", "C").env("TZ", "UTC").current_dir("/");
        command.envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
        if self.is_lent {
            command.uid(self.uid).gid(self.gid);
        }
        command
    }

    pub(crate) fn own(&self, path: &Path) -> Result<()> {
        if self.is_lent {
            chown(path, Some(self.uid), Some(self.gid))
                .with_context(|| format!("handing over {}", path.display()))?;
        }
        Ok(())
    }

    /// The system's folder for passing things, if the account can reach it.
    pub(crate) fn folder(&self) -> PathBuf {
        let usual = std::env::temp_dir();
        if self.is_lent && !usual.ancestors().all(is_open) {
            return PathBuf::from(FOLDER_OPEN);
        }
        usual
    }
}

fn ids(accounts: &str, name: &str) -> Option<(u32, u32)> {
    let line = accounts.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut fields = line.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn is_open(folder: &Path) -> bool {
    // The last ancestor of a relative path is empty.
    folder.as_os_str().is_empty()
        || folder.metadata().is_ok_and(|metadata| metadata.mode() & 0o001 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        let accounts = "nobody2:x:1:1::/:/bin/sh\nnobody:x:65534:65533:nobody:/:/bin/sh\n";
        assert_eq!(ids(accounts, "nobody"), Some((65534, 65533)));
        assert_eq!(ids(accounts, "postgres"), None);
    }
}
