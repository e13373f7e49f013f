//! The way to the server that a transaction of the user's goes: the connection may be of our own
//! driver, or of one that is not ours, such as Python's, and then everything crosses in binary.

use std::error::Error;
use std::sync::Arc;

use bytes::BytesMut;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, WrongType};
use tokio_postgres::{Row, Transaction};

use crate::StoreError;

/// A value and its type: what is not prepared by name has to say it.
pub type Param<'a> = (&'a (dyn ToSql + Sync), Type);

type Unreadable = Box<dyn Error + Sync + Send>;

/// A connection that is in a transaction.
pub trait Wire: Sync {
    /// A row, as this wire brings it.
    type Line: Line;

    /// Runs one statement, not prepared by name, and brings its rows.
    fn ask(
        &self,
        text: &str,
        params: &[Param<'_>],
    ) -> impl Future<Output = Result<Vec<Self::Line>, Fault>> + Send;

    /// Nothing will ever come over it again.
    fn is_closed(&self) -> bool;
}

/// A row of an answer.
pub trait Line: Send + Sync {
    /// The value of a column, as the type that is asked for.
    fn cell<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T, Unreadable>;
}

/// Why a statement brought nothing.
#[derive(Debug)]
pub enum Fault {
    /// The server refused it: its SQLSTATE, and its words.
    Said(SqlState, String),
    /// There was no answer, or none that can be read.
    Broken(String),
}

impl Fault {
    /// What the server said, with the five characters of its SQLSTATE.
    pub fn said(code: &str, text: impl Into<String>) -> Fault {
        Fault::Said(SqlState::from_code(code), text.into())
    }
}

impl From<&tokio_postgres::Error> for Fault {
    fn from(error: &tokio_postgres::Error) -> Fault {
        match error.as_db_error() {
            Some(said) => Fault::Said(said.code().clone(), said.message().to_owned()),
            None => {
                let cause = error.source().map(|cause| format!(": {cause}"));
                Fault::Broken(format!("{error}{}", cause.unwrap_or_default()))
            }
        }
    }
}

impl From<tokio_postgres::Error> for Fault {
    fn from(error: tokio_postgres::Error) -> Fault {
        Fault::from(&error)
    }
}

impl From<Fault> for StoreError {
    fn from(fault: Fault) -> StoreError {
        let (state, text) = match fault {
            Fault::Said(state, text) => (state, text),
            Fault::Broken(text) => return StoreError::Unavailable(text),
        };
        match state {
            SqlState::DISK_FULL => StoreError::Full(text),
            SqlState::TOO_MANY_CONNECTIONS
            | SqlState::LOCK_NOT_AVAILABLE
            | SqlState::T_R_DEADLOCK_DETECTED
            | SqlState::T_R_SERIALIZATION_FAILURE
            | SqlState::QUERY_CANCELED => StoreError::Busy(text),
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED => StoreError::Corrupt(text),
            SqlState::UNDEFINED_TABLE
            | SqlState::INVALID_SCHEMA_NAME
            | SqlState::UNDEFINED_COLUMN => StoreError::Missing(text),
            state if is_of_the_data(&state) => StoreError::Corrupt(text),
            _ => StoreError::Unavailable(text),
        }
    }
}

/// Whether the server refuses what it was given, and will whenever it is asked: a text that it
/// cannot hold, a law of a table, a row that fits into no page.
fn is_of_the_data(state: &SqlState) -> bool {
    ["22", "23", "54"].iter().any(|class| state.code().starts_with(class))
}

impl Wire for Transaction<'_> {
    type Line = Row;

    async fn ask(&self, text: &str, params: &[Param<'_>]) -> Result<Vec<Row>, Fault> {
        Ok(self.query_typed(text, params).await?)
    }

    fn is_closed(&self) -> bool {
        self.client().is_closed()
    }
}

impl Line for Row {
    fn cell<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T, Unreadable> {
        Ok(self.try_get(column)?)
    }
}

/// A statement for a driver that is not ours: all values in binary, each with its type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statement {
    pub text: String,
    /// The object ids of the types of the values.
    pub types: Vec<u32>,
    pub values: Vec<Option<Vec<u8>>>,
}

impl Statement {
    /// Encodes the values as their types want it.
    pub fn new(text: &str, params: &[Param<'_>]) -> Result<Statement, Fault> {
        let types = params.iter().map(|(_, kind)| kind.oid()).collect();
        let values: Result<_, _> = params.iter().map(encoded).collect();
        let values = values.map_err(|error| Fault::Broken(error.to_string()))?;
        Ok(Statement { text: text.to_owned(), types, values })
    }
}

fn encoded((value, kind): &Param<'_>) -> Result<Option<Vec<u8>>, Unreadable> {
    let mut bytes = BytesMut::new();
    Ok(match value.to_sql_checked(kind, &mut bytes)? {
        IsNull::Yes => None,
        IsNull::No => Some(bytes.to_vec()),
    })
}

/// A row that a driver which is not ours has brought: all cells in binary.
#[derive(Clone, Debug)]
pub struct Cells {
    types: Arc<[Type]>,
    values: Vec<Option<Vec<u8>>>,
}

impl Cells {
    /// The rows of an answer, with the object ids of the types of its columns.
    pub fn lines(types: &[u32], lines: Vec<Vec<Option<Vec<u8>>>>) -> Result<Vec<Cells>, Fault> {
        let known = |oid: &u32| {
            let unknown = || Fault::Broken(format!("a column is of the unknown type {oid}"));
            Type::from_oid(*oid).ok_or_else(unknown)
        };
        let types: Arc<[Type]> = types.iter().map(known).collect::<Result<_, _>>()?;
        let line = |values| Cells { types: types.clone(), values };
        Ok(lines.into_iter().map(line).collect())
    }
}

impl Line for Cells {
    fn cell<'a, T: FromSql<'a>>(&'a self, column: usize) -> Result<T, Unreadable> {
        let (Some(kind), Some(value)) = (self.types.get(column), self.values.get(column)) else {
            return Err(format!("there is no column {column}").into());
        };
        if !T::accepts(kind) {
            return Err(Box::new(WrongType::new::<T>(kind.clone())));
        }
        T::from_sql_nullable(kind, value.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row with the values of a statement, as a server would bring it back.
    fn echoed(params: &[Param<'_>]) -> Cells {
        let Statement { types, values, .. } = Statement::new("", params).expect("encoded");
        Cells::lines(&types, vec![values]).expect("known types").remove(0)
    }

    #[test]
    fn values_come_back_from_a_foreign_wire_as_they_went() {
        let nothing: Option<i64> = None;
        let line = echoed(&[
            (&"täxt", Type::TEXT),
            (&-7_i64, Type::INT8),
            (&true, Type::BOOL),
            (&nothing, Type::INT8),
        ]);
        assert_eq!(line.cell::<&str>(0).expect("text"), "täxt");
        assert_eq!(line.cell::<i64>(1).expect("a number"), -7);
        assert!(line.cell::<bool>(2).expect("a truth"));
        assert_eq!(line.cell::<Option<i64>>(3).expect("nothing"), None);
    }

    #[test]
    fn a_foreign_cell_is_never_read_as_another_type() {
        let nothing: Option<i64> = None;
        let line = echoed(&[(&"12345678", Type::TEXT), (&nothing, Type::INT8)]);
        // Eight bytes of text would make a fine number.
        assert!(line.cell::<i64>(0).is_err());
        assert!(line.cell::<i64>(1).is_err(), "nothing is no number");
        assert!(line.cell::<i64>(2).is_err(), "there is no such column");
        assert!(Cells::lines(&[999_999], Vec::new()).is_err(), "nobody knows this type");
        assert!(Statement::new("", &[(&"text", Type::INT8)]).is_err());
    }

    #[test]
    fn a_fault_means_the_same_over_every_wire() {
        let busy = StoreError::from(Fault::said("55P03", "held"));
        assert!(matches!(busy, StoreError::Busy(text) if text == "held"));
        let missing = StoreError::from(Fault::said("42P01", "no table"));
        assert!(matches!(missing, StoreError::Missing(_)));
        let broken = StoreError::from(Fault::Broken("gone".into()));
        assert!(matches!(broken, StoreError::Unavailable(_)));
    }
}
