//! Real processes: servers, and workers that are killed.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tokio::process::{Child, Command};

use crate::commands::Place;
use crate::program;

/// This very program.
pub(super) fn semel() -> anyhow::Result<Command> {
    let mut command = program::again()?;
    command.kill_on_drop(true).stdin(Stdio::null());
    Ok(command)
}

/// This very program, on a store. The address may hold a password, so it is no argument, which
/// everybody on the machine could read.
pub(super) fn semel_on(place: &Place) -> anyhow::Result<Command> {
    let mut command = semel()?;
    command.env("SEMEL_STORE", &place.store).env("SEMEL_NAMESPACE", &place.namespace);
    Ok(command)
}

/// A server of the demo, in a process of its own.
pub(super) struct Server {
    _process: Child,
    pub(super) address: String,
}

impl Server {
    /// Starts it with this hidden command, and waits until it says where it listens.
    pub(super) async fn start(folder: &Path, command: &str, says: &str) -> anyhow::Result<Server> {
        let file = folder.join(says);
        let _ = std::fs::remove_file(&file);
        let process = semel()?.arg(command).arg(folder).spawn();
        let process = process.with_context(|| format!("starting {command}"))?;
        let started = Instant::now();
        let address = loop {
            if let Ok(address) = std::fs::read_to_string(&file) {
                break address.trim().to_owned();
            }
            if started.elapsed() > Duration::from_secs(10) {
                bail!("{command} did not start");
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        };
        Ok(Server { _process: process, address })
    }
}

pub(super) struct Crm {
    _server: Server,
    pub(super) url: String,
    client: reqwest::Client,
}

impl Crm {
    pub(super) async fn start(folder: &Path) -> anyhow::Result<Crm> {
        let server = Server::start(folder, "demo-crm", "crm.addr").await?;
        let url = server.address.clone();
        Ok(Crm { _server: server, url, client: reqwest::Client::new() })
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
