//! What the gate takes.

use serde::Deserialize;

use super::{BeginAsk, ContractAsk, KeyAsk};
#[cfg(feature = "schema")]
use super::{DURATION, NAME};
use crate::effect::Report;
use crate::json::{self, Json};

/// `POST /v1/gate`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateAsk {
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub action: String,
    pub key: Option<KeyAsk>,
    #[serde(default = "Json::null", deserialize_with = "json::asked")]
    pub input: Json,
    #[serde(default)]
    pub contract: Option<ContractAsk>,
    #[serde(default)]
    pub fingerprint: Option<Vec<String>>,
    /// How long the caller may take: afterwards it is in doubt.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub lease: Option<String>,
}

impl GateAsk {
    /// The same as a begin. The caller cannot renew, so the lease is as long as the deadline.
    pub fn begin(&self) -> BeginAsk {
        BeginAsk {
            action: self.action.clone(),
            key: self.key.clone(),
            input: self.input.clone(),
            contract: self.contract.clone(),
            fingerprint: self.fingerprint.clone(),
            downstream_key: None,
            lease: Some(self.lease.clone().unwrap_or_else(|| "5m".to_owned())),
            deadline: Some(self.lease.clone().unwrap_or_else(|| "5m".to_owned())),
            settle: None,
            window: None,
            attempt_id: None,
            hold: None,
            receipt_shape: None,
        }
    }
}

/// `POST /v1/gate/{id}/done`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateDoneAsk {
    #[serde(default = "Json::null", deserialize_with = "json::asked")]
    pub receipt: Json,
}

/// `POST /v1/gate/{id}/failed`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GateFailedAsk {
    pub applied: AppliedAsk,
    #[serde(default)]
    pub reason: Option<String>,
}

/// Whether the outside world was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AppliedAsk {
    No,
    Unknown,
}

impl GateFailedAsk {
    pub fn report(&self) -> Report {
        let reason = self.reason.clone().unwrap_or_default();
        match self.applied {
            AppliedAsk::No => Report::NotApplied { reason, last: false },
            AppliedAsk::Unknown => Report::Unknown { reason, key_not_used: false },
        }
    }
}
