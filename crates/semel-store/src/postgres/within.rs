//! A transaction of the user's own, on the ledger's database, that the user commits.

use semel_core::effect::{Ground, Permit};
use semel_core::json::Json;
use semel_core::key::Address;
use semel_core::record::Effect;
use tokio_postgres::Transaction;
use tokio_postgres::types::Type;

use super::held::{Hold, Ruling, ask, failed, finish, first, hold, run};
use super::load::get;
use super::transaction::Outcome;
use super::{Postgres, Shared, meta};
use crate::sqlite::TransactionError;

const LOCK_TIMEOUT: &str = "SELECT current_setting('lock_timeout')";
const SET_LOCK_TIMEOUT: &str = "SELECT set_config('lock_timeout', $1, true)";

impl Postgres {
    /// Runs `work` within a transaction of the user's own, together with the write of its effect.
    /// The user commits both, or neither. An error leaves the transaction as it was before.
    pub async fn within<A, R, F>(
        &self,
        transaction: &Transaction<'_>,
        address: &Address,
        rule: R,
        work: F,
    ) -> Result<Outcome<A>, TransactionError>
    where
        R: Fn(Option<&Effect>, &Ground) -> Result<Ruling<A>, TransactionError>,
        F: AsyncFnOnce(&Transaction<'_>, &Permit) -> Result<Json, String>,
    {
        self.writer()?;
        transaction.batch_execute("SAVEPOINT semel_transaction").await.map_err(failed)?;
        let ended = self.try_within(transaction, address, rule, work).await;
        let end = match &ended {
            Ok(Outcome::Done(..)) => "RELEASE SAVEPOINT semel_transaction",
            Ok(Outcome::Answer(_)) | Err(_) => {
                "ROLLBACK TO SAVEPOINT semel_transaction; RELEASE SAVEPOINT semel_transaction"
            }
        };
        let released = transaction.batch_execute(end).await;
        match (ended, released) {
            (Err(error), _) => Err(error),
            (Ok(_), Err(error)) => Err(failed(error)),
            (Ok(outcome), Ok(())) => Ok(outcome),
        }
    }

    async fn try_within<A, R, F>(
        &self,
        transaction: &Transaction<'_>,
        address: &Address,
        rule: R,
        work: F,
    ) -> Result<Outcome<A>, TransactionError>
    where
        R: Fn(Option<&Effect>, &Ground) -> Result<Ruling<A>, TransactionError>,
        F: AsyncFnOnce(&Transaction<'_>, &Permit) -> Result<Json, String>,
    {
        let shared = &self.door.shared;
        let before = ask(shared, transaction, LOCK_TIMEOUT, &[]).await?;
        let before: String = get(first(&before)?, 0)?;
        let set = async |value: &str| {
            ask(shared, transaction, SET_LOCK_TIMEOUT, &[(&value, Type::TEXT)]).await
        };
        set("2000").await?;
        is_this_store(shared, transaction).await?;
        let held = match hold(shared, transaction, address, &rule).await? {
            Hold::Held(held) => held,
            Hold::Answer(answer) => return Ok(Outcome::Answer(answer)),
        };
        set(&before).await?;
        let worked = run(transaction.client(), work(transaction, &held.armed.permit)).await;
        let (receipt, done) = finish(shared, transaction, held, worked?).await?;
        Ok(Outcome::Done(receipt, Box::new(done)))
    }
}

/// A connection that leads to another store must not be given a receipt to keep.
async fn is_this_store(
    shared: &Shared,
    transaction: &Transaction<'_>,
) -> Result<(), TransactionError> {
    let head = ask(shared, transaction, meta::STATE, &[]).await?;
    let (meta, _) = meta::read_head(first(&head)?).map_err(failed)?;
    let server = ask(shared, transaction, meta::SERVER, &[]).await?;
    let server: Option<String> = get(first(&server)?, 0)?;
    let known = shared.meta();
    if meta.store_id != known.store_id || server.as_deref() != Some(known.server.as_str()) {
        let text = "the transaction that was handed in is on another database than the ledger";
        return Err(TransactionError::Failed(text.into()));
    }
    Ok(())
}
