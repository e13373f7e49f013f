//! Every refusal code. Codes are public: they appear in the API, the CLI and Python, each has a
//! page under `docs/errors/`, and none ever changes its meaning.

/// Why Semel said no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Code {
    KeyInvalid,
    NameInvalid,
    InputInvalid,
    DurationInvalid,
    TermsInvalid,
    RetryBeyondRetention,
    InputChanged,
    ContractChanged,
    InProgress,
    InDoubt,
    TooEarly,
    AttemptSpent,
    AttemptsExhausted,
    NotExhausted,
    RetriesExhausted,
    StaleFence,
    DeadlinePassed,
    PermitLapsed,
    EffectFailed,
    NotApplied,
    Expired,
    VersionChanged,
    AlreadySettled,
    AlreadySent,
    NotSettled,
    NotFound,
    TransactionUnsupported,
    TransactionTooLong,
    TransactionFailed,
    ContractNeedsLook,
    ReceiptMismatch,
    ReceiptInvalid,
    RunFinished,
    RunFailed,
    Cancelled,
    RunTaken,
    RunPaused,
    NotPaused,
    Diverged,
    UnstableKey,
    ForeignAwait,
    StepRepeated,
    StepFailed,
    TooMany,
    Panicked,
    BodyRaised,
    ProgrammingError,
    NotAwaited,
    WorkflowUnknown,
    NotConfigured,
    Forked,
    NoIntent,
    WriteOutsideEffect,
    ToolUndeclared,
    TimedOut,
    Held,
    ApprovalDenied,
    ApprovalReturned,
    ApprovalExpired,
    NotHeld,
    FourEyes,
    Undone,
    ConcurrencyRejected,
    RateLimited,
    ReleaseUnknown,
    ScheduleInvalid,
    TriggerInvalid,
    SignatureInvalid,
    ConfigInvalid,
    ChildFailed,
    NoQuarantine,
    Unauthenticated,
    Forbidden,
    KeyMissing,
    RequestInvalid,
    BodyTooLarge,
    HeadTooLarge,
    MediaUnsupported,
    MethodNotAllowed,
    HostRefused,
    QuotaExceeded,
    Overloaded,
    StoreBusy,
    StoreFull,
    StoreUnavailable,
    StoreCorrupt,
    StoreNewer,
    StoreOlder,
    StoreUrlInvalid,
    StoreMissing,
    StoreForeign,
    EncryptionKeyMissing,
    EncryptionKeyMismatch,
    KeyFileInvalid,
    SecretInvalid,
    SecretExposed,
    BackupInvalid,
    StoreNotEmpty,
    SqliteTooOld,
    Internal,
}

impl Code {
    /// All codes, in the order of the enum.
    pub const ALL: &[Code] = &[
        Code::KeyInvalid,
        Code::NameInvalid,
        Code::InputInvalid,
        Code::DurationInvalid,
        Code::TermsInvalid,
        Code::RetryBeyondRetention,
        Code::InputChanged,
        Code::ContractChanged,
        Code::InProgress,
        Code::InDoubt,
        Code::TooEarly,
        Code::AttemptSpent,
        Code::AttemptsExhausted,
        Code::NotExhausted,
        Code::RetriesExhausted,
        Code::StaleFence,
        Code::DeadlinePassed,
        Code::PermitLapsed,
        Code::EffectFailed,
        Code::NotApplied,
        Code::Expired,
        Code::VersionChanged,
        Code::AlreadySettled,
        Code::AlreadySent,
        Code::NotSettled,
        Code::NotFound,
        Code::TransactionUnsupported,
        Code::TransactionTooLong,
        Code::TransactionFailed,
        Code::ContractNeedsLook,
        Code::ReceiptMismatch,
        Code::ReceiptInvalid,
        Code::RunFinished,
        Code::RunFailed,
        Code::Cancelled,
        Code::RunTaken,
        Code::RunPaused,
        Code::NotPaused,
        Code::Diverged,
        Code::UnstableKey,
        Code::ForeignAwait,
        Code::StepRepeated,
        Code::StepFailed,
        Code::TooMany,
        Code::Panicked,
        Code::BodyRaised,
        Code::ProgrammingError,
        Code::NotAwaited,
        Code::WorkflowUnknown,
        Code::NotConfigured,
        Code::Forked,
        Code::NoIntent,
        Code::WriteOutsideEffect,
        Code::ToolUndeclared,
        Code::TimedOut,
        Code::Held,
        Code::ApprovalDenied,
        Code::ApprovalReturned,
        Code::ApprovalExpired,
        Code::NotHeld,
        Code::FourEyes,
        Code::Undone,
        Code::ConcurrencyRejected,
        Code::RateLimited,
        Code::ReleaseUnknown,
        Code::ScheduleInvalid,
        Code::TriggerInvalid,
        Code::SignatureInvalid,
        Code::ConfigInvalid,
        Code::ChildFailed,
        Code::NoQuarantine,
        Code::Unauthenticated,
        Code::Forbidden,
        Code::KeyMissing,
        Code::RequestInvalid,
        Code::BodyTooLarge,
        Code::HeadTooLarge,
        Code::MediaUnsupported,
        Code::MethodNotAllowed,
        Code::HostRefused,
        Code::QuotaExceeded,
        Code::Overloaded,
        Code::StoreBusy,
        Code::StoreFull,
        Code::StoreUnavailable,
        Code::StoreCorrupt,
        Code::StoreNewer,
        Code::StoreOlder,
        Code::StoreUrlInvalid,
        Code::StoreMissing,
        Code::StoreForeign,
        Code::EncryptionKeyMissing,
        Code::EncryptionKeyMismatch,
        Code::KeyFileInvalid,
        Code::SecretInvalid,
        Code::SecretExposed,
        Code::BackupInvalid,
        Code::StoreNotEmpty,
        Code::SqliteTooOld,
        Code::Internal,
    ];

    /// The code's stable name.
    #[expect(clippy::too_many_lines, reason = "a table: one line for each code")]
    pub fn as_str(self) -> &'static str {
        match self {
            Code::KeyInvalid => "key_invalid",
            Code::NameInvalid => "name_invalid",
            Code::InputInvalid => "input_invalid",
            Code::DurationInvalid => "duration_invalid",
            Code::TermsInvalid => "terms_invalid",
            Code::RetryBeyondRetention => "retry_beyond_retention",
            Code::InputChanged => "input_changed",
            Code::ContractChanged => "contract_changed",
            Code::InProgress => "in_progress",
            Code::InDoubt => "in_doubt",
            Code::TooEarly => "too_early",
            Code::AttemptSpent => "attempt_spent",
            Code::AttemptsExhausted => "attempts_exhausted",
            Code::NotExhausted => "not_exhausted",
            Code::RetriesExhausted => "retries_exhausted",
            Code::StaleFence => "stale_fence",
            Code::DeadlinePassed => "deadline_passed",
            Code::PermitLapsed => "permit_lapsed",
            Code::EffectFailed => "effect_failed",
            Code::NotApplied => "not_applied",
            Code::Expired => "expired",
            Code::VersionChanged => "version_changed",
            Code::AlreadySettled => "already_settled",
            Code::AlreadySent => "already_sent",
            Code::NotSettled => "not_settled",
            Code::NotFound => "not_found",
            Code::TransactionUnsupported => "transaction_unsupported",
            Code::TransactionTooLong => "transaction_too_long",
            Code::TransactionFailed => "transaction_failed",
            Code::ContractNeedsLook => "contract_needs_look",
            Code::ReceiptMismatch => "receipt_mismatch",
            Code::ReceiptInvalid => "receipt_invalid",
            Code::RunFinished => "run_finished",
            Code::RunFailed => "run_failed",
            Code::Cancelled => "cancelled",
            Code::RunTaken => "run_taken",
            Code::RunPaused => "run_paused",
            Code::NotPaused => "not_paused",
            Code::Diverged => "diverged",
            Code::UnstableKey => "unstable_key",
            Code::ForeignAwait => "foreign_await",
            Code::StepRepeated => "step_repeated",
            Code::StepFailed => "step_failed",
            Code::TooMany => "too_many",
            Code::Panicked => "panicked",
            Code::BodyRaised => "body_raised",
            Code::ProgrammingError => "programming_error",
            Code::NotAwaited => "not_awaited",
            Code::WorkflowUnknown => "workflow_unknown",
            Code::NotConfigured => "not_configured",
            Code::Forked => "forked",
            Code::NoIntent => "no_intent",
            Code::WriteOutsideEffect => "write_outside_effect",
            Code::ToolUndeclared => "tool_undeclared",
            Code::TimedOut => "timed_out",
            Code::Held => "held",
            Code::ApprovalDenied => "approval_denied",
            Code::ApprovalReturned => "approval_returned",
            Code::ApprovalExpired => "approval_expired",
            Code::NotHeld => "not_held",
            Code::FourEyes => "four_eyes",
            Code::Undone => "undone",
            Code::ConcurrencyRejected => "concurrency_rejected",
            Code::RateLimited => "rate_limited",
            Code::ReleaseUnknown => "release_unknown",
            Code::ScheduleInvalid => "schedule_invalid",
            Code::TriggerInvalid => "trigger_invalid",
            Code::SignatureInvalid => "signature_invalid",
            Code::ConfigInvalid => "config_invalid",
            Code::ChildFailed => "child_failed",
            Code::NoQuarantine => "no_quarantine",
            Code::Unauthenticated => "unauthenticated",
            Code::Forbidden => "forbidden",
            Code::KeyMissing => "key_missing",
            Code::RequestInvalid => "request_invalid",
            Code::BodyTooLarge => "body_too_large",
            Code::HeadTooLarge => "head_too_large",
            Code::MediaUnsupported => "media_unsupported",
            Code::MethodNotAllowed => "method_not_allowed",
            Code::HostRefused => "host_refused",
            Code::QuotaExceeded => "quota_exceeded",
            Code::Overloaded => "overloaded",
            Code::StoreBusy => "store_busy",
            Code::StoreFull => "store_full",
            Code::StoreUnavailable => "store_unavailable",
            Code::StoreCorrupt => "store_corrupt",
            Code::StoreNewer => "store_newer",
            Code::StoreOlder => "store_older",
            Code::StoreUrlInvalid => "store_url_invalid",
            Code::StoreMissing => "store_missing",
            Code::StoreForeign => "store_foreign",
            Code::EncryptionKeyMissing => "encryption_key_missing",
            Code::EncryptionKeyMismatch => "encryption_key_mismatch",
            Code::KeyFileInvalid => "key_file_invalid",
            Code::SecretInvalid => "secret_invalid",
            Code::SecretExposed => "secret_exposed",
            Code::BackupInvalid => "backup_invalid",
            Code::StoreNotEmpty => "store_not_empty",
            Code::SqliteTooOld => "sqlite_too_old",
            Code::Internal => "internal",
        }
    }

    /// Reads a name back.
    pub fn parse(name: &str) -> Option<Code> {
        Code::ALL.iter().copied().find(|code| code.as_str() == name)
    }

    /// What to do next, in one sentence.
    pub fn hint(self) -> &'static str {
        self.hint_on_effects()
            .or_else(|| self.hint_on_runs())
            .or_else(|| self.hint_on_requests())
            .unwrap_or_else(|| self.hint_on_store())
    }

    fn hint_on_effects(self) -> Option<&'static str> {
        Some(match self {
            Code::KeyInvalid => "build the key from business identifiers, 1 to 255 bytes",
            Code::NameInvalid => "use a short name without spaces, slashes or control characters",
            Code::InputInvalid => "pass JSON of at most 1 MiB; keep more elsewhere, by reference",
            Code::DurationInvalid => "write durations as 500ms, 1s, 15m, 24h or 7d",
            Code::TermsInvalid => "correct the declared times; the message names the one",
            Code::RetryBeyondRetention => {
                "shorten the retries, the deadline or the settle window, or declare more retention"
            }
            Code::InputChanged => {
                "use another key for another intent, or declare which inputs count (fingerprint)"
            }
            Code::ContractChanged => "begin under the contract of the doubt, or add a probe",
            Code::InProgress => "wait and ask again: the answer will be the first receipt",
            Code::InDoubt => "find out at the destination, then run `semel effects resolve`",
            Code::TooEarly => "wait until the settle window has passed: the request may still land",
            Code::AttemptSpent => "begin with a new attempt id; this one may already have sent",
            Code::AttemptsExhausted => {
                "decide with `semel effects resolve --failed` or `--done`; `supersede` then opens \
                 a new generation"
            }
            Code::NotExhausted => "wait: a caller, a run or a handler tries it when it is due",
            Code::StaleFence => "stop: another attempt holds the effect now",
            Code::DeadlinePassed => "stop the call: its hard deadline is over",
            Code::PermitLapsed => "begin again: nothing was sent",
            Code::EffectFailed => "the refusal is final; `semel effects supersede` opens a new try",
            Code::RetriesExhausted => {
                "correct the cause, then run `semel effects grant`, in a run `semel runs retry`: \
                 same downstream key"
            }
            Code::NotApplied => "call again later: nothing was applied and the key is unchanged",
            Code::Expired => {
                "the replay window is over; `semel effects supersede` opens a new generation"
            }
            Code::VersionChanged => "look at the effect again, then decide",
            Code::AlreadySettled => "nothing to decide; `supersede` does the intent again",
            Code::AlreadySent => {
                "to give it up, run `semel effects resolve --failed`; to go on, run \
                 `semel effects grant`"
            }
            Code::NotSettled => {
                "settle it first with `semel effects resolve`; to try it again under the same key, \
                 run `semel effects grant`"
            }
            Code::NotFound => "check the action, the key and the namespace with `semel effects ls`",
            Code::TransactionUnsupported => "use a store that is a database in this process",
            Code::TransactionTooLong => "do the slow work before or after; all was undone",
            Code::TransactionFailed => "nothing was written; correct the cause and call again",
            Code::ContractNeedsLook => "give the effect a look, or declare another contract",
            Code::ReceiptMismatch => "read it as the type it was stored as; it stays as it is",
            Code::ReceiptInvalid => "give a receipt that fits what the message shows",
            _ => return None,
        })
    }

    fn hint_on_runs(self) -> Option<&'static str> {
        Some(match self {
            Code::RunFinished => "the run has ended; start another one with another key",
            Code::RunFailed => "see `semel runs show`; a new key starts another run",
            Code::Cancelled => "the run was cancelled; a new key starts another one",
            Code::RunTaken => "stop: another worker advances the run now",
            Code::RunPaused => "see `semel runs show`, then `semel runs retry`, `skip` or `cancel`",
            Code::NotPaused => "see where the run stands with `semel runs show`",
            Code::Diverged => "deploy code that fits the journal, then `semel runs retry`",
            Code::UnstableKey => "build the key from the run's input, then `semel runs retry`",
            Code::ForeignAwait => "move sockets, timers, threads and spawns of the body into steps",
            Code::StepRepeated => "give each step an id of its own, or none",
            Code::StepFailed => "correct the cause, then `semel runs retry` or `skip`",
            Code::TooMany => "use a bound (`ctx.map`), or consume what is waiting first",
            Code::Panicked => "correct the code, then `semel runs retry`",
            Code::BodyRaised => {
                "correct the code and deploy it, then `semel runs retry`; `raise semel.Fail` fails"
            }
            Code::ProgrammingError => {
                "correct the code and deploy it, then call again or `semel runs retry`"
            }
            Code::NotAwaited => "await what it names and deploy, then `semel runs retry`",
            Code::WorkflowUnknown => "register the workflow with a worker of this process",
            Code::NotConfigured => {
                "open a `Semel` first; of several, choose one: `with app.as_current():`"
            }
            Code::Forked => "open Semel after the fork and not before, or start processes by spawn",
            Code::NoIntent => "call it inside a function that is declared an effect",
            Code::WriteOutsideEffect => "write inside an effect, under a key; nothing was sent",
            Code::ToolUndeclared => "declare the tool an effect, or say that it only reads",
            Code::TimedOut => "wait again, or longer; what was waited for may still come",
            Code::Held => {
                "a person decides: `semel approvals show`, then `approve`, `deny` or `return`"
            }
            Code::ApprovalDenied => {
                "the answer stands; `semel effects supersede` opens the question again"
            }
            Code::ApprovalReturned => "change the payload and ask under a new version of the key",
            Code::ApprovalExpired => {
                "nobody decided; `semel effects supersede` opens the question again"
            }
            Code::NotHeld => "see where it stands with `semel effects show`",
            Code::FourEyes => "let somebody else decide than whoever asked",
            Code::Undone => "it was done and taken back; a new key, or `supersede`, does it again",
            Code::ConcurrencyRejected => "try again when the run that is under way has ended",
            Code::RateLimited => "wait and ask again: nothing was sent",
            Code::ReleaseUnknown => "see which releases there are with `semel releases ls`",
            Code::ConfigInvalid => "correct the setting; `semel config show` lists all there are",
            Code::ScheduleInvalid => "write five cron fields and a time zone such as Europe/Rome",
            Code::TriggerInvalid => "correct what the message names; docs/webhooks.md has examples",
            Code::SignatureInvalid => "see why with `semel triggers deliveries`",
            Code::ChildFailed => "see the child with `semel runs show`; its key is in the message",
            Code::NoQuarantine => "see which one is open with `semel quarantine show`",
            _ => return None,
        })
    }

    fn hint_on_requests(self) -> Option<&'static str> {
        Some(match self {
            Code::Unauthenticated => {
                "send `Authorization: Bearer TOKEN`; see `semel tokens create`"
            }
            Code::Forbidden => "use a token whose role may do this; see docs/server.md",
            Code::KeyMissing => "name the intent by a key of business identifiers",
            Code::RequestInvalid => "correct the request; the message names the member",
            Code::BodyTooLarge => "send less: large values belong elsewhere, by reference",
            Code::HeadTooLarge => "send fewer or shorter headers",
            Code::MediaUnsupported => "send JSON with `Content-Type: application/json`",
            Code::MethodNotAllowed => "see /openapi.json for the methods of this path",
            Code::HostRefused => "add the host name to `hosts` of the configuration",
            Code::QuotaExceeded => "wait as long as Retry-After says; keys that exist still answer",
            Code::Overloaded => "wait as long as Retry-After says, then repeat under the same key",
            _ => return None,
        })
    }

    fn hint_on_store(self) -> &'static str {
        match self {
            Code::StoreBusy => "try again shortly; nothing was written",
            Code::StoreFull => "free disk space; nothing was acknowledged that is not durable",
            Code::StoreUnavailable => "see `semel doctor`; nothing was acknowledged",
            Code::StoreCorrupt => "stop, keep the file, restore from a backup; see `semel verify`",
            Code::StoreNewer => "use the newer Semel that wrote this store",
            Code::StoreOlder => "run `semel migrate` once, as the owner of the schema",
            Code::StoreUrlInvalid => "write the store as sqlite:path/to/file.db or postgres://…",
            Code::StoreMissing => "name another by --store, or create it with `semel migrate`",
            Code::StoreForeign => "name another file: this one is left as it is",
            Code::EncryptionKeyMissing => {
                "name the key file by SEMEL_KEY_FILE or --key-file; nothing was changed"
            }
            Code::EncryptionKeyMismatch => {
                "use the key file that this store was written with; nothing was changed"
            }
            Code::KeyFileInvalid => {
                "write lines `id: base64 of 32 bytes` into a file of mode 0600: `semel keys new`"
            }
            Code::SecretInvalid => "declare secrets as env:NAME or file:path, of at least 8 bytes",
            Code::SecretExposed => {
                "take the secret out of the key or the name; nothing was written"
            }
            Code::BackupInvalid => "take another backup; this file is cut, changed or no backup",
            Code::StoreNotEmpty => {
                "restore into a new file or an empty schema; nothing was changed"
            }
            Code::SqliteTooOld => "build with the bundled SQLite, 3.51.3 or newer",
            _ => "this is a fault of Semel; please report it with the message",
        }
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_listed_once() {
        let mut names: Vec<_> = Code::ALL.iter().map(|code| code.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Code::ALL.len());
        assert_eq!(Code::ALL.last(), Some(&Code::Internal), "ALL ends where the enum ends");
        assert_eq!(Code::Internal as usize + 1, Code::ALL.len());
    }
}
