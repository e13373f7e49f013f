//! An order: reserve the goods, charge the card, ship the parcel. When nobody ships there, charge
//! and reservation are taken back, the last first. Kill the worker where you like.

mod shop;

pub use shop::{Receipt, Settings, Shipment, Shop};

use semel::{Code, Context, Contract, Error, NativeKey};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// An order, as it came in.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// What the business calls it: the keys of all effects are made of it.
    pub order_id: String,
    pub cents: u64,
    /// Where the parcel goes.
    pub to: String,
}

/// The workflow. An error that leaves it makes the run take back what it did, before it ends.
pub async fn order(ctx: Context, order: Order, shop: Shop) -> Result<Receipt, Error> {
    reserve(&ctx, &order, &shop).await?;
    charge(&ctx, &order, &shop).await?;
    match ship(&ctx, &order, &shop).await? {
        Shipment::Parcel(parcel) => Ok(parcel),
        Shipment::No { refused } => Err(Error::new(Code::RunFailed, refused)),
    }
}

async fn reserve(ctx: &Context, order: &Order, shop: &Shop) -> Result<Receipt, Error> {
    let (lease, id) = (shop.lease(), &order.order_id);
    let (does, undoes) = (shop.clone(), shop.clone());
    let release = ctx
        .undo("release")
        .intent("Give the goods back")
        .key([id])
        .contract(NativeKey::hours(24))
        .lease(lease);
    ctx.effect("reserve")
        .intent("Put the goods of an order aside")
        .key([id])
        .input(&json!({ "order": id }))
        .contract(NativeKey::hours(24))
        .lease(lease)
        // The undo is an effect of its own. Its code gets the receipt of what it takes back.
        .compensate_with(release, move |intent, reservation: Receipt| {
            undoes.clone().take_back("/releases", intent, reservation)
        })
        .call(move |intent| does.clone().ask("/reservations", intent))
        .await
}

async fn charge(ctx: &Context, order: &Order, shop: &Shop) -> Result<Receipt, Error> {
    let (lease, id) = (shop.lease(), &order.order_id);
    let (does, undoes) = (shop.clone(), shop.clone());
    // Refunds know no keys here and cannot be looked for: at most once. One that is cut on its way is
    // in doubt and waits for a person; paying twice would be worse.
    let refund = ctx
        .undo("refund")
        .intent("Pay the charge back")
        .key([id])
        .contract(Contract::AtMostOnce)
        .lease(lease)
        .deadline(2 * lease);
    ctx.effect("charge")
        .intent("Charge the card for an order")
        .key([id])
        .input(&json!({ "order": id, "cents": order.cents }))
        .contract(NativeKey::hours(24))
        .lease(lease)
        .compensate_with(
            refund.settle_window(shop.settle_window()),
            move |intent, charge: Receipt| undoes.clone().take_back("/refunds", intent, charge),
        )
        .call(move |intent| does.clone().ask("/charges", intent))
        .await
}

/// A carrier's no is an answer and so a receipt. As a `Failure::refused` it would prove something
/// about this send alone: after a crash, an earlier one may have said yes, and that is a doubt.
async fn ship(ctx: &Context, order: &Order, shop: &Shop) -> Result<Shipment, Error> {
    let (lease, id) = (shop.lease(), &order.order_id);
    let shop = shop.clone();
    ctx.effect("ship")
        .intent("Hand the parcel of an order to a carrier")
        .key([id])
        .input(&json!({ "order": id, "to": order.to }))
        .contract(NativeKey::hours(24))
        .lease(lease)
        .call(move |intent| shop.clone().ask("/parcels", intent))
        .await
}
