//! PgBouncer in transaction mode: a client's next transaction may meet another backend.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::account::Account;
use crate::cluster::{Cluster, done, free_port, psql, url, wait_until};
use crate::guardian::{Guardian, Last, is_dead};
use crate::{installation, template};

/// Another process may take a port between our look and the start.
const PORT_TRIES_MAX: u32 = 20;

pub struct Bouncer {
    guardian: Guardian,
    port: u16,
}

impl Bouncer {
    /// Starts a bouncer in front of a server; they may be dropped in any order.
    #[must_use]
    pub fn start(cluster: &Cluster) -> Bouncer {
        done("starting PgBouncer", try_start(cluster.port()))
    }

    /// Where a client connects.
    #[must_use]
    pub fn url(&self) -> String {
        url(self.port)
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// All that the bouncer has said so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.guardian.log()
    }
}

fn try_start(target: u16) -> Result<Bouncer> {
    let account = Account::find()?;
    let program = installation::pgbouncer()?;
    let folder = template::folder(account, "bouncer")?;
    let configuration = folder.join("pgbouncer.ini");
    let mut server = account.command(&program);
    server.arg(&configuration);
    let guardian = Guardian::hire(account, folder, Last::Term, &server)?;
    for _ in 0..PORT_TRIES_MAX {
        let port = free_port()?;
        write_configuration(&configuration, account, target, port)?;
        let pid = guardian.start()?;
        wait_until("PgBouncer answers", || {
            Ok(is_dead(pid) || psql(&url(port), &["SELECT 1"]).is_ok())
        })
        .with_context(|| guardian.log())?;
        if !is_dead(pid) {
            return Ok(Bouncer { guardian, port });
        }
        guardian.stop("TERM")?;
    }
    bail!("it ended at each start: {}", guardian.log());
}

fn write_configuration(path: &Path, account: Account, target: u16, port: u16) -> Result<()> {
    let text = format!(
        "[databases]\n* = host=127.0.0.1 port={target} user=semel\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = transaction\nmax_client_conn = 200\n\
         default_pool_size = 10\nignore_startup_parameters = extra_float_digits\n"
    );
    fs::write(path, text).with_context(|| format!("writing {}", path.display()))?;
    account.own(path)
}
