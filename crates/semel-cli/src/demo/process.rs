//! Real processes: the CRM, and workers that are killed.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

/// This very program.
pub(super) fn semel() -> anyhow::Result<Command> {
    let program = std::env::current_exe().context("this program's own file")?;
    let mut command = Command::new(program);
    command.kill_on_drop(true).stdin(Stdio::null());
    Ok(command)
}

pub(super) struct Crm {
    _process: Child,
    pub(super) url: String,
    client: reqwest::Client,
}

impl Crm {
    pub(super) async fn start(folder: &Path) -> anyhow::Result<Crm> {
        let address = folder.join("crm.addr");
        let _ = std::fs::remove_file(&address);
        let process = semel()?.arg("demo-crm").arg(folder).spawn().context("starting the CRM")?;
        let started = Instant::now();
        let url = loop {
            if let Ok(url) = std::fs::read_to_string(&address) {
                break url.trim().to_owned();
            }
            if started.elapsed() > Duration::from_secs(10) {
                bail!("the CRM did not start");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        Ok(Crm { _process: process, url, client: reqwest::Client::new() })
    }

    /// Tells the CRM what to do with the next requests for a reference.
    pub(super) async fn script(&self, reference: &str, answers: &[&str]) -> anyhow::Result<()> {
        let script = json!({ "reference": reference, "answers": answers });
        let url = format!("{}/control/script", self.url);
        self.client.post(url).json(&script).send().await?.error_for_status()?;
        Ok(())
    }

    /// Waits until the CRM says that it holds the answer to a request.
    pub(super) async fn wait_until_held(&self, reference: &str) -> anyhow::Result<()> {
        let started = Instant::now();
        let mut after = 0;
        while started.elapsed() < Duration::from_secs(10) {
            let url = format!("{}/control/events?after={after}&wait_ms=500", self.url);
            let events: Vec<Value> = self.client.get(url).send().await?.json().await?;
            for event in &events {
                after = event["n"].as_u64().unwrap_or(after);
                if event["kind"] == "held" && event["reference"] == reference {
                    return Ok(());
                }
            }
        }
        bail!("the CRM did not get the request of {reference}")
    }
}

/// Kills a process the hard way, by its id, and waits until it is gone.
pub(super) async fn kill(child: &mut Child) -> anyhow::Result<()> {
    child.start_kill().context("SIGKILL")?;
    child.wait().await.context("waiting for the killed worker")?;
    Ok(())
}
