//! A transaction of the user's own, on the ledger's database, that the user commits.

use semel_core::effect::{Ground, Permit};
use semel_core::json::Json;
use semel_core::key::Address;
use semel_core::record::Effect;
use tokio_postgres::types::Type;

use super::held::{Hold, Ruling, ask, failed, finish, first, hold, run};
use super::load::get;
use super::transaction::{Outcome, replaced};
use super::wire::{Fault, Wire};
use super::{Postgres, Shared, meta};
use crate::sqlite::TransactionError;

const LOCK_TIMEOUT: &str = "SELECT current_setting('lock_timeout')";
const SET_LOCK_TIMEOUT: &str = "SELECT set_config('lock_timeout', $1, true)";

impl Postgres {
    /// Runs `work` within a transaction of the user's own, together with the write of its effect.
    /// The user commits both, or neither. An error leaves the transaction as it was before.
    pub async fn within<W, A, R, F>(
        &self,
        wire: &W,
        address: &Address,
        rule: R,
        work: F,
    ) -> Result<Outcome<A>, TransactionError>
    where
        R: Fn(Option<&Effect>, &Ground) -> Result<Ruling<A>, TransactionError>,
        W: Wire,
        F: AsyncFnOnce(&W, &Permit) -> Result<Json, String>,
    {
        self.writer()?;
        wire.ask("SAVEPOINT semel_transaction", &[]).await.map_err(failed)?;
        let ended = self.try_within(wire, address, rule, work).await;
        let released = match &ended {
            Ok(Outcome::Done(..)) => release(wire).await,
            Ok(Outcome::Answer(_)) | Err(_) => undo(wire).await,
        };
        match (ended, released) {
            (Err(error), _) => Err(error),
            (Ok(_), Err(fault)) => Err(failed(fault)),
            (Ok(outcome), Ok(())) => Ok(outcome),
        }
    }

    async fn try_within<W, A, R, F>(
        &self,
        wire: &W,
        address: &Address,
        rule: R,
        work: F,
    ) -> Result<Outcome<A>, TransactionError>
    where
        R: Fn(Option<&Effect>, &Ground) -> Result<Ruling<A>, TransactionError>,
        W: Wire,
        F: AsyncFnOnce(&W, &Permit) -> Result<Json, String>,
    {
        let shared = &self.door.shared;
        let before = ask(shared, wire, LOCK_TIMEOUT, &[]).await?;
        let before: String = get(first(&before)?, 0)?;
        let set =
            async |value: &str| ask(shared, wire, SET_LOCK_TIMEOUT, &[(&value, Type::TEXT)]).await;
        set("2000").await?;
        if !is_this_store(shared, wire).await? {
            // Its tables may have been replaced since they were looked at.
            self.door.look_anew().await?;
            if !is_this_store(shared, wire).await? {
                let text =
                    "the transaction that was handed in is on another database than the ledger";
                return Err(TransactionError::Failed(text.into()));
            }
        }
        let held = match hold(shared, wire, address, &rule).await? {
            Hold::Held(held) => held,
            Hold::Answer(answer) => return Ok(Outcome::Answer(answer)),
            Hold::Replaced => return Err(replaced()),
        };
        set(&before).await?;
        let worked = run(wire, work(wire, &held.armed.permit)).await;
        let (receipt, done) = finish(shared, wire, held, worked?).await?;
        Ok(Outcome::Done(receipt, Box::new(done)))
    }
}

async fn release(wire: &impl Wire) -> Result<(), Fault> {
    wire.ask("RELEASE SAVEPOINT semel_transaction", &[]).await.map(drop)
}

async fn undo(wire: &impl Wire) -> Result<(), Fault> {
    wire.ask("ROLLBACK TO SAVEPOINT semel_transaction", &[]).await?;
    release(wire).await
}

/// A connection that leads to another store must not be given a receipt to keep.
async fn is_this_store(shared: &Shared, wire: &impl Wire) -> Result<bool, TransactionError> {
    let head = ask(shared, wire, meta::STATE, &[]).await?;
    let (meta, _) = meta::read_head(first(&head)?)?;
    let server = ask(shared, wire, meta::SERVER, &[]).await?;
    let server: Option<String> = get(first(&server)?, 0)?;
    let known = shared.meta();
    Ok((meta.epoch, &meta.store_id, server.as_deref())
        == (known.epoch, &known.store_id, Some(known.server.as_str())))
}
