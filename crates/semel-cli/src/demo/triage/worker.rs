//! The worker of the example workflow: offers it, triggers one event, and waits for its run.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use futures_util::future::try_join_all;
use semel::Semel;
use semel_engine::Engine;
use semel_store::Access;
use serde_json::json;
use triage::{Inbound, Outcome, Services, Settings, triage};

use super::relay;
use crate::commands::Place;
use crate::exit::Failed;
use crate::print::Printer;
use semel_check::rehearsal::{Pointed, Points};

/// How often each worker triggers its event.
pub(super) const TRIGGERS: usize = 2;

#[derive(Clone, Debug, Args)]
pub(crate) struct Options {
    #[arg(long)]
    model: String,
    #[arg(long)]
    crm: String,
    #[arg(long)]
    mail: String,
    /// Before a mail that was cut may be sent again
    #[arg(long, default_value_t = 1_000)]
    settle_ms: u64,
    /// Before another worker goes on with what a silent one has
    #[arg(long, default_value_t = 30_000)]
    lease_ms: u64,
    /// The request that the event announces
    request: String,
}

/// Triggers the event twice at once, waits for the end, and prints one line about both.
pub(crate) async fn run(place: &Place, options: &Options, printer: &Printer) -> Result<(), Failed> {
    let mut settings = Settings {
        model: options.model.clone(),
        crm: options.crm.clone(),
        mail: options.mail.clone(),
        settle_window: Duration::from_millis(options.settle_ms),
        lease: Duration::from_millis(options.lease_ms),
    };
    let lease = settings.lease;
    let semel = match Points::from_environment() {
        None => place.worker().await?,
        Some(points) => {
            let points = Arc::new(points);
            stand_between(&mut settings, &points).await?;
            let store = place.open(Access::ReadWrite).await?.store();
            let name = format!("triage:{}", std::process::id());
            let engine = Engine::new(Arc::new(Pointed { store, points }), name)?;
            engine.start();
            Semel::on(engine).namespace(&place.namespace)?
        }
    };
    let services = Services::new(settings).map_err(|error| Failed::internal(error.to_string()))?;
    let code = move |ctx, inbound| triage(ctx, inbound, services.clone());
    let working = semel.worker().lease(lease).workflow("triage", code).start()?;
    let triggers = (0..TRIGGERS).map(|_| trigger(&semel, &options.request));
    let mut outcomes = try_join_all(triggers).await?;
    outcomes.dedup();
    let [(run, outcome)] = &outcomes[..] else {
        return Err(Failed::internal("two triggers of one event came to different ends"));
    };
    printer.line(&json!({ "run": run, "outcome": outcome }).to_string());
    working.stop(Duration::from_secs(5)).await;
    Ok(())
}

/// The event comes in. Returns the id of its run, and what that came to.
async fn trigger(semel: &Semel, request: &str) -> Result<(String, Outcome), semel::Error> {
    let inbound = Inbound {
        request_id: request.to_owned(),
        sender: "ada@customer.example".to_owned(),
        subject: format!("{request}: the printer is on fire"),
        text: "It began after lunch.".to_owned(),
    };
    let event = format!("event-{request}");
    let run = semel.start("triage").key([event]).input(&inbound).run().await?;
    Ok((run.id().to_owned(), run.result().await?))
}

async fn stand_between(settings: &mut Settings, points: &Arc<Points>) -> anyhow::Result<()> {
    for (name, url) in [("the model", &mut settings.model), ("the CRM", &mut settings.crm)] {
        let address = url.trim_start_matches("http://").to_owned();
        *url = format!("http://{}", relay::start(name, address, points.clone()).await?);
    }
    settings.mail = relay::start("mail", settings.mail.clone(), points.clone()).await?;
    Ok(())
}
