//! `transaction`: the user's rows and the receipt in one commit.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use semel_core::code::Code;
use semel_core::effect::{self, Begin, Decision, Permit, Refusal, Why};
use semel_core::json::Json;
use semel_core::record::Contract;
use semel_store::sqlite::{TransactionError, Work};

use crate::{Engine, Error, lock};

impl Engine {
    /// Runs `work` on the ledger's own database and commits its rows together with the receipt it
    /// returns: both or none. A repeat gets the receipt and runs nothing.
    pub async fn transaction(
        &self,
        mut ask: Begin,
        work: impl FnOnce(&Connection, &Permit) -> Result<Json, String> + Send + 'static,
    ) -> Result<Json, Error> {
        let unsupported = || {
            let text = "this store cannot run a transaction in this process";
            Error::new(Code::TransactionUnsupported, text)
        };
        let sqlite = self.inner.sqlite.clone().ok_or_else(unsupported)?;
        self.complete(&mut ask);
        ask.declared.contract = Some(Contract::Transaction);
        let address = ask.address.clone();
        let outcome = Arc::new(Mutex::new(None));
        let slot = outcome.clone();
        let work: Work = Box::new(move |stored, ground, connection| {
            let refused = TransactionError::Refused;
            match effect::transact(stored.as_ref(), &ask, ground).map_err(refused)? {
                Ok(transaction) => {
                    let receipt = work(connection, &transaction.permit);
                    let receipt = receipt.map_err(TransactionError::Failed)?;
                    let done = transaction.done(receipt.clone(), &ground.now);
                    *lock(&slot) = Some(Ok((receipt, Some(done.clone()))));
                    Ok(Some(done))
                }
                Err(Decision::Replay(receipt)) => {
                    *lock(&slot) = Some(Ok((receipt, None)));
                    Ok(None)
                }
                Err(Decision::Failed(reason)) => {
                    *lock(&slot) = Some(Err(Error::new(Code::EffectFailed, reason)));
                    Ok(None)
                }
                Err(Decision::Arm(..) | Decision::Resume(_) | Decision::Doubt(_)) => {
                    let why = Why::NeedsPerson;
                    Err(refused(Refusal::InDoubt { why, retry_after_ms: None }))
                }
            }
        });
        sqlite.transaction(address, work).await?;
        let outcome = lock(&outcome).take();
        let (receipt, done) = outcome.expect("a transaction that ended has an outcome")?;
        if let Some(done) = done {
            self.inner.flights.publish(&done);
        }
        Ok(receipt)
    }
}
