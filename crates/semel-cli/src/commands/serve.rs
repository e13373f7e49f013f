//! `semel serve`: the HTTP API on a store.

mod supervisor;

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use semel_core::code::Code;
use semel_core::hook::{self, Content};
use semel_server::{Limits, OpenError, Server, Settings, Tls};
use semel_store::Veil;
use serde_json::{Map, Value, json};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::Config;
use crate::exit::Failed;
use crate::print::Printer;
use supervisor::Supervisor;

pub(crate) async fn run(config: &Config, veil: Veil, printer: &Printer) -> Result<(), Failed> {
    let stop = stopped()?;
    set_limits();
    let server = Server::bind(Settings { veil, ..settings(config)? }).await.map_err(failed)?;
    let url = announce(&server, config, printer)?;
    let supervisor = Supervisor::of(|name| std::env::var(name).ok());
    supervisor.ready(&url);
    let app = server.app().clone();
    let serving = server.run(async {
        tokio::select! {
            () = stop => {}
            () = supervisor.watch(app) => {}
        }
        supervisor.stopping();
    });
    serving.await.map_err(failed)?;
    printer.talk("stopped");
    Ok(())
}

/// As many sockets as the system allows this process: what it is given at first may be less than
/// the server's own limit. And no image of its memory on disk: keys and payloads are in it. Where
/// neither can be had, the server works all the same.
fn set_limits() {
    let files = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: files.maximum, ..files });
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    let _ = setrlimit(Resource::Core, none);
}

/// Where it listens, on stdout: with port 0 nobody else knows.
fn announce(server: &Server, config: &Config, printer: &Printer) -> Result<String, Failed> {
    let address = server.address().map_err(failed)?;
    let scheme = if config.set.tls.cert.is_some() { "https" } else { "http" };
    let url = format!("{scheme}://{address}");
    if printer.wants_json() {
        printer.json(&json!({ "url": url }))?;
        return Ok(url);
    }
    printer.line(&format!("listening on {url}"));
    Ok(url)
}

/// What was set, as the server takes it.
pub(crate) fn settings(config: &Config) -> Result<Settings, Failed> {
    let set = &config.set;
    let invalid = |_| {
        let text = format!("`listen` is no address: {}; write 127.0.0.1:7390", set.listen);
        Failed::coded(Code::ConfigInvalid, text)
    };
    let listen: SocketAddr = set.listen.parse().map_err(invalid)?;
    let tls = set.tls.cert.clone().zip(set.tls.key.clone());
    Ok(Settings {
        tls: tls.map(|(cert, key)| Tls { cert, key }),
        hosts: set.hosts.clone(),
        public_url: set.public_url.clone(),
        metrics_token_required: set.metrics.token_required,
        limits: Limits {
            body_bytes: set.limits.body_bytes,
            requests_in_flight: set.limits.requests_in_flight,
            requests_per_namespace: set.limits.requests_per_namespace,
            new_keys_per_second: set.limits.new_keys_per_second,
            hold_ms: set.limits.hold_ms,
            ..Limits::default()
        },
        triggers: triggers(&set.triggers)?,
        ..Settings::new(&set.store, listen)
    })
}

/// The tables `[triggers.NAME]`, as the rules read them.
fn triggers(tables: &Map<String, Value>) -> Result<BTreeMap<String, Content>, Failed> {
    let read = |(name, table): (&String, &Value)| {
        let content = hook::parse(&table.to_string()).map_err(|refusal| {
            Failed::coded(Code::ConfigInvalid, format!("[triggers.{name}] {refusal}"))
        })?;
        Ok((name.clone(), content))
    };
    tables.iter().map(read).collect()
}

pub(crate) fn failed(error: OpenError) -> Failed {
    match error {
        OpenError::Engine(error) => error.into(),
        OpenError::Refused(text) => Failed::coded(Code::ConfigInvalid, text),
        OpenError::Io(error) => Failed::new(error.to_string()),
    }
}

/// Ready when the process is told to end, by its terminal or its supervisor.
pub(crate) fn stopped() -> Result<impl Future<Output = ()>, Failed> {
    let hear = |kind| signal(kind).map_err(|error| Failed::internal(error.to_string()));
    let (mut end, mut break_) = (hear(SignalKind::terminate())?, hear(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = end.recv() => {}
            _ = break_.recv() => {}
        }
    })
}
