//! One error for everything above the rules and the store.

use semel_core::code::Code;
use semel_core::cron::CronInvalid;
use semel_core::effect::{Refusal, Why};
use semel_core::journal::{Fault, Raised};
use semel_core::json::{Json, JsonInvalid};
use semel_core::key::{KeyInvalid, NameInvalid};
use semel_core::time::format_duration_ms;
use semel_core::{hook, run, schedule};
use semel_store::StoreError;
use semel_store::sqlite::TransactionError;

/// Why an operation did not give what was asked for: a stable code, and a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    code: Code,
    detail: String,
    retry_after_ms: Option<u64>,
    /// The caller's own retries are used up: more of them may help.
    is_exhausted: bool,
    raised: Option<Box<Raised>>,
    receipts: Option<Box<(Json, Json)>>,
}

impl Error {
    /// An error of our own.
    pub fn new(code: Code, detail: impl Into<String>) -> Error {
        let detail = detail.into();
        Error {
            code,
            detail,
            retry_after_ms: None,
            is_exhausted: false,
            raised: None,
            receipts: None,
        }
    }

    pub(crate) fn exhausted(code: Code, detail: impl Into<String>) -> Error {
        Error { is_exhausted: true, ..Error::new(code, detail) }
    }

    /// The code that was called is at fault: another try needs other code.
    pub(crate) fn faulty(code: Code, reason: &str) -> Error {
        Error::exhausted(code, format!("the code raised a programming error: {reason}"))
    }

    pub(crate) fn rate_limited(action: &str, wait_ms: u64) -> Error {
        let text = format!("the rate of {action} is used up for {}", format_duration_ms(wait_ms));
        Error { retry_after_ms: Some(wait_ms), ..Error::new(Code::RateLimited, text) }
    }

    pub(crate) fn undone(receipt: Json, undo: Json) -> Error {
        let receipts = Some(Box::new((receipt, undo)));
        Error { receipts, ..Error::new(Code::Undone, "it was done, and then undone") }
    }

    /// Of an effect that was undone: its receipt, and that of its undo.
    pub fn undone_receipts(&self) -> Option<&(Json, Json)> {
        self.receipts.as_deref()
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.is_exhausted
    }

    /// The same error, with the exception that is behind it. The journal keeps both.
    pub fn with_raised(self, raised: Raised) -> Error {
        Error { raised: Some(Box::new(raised.bounded())), ..self }
    }

    /// The exception of user code behind this error, as it was raised, perhaps before a restart.
    pub fn raised(&self) -> Option<&Raised> {
        self.raised.as_deref()
    }

    /// The stable code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// What happened, for people.
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// When it may be worth asking again.
    pub fn retry_after_ms(&self) -> Option<u64> {
        self.retry_after_ms
    }
}

/// An error as the journal keeps it.
impl From<&Error> for Fault {
    fn from(error: &Error) -> Fault {
        let fault = Fault::new(error.code, error.detail.clone()).with(error.raised.clone());
        Fault { receipts: error.receipts.clone(), ..fault }
    }
}

/// The error that a journal kept.
impl From<Fault> for Error {
    fn from(fault: Fault) -> Error {
        let code = Code::parse(&fault.code).unwrap_or(Code::RunFailed);
        Error { raised: fault.raised, receipts: fault.receipts, ..Error::new(code, fault.detail) }
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.detail, self.code)
    }
}

impl std::error::Error for Error {}

impl From<Refusal> for Error {
    fn from(refusal: Refusal) -> Error {
        let retry_after_ms = refusal.retry_after_ms();
        let is_exhausted = matches!(refusal, Refusal::InDoubt { why: Why::Exhausted, .. });
        let error = Error::new(refusal.code(), refusal.to_string());
        Error { retry_after_ms, is_exhausted, ..error }
    }
}

impl From<run::Refusal> for Error {
    fn from(refusal: run::Refusal) -> Error {
        Error::new(refusal.code(), refusal.to_string())
    }
}

impl From<schedule::Refusal> for Error {
    fn from(refusal: schedule::Refusal) -> Error {
        Error::new(refusal.code(), refusal.to_string())
    }
}

impl From<hook::Refusal> for Error {
    fn from(refusal: hook::Refusal) -> Error {
        Error::new(refusal.code(), refusal.to_string())
    }
}

impl From<CronInvalid> for Error {
    fn from(error: CronInvalid) -> Error {
        Error::new(Code::ScheduleInvalid, error.why)
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        Error::new(error.code(), error.to_string())
    }
}

impl From<KeyInvalid> for Error {
    fn from(error: KeyInvalid) -> Error {
        Error::new(Code::KeyInvalid, error.to_string())
    }
}

impl From<NameInvalid> for Error {
    fn from(error: NameInvalid) -> Error {
        Error::new(Code::NameInvalid, error.to_string())
    }
}

impl From<JsonInvalid> for Error {
    fn from(error: JsonInvalid) -> Error {
        Error::new(Code::InputInvalid, error.to_string())
    }
}

impl From<TransactionError> for Error {
    fn from(error: TransactionError) -> Error {
        match error {
            TransactionError::Refused(refusal) => refusal.into(),
            TransactionError::Store(error) => error.into(),
            TransactionError::TooLong => Error::new(Code::TransactionTooLong, error.to_string()),
            TransactionError::Failed(text) => Error::new(Code::TransactionFailed, text),
        }
    }
}
