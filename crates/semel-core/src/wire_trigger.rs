//! Views: how a trigger and its deliveries are shown. API, CLI and console render exactly these.

use serde::Serialize;

use crate::hook::{Content, Deliveries, Delivery, Trigger};
use crate::wire::rfc3339;

/// One trigger, as everybody sees it: where its secret is, never what it is.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TriggerView {
    pub namespace: String,
    pub name: String,
    pub version: u64,
    /// Where deliveries are posted to.
    pub path: String,
    pub declared: Content,
    pub created_at: String,
    pub changed_at: String,
}

/// What became of the last deliveries of a trigger, the newest first.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveriesView {
    pub items: Vec<DeliveryView>,
    /// Of all that came: how many were genuine, and how many were not.
    pub verified: u64,
    pub refused: u64,
}

/// What became of one delivery.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DeliveryView {
    pub at: String,
    /// `started`, `repeated`, `changed`, `expired`, `challenged`, `unusable`, `failed`, `refused`.
    pub verdict: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run: Option<String>,
    pub bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}

/// Shows a trigger.
pub fn trigger_view(
    (namespace, name, version): (&str, &str, u64),
    trigger: &Trigger,
) -> TriggerView {
    let path = match namespace {
        "default" => format!("/hooks/{name}"),
        _ => format!("/hooks/{namespace}/{name}"),
    };
    TriggerView {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        version,
        path,
        declared: trigger.content.clone(),
        created_at: rfc3339(trigger.created),
        changed_at: rfc3339(trigger.changed),
    }
}

/// Shows the last deliveries of a trigger.
pub fn deliveries_view(kept: &Deliveries) -> DeliveriesView {
    DeliveriesView {
        items: kept.newest_first().into_iter().map(delivery_view).collect(),
        verified: kept.verified_count,
        refused: kept.refused_count,
    }
}

fn delivery_view(delivery: &Delivery) -> DeliveryView {
    DeliveryView {
        at: rfc3339(delivery.at),
        verdict: delivery.verdict.as_str(),
        key: delivery.key.clone(),
        run: delivery.run.clone(),
        bytes: delivery.bytes,
        detail: delivery.detail.clone(),
    }
}
