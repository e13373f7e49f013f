//! How a command ends: an exit code for scripts, a message for people.

use semel::Code;

const FAILED: u8 = 1;
const USAGE: u8 = 2;
const NOT_FOUND: u8 = 3;
const REFUSED: u8 = 4;
const IN_DOUBT: u8 = 5;
pub(crate) const OUR_FAULT: u8 = 70;
const TRY_LATER: u8 = 75;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The stable code, where the ledger gave one.
    pub(crate) code: Option<Code>,
    pub(crate) message: String,
    pub(crate) hint: Option<String>,
    exit: u8,
}

impl Failed {
    /// Something the user can mend.
    pub(crate) fn new(message: impl Into<String>) -> Failed {
        Failed { code: None, message: message.into(), hint: None, exit: FAILED }
    }

    /// The command line makes no sense.
    pub(crate) fn usage(message: impl Into<String>) -> Failed {
        Failed { exit: USAGE, ..Failed::new(message) }
    }

    /// Nothing was found out; it may be another time.
    pub(crate) fn later(message: impl Into<String>) -> Failed {
        Failed { exit: TRY_LATER, ..Failed::new(message) }
    }

    /// What was asked for is not there.
    pub(crate) fn not_found(message: impl Into<String>) -> Failed {
        Failed { exit: NOT_FOUND, ..Failed::new(message) }
    }

    /// What was found is not what was wanted.
    pub(crate) fn refused(message: impl Into<String>) -> Failed {
        Failed { exit: REFUSED, ..Failed::new(message) }
    }

    pub(crate) fn internal(message: impl Into<String>) -> Failed {
        Failed { exit: OUR_FAULT, code: Some(Code::Internal), ..Failed::new(message) }
    }

    /// A refusal of the command itself that has a page of its own.
    pub(crate) fn coded(code: Code, message: impl Into<String>) -> Failed {
        let failed = Failed { code: Some(code), exit: exit_code(code), ..Failed::new(message) };
        failed.hint(code.hint())
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Failed {
        self.hint = Some(hint.into());
        self
    }

    /// What was asked for was done, but the run itself came to nothing: for scripts that is one
    /// end, whatever the reason was.
    pub(crate) fn run_ended(error: semel::Error) -> Failed {
        let is_cancelled = error.code() == Code::Cancelled;
        let hint = if is_cancelled { Code::Cancelled.hint() } else { Code::RunFailed.hint() };
        Failed { exit: FAILED, ..Failed::from(error).hint(hint) }
    }

    /// A refusal about a run: the general hints speak of effects.
    pub(crate) fn about_run(error: semel::Error) -> Failed {
        let hint = match error.code() {
            Code::NotFound => "check the id and the namespace with `semel runs ls`",
            Code::InputChanged => "use another key for another run, or pass the same input",
            Code::Expired => "the key was used long ago; start another run with another key",
            code => code.hint(),
        };
        Failed::from(error).hint(hint)
    }

    /// A refusal about a callback: its sender knows a token, and nothing of runs.
    pub(crate) fn about_callback(error: semel::Error) -> Failed {
        let hint = match error.code() {
            Code::NotFound => "check that the token is whole, and the store the one it came from",
            Code::InputChanged => "nothing to do: the first answer stands",
            Code::RunFinished => "nothing to do: its run has ended without this answer",
            code => code.hint(),
        };
        Failed::from(error).hint(hint)
    }

    /// A refusal about a schedule: the general hints speak of effects and runs.
    pub(crate) fn about_schedule(error: semel::Error) -> Failed {
        let hint = match error.code() {
            Code::NotFound => "check the name and the namespace with `semel schedules ls`",
            Code::NotPaused => "see where it stands with `semel schedules show`",
            code => code.hint(),
        };
        Failed::from(error).hint(hint)
    }

    pub(crate) fn about_trigger(error: semel::Error) -> Failed {
        let hint = match error.code() {
            Code::NotFound => "check the name and the namespace with `semel triggers ls`",
            Code::RetryBeyondRetention => "declare a longer `replay_window`",
            code => code.hint(),
        };
        Failed::from(error).hint(hint)
    }

    pub(crate) fn exit(&self) -> u8 {
        self.exit
    }
}

impl From<semel::Error> for Failed {
    fn from(error: semel::Error) -> Failed {
        let code = error.code();
        Failed {
            code: Some(code),
            message: error.detail().to_owned(),
            hint: Some(code.hint().to_owned()),
            exit: exit_code(code),
        }
    }
}

impl From<semel_store::StoreError> for Failed {
    fn from(error: semel_store::StoreError) -> Failed {
        Failed::from(semel::Error::from(error))
    }
}

impl From<anyhow::Error> for Failed {
    fn from(error: anyhow::Error) -> Failed {
        Failed::new(format!("{error:#}"))
    }
}

#[expect(clippy::too_many_lines, reason = "a table: one line for each code")]
fn exit_code(code: Code) -> u8 {
    match code {
        Code::KeyInvalid
        | Code::NameInvalid
        | Code::InputInvalid
        | Code::DurationInvalid
        | Code::TermsInvalid
        | Code::RetryBeyondRetention
        | Code::ContractNeedsLook
        | Code::StepRepeated
        | Code::ToolUndeclared
        | Code::ScheduleInvalid
        | Code::KeyFileInvalid
        | Code::SecretInvalid
        | Code::TriggerInvalid
        | Code::KeyMissing
        | Code::RequestInvalid
        | Code::BodyTooLarge
        | Code::HeadTooLarge
        | Code::MediaUnsupported
        | Code::MethodNotAllowed
        | Code::ConfigInvalid
        | Code::StoreUrlInvalid => USAGE,
        Code::NotFound | Code::StoreMissing | Code::ReleaseUnknown => NOT_FOUND,
        Code::InputChanged
        | Code::ContractChanged
        | Code::TooEarly
        | Code::AttemptSpent
        | Code::AttemptsExhausted
        | Code::NotExhausted
        | Code::StaleFence
        | Code::DeadlinePassed
        | Code::PermitLapsed
        | Code::EffectFailed
        | Code::Expired
        | Code::VersionChanged
        | Code::AlreadySettled
        | Code::AlreadySent
        | Code::NotSettled
        | Code::ReceiptMismatch
        | Code::ReceiptInvalid
        | Code::RunFinished
        | Code::RunTaken
        | Code::RunPaused
        | Code::NotPaused
        | Code::TooMany
        | Code::WorkflowUnknown
        | Code::ApprovalDenied
        | Code::ApprovalReturned
        | Code::ApprovalExpired
        | Code::NotHeld
        | Code::FourEyes
        | Code::Undone
        | Code::ConcurrencyRejected
        | Code::NoQuarantine
        | Code::SecretExposed
        | Code::StoreNotEmpty
        | Code::SignatureInvalid
        | Code::Unauthenticated
        | Code::Forbidden
        | Code::HostRefused
        | Code::TransactionUnsupported => REFUSED,
        Code::InDoubt => IN_DOUBT,
        Code::InProgress
        | Code::NotApplied
        | Code::RetriesExhausted
        | Code::TimedOut
        | Code::Held
        | Code::RateLimited
        | Code::QuotaExceeded
        | Code::Overloaded
        | Code::StoreBusy
        | Code::StoreUnavailable => TRY_LATER,
        Code::RunFailed
        | Code::Cancelled
        | Code::Diverged
        | Code::UnstableKey
        | Code::ForeignAwait
        | Code::StepFailed
        | Code::ChildFailed
        | Code::Panicked
        | Code::BodyRaised
        | Code::ProgrammingError
        | Code::NotAwaited
        | Code::NotConfigured
        | Code::Forked
        | Code::NoIntent
        | Code::WriteOutsideEffect
        | Code::TransactionTooLong
        | Code::TransactionFailed
        | Code::StoreFull
        | Code::StoreCorrupt
        | Code::StoreForeign
        | Code::EncryptionKeyMissing
        | Code::EncryptionKeyMismatch
        | Code::BackupInvalid
        | Code::StoreNewer
        | Code::StoreOlder => FAILED,
        Code::SqliteTooOld | Code::Internal => OUR_FAULT,
    }
}
