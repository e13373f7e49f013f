//! A worker for refunds, and both people: an agent asks, Ann returns the first version and approves
//! the edited one, and Bob's click comes too late. Run it twice: one refund.

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::time::Duration;

use anyhow::Context;
use refund_approval::{Bank, Refund, Settings, Wish, key_of, refund, submit};
use semel::{Answer, Asked, Code, Semel};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let order_id = std::env::args().nth(1).unwrap_or_else(|| "order-42".to_owned());
    let bank = Bank::new(Settings {
        url: std::env::var("SHOP_URL").context("SHOP_URL is not set")?,
        settle_window: Duration::from_secs(120),
        lease: Duration::from_secs(30),
    })?;
    let semel = Semel::open("sqlite:refund_approval.db").await?;
    let code = move |ctx, wish| refund(ctx, wish, bank.clone());
    let working = semel.worker().workflow("refund", code).start()?;

    let agent = "support-bot".to_owned();
    let first = Wish { order_id: order_id.clone(), version: 1, cents: 4200, agent };
    let run = submit(&semel, &first).await?;
    let asked = question(&semel, &first).await?;
    asked.send_back("ann", "half of it is enough").await?;
    if let Err(returned) = run.result::<Refund>().await {
        println!("version 1: {returned}");
    }

    let edited = Wish { version: 2, cents: 2100, ..first };
    let run = submit(&semel, &edited).await?;
    let asked = question(&semel, &edited).await?;
    asked.approve("ann", "as agreed").await?;
    let late = asked.deny("bob", "too much").await?;
    let says = if late.judgement.answer == Answer::Approved { "approved" } else { "not approved" };
    println!("version 2: {says} by {}, whatever Bob says", late.judgement.actor);
    println!("version 2: {:?}", run.result::<Refund>().await?);
    working.stop(Duration::from_secs(5)).await;
    Ok(())
}

/// The question about a wish, once its run has put it.
async fn question(semel: &Semel, wish: &Wish) -> anyhow::Result<Asked> {
    loop {
        match semel.approvals().find("refund", key_of(wish)).await {
            Ok(asked) if !asked.digest().is_empty() => return Ok(asked),
            Err(error) if error.code() != Code::NotFound => return Err(error.into()),
            _ => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    }
}
