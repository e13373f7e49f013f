//! What travels between a worker and a server: JSON shapes of everything a store is asked and told.
//!
//! Records travel as the text that is kept, byte for byte; of the columns beside them only those
//! that depend on the moment at which a row was made. The server derives the others from the record
//! itself, so that nobody can have a row found by what it does not say.

mod reads;
mod shapes;
mod writes;

pub use reads::{CardQueryShape, DueSeen, QueryShape, Read, RunQueryShape, RunSeen};
pub use shapes::{AddressShape, CardShape, DeliveryShape, GroundShape, InkedShape, LinkShape};
pub use writes::{Malformed, RowShape, RunRowShape, WriteShape};

use semel_core::code::Code;
use semel_core::record::Effect;
use serde::{Deserialize, Serialize};

use crate::{CommitError, StoreError, Unreadable};

/// The version of these shapes. A client refuses a server that speaks another one.
pub const PROTOCOL: u32 = 1;

/// The first answer of a server: who it is, and who it takes the caller for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    pub protocol: u32,
    /// The version of the program, for people.
    pub semel: String,
    /// The newest shape of a record and of an entry that the server can read: what it cannot read
    /// it would lose.
    pub record_format: u32,
    pub journal_format: u32,
    /// The namespace that the caller's token is for.
    pub namespace: String,
    pub ground: GroundShape,
}

/// The answer to a read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found<T> {
    pub ground: GroundShape,
    pub found: T,
    /// Rows of a list that cannot be read.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unreadable: Vec<UnreadableShape>,
}

/// A row that is there and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadableShape {
    pub namespace: String,
    pub name: String,
    pub code: String,
    pub why: String,
}

impl From<Unreadable> for UnreadableShape {
    fn from(Unreadable { namespace, name, code, why }: Unreadable) -> UnreadableShape {
        UnreadableShape { namespace, name, code: code.as_str().to_owned(), why }
    }
}

impl From<UnreadableShape> for Unreadable {
    fn from(UnreadableShape { namespace, name, code, why }: UnreadableShape) -> Unreadable {
        let known = Code::ALL.iter().find(|known| known.as_str() == code);
        let code = known.copied().unwrap_or(Code::StoreCorrupt);
        Unreadable { namespace, name, code, why }
    }
}

/// The answer to a list of batches, one result for each.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Committed {
    pub ground: GroundShape,
    pub results: Vec<ResultShape>,
}

/// What the store committed last, as a number that changes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hinted {
    pub ground: GroundShape,
    pub hint: u64,
}

/// What came of a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ResultShape {
    Done,
    Stale(Vec<Option<Effect>>),
    Unknown,
    Failed(ErrorShape),
}

/// An error by its stable code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorShape {
    pub code: String,
    pub detail: String,
}

impl From<Result<(), CommitError>> for ResultShape {
    fn from(result: Result<(), CommitError>) -> ResultShape {
        match result {
            Ok(()) => ResultShape::Done,
            Err(CommitError::Stale(rows)) => ResultShape::Stale(rows),
            Err(CommitError::Unknown) => ResultShape::Unknown,
            Err(CommitError::Failed(error)) => ResultShape::Failed((&error).into()),
        }
    }
}

impl From<ResultShape> for Result<(), CommitError> {
    fn from(shape: ResultShape) -> Result<(), CommitError> {
        Err(match shape {
            ResultShape::Done => return Ok(()),
            ResultShape::Stale(rows) => CommitError::Stale(rows),
            ResultShape::Unknown => CommitError::Unknown,
            ResultShape::Failed(error) => CommitError::Failed(error.into()),
        })
    }
}

impl From<&StoreError> for ErrorShape {
    fn from(error: &StoreError) -> ErrorShape {
        let detail = match error {
            // Read back as what it was, so that the sentence around it is not said twice.
            StoreError::Unavailable(text)
            | StoreError::Busy(text)
            | StoreError::Full(text)
            | StoreError::Corrupt(text) => text.clone(),
            StoreError::Newer { .. }
            | StoreError::Older { .. }
            | StoreError::SqliteTooOld { .. }
            | StoreError::UrlInvalid(_)
            | StoreError::Missing(_)
            | StoreError::Foreign(_)
            | StoreError::KeyMissing(_)
            | StoreError::KeyMismatch(_)
            | StoreError::KeyDropped(_)
            | StoreError::KeyFileInvalid(_)
            | StoreError::SecretInvalid(_)
            | StoreError::SecretExposed(_)
            | StoreError::BackupInvalid(_)
            | StoreError::NotEmpty(_)
            | StoreError::Refused(..) => error.to_string(),
        };
        ErrorShape { code: error.code().as_str().to_owned(), detail }
    }
}

impl From<ErrorShape> for StoreError {
    fn from(ErrorShape { code, detail }: ErrorShape) -> StoreError {
        match Code::parse(&code) {
            Some(Code::StoreUnavailable) => StoreError::Unavailable(detail),
            Some(Code::StoreBusy) => StoreError::Busy(detail),
            // No room for it now, and nothing was done: the same as a store with too much to do.
            Some(Code::Overloaded | Code::QuotaExceeded | Code::RateLimited) => {
                StoreError::Busy(detail)
            }
            Some(Code::StoreFull) => StoreError::Full(detail),
            Some(Code::StoreCorrupt) => StoreError::Corrupt(detail),
            Some(code) => StoreError::Refused(code, detail),
            // Of a server that is newer than this client.
            None => StoreError::Refused(Code::Internal, format!("{code}: {detail}")),
        }
    }
}

#[cfg(test)]
mod tests;
