//! `transaction`: the user's rows and the receipt in one commit, outside the group.

use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::hooks::{AuthAction, AuthContext, Authorization};
use semel_core::effect::{Ground, Refusal};
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::Effect;

use super::Sqlite;
use super::call::Call;
use super::reader::ReadError;
use super::rows::{self, Writes};
use super::writer::{self, Thread};
use crate::{Row, StoreError, Write};

/// Decides on the stored effect, runs the user's statements, and returns the effect to write.
/// `Ok(None)` writes nothing.
pub type Work = Box<
    dyn FnOnce(Option<Effect>, &Ground, &Connection) -> Result<Option<Effect>, TransactionError>
        + Send,
>;

/// Why a transaction was undone. Nothing was written.
#[derive(Debug, thiserror::Error)]
pub enum TransactionError {
    #[error("{0}")]
    Refused(Refusal),
    #[error("{0}")]
    Failed(String),
    #[error("the transaction took longer than {} ms", limits::TRANSACTION_MS_MAX)]
    TooLong,
    #[error(transparent)]
    Store(#[from] StoreError),
}

pub(super) struct Job {
    address: Address,
    work: Work,
    call: Call<Result<(), TransactionError>>,
}

impl Sqlite {
    /// Runs `work` in a transaction of its own, together with the write of the effect it returns.
    pub async fn transaction(&self, address: Address, work: Work) -> Result<(), TransactionError> {
        let job = |call| writer::Job::Transaction(Job { address, work, call });
        self.writer()?.ask(job).await?.ok_or_else(writer::gone)?
    }
}

impl Thread {
    pub(super) fn commit_transaction(&mut self, job: Job) {
        let Job { address, work, call } = job;
        let shared = self.shared.clone();
        let (mut refused, mut done) = (None, None);
        let outcome = self.in_turn(|connection, standing| {
            if !call.take_up() {
                return Ok(((), false));
            }
            let (epoch, quarantine) = (standing.epoch, standing.quarantine);
            let ground = Ground { now: shared.now(), epoch, quarantine };
            let stored = rows::newest(connection, &address)?;
            let stored = stored.map(|row| row.read(&shared.veil)).transpose()?;
            let worked = guarded(connection, |connection| work(stored, &ground, connection));
            let effect = match worked {
                Ok(Some(effect)) if effect.address == address => effect,
                Ok(Some(_)) => {
                    let text = "the function returned another effect than it was given";
                    refused = Some(TransactionError::Failed(text.into()));
                    return Ok(((), false));
                }
                Ok(None) => return Ok(((), false)),
                Err(error) => {
                    refused = Some(error);
                    return Ok(((), false));
                }
            };
            let row = shared.veil.cover_row(Row::new(&effect, &ground.now))?;
            let mut writes = Writes::prepare(connection)?;
            let is_first = row.version == 1;
            let written = if is_first { writes.insert(&row)? } else { writes.update(&row)? };
            if !written {
                let text = "the function returned an effect that does not follow the stored one";
                refused = Some(TransactionError::Failed(text.into()));
            }
            done = written.then_some((epoch, Write::Update(row), ground.now.wall));
            Ok(((), written))
        });
        if let (Ok(()), Some((epoch, write, at))) = (&outcome, done) {
            self.guard.memory.note(epoch, &[write], at);
        }
        let result = match (outcome, refused) {
            (Ok(()), None) => Ok(()),
            (_, Some(error)) => Err(error),
            (Err(error), None) => Err(TransactionError::Store(error)),
        };
        call.answer(result);
    }
}

/// Runs the user's statements: within a time, without touching the ledger's own tables, and
/// without ending the transaction under us.
fn guarded(
    connection: &mut Connection,
    work: impl FnOnce(&Connection) -> Result<Option<Effect>, TransactionError>,
) -> Result<Option<Effect>, TransactionError> {
    let failed = |error: rusqlite::Error| TransactionError::Failed(error.to_string());
    let started = Instant::now();
    let limit = Duration::from_millis(limits::TRANSACTION_MS_MAX);
    let is_late = move || started.elapsed() > limit;
    connection.authorizer(Some(authorize)).map_err(failed)?;
    connection.progress_handler(1_000, Some(is_late)).map_err(failed)?;
    // Some errors roll back by themselves. What the function then goes on to write would commit
    // statement by statement, without the receipt: here nothing may.
    connection.commit_hook(Some(|| true)).map_err(failed)?;
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(connection)));
    connection.commit_hook(None::<fn() -> bool>).map_err(failed)?;
    connection.progress_handler(0, None::<fn() -> bool>).map_err(failed)?;
    connection.authorizer(None::<fn(AuthContext<'_>) -> Authorization>).map_err(failed)?;
    match outcome {
        Ok(Ok(_)) | Ok(Err(TransactionError::Failed(_))) | Err(_) if is_late() => {
            Err(TransactionError::TooLong)
        }
        Ok(Ok(_)) if connection.is_autocommit() => {
            Err(TransactionError::Failed("a statement rolled the transaction back".into()))
        }
        Ok(outcome) => outcome,
        Err(_) => Err(TransactionError::Failed("the function panicked".into())),
    }
}

/// All tables that hold what a store promises to keep.
const OURS: [&str; 9] =
    ["effects", "meta", "returns", "runs", "journal", "inbox", "blobs", "blob_uses", "cards"];

/// The user's statements may do anything but change the ledger or end the transaction. Temporary
/// tables and views are refused, too: one that is called `effects` would hide the ledger.
fn authorize(context: AuthContext<'_>) -> Authorization {
    let is_ours = |table: &str| OURS.iter().any(|ours| table.eq_ignore_ascii_case(ours));
    match context.action {
        AuthAction::Insert { table_name }
        | AuthAction::Delete { table_name }
        | AuthAction::Update { table_name, .. }
        | AuthAction::DropTable { table_name }
        | AuthAction::AlterTable { table_name, .. }
        | AuthAction::CreateIndex { table_name, .. }
        | AuthAction::DropIndex { table_name, .. }
        | AuthAction::CreateTrigger { table_name, .. }
        | AuthAction::DropTrigger { table_name, .. }
            if is_ours(table_name) =>
        {
            Authorization::Deny
        }
        AuthAction::Transaction { .. }
        | AuthAction::Attach { .. }
        | AuthAction::Detach { .. }
        | AuthAction::Pragma { .. }
        | AuthAction::CreateTempTable { .. }
        | AuthAction::CreateTempView { .. }
        | AuthAction::CreateTempTrigger { .. } => Authorization::Deny,
        _ => Authorization::Allow,
    }
}

impl From<ReadError> for TransactionError {
    fn from(error: ReadError) -> TransactionError {
        TransactionError::Store(error.into())
    }
}
