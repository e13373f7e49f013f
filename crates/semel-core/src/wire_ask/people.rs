//! What is asked of people, and for them: judgements, tokens, links.

use serde::Deserialize;

#[cfg(feature = "schema")]
use super::DURATION;
use super::{AskInvalid, duration, invalid};
use crate::code::Code;
use crate::limits;
use crate::record::Answer;

/// `POST /v1/approvals/{id}`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JudgeAsk {
    pub decision: JudgementAsk,
    /// The digest of the payload that the person saw.
    pub digest: String,
    /// Why; deny and return need one.
    #[serde(default)]
    pub note: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum JudgementAsk {
    Approve,
    Deny,
    Return,
}

impl JudgementAsk {
    pub fn answer(self) -> Answer {
        match self {
            JudgementAsk::Approve => Answer::Approved,
            JudgementAsk::Deny => Answer::Denied,
            JudgementAsk::Return => Answer::Returned,
        }
    }
}

/// `POST /v1/tokens`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenAsk {
    /// Whose it is: the actor of what is decided with it.
    #[cfg_attr(feature = "schema", schemars(length(min = 1, max = 100)))]
    pub label: String,
    pub role: crate::access::Role,
    /// After how long it ends; without it, by revocation only.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub expires_in: Option<String>,
}

impl TokenAsk {
    pub fn expires_ms(&self) -> Result<Option<u64>, AskInvalid> {
        if self.label.is_empty() || self.label.len() > limits::NAME_BYTES_MAX {
            return invalid(Code::RequestInvalid, "`label` has 1 to 100 bytes");
        }
        if self.label.contains(char::is_control) {
            return invalid(Code::RequestInvalid, "`label` has a control character");
        }
        self.expires_in.as_deref().map(|text| duration("expires_in", text)).transpose()
    }
}

/// `POST /v1/approvals/{id}/links`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkAsk {
    /// For whom it is: the actor of what is decided with it.
    pub approver: String,
    /// After how long it ends; three days where nothing is said.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(regex(pattern = DURATION)))]
    pub expires_in: Option<String>,
}

impl LinkAsk {
    pub fn expires_ms(&self) -> Result<u64, AskInvalid> {
        match &self.expires_in {
            None => Ok(limits::APPROVAL_LINK_MS),
            Some(text) => duration("expires_in", text),
        }
    }
}
