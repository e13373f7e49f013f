//! `transaction`: the user's rows and the receipt in one commit, outside the group.
//!
//! The effect's row is written before the user's statements run, as an attempt that is open, and
//! again behind them, as done: nobody else sees the first of the two. So whoever asks for the same
//! key waits for this transaction instead of doing its work a second time, and a transaction that
//! the user's statements have ended leaves an attempt in doubt, never rows without a trace.

use std::time::{Duration, Instant};

use semel_core::effect::{Ground, Permit};
use semel_core::json::Json;
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::Effect;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Transaction};

use super::connect::Session;
use super::held::{Held, Hold, Ruling, ask, failed, finish, hold, run};
use super::wire::{Fault, Param, Wire};
use super::{Postgres, Shared, meta, store_error};
use crate::sqlite::TransactionError;
use crate::{StoreError, Write};

/// How long a transaction waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a lost answer to COMMIT is looked for.
const RESOLVE: Duration = Duration::from_secs(10);

/// What a transaction came to.
pub enum Outcome<A> {
    /// The receipt, and the effect as it was written.
    Done(Json, Box<Effect>),
    Answer(A),
}

const SETTINGS: &str = "SELECT set_config('synchronous_commit', \
     CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' \
     ELSE current_setting('synchronous_commit') END, true), \
     set_config('lock_timeout', '2000', true), set_config('statement_timeout', '30000', true)";

const LIMIT: &str = "SELECT set_config('statement_timeout', $1, true)";

impl Postgres {
    /// Runs `work` in a transaction of its own, together with the write of its effect, when `rule`
    /// says so. `work` is run once at most.
    pub async fn transaction<A, R, F>(
        &self,
        address: &Address,
        rule: R,
        work: F,
    ) -> Result<Outcome<A>, TransactionError>
    where
        R: Fn(Option<&Effect>, &Ground) -> Result<Ruling<A>, TransactionError>,
        F: AsyncFnOnce(&Transaction<'_>, &Permit) -> Result<Json, String>,
    {
        self.writer()?;
        let turn = tokio::time::timeout(PATIENCE, self.transactions.acquire()).await;
        let Ok(Ok(_turn)) = turn else {
            let text = "too many transactions are running in this process";
            return Err(StoreError::Busy(text.into()).into());
        };
        let mut session = self.door.enter().await?;
        let shared = session.shared().clone();
        let mut transaction = begin(&mut session).await?;
        let mut held = hold(&shared, &transaction, address, &rule).await?;
        if matches!(held, Hold::Replaced) {
            transaction.rollback().await.map_err(failed)?;
            session.look_anew().await?;
            transaction = begin(&mut session).await?;
            held = hold(&shared, &transaction, address, &rule).await?;
        }
        let held = match held {
            Hold::Held(held) => held,
            Hold::Answer(answer) => {
                transaction.rollback().await.map_err(failed)?;
                return Ok(Outcome::Answer(answer));
            }
            Hold::Replaced => return Err(replaced()),
        };
        let ground = held.ground;
        let (receipt, done) = match limited(&shared, &transaction, held, work).await {
            Ok(done) => done,
            Err(error) => {
                drop(transaction);
                // What the server is still busy with is undone with the connection.
                session.discard();
                return Err(error);
            }
        };
        match transaction.commit().await {
            Ok(()) => {
                clean(session).await;
                let write = Write::effect(&done, &ground.now);
                shared.memory.note(ground.epoch, &[write], ground.now.wall);
                self.hints.bell().notify_one();
                Ok(Outcome::Done(receipt, Box::new(done)))
            }
            // The server says that it did not commit, a constraint that was put off for instance.
            Err(error) if is_refused(&error) => {
                // The user's statements may have left a lock on it that outlives a transaction.
                session.discard();
                Err(undone(&error))
            }
            Err(_) => {
                session.discard();
                self.resolve(address, &rule).await
            }
        }
    }

    /// The answer to COMMIT was lost. Whoever holds the key knows what became of it: the receipt is
    /// there, or it never will be.
    async fn resolve<A, R>(
        &self,
        address: &Address,
        rule: &R,
    ) -> Result<Outcome<A>, TransactionError>
    where
        R: Fn(Option<&Effect>, &Ground) -> Result<Ruling<A>, TransactionError>,
    {
        let until = Instant::now() + RESOLVE;
        loop {
            let error = match self.look_again(address, rule).await {
                Ok(Some(answer)) => return Ok(Outcome::Answer(answer)),
                Ok(None) => {
                    let text = "the connection broke before the commit; nothing was written";
                    return Err(StoreError::Unavailable(text.into()).into());
                }
                Err(TransactionError::Store(error)) => error,
                Err(error) => return Err(error),
            };
            if Instant::now() > until {
                tracing::warn!(effect = %address, %error, "a lost commit was not resolved");
                let text = "the store does not say whether it committed: ask again";
                return Err(StoreError::Unavailable(text.into()).into());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Takes the key, to be sure. `None`: nothing was committed, and nothing can be any more.
    async fn look_again<A, R>(
        &self,
        address: &Address,
        rule: &R,
    ) -> Result<Option<A>, TransactionError>
    where
        R: Fn(Option<&Effect>, &Ground) -> Result<Ruling<A>, TransactionError>,
    {
        let mut session = self.door.enter().await?;
        let shared = session.shared().clone();
        let transaction = begin(&mut session).await?;
        let held = hold(&shared, &transaction, address, rule).await?;
        transaction.rollback().await.map_err(failed)?;
        match held {
            Hold::Held(_) => Ok(None),
            Hold::Answer(answer) => Ok(Some(answer)),
            Hold::Replaced => {
                session.look_anew().await?;
                Err(replaced())
            }
        }
    }
}

pub(super) fn replaced() -> TransactionError {
    StoreError::Busy("the tables were replaced under the transaction: ask again".into()).into()
}

/// Begins a transaction with the limits of our own statements.
async fn begin(session: &mut Session) -> Result<Transaction<'_>, TransactionError> {
    let shared = session.shared().clone();
    let client = session.client_mut();
    let level = IsolationLevel::ReadCommitted;
    let started = client.build_transaction().isolation_level(level).start().await;
    let transaction = started.map_err(failed)?;
    ask(&shared, &transaction, SETTINGS, &[]).await?;
    Ok(transaction)
}

/// Everything that the user's statements may have left on the connection. Prepared statements stay:
/// they are ours.
const CLEAN: &str = "CLOSE ALL; SET SESSION AUTHORIZATION DEFAULT; RESET ALL; UNLISTEN *; \
     SELECT pg_advisory_unlock_all(); DISCARD TEMP";

/// Gives the connection back as it was, or not at all.
async fn clean(session: Session) {
    if session.client().batch_execute(CLEAN).await.is_err() {
        session.discard();
    }
}

/// The user's part: within a time, and without ending the transaction under us.
async fn limited<F>(
    shared: &Shared,
    transaction: &Transaction<'_>,
    held: Held,
    work: F,
) -> Result<(Json, Effect), TransactionError>
where
    F: AsyncFnOnce(&Transaction<'_>, &Permit) -> Result<Json, String>,
{
    let limit = Duration::from_millis(limits::TRANSACTION_MS_MAX);
    let started = Instant::now();
    let limit_text = limits::TRANSACTION_MS_MAX.to_string();
    ask(shared, transaction, LIMIT, &[(&limit_text, Type::TEXT)]).await?;
    let working = run(transaction, work(transaction, &held.armed.permit));
    let worked = tokio::time::timeout(limit, working).await;
    let receipt = match worked {
        Ok(Ok(receipt)) if started.elapsed() <= limit => receipt,
        Ok(Err(error)) if started.elapsed() <= limit => return Err(error),
        Ok(Ok(_) | Err(_)) | Err(_) => return Err(TransactionError::TooLong),
    };
    let tables = held.tables.clone();
    let done = finish(shared, transaction, held, receipt).await?;
    // A COMMIT may take its time: it must not be cut.
    guard(shared, transaction, &tables).await?;
    Ok(done)
}

/// Nothing is committed to other tables than these.
async fn guard(
    shared: &Shared,
    transaction: &Transaction<'_>,
    tables: &str,
) -> Result<(), TransactionError> {
    let params: [Param<'_>; 2] = [(&tables, Type::TEXT), (&"30000", Type::TEXT)];
    match transaction.ask(&shared.text(meta::GUARD_AND_LIMIT), &params).await {
        Ok(_) => Ok(()),
        Err(Fault::Said(SqlState::DIVISION_BY_ZERO, _)) => Err(replaced()),
        Err(fault) => Err(failed(fault)),
    }
}

/// A plain error says that the transaction is undone. One that ends the connection says nothing.
fn is_refused(error: &tokio_postgres::Error) -> bool {
    let said = error.as_db_error().and_then(|said| said.parsed_severity());
    said == Some(Severity::Error)
}

fn undone(error: &tokio_postgres::Error) -> TransactionError {
    match error.code() {
        Some(&SqlState::T_R_SERIALIZATION_FAILURE | &SqlState::T_R_DEADLOCK_DETECTED) => {
            TransactionError::Store(store_error(error))
        }
        Some(_) | None => {
            let text = error.as_db_error().map_or_else(String::new, |said| said.to_string());
            TransactionError::Failed(text)
        }
    }
}
