//! How user code reports that it has no receipt.

use std::fmt::Display;

use semel_engine::Sent;

/// Proof that nothing happened; it may be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotApplied(pub String);

/// Proof that nothing happened, and nothing ever will under this key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused(pub String);

/// Why an effect's function has no receipt. Any error turns into one with `?`: what is not a proof
/// counts as unknown, because the request may have landed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    NotApplied,
    Refused,
    Unknown,
}

impl Failure {
    /// Proof that nothing happened; it may be tried again.
    pub fn not_applied(reason: impl Display) -> Failure {
        Failure { kind: Kind::NotApplied, reason: reason.to_string() }
    }

    /// Proof that nothing happened, and nothing ever will under this key.
    pub fn refused(reason: impl Display) -> Failure {
        Failure { kind: Kind::Refused, reason: reason.to_string() }
    }

    /// Nobody knows what happened.
    pub fn unknown(reason: impl Display) -> Failure {
        Failure { kind: Kind::Unknown, reason: reason.to_string() }
    }

    /// The same error where something else may have gone out: no proof any more.
    pub(crate) fn doubted(self, why: &str) -> Failure {
        if self.is_proof() { Failure::unknown(format!("{}; {why}", self.reason)) } else { self }
    }

    /// Whether this is a proof that nothing happened.
    pub fn is_proof(&self) -> bool {
        self.kind != Kind::Unknown
    }

    /// Whether this says that nothing ever will happen.
    pub fn is_final(&self) -> bool {
        self.kind == Kind::Refused
    }

    /// What was said.
    pub fn reason(&self) -> &str {
        &self.reason
    }

    pub(crate) fn into_sent(self) -> Sent {
        match self.kind {
            Kind::NotApplied => Sent::NotApplied(self.reason),
            Kind::Refused => Sent::Refused(self.reason),
            Kind::Unknown => Sent::Unknown(self.reason),
        }
    }
}

impl From<NotApplied> for Failure {
    fn from(proof: NotApplied) -> Failure {
        Failure::not_applied(proof.0)
    }
}

impl From<Refused> for Failure {
    fn from(proof: Refused) -> Failure {
        Failure::refused(proof.0)
    }
}

impl<E: std::error::Error + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        crate::classify::error(&error)
    }
}
