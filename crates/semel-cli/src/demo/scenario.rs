//! One scenario: send, kill, restart, count.

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail};
use semel_core::record::Effect;
use semel_core::time::Moment;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::process::{Crm, kill, semel_on};
use super::worker::Protection;
use super::{Outcome, tell};
use crate::commands::{Place, print_effect};
use crate::crm;
use crate::exit::Failed;
use crate::print::{Printer, Tone};

pub(super) struct Scene<'a> {
    pub(super) protection: Protection,
    pub(super) place: Place,
    pub(super) folder: &'a Path,
    pub(super) crm: &'a Crm,
    pub(super) printer: &'a Printer,
}

/// Where no lock proves a process dead its lease must end first. Nobody wants to watch that for
/// half a minute.
const SHORT_LEASE: [&str; 6] =
    ["--lease-ms", "1000", "--deadline-ms", "1500", "--settle-ms", "500"];

/// Long enough to be killed in, short enough for a `transaction`.
const PAUSE_MS: &str = "900";

impl Scene<'_> {
    pub(super) async fn play(&self) -> Result<Outcome, Failed> {
        let name = self.protection.name();
        tell(self.printer, &self.printer.paint(Tone::Strong, name));
        match self.protection {
            Protection::Transaction => self.kill_before_commit().await?,
            _ => self.kill_before_record().await?,
        }
        tell(self.printer, "  the worker is started again");
        let restarted = self.worker(None)?.stderr(Stdio::null()).status().await;
        restarted.context("the restarted worker")?;
        let before = self.effect().await?;
        let (state, attempts) = match &before {
            None => ("not kept".to_owned(), 2),
            Some((effect, now)) => (effect.state(now).to_string(), effect.attempts.len()),
        };
        if state == "in_doubt" {
            self.settle_by_hand().await?;
        }
        let applied = self.applied()?;
        tell(self.printer, &format!("  tickets at the destination: {applied}"));
        if let Some((effect, now)) = self.effect().await?
            && !self.printer.wants_json()
        {
            print_effect(&effect, &now, self.printer)?;
        }
        tell(self.printer, "");
        Ok(Outcome { name, applied, state, attempts })
    }

    fn reference(&self) -> String {
        format!("case-{}", self.protection.name())
    }

    fn worker(&self, pause_ms: Option<&str>) -> anyhow::Result<Command> {
        let mut command = semel_on(&self.place)?;
        command.args(["demo-worker", "--crm", &self.crm.url]);
        command.args(["--protection", self.protection.name()]);
        if self.place.file().is_none() {
            command.args(SHORT_LEASE);
        }
        if let Some(pause_ms) = pause_ms {
            command.args(["--pause-ms", pause_ms]);
        }
        command.arg(self.reference()).stdout(Stdio::null());
        Ok(command)
    }

    /// The CRM tells when it has written the ticket; the answer never leaves it.
    async fn kill_before_record(&self) -> anyhow::Result<()> {
        self.crm.script(&self.reference(), &["hold"]).await?;
        let mut worker = self.worker(None)?.spawn().context("starting the worker")?;
        self.crm.wait_until_held(&self.reference()).await?;
        kill(&mut worker).await?;
        tell(self.printer, "  the CRM wrote the ticket; the worker was killed before the answer");
        Ok(())
    }

    /// The worker itself tells when it has inserted its row and not committed.
    async fn kill_before_commit(&self) -> anyhow::Result<()> {
        let mut command = self.worker(Some(PAUSE_MS))?;
        let mut worker = command.stderr(Stdio::piped()).spawn().context("starting the worker")?;
        let stderr = worker.stderr.take().context("the worker's words")?;
        let mut lines = BufReader::new(stderr).lines();
        let wait = async {
            while let Some(line) = lines.next_line().await? {
                if line.starts_with("inserted") {
                    return Ok(());
                }
            }
            bail!("the worker ended before it inserted anything")
        };
        tokio::time::timeout(Duration::from_secs(10), wait).await.context("the worker")??;
        kill(&mut worker).await?;
        tell(self.printer, "  the row was inserted; the worker was killed before COMMIT");
        Ok(())
    }

    /// Asks a person: here, the command that an operator would type.
    async fn settle_by_hand(&self) -> Result<(), Failed> {
        let Some((effect, _)) = self.effect().await? else {
            return Err(Failed::internal("the doubt is gone"));
        };
        let tickets = crm::tickets(self.folder)?;
        let ticket = tickets.iter().find(|ticket| ticket.reference == self.reference());
        let ticket = ticket.context("the ticket at the CRM")?;
        let receipt = serde_json::json!({ "id": ticket.id, "reference": ticket.reference });
        let line = [
            "effects".to_owned(),
            "resolve".to_owned(),
            effect.address.to_string(),
            "--done".to_owned(),
            "--receipt".to_owned(),
            receipt.to_string(),
            "--version".to_owned(),
            effect.version.to_string(),
            "--actor".to_owned(),
            "ada".to_owned(),
            "--reason".to_owned(),
            "found it in the CRM".to_owned(),
        ];
        tell(
            self.printer,
            "  in doubt: a person looks at the CRM and settles it from the terminal",
        );
        let shown: Vec<_> = line.iter().map(|word| quoted(word)).collect();
        tell(self.printer, &format!("  $ semel {}", shown.join(" ")));
        let mut command = semel_on(&self.place)?;
        command.args(&line).stdout(Stdio::null());
        let status = command.status().await.context("semel effects resolve")?;
        if !status.success() {
            return Err(Failed::new(format!("`semel effects resolve` ended with {status}")));
        }
        Ok(())
    }

    /// What the ledger says, read-only.
    async fn effect(&self) -> Result<Option<(Effect, Moment)>, Failed> {
        if self.protection == Protection::Unprotected {
            return Ok(None);
        }
        let action = match self.protection {
            Protection::Transaction => "crm-row",
            _ => "crm-ticket",
        };
        let address = self.place.address(&format!("{action}/{}", self.reference()))?;
        let store = self.place.look().await?;
        let effect = store.load(&address).await?;
        Ok(effect.map(|effect| (effect, store.ground().now)))
    }

    /// How often it happened: from the CRM's file or the user's table, never from the ledger.
    fn applied(&self) -> anyhow::Result<usize> {
        if self.protection != Protection::Transaction {
            return crm::applied(self.folder, &self.reference());
        }
        // No process has the store open now.
        let file = self.place.file().context("a transaction is rows in a file")?;
        let connection = rusqlite::Connection::open(file)?;
        let count = "SELECT count(*) FROM tickets WHERE reference = ?1";
        let count: i64 = connection.query_row(count, [self.reference()], |row| row.get(0))?;
        Ok(usize::try_from(count)?)
    }
}

/// A word as a shell would take it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=".contains(c);
    if word.chars().all(is_plain) { word.to_owned() } else { format!("'{word}'") }
}
