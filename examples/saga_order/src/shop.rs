//! The back office: it makes reservations, charges and parcels, and takes them back.

use std::sync::Arc;
use std::time::Duration;

use semel::{Failure, Intent, classify};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// Longer than any request takes, shorter than the deadline of an attempt.
const PATIENCE: Duration = Duration::from_secs(20);

/// What the back office has made, by its own name for it, and for which order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Receipt {
    pub id: String,
    pub order: String,
}

/// What carriers say to a parcel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Shipment {
    Parcel(Receipt),
    No { refused: String },
}

/// Where the back office is.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Such as `http://127.0.0.1:8010`.
    pub url: String,
    /// How long a refund may still be paid after its attempt was cut.
    pub settle_window: Duration,
    /// How long a worker may give no sign of life before another one goes on.
    pub lease: Duration,
}

/// The back office, ready to be asked. Cheap to clone.
#[derive(Clone)]
pub struct Shop {
    client: reqwest::Client,
    settings: Arc<Settings>,
}

impl Shop {
    pub fn new(settings: Settings) -> Result<Shop, reqwest::Error> {
        // A redirect would hide what the first server did: see `semel::classify`.
        let none = reqwest::redirect::Policy::none();
        let client = reqwest::Client::builder().redirect(none).timeout(PATIENCE).build()?;
        Ok(Shop { client, settings: Arc::new(settings) })
    }

    pub fn lease(&self) -> Duration {
        self.settings.lease
    }

    pub fn settle_window(&self) -> Duration {
        self.settings.settle_window
    }

    /// Asks for what the intent says.
    pub async fn ask<T: DeserializeOwned>(
        self,
        path: &'static str,
        intent: Intent,
    ) -> Result<T, Failure> {
        let wish: Value = intent.input_as()?;
        self.post(path, &intent, &wish).await
    }

    /// Takes back what a receipt stands for.
    pub async fn take_back(
        self,
        path: &'static str,
        intent: Intent,
        made: Receipt,
    ) -> Result<Receipt, Failure> {
        self.post(path, &intent, &json!({ "order": made.order, "of": made.id })).await
    }

    async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        intent: &Intent,
        wish: &Value,
    ) -> Result<T, Failure> {
        let request = self.client.post(format!("{}{path}", self.settings.url));
        let request = request.header("idempotency-key", intent.downstream_key()).json(wish);
        // A 4xx proves that nothing was done; a connection that ends without an answer, nothing.
        Ok(classify::send(request).await?.json().await?)
    }
}
