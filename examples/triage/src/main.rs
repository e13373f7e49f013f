//! A worker for triage: offers the workflow, takes one request in, and prints what became of it.
//! Run it twice, or kill it and run it again: one run, one ticket, one mail.

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::time::Duration;

use anyhow::Context;
use semel::Semel;
use triage::{Inbound, Outcome, Services, Settings, triage};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let request_id = std::env::args().nth(1).unwrap_or_else(|| "request-42".to_owned());
    let setting = |name: &str| std::env::var(name).with_context(|| format!("{name} is not set"));
    let services = Services::new(Settings {
        model: setting("TRIAGE_MODEL")?,
        crm: setting("TRIAGE_CRM")?,
        mail: setting("TRIAGE_MAIL")?,
        settle_window: Duration::from_secs(120),
        lease: Duration::from_secs(30),
    })?;

    let semel = Semel::open("sqlite:triage.db").await?;
    let code = move |ctx, inbound| triage(ctx, inbound, services.clone());
    let working = semel.worker().workflow("triage", code).start()?;

    let inbound = Inbound {
        request_id: request_id.clone(),
        sender: "ada@customer.example".to_owned(),
        subject: "The printer is on fire".to_owned(),
        text: "It began after lunch.".to_owned(),
    };
    // The id of the event is the key: delivered twice, it is the same run.
    let run = semel.start("triage").key([&request_id]).input(&inbound).run().await?;
    let outcome: Outcome = run.result().await?;
    println!("run {}: {outcome:?}", run.id());
    working.stop(Duration::from_secs(5)).await;
    Ok(())
}
