//! `transaction`: the user's rows and the receipt in one commit, outside the group.
//!
//! The effect's row is written before the user's statements run, as an attempt that is open, and
//! again behind them, as done: nobody else sees the first of the two. So whoever asks for the same
//! key waits for this transaction instead of doing its work a second time, and a transaction that
//! the user's statements have ended leaves an attempt in doubt, never rows without a trace.

use std::panic::AssertUnwindSafe;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use semel_core::effect::{self, Ground, Permit};
use semel_core::json::Json;
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::Effect;
use tokio_postgres::error::{Severity, SqlState};
use tokio_postgres::types::Type;
use tokio_postgres::{Client, IsolationLevel, Row as SqlRow, Transaction};

use super::connect::{Param, Session};
use super::load::{get, signed};
use super::meta::{self, Reading};
use super::{Postgres, Shared, rows, store_error};
use crate::sqlite::TransactionError;
use crate::{Row, StoreError, Write};

/// How often a key is looked at anew when somebody was quicker.
const RACES_MAX: usize = 20;
/// How long a transaction waits for its turn.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a lost answer to COMMIT is looked for.
const RESOLVE: Duration = Duration::from_secs(10);

/// What a transaction means for the effect as it is stored.
pub enum Ruling<A> {
    /// Run the user's statements and write the effect with them.
    Run(Box<effect::Transaction>),
    /// Run nothing.
    Answer(A),
}

/// What a transaction came to.
pub enum Outcome<A> {
    /// The receipt, and the effect as it was written.
    Done(Json, Box<Effect>),
    Answer(A),
}

/// A key that is ours until the transaction ends: its row is written as an open attempt.
struct Held {
    row: i64,
    /// Names the transaction: the user's statements may have ended it, and begun another.
    transaction: String,
    armed: Box<effect::Transaction>,
    ground: Ground,
}

enum Hold<A> {
    Held(Held),
    Answer(A),
}

/// As in a group, but plans of the user's statements are left to Postgres.
const HEAD: &str = "SELECT meta.format, meta.store_id, meta.epoch, meta.server, \
     meta.boot, meta.boot_since, meta.wall_high, opened_at, recovered_at, \
     (extract(epoch FROM clock_timestamp()) * 1000)::bigint AS wall, \
     (pg_current_wal_insert_lsn() - '0/0')::bigint AS log \
     FROM semel.meta LEFT JOIN LATERAL (SELECT opened_at, recovered_at FROM semel.returns \
     WHERE epoch = meta.epoch AND closed_at IS NULL) AS quarantine ON true";

const SETTINGS: &str = "SELECT set_config('synchronous_commit', \
     CASE current_setting('synchronous_commit') WHEN 'off' THEN 'on' \
     ELSE current_setting('synchronous_commit') END, true), \
     set_config('lock_timeout', '2000', true), set_config('statement_timeout', '30000', true)";

const NEWEST: &str = "SELECT row, generation, version, record, sum FROM semel.effects \
     WHERE namespace = $1 AND action = $2 AND key = $3 ORDER BY generation DESC LIMIT 1 FOR UPDATE";

/// Waits for whoever is about to insert the same key. No error: one would end a user's transaction.
const INSERT: &str = "INSERT INTO semel.effects (row, namespace, action, key, generation, version, \
     state, workflow, created_at, due_at, sweep_at, alarmed, sum, record) \
     VALUES (nextval('semel.effect_rows'), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) \
     ON CONFLICT (namespace, action, key, generation) DO NOTHING \
     RETURNING row, pg_current_xact_id()::text";

/// Behind the user's statements a COMMIT may take its time: it must not be cut.
const UPDATE: &str = "UPDATE semel.effects SET version = $2, state = $3, due_at = $4, \
     sweep_at = $5, alarmed = $6, sum = $7, record = $8 WHERE row = $1 AND version = $9 \
     AND ($10::text IS NULL OR pg_current_xact_id()::text = $10) \
     RETURNING row, pg_current_xact_id()::text";

const LIMIT: &str = "SELECT set_config('statement_timeout', $1, true)";

const LOCK_TIMEOUT: &str = "SELECT current_setting('lock_timeout')";
const SET_LOCK_TIMEOUT: &str = "SELECT set_config('lock_timeout', $1, true)";

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
        let transaction = begin(&mut session).await?;
        let held = match hold(&shared, &transaction, address, &rule).await {
            Ok(Hold::Held(held)) => held,
            Ok(Hold::Answer(answer)) => {
                transaction.rollback().await.map_err(failed)?;
                return Ok(Outcome::Answer(answer));
            }
            Err(error) => return Err(error),
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
            Err(error) if is_refused(&error) => Err(undone(&error)),
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
        }
    }

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

/// Reads and locks the effect, decides, and writes the open attempt. Whoever asks for the key from
/// now on waits for this transaction.
async fn hold<A>(
    shared: &Shared,
    transaction: &Transaction<'_>,
    address: &Address,
    rule: &impl Fn(Option<&Effect>, &Ground) -> Result<Ruling<A>, TransactionError>,
) -> Result<Hold<A>, TransactionError> {
    for _ in 0..RACES_MAX {
        let ground = look(shared, transaction).await?;
        let names = [address.namespace.as_str(), address.action.as_str(), address.key.as_str()];
        let [namespace, action, key] = &names;
        let params: [Param<'_>; 3] =
            [(namespace, Type::TEXT), (action, Type::TEXT), (key, Type::TEXT)];
        let found = ask(shared, transaction, NEWEST, &params).await?;
        let stored = found.first().map(rows::effect).transpose()?;
        if stored.as_ref().is_some_and(|effect| effect.superseded.is_some()) {
            // A new generation was opened while this one was waited for.
            continue;
        }
        let armed = match rule(stored.as_ref(), &ground)? {
            Ruling::Run(armed) => armed,
            Ruling::Answer(answer) => return Ok(Hold::Answer(answer)),
        };
        let row = Row::new(armed.armed(), &ground.now);
        if row.address != *address {
            let text = "the rule returned another effect than it was given";
            return Err(TransactionError::Failed(text.into()));
        }
        let written = match (found.first(), row.version) {
            (None, 1) => insert(shared, transaction, &row).await?,
            (Some(found), version) => {
                update(shared, transaction, get(found, 0)?, &row, version - 1, None).await?
            }
            (None, _) => Vec::new(),
        };
        // Nothing was written: somebody was quicker, and has committed by now.
        if let Some(written) = written.first() {
            let (row, transaction) = (get(written, 0)?, get(written, 1)?);
            return Ok(Hold::Held(Held { row, transaction, armed, ground }));
        }
    }
    Err(StoreError::Busy("other processes kept writing the same key".into()).into())
}

/// What the rules must know, as this transaction reads it.
async fn look(shared: &Shared, transaction: &Transaction<'_>) -> Result<Ground, TransactionError> {
    let asked_ms = shared.time.local_ms();
    let head = ask(shared, transaction, HEAD, &[]).await?;
    let (meta, reading): (_, Reading) = meta::read_head(first(&head)?).map_err(failed)?;
    let (epoch, quarantine) = (meta.epoch, meta.quarantine);
    shared.learn(meta, reading, asked_ms);
    Ok(Ground { epoch, quarantine, ..shared.ground() })
}

/// A connection that leads to another store must not be given a receipt to keep.
async fn is_this_store(
    shared: &Shared,
    transaction: &Transaction<'_>,
) -> Result<(), TransactionError> {
    let head = ask(shared, transaction, HEAD, &[]).await?;
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
    let working = run(transaction.client(), work(transaction, &held.armed.permit));
    let worked = tokio::time::timeout(limit, working).await;
    let receipt = match worked {
        Ok(Ok(receipt)) if started.elapsed() <= limit => receipt,
        Ok(Err(error)) if started.elapsed() <= limit => return Err(error),
        Ok(Ok(_) | Err(_)) | Err(_) => return Err(TransactionError::TooLong),
    };
    let done = finish(shared, transaction, held, receipt).await?;
    ask(shared, transaction, LIMIT, &[(&"30000", Type::TEXT)]).await?;
    Ok(done)
}

/// Runs the user's function; a panic is an error like any other.
async fn run(
    client: &Client,
    work: impl Future<Output = Result<Json, String>>,
) -> Result<Json, TransactionError> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(receipt)) => Ok(receipt),
        Ok(Err(text)) if client.is_closed() => Err(StoreError::Unavailable(text).into()),
        Ok(Err(text)) => Err(TransactionError::Failed(text)),
        Err(_) => Err(TransactionError::Failed("the function panicked".into())),
    }
}

/// Closes the attempt with its receipt, in the transaction that opened it.
async fn finish(
    shared: &Shared,
    transaction: &Transaction<'_>,
    held: Held,
    receipt: Json,
) -> Result<(Json, Effect), TransactionError> {
    let Held { row, transaction: name, armed, ground } = held;
    let done = armed.done(receipt.clone(), &ground.now);
    let closed = Row::new(&done, &ground.now);
    let written =
        update(shared, transaction, row, &closed, closed.version, Some(name.as_str())).await?;
    if written.is_empty() {
        let text = "the function ended the transaction: what it wrote before and after that is not \
             undone, and the effect is in doubt if it was committed";
        return Err(TransactionError::Failed(text.into()));
    }
    Ok((receipt, done))
}

async fn insert(
    shared: &Shared,
    transaction: &Transaction<'_>,
    row: &Row,
) -> Result<Vec<SqlRow>, TransactionError> {
    let (generation, version) = (i64::from(row.generation), signed(row.version));
    let (due, sweep_at) = (row.due.map(|due| due.ms), row.sweep_at.map(|at| at.0));
    let params: [Param<'_>; 13] = [
        (&row.address.namespace.as_str(), Type::TEXT),
        (&row.address.action.as_str(), Type::TEXT),
        (&row.address.key.as_str(), Type::TEXT),
        (&generation, Type::INT8),
        (&version, Type::INT8),
        (&row.state.as_str(), Type::TEXT),
        (&row.workflow, Type::TEXT),
        (&row.created.0, Type::INT8),
        (&due, Type::INT8),
        (&sweep_at, Type::INT8),
        (&row.alarmed, Type::BOOL),
        (&row.sum, Type::INT8),
        (&row.record, Type::TEXT),
    ];
    ask(shared, transaction, INSERT, &params).await
}

/// Writes a row over its version `from`, in the named transaction or in whichever this is.
async fn update(
    shared: &Shared,
    transaction: &Transaction<'_>,
    place: i64,
    row: &Row,
    from: u64,
    name: Option<&str>,
) -> Result<Vec<SqlRow>, TransactionError> {
    let (version, from) = (signed(row.version), signed(from));
    let (due, sweep_at) = (row.due.map(|due| due.ms), row.sweep_at.map(|at| at.0));
    let params: [Param<'_>; 10] = [
        (&place, Type::INT8),
        (&version, Type::INT8),
        (&row.state.as_str(), Type::TEXT),
        (&due, Type::INT8),
        (&sweep_at, Type::INT8),
        (&row.alarmed, Type::BOOL),
        (&row.sum, Type::INT8),
        (&row.record, Type::TEXT),
        (&from, Type::INT8),
        (&name, Type::TEXT),
    ];
    ask(shared, transaction, UPDATE, &params).await
}

/// One statement, not prepared by name: the connection may be behind a pooler, or the user's.
async fn ask(
    shared: &Shared,
    transaction: &Transaction<'_>,
    text: &'static str,
    params: &[Param<'_>],
) -> Result<Vec<SqlRow>, TransactionError> {
    transaction.query_typed(&shared.text(text), params).await.map_err(failed)
}

fn first(rows: &[SqlRow]) -> Result<&SqlRow, StoreError> {
    rows.first().ok_or_else(|| StoreError::Corrupt("a row is missing".into()))
}

/// An error of one of our own statements: nothing is committed.
#[expect(clippy::needless_pass_by_value, reason = "the shape that `map_err` wants")]
fn failed(error: tokio_postgres::Error) -> TransactionError {
    // The user's function went on after a statement of its own had failed.
    if error.code() == Some(&SqlState::IN_FAILED_SQL_TRANSACTION) {
        let text = "a statement of the function failed, so nothing can be committed";
        return TransactionError::Failed(text.into());
    }
    TransactionError::Store(store_error(&error))
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
