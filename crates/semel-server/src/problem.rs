//! Errors as callers see them: problem+json with a stable code. The only place that knows which
//! status a code has.

use axum::http::{HeaderValue, StatusCode, header};
use semel_core::code::Code;
use semel_core::idempotency;
use semel_core::key::KeyInvalid;
use semel_core::wire_ask::AskInvalid;
use semel_engine::Error;
use serde_json::json;

use crate::route::Reply;

/// Why a request did not get what it asked for.
#[derive(Clone, Debug)]
pub(crate) struct Problem {
    pub(crate) code: Code,
    pub(crate) detail: String,
    pub(crate) retry_after_ms: Option<u64>,
}

impl Problem {
    pub(crate) fn new(code: Code, detail: impl Into<String>) -> Problem {
        Problem { code, detail: detail.into(), retry_after_ms: None }
    }

    pub(crate) fn retry_after(self, ms: u64) -> Problem {
        Problem { retry_after_ms: Some(ms), ..self }
    }

    /// The same for everything that is not there, whoever has it.
    pub(crate) fn not_found() -> Problem {
        Problem::new(Code::NotFound, "there is no such thing here")
    }

    /// For roles that could not signal a run, but could answer with the token that they would see.
    pub(crate) fn holds_token() -> Problem {
        let text = "the journal holds the token of a callback: it is for roles that may start";
        Problem::new(Code::Forbidden, text)
    }

    /// The answer. What went wrong inside is logged, and not told to the caller.
    pub(crate) fn reply(&self, request: &str) -> Reply {
        let status = status(self.code);
        let detail = match status.is_server_error() {
            true => {
                // An overload is counted, not told line by line: that would make it worse.
                match self.code {
                    Code::Overloaded => tracing::debug!(request, "overloaded"),
                    _ => {
                        tracing::warn!(code = %self.code, detail = %self.detail, request, "failed");
                    }
                }
                self.code.hint()
            }
            false => &self.detail,
        };
        let body = json!({
            "type": format!("/errors/{}", self.code),
            "title": self.code.as_str().replace('_', " "),
            "status": status.as_u16(),
            "code": self.code.as_str(),
            "detail": detail,
            "hint": self.code.hint(),
            "request_id": request,
        });
        let reply = Reply::json(status, &body);
        let reply = reply.header(header::CONTENT_TYPE, "application/problem+json");
        let reply = match self.code {
            Code::Unauthenticated => reply.header(header::WWW_AUTHENTICATE, "Bearer"),
            _ => reply,
        };
        self.with_retry(reply, status)
    }

    /// When to come again, in the words of every client that reads any.
    fn with_retry(&self, mut reply: Reply, status: StatusCode) -> Reply {
        let later = matches!(status, StatusCode::TOO_MANY_REQUESTS)
            || status.is_server_error() && status != StatusCode::INTERNAL_SERVER_ERROR;
        let ms = match self.retry_after_ms {
            None if later || self.code == Code::InProgress => 1_000,
            None => return reply,
            Some(ms) => ms,
        };
        let number = |n: u64| HeaderValue::from(n);
        reply.headers.insert(header::RETRY_AFTER, number(ms.div_ceil(1_000).max(1)));
        reply.headers.insert("retry-after-ms", number(ms.max(1)));
        if later || self.code == Code::InProgress {
            reply = reply.header("x-should-retry", "true").header("stripe-should-retry", "true");
        }
        reply
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Problem {
        let retry_after_ms = error.retry_after_ms();
        match error.code() {
            Code::NotFound => Problem::not_found(),
            code => Problem { retry_after_ms, ..Problem::new(code, error.detail()) },
        }
    }
}

impl From<semel_store::StoreError> for Problem {
    fn from(error: semel_store::StoreError) -> Problem {
        Problem::from(Error::from(error))
    }
}

impl From<AskInvalid> for Problem {
    fn from(error: AskInvalid) -> Problem {
        Problem::new(error.code, error.why)
    }
}

impl From<KeyInvalid> for Problem {
    fn from(error: KeyInvalid) -> Problem {
        Problem::new(Code::KeyInvalid, error.why)
    }
}

impl From<semel_core::key::NameInvalid> for Problem {
    fn from(error: semel_core::key::NameInvalid) -> Problem {
        Problem::new(Code::NameInvalid, error.to_string())
    }
}

/// The key that a request carries in its header.
pub(crate) fn key_of(
    headers: &axum::http::HeaderMap,
) -> Result<Option<semel_core::key::Key>, Problem> {
    let lines: Vec<&[u8]> =
        headers.get_all("idempotency-key").iter().map(HeaderValue::as_bytes).collect();
    Ok(idempotency::read(&lines)?)
}

/// The status of each code.
#[expect(clippy::too_many_lines, reason = "a table: one line for each code")]
pub(crate) fn status(code: Code) -> StatusCode {
    match code {
        Code::KeyInvalid
        | Code::KeyMissing
        | Code::NameInvalid
        | Code::InputInvalid
        | Code::DurationInvalid
        | Code::TermsInvalid
        | Code::RetryBeyondRetention
        | Code::ContractNeedsLook
        | Code::ScheduleInvalid
        | Code::TriggerInvalid
        | Code::RequestInvalid
        | Code::ConfigInvalid
        | Code::SecretExposed
        | Code::StepRepeated
        | Code::ToolUndeclared => StatusCode::BAD_REQUEST,
        Code::Unauthenticated | Code::SignatureInvalid => StatusCode::UNAUTHORIZED,
        Code::Forbidden | Code::FourEyes | Code::HostRefused => StatusCode::FORBIDDEN,
        Code::NotFound | Code::ReleaseUnknown | Code::WorkflowUnknown => StatusCode::NOT_FOUND,
        Code::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        Code::InProgress
        | Code::InDoubt
        | Code::Held
        | Code::ContractChanged
        | Code::TooEarly
        | Code::AttemptSpent
        | Code::AttemptsExhausted
        | Code::NotExhausted
        | Code::RetriesExhausted
        | Code::StaleFence
        | Code::DeadlinePassed
        | Code::PermitLapsed
        | Code::EffectFailed
        | Code::NotApplied
        | Code::VersionChanged
        | Code::AlreadySettled
        | Code::AlreadySent
        | Code::NotSettled
        | Code::ReceiptMismatch
        | Code::RunFinished
        | Code::RunFailed
        | Code::Cancelled
        | Code::RunTaken
        | Code::RunPaused
        | Code::NotPaused
        | Code::TooMany
        | Code::TimedOut
        | Code::ApprovalDenied
        | Code::ApprovalReturned
        | Code::ApprovalExpired
        | Code::NotHeld
        | Code::Undone
        | Code::ConcurrencyRejected
        | Code::ChildFailed
        | Code::StepFailed
        | Code::Diverged
        | Code::UnstableKey
        | Code::ForeignAwait
        | Code::Panicked
        | Code::BodyRaised
        | Code::ProgrammingError
        | Code::NotAwaited
        | Code::NoQuarantine
        | Code::TransactionUnsupported => StatusCode::CONFLICT,
        Code::Expired => StatusCode::GONE,
        Code::BodyTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Code::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Code::MediaUnsupported => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Code::InputChanged | Code::ReceiptInvalid => StatusCode::UNPROCESSABLE_ENTITY,
        Code::RateLimited | Code::QuotaExceeded => StatusCode::TOO_MANY_REQUESTS,
        Code::Overloaded | Code::StoreBusy | Code::StoreUnavailable | Code::StoreMissing => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        Code::StoreFull => StatusCode::INSUFFICIENT_STORAGE,
        Code::NotConfigured
        | Code::Forked
        | Code::NoIntent
        | Code::WriteOutsideEffect
        | Code::TransactionTooLong
        | Code::TransactionFailed
        | Code::StoreCorrupt
        | Code::StoreForeign
        | Code::EncryptionKeyMissing
        | Code::EncryptionKeyMismatch
        | Code::KeyFileInvalid
        | Code::SecretInvalid
        | Code::BackupInvalid
        | Code::StoreNotEmpty
        | Code::StoreNewer
        | Code::StoreOlder
        | Code::StoreUrlInvalid
        | Code::SqliteTooOld
        | Code::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}
