//! What runs, releases and schedules take.

use serde::Deserialize;

use super::{AskInvalid, duration};
#[cfg(feature = "schema")]
use super::{DURATION, NAME};
use crate::json::{self, Json};
use crate::limits;
use crate::schedule::{CatchUp, Content};

/// `POST /v1/workflows/{name}/runs`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartAsk {
    #[serde(default = "Json::null", deserialize_with = "json::asked")]
    pub input: Json,
    /// The release to start on; the live one when left out. A draft starts in the draft twin.
    #[serde(default)]
    pub release: Option<String>,
    /// When it is ended by itself.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub deadline: Option<String>,
}

impl StartAsk {
    pub fn deadline_ms(&self) -> Result<Option<u64>, AskInvalid> {
        self.deadline.as_deref().map(|text| duration("deadline", text)).transpose()
    }
}

/// `POST /v1/runs/{id}/cancel`, `/retry` and `/fail`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SteerAsk {
    #[serde(default)]
    pub reason: String,
}

/// `POST /v1/runs/{id}/skip`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SkipAsk {
    /// The step on which the run is paused.
    pub step: String,
    #[serde(default = "Json::null", deserialize_with = "json::asked")]
    pub value: Json,
    #[serde(default)]
    pub reason: String,
}

/// `POST /v1/runs/{id}/move`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MoveAsk {
    pub release: String,
    #[serde(default)]
    pub reason: String,
}

/// `POST /v1/workflows/{name}/releases/promote`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PromoteAsk {
    pub release: String,
    pub reason: String,
}

/// `PUT /v1/schedules/{name}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ScheduleAsk {
    #[cfg_attr(feature = "schema", schemars(regex(pattern = NAME)))]
    pub workflow: String,
    #[serde(default = "Json::null", deserialize_with = "json::asked")]
    pub input: Json,
    pub cron: String,
    #[serde(default = "utc")]
    pub zone: String,
    #[serde(default = "skip")]
    pub catch_up: CatchUp,
}

fn utc() -> String {
    "UTC".to_owned()
}

fn skip() -> CatchUp {
    CatchUp::Skip
}

impl ScheduleAsk {
    pub fn content(self) -> Content {
        Content {
            workflow: self.workflow,
            input: self.input,
            cron: self.cron,
            zone: self.zone,
            catch_up: self.catch_up,
            window_ms: limits::WINDOW_MS,
        }
    }
}
