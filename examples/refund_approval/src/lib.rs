//! A refund that a person approves, to the cent, before it is sent. A second click changes nothing;
//! a refund that was returned is edited, which is another version and another question.

use std::sync::Arc;
use std::time::Duration;

use semel::{Approval, Context, Contract, Error, Failure, Intent, RunHandle, Semel, classify};
use serde::{Deserialize, Serialize};
use serde_json::json;

/// Silence for so long is a no.
const A_WEEK: Duration = Duration::from_secs(7 * 86_400);
/// Longer than the request takes, shorter than the deadline of an attempt.
const PATIENCE: Duration = Duration::from_secs(20);

/// A refund that somebody asks for. Edited, it is another version.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Wish {
    pub order_id: String,
    pub version: u32,
    pub cents: u64,
    /// Who wants it, and so may not approve it.
    pub agent: String,
}

/// A refund that was paid.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refund {
    pub id: String,
    pub cents: u64,
}

/// What makes two wishes the same intent: order and version, and not the amount.
pub fn key_of(wish: &Wish) -> [String; 2] {
    [wish.order_id.clone(), format!("v{}", wish.version)]
}

/// The workflow: waits for the person, and no worker is kept busy meanwhile.
pub async fn refund(ctx: Context, wish: Wish, bank: Bank) -> Result<Refund, Error> {
    let lease = bank.settings.lease;
    let settle_window = bank.settings.settle_window;
    ctx.effect("refund")
        .intent("Pay back what was approved")
        .key(key_of(&wish))
        // The question is about all of this: with another amount this key is refused.
        .input(&wish)
        .approval(
            Approval::within(A_WEEK)
                .four_eyes(&wish.agent)
                .note(format!("refund for {}", wish.order_id)),
        )
        // The bank knows no keys: at most once. A refund that is cut on its way is in doubt, and
        // the person's yes does not send it a second time.
        .contract(Contract::AtMostOnce)
        .lease(lease)
        .deadline(2 * lease)
        .settle_window(settle_window)
        .call(move |intent| bank.clone().pay_back(intent))
        .await
}

/// Asks for a refund. The same version submitted again is the same run.
pub async fn submit(semel: &Semel, wish: &Wish) -> Result<RunHandle, Error> {
    semel.start("refund").key(key_of(wish)).input(wish).run().await
}

/// Where the bank is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Such as `http://127.0.0.1:8010`.
    pub url: String,
    /// How long a refund may still be paid after its attempt was cut.
    pub settle_window: Duration,
    /// How long a worker may give no sign of life before another one goes on.
    pub lease: Duration,
}

/// The bank, ready to be asked. Cheap to clone.
#[derive(Clone)]
pub struct Bank {
    client: reqwest::Client,
    settings: Arc<Settings>,
}

impl Bank {
    pub fn new(settings: Settings) -> Result<Bank, reqwest::Error> {
        // A redirect would hide what the first server did: see `semel::classify`.
        let none = reqwest::redirect::Policy::none();
        let client = reqwest::Client::builder().redirect(none).timeout(PATIENCE).build()?;
        Ok(Bank { client, settings: Arc::new(settings) })
    }

    /// Sends exactly what was approved: the stored input, and nothing that this caller brought.
    async fn pay_back(self, intent: Intent) -> Result<Refund, Failure> {
        let wish: Wish = intent.input_as()?;
        let body = json!({ "order": wish.order_id, "cents": wish.cents });
        let url = format!("{}/refunds", self.settings.url);
        let answer = classify::send(self.client.post(url).json(&body)).await?;
        Ok(answer.json().await?)
    }
}
