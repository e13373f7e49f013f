//! What goes wrong with a store, sorted by what the caller may do.

use semel_core::code::Code;
use semel_core::record::Effect;

/// Why a batch was not simply done, sorted by what the caller may do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CommitError {
    /// A guard failed; nothing was written. Decide again on the newest row of each effect that was
    /// to be written, in order; a run or a card is loaded anew.
    #[error("the rows have changed")]
    Stale(Vec<Option<Effect>>),
    /// Maybe committed. Repeat the same batch; never read alone, never treat as failed.
    #[error("the store did not say whether it committed")]
    Unknown,
    /// Nothing was written.
    #[error(transparent)]
    Failed(#[from] StoreError),
}

/// What is wrong with the store.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    #[error("the store is unavailable: {0}")]
    Unavailable(String),
    #[error("the store is busy: {0}")]
    Busy(String),
    #[error("the disk is full: {0}")]
    Full(String),
    #[error("the store is corrupt: {0}")]
    Corrupt(String),
    #[error("the store has format {found}, this Semel knows up to {known}")]
    Newer { found: i64, known: i64 },
    #[error("the store has format {found}, this Semel needs {needed}")]
    Older { found: i64, needed: i64 },
    #[error("SQLite {found} is older than 3.51.3")]
    SqliteTooOld { found: String },
    #[error("{0}")]
    UrlInvalid(String),
    #[error("there is no store at {0}")]
    Missing(String),
    #[error("{0} is another program's file, not a store of Semel")]
    Foreign(String),
    #[error("what is stored was encrypted with the key `{0}`, which is not here")]
    KeyMissing(String),
    #[error("{0}")]
    KeyMismatch(String),
    #[error("the key `{0}` was dropped: what was encrypted with it is gone for ever")]
    KeyDropped(String),
    #[error("{0}")]
    KeyFileInvalid(String),
    #[error("{0}")]
    SecretInvalid(String),
    #[error("{0}")]
    SecretExposed(String),
    #[error("{0}")]
    BackupInvalid(String),
    #[error("{0} is not empty")]
    NotEmpty(String),
    /// Somebody who keeps the store for us says no, by a code of its own.
    #[error("{1}")]
    Refused(Code, String),
}

impl StoreError {
    /// The stable code.
    pub fn code(&self) -> Code {
        match self {
            StoreError::Unavailable(_) => Code::StoreUnavailable,
            StoreError::Busy(_) => Code::StoreBusy,
            StoreError::Full(_) => Code::StoreFull,
            StoreError::Corrupt(_) => Code::StoreCorrupt,
            StoreError::Newer { .. } => Code::StoreNewer,
            StoreError::Older { .. } => Code::StoreOlder,
            StoreError::SqliteTooOld { .. } => Code::SqliteTooOld,
            StoreError::UrlInvalid(_) => Code::StoreUrlInvalid,
            StoreError::Missing(_) => Code::StoreMissing,
            StoreError::Foreign(_) => Code::StoreForeign,
            StoreError::KeyMissing(_) | StoreError::KeyDropped(_) => Code::EncryptionKeyMissing,
            StoreError::KeyMismatch(_) => Code::EncryptionKeyMismatch,
            StoreError::KeyFileInvalid(_) => Code::KeyFileInvalid,
            StoreError::SecretInvalid(_) => Code::SecretInvalid,
            StoreError::SecretExposed(_) => Code::SecretExposed,
            StoreError::BackupInvalid(_) => Code::BackupInvalid,
            StoreError::NotEmpty(_) => Code::StoreNotEmpty,
            StoreError::Refused(code, _) => *code,
        }
    }
}
