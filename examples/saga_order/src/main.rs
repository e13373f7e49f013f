//! A worker for orders: offers the workflow, takes one order in, and prints what became of it. Run
//! it twice, or kill it and run it again: one charge, and one refund when nobody ships there.

#![expect(clippy::print_stdout, reason = "a program for people")]

use std::time::Duration;

use anyhow::Context;
use saga_order::{Order, Receipt, Settings, Shop, order};
use semel::Semel;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut words = std::env::args().skip(1);
    let order_id = words.next().unwrap_or_else(|| "order-42".to_owned());
    let to = words.next().unwrap_or_else(|| "Atlantis".to_owned());
    let shop = Shop::new(Settings {
        url: std::env::var("SHOP_URL").context("SHOP_URL is not set")?,
        settle_window: Duration::from_secs(120),
        lease: Duration::from_secs(30),
    })?;

    let semel = Semel::open("sqlite:saga_order.db").await?;
    let code = move |ctx, wish| order(ctx, wish, shop.clone());
    let working = semel.worker().workflow("order", code).start()?;

    let wish = Order { order_id: order_id.clone(), cents: 4200, to };
    // The id of the order is the key: placed twice, it is the same run.
    let run = semel.start("order").key([&order_id]).input(&wish).run().await?;
    match run.result::<Receipt>().await {
        Ok(parcel) => println!("run {}: shipped, {}", run.id(), parcel.id),
        Err(error) => println!("run {}: all was taken back, because {error}", run.id()),
    }
    working.stop(Duration::from_secs(5)).await;
    Ok(())
}
