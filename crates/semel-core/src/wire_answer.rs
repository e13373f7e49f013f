//! Views: the short answers to what was asked for. API and CLI render exactly these.

use serde::Serialize;

use crate::access::{Role, Token};
use crate::wire::rfc3339;

/// What `settle` answers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SettledView {
    pub state: &'static str,
    /// It came too late to decide anything: it is kept beside what was decided.
    pub kept_as_evidence: bool,
    pub version: u64,
}

/// What `renew` answers.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LeaseView {
    pub lease_until: String,
    pub lease_ms: u64,
}

/// A question to a person, answered.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct JudgedView {
    /// `approved`, `denied` or `returned`.
    pub answer: &'static str,
    pub by: String,
    pub at: String,
    pub note: String,
    /// It was answered now; otherwise it had this answer before.
    pub is_new: bool,
}

/// A link to a question. It is shown once.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LinkView {
    pub url: String,
    pub path: String,
    pub approver: String,
    pub digest: String,
    pub expires_at: String,
}

/// A run that was started, or that this key had started before.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StartedView {
    pub id: String,
    pub state: &'static str,
    pub key: String,
}

/// A signal that reached its run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignalledView {
    pub identity: String,
    /// It was there before.
    pub repeated: bool,
}

/// A callback that reached its run.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CalledBackView {
    /// It was there before.
    pub repeated: bool,
}

/// A token without its secret.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TokenView {
    pub id: String,
    pub label: String,
    pub role: Role,
    pub created_at: String,
    pub expires_at: Option<String>,
    pub revoked_at: Option<String>,
}

/// A token that was made now. The secret is shown once.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MadeTokenView {
    #[serde(flatten)]
    pub of: TokenView,
    pub token: String,
}

/// Shows a token.
pub fn token_view(token: &Token) -> TokenView {
    TokenView {
        id: token.id.clone(),
        label: token.label.clone(),
        role: token.role,
        created_at: rfc3339(token.created),
        expires_at: token.expires.map(rfc3339),
        revoked_at: token.revoked.map(rfc3339),
    }
}
