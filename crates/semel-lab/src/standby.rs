//! A second server that follows the first, and can be promoted when the first is lost.

use anyhow::{Context, Result};

use crate::cluster::{Cluster, done, psql, url, wait_until};
use crate::template::run;

impl Cluster {
    /// A copy of this server that follows it asynchronously: what this one answers as committed
    /// may not have arrived there.
    #[must_use]
    pub fn standby(&self) -> Cluster {
        done("starting a standby", self.try_standby())
    }

    /// Waits until this standby has applied all that its primary has committed so far.
    pub fn wait_until_caught_up(&self) {
        done("catching up", self.try_catch_up());
    }

    /// Deafens this standby: what the primary commits from now on is a tail that a promotion
    /// loses.
    pub fn stop_receiving(&self) {
        self.psql("ALTER SYSTEM SET primary_conninfo = ''");
        self.psql("SELECT pg_reload_conf()");
        let is_deaf = || Ok(self.try_psql("SELECT count(*) FROM pg_stat_wal_receiver")? == "0");
        done("stopping replication", wait_until("the standby stops receiving", is_deaf));
    }

    /// Makes this standby a primary, and waits until it takes writes.
    pub fn promote(&self) {
        self.psql("SELECT pg_promote(true, 60)");
        let is_primary = || Ok(self.try_psql("SELECT pg_is_in_recovery()")? == "f");
        done("promoting", wait_until("the standby takes writes", is_primary));
    }

    fn try_standby(&self) -> Result<Cluster> {
        let mut standby = Cluster::prepare(self.account)?;
        let mut backup = self.account.command(&self.binary("pg_basebackup"));
        // `-R` writes down whom to follow.
        backup.args(["-d", &self.url(), "-R", "-X", "stream", "-c", "fast", "--no-sync", "-D"]);
        run(backup.arg(standby.data()))?;
        standby.primary = Some(self.port());
        standby.start_anywhere()?;
        Ok(standby)
    }

    fn try_catch_up(&self) -> Result<()> {
        let primary = url(self.primary.context("this cluster follows nobody")?);
        let position = psql(&primary, &["SELECT pg_current_wal_flush_lsn()"])?;
        let question = format!("SELECT pg_last_wal_replay_lsn() >= '{position}'::pg_lsn");
        wait_until("the standby has caught up", || Ok(self.try_psql(&question)? == "t"))
    }
}
