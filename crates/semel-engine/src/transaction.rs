//! `transaction`: the user's rows and the receipt in one commit.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use semel_core::code::Code;
use semel_core::effect::{self, Begin, Decision, Ground, Permit, Refusal, State, Why};
use semel_core::json::Json;
use semel_core::key::Address;
use semel_core::record::{Contract, Effect};
use semel_core::repeats::{Door, Subject};
use semel_store::postgres::{Outcome, Postgres, Ruling, Wire};
use semel_store::sqlite::{Sqlite, TransactionError, Work};
use tokio_postgres::Transaction;

use crate::call::is_repeat;
use crate::commit::Stopped;
use crate::{Engine, Error, Own, lock, measure};

/// What a repeat is told: the receipt, or why there is none.
type Answer = Result<Json, Error>;

impl Engine {
    /// Runs `work` on the ledger's own SQLite and commits its rows together with the receipt it
    /// returns: both or none. A repeat gets the receipt and runs nothing.
    pub async fn transaction(
        &self,
        ask: Begin,
        work: impl FnOnce(&Connection, &Permit) -> Result<Json, String> + Send + 'static,
    ) -> Result<Json, Error> {
        let sqlite = self.sqlite()?;
        let ask = self.prepared(ask);
        let address = ask.address.clone();
        let outcome = Arc::new(Mutex::new(None));
        let slot = outcome.clone();
        let work: Work = Box::new(move |stored, ground, connection| {
            match rule(stored.as_ref(), &ask, ground)? {
                Ruling::Run(transaction) => {
                    let receipt = work(connection, &transaction.permit);
                    let receipt = receipt.map_err(TransactionError::Failed)?;
                    let done = transaction.done(receipt.clone(), &ground.now);
                    *lock(&slot) = Some(Outcome::Done(receipt, Box::new(done.clone())));
                    Ok(Some(done))
                }
                Ruling::Answer(answer) => {
                    *lock(&slot) = Some(Outcome::Answer(answer));
                    Ok(None)
                }
            }
        });
        sqlite.transaction(address.clone(), work).await?;
        let outcome = lock(&outcome).take();
        self.told(&address, outcome.expect("a transaction that ended has an outcome"))
    }

    /// Runs `work` on the ledger's own Postgres, in a transaction of its own. Dropping this future
    /// undoes everything, unless the commit was on its way.
    pub async fn transaction_on_postgres<F>(&self, ask: Begin, work: F) -> Result<Json, Error>
    where
        F: AsyncFnOnce(&Transaction<'_>, &Permit) -> Result<Json, String>,
    {
        let postgres = self.postgres()?;
        let ask = self.prepared(ask);
        let rule = |stored: Option<&Effect>, ground: &Ground| rule(stored, &ask, ground);
        let ended = postgres.transaction(&ask.address, rule, work).await;
        self.note_doubt(&ask, &ended).await?;
        self.told(&ask.address, ended?)
    }

    /// Runs `work` within a transaction of the user's own, on the ledger's database. The user
    /// commits rows and receipt together, or neither.
    pub async fn transaction_within<W, F>(
        &self,
        ask: Begin,
        wire: &W,
        work: F,
    ) -> Result<Json, Error>
    where
        W: Wire,
        F: AsyncFnOnce(&W, &Permit) -> Result<Json, String>,
    {
        let postgres = self.postgres()?;
        let ask = self.prepared(ask);
        let rule = |stored: Option<&Effect>, ground: &Ground| rule(stored, &ask, ground);
        let ended = postgres.within(wire, &ask.address, rule, work).await;
        self.note_doubt(&ask, &ended).await?;
        match ended? {
            // Nobody is told before the user has committed.
            Outcome::Done(receipt, _) => Ok(receipt),
            Outcome::Answer(answer) => self.answered(&ask.address, answer),
        }
    }

    /// Puts a doubt that a quarantine assumes on record, in a commit of our own: a person must be
    /// able to find and settle it.
    async fn note_doubt<T>(
        &self,
        ask: &Begin,
        ended: &Result<T, TransactionError>,
    ) -> Result<(), Error> {
        if !matches!(ended, Err(TransactionError::Refused(Refusal::InDoubt { .. }))) {
            return Ok(());
        }
        let (stored, ground) = (self.store().load(&ask.address).await?, self.store().ground());
        let Ok(Err(Decision::Doubt(doubt))) = effect::transact(stored.as_ref(), ask, &ground)
        else {
            return Ok(());
        };
        match self.write(&doubt, &ground).await {
            // Somebody else was quicker.
            Ok(()) | Err(Stopped::Stale(_)) => Ok(()),
            Err(Stopped::Error(error)) => Err(error),
        }
    }

    fn prepared(&self, mut ask: Begin) -> Begin {
        self.complete(&mut ask);
        ask.declared.contract = Some(Contract::Transaction);
        ask
    }

    fn told(&self, address: &Address, outcome: Outcome<Answer>) -> Answer {
        match outcome {
            Outcome::Done(receipt, done) => {
                self.inner.flights.publish(&done);
                measure::came_to(State::Done, &done);
                Ok(receipt)
            }
            Outcome::Answer(answer) => self.answered(address, answer),
        }
    }

    /// Nothing was run: whoever asks is told what was done before.
    fn answered(&self, address: &Address, answer: Answer) -> Answer {
        if is_repeat(&answer.clone().map(|receipt| (receipt, true))) {
            self.note_repeat(Subject::Effect(address.clone()), Door::Call);
        }
        answer
    }

    fn sqlite(&self) -> Result<Arc<Sqlite>, Error> {
        match &self.inner.own {
            Own::Sqlite(sqlite) => Ok(sqlite.clone()),
            Own::Postgres(_) => Err(unsupported(
                "this store is on Postgres: a transaction runs on a connection of yours, which you \
                 commit. Python: `function.on(connection)(…)` with psycopg; Rust: `within`, or \
                 `run_on_postgres`",
            )),
            Own::Nothing => Err(unsupported(NOT_HERE)),
        }
    }

    pub(crate) fn postgres(&self) -> Result<Arc<Postgres>, Error> {
        match &self.inner.own {
            Own::Postgres(postgres) => Ok(postgres.clone()),
            Own::Sqlite(_) => Err(unsupported(
                "this store is on SQLite: a transaction runs through Semel's own handle. Python: \
                 `function(…)`; Rust: `run`",
            )),
            Own::Nothing => Err(unsupported(NOT_HERE)),
        }
    }
}

const NOT_HERE: &str = "this store cannot run a transaction in this process";

fn unsupported(text: &str) -> Error {
    Error::new(Code::TransactionUnsupported, text)
}

/// What a transaction means for the stored effect, on any database.
fn rule(
    stored: Option<&Effect>,
    ask: &Begin,
    ground: &Ground,
) -> Result<Ruling<Answer>, TransactionError> {
    let refused = TransactionError::Refused;
    Ok(match effect::transact(stored, ask, ground).map_err(refused)? {
        Ok(transaction) => Ruling::Run(Box::new(transaction)),
        Err(Decision::Replay(receipt)) => Ruling::Answer(Ok(receipt)),
        Err(Decision::Undone(receipt, undo)) => Ruling::Answer(Err(Error::undone(receipt, undo))),
        Err(Decision::Hold(_)) => return Err(refused(Refusal::Held { retry_after_ms: None })),
        Err(Decision::Failed(reason)) => {
            Ruling::Answer(Err(Error::new(Code::EffectFailed, reason)))
        }
        Err(Decision::Arm(..) | Decision::Resume(_) | Decision::Doubt(_)) => {
            let why = Why::NeedsPerson;
            return Err(refused(Refusal::InDoubt { why, retry_after_ms: None }));
        }
    })
}
