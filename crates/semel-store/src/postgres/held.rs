//! A key that belongs to one transaction until it ends: its row is locked or inserted, as an
//! attempt that is open, and closed with its receipt in the same transaction.

use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use semel_core::effect::{self, Ground};
use semel_core::json::Json;
use semel_core::key::Address;
use semel_core::record::Effect;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::load::{get, signed};
use super::wire::{Fault, Line, Param, Wire};
use super::{Shared, meta, rows};
use crate::sqlite::TransactionError;
use crate::{Row, StoreError};

/// How often a key is looked at anew when somebody was quicker.
const RACES_MAX: usize = 20;

/// What a transaction means for the effect as it is stored.
pub enum Ruling<A> {
    /// Run the user's statements and write the effect with them.
    Run(Box<effect::Transaction>),
    /// Run nothing.
    Answer(A),
}

/// A key that is ours until the transaction ends: its row is written as an open attempt.
pub(super) struct Held {
    row: i64,
    /// Names the transaction: the user's statements may have ended it, and begun another.
    transaction: String,
    pub(super) armed: Box<effect::Transaction>,
    pub(super) ground: Ground,
    /// Where it was written.
    pub(super) tables: String,
}

pub(super) enum Hold<A> {
    Held(Held),
    Answer(A),
    /// The tables are not those that were looked at, or are in another epoch. Nothing was written.
    Replaced,
}

const NEWEST: &str = "SELECT row, generation, version, record, sum, namespace FROM semel.effects \
     WHERE namespace = $1 AND action = $2 AND key = $3 ORDER BY generation DESC LIMIT 1 FOR UPDATE";

/// Waits for whoever is about to insert the same key. No error: one would end a user's transaction.
const INSERT: &str = "INSERT INTO semel.effects (row, namespace, action, key, generation, version, \
     state, workflow, created_at, due_at, sweep_at, alarmed, held, sum, record, seal) \
     VALUES (nextval('semel.effect_rows'), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, \
     $14, $15) \
     ON CONFLICT (namespace, action, key, generation) DO NOTHING \
     RETURNING row, pg_current_xact_id()::text";

/// Writes only in the transaction that is named.
const UPDATE: &str = "UPDATE semel.effects SET version = $2, state = $3, due_at = $4, \
     sweep_at = $5, alarmed = $6, held = $7, sum = $8, record = $9, seal = $12 WHERE row = $1 \
     AND version = $10 AND ($11::text IS NULL OR pg_current_xact_id()::text = $11) \
     RETURNING row, pg_current_xact_id()::text";

/// Reads and locks the effect, decides, and writes the open attempt. Whoever asks for the key from
/// now on waits for this transaction.
pub(super) async fn hold<W: Wire, A>(
    shared: &Shared,
    wire: &W,
    address: &Address,
    rule: &impl Fn(Option<&Effect>, &Ground) -> Result<Ruling<A>, TransactionError>,
) -> Result<Hold<A>, TransactionError> {
    for _ in 0..RACES_MAX {
        let Some((ground, tables)) = look(shared, wire).await? else {
            return Ok(Hold::Replaced);
        };
        let names = [address.namespace.as_str(), address.action.as_str(), address.key.as_str()];
        let [namespace, action, key] = &names;
        let params: [Param<'_>; 3] =
            [(namespace, Type::TEXT), (action, Type::TEXT), (key, Type::TEXT)];
        let found = ask(shared, wire, NEWEST, &params).await?;
        let stored = found.first().map(|row| rows::effect(shared, row)).transpose()?;
        if stored.as_ref().is_some_and(|effect| effect.superseded.is_some()) {
            // A new generation was opened while this one was waited for.
            continue;
        }
        let armed = match rule(stored.as_ref(), &ground)? {
            Ruling::Run(armed) => armed,
            Ruling::Answer(answer) => return Ok(Hold::Answer(answer)),
        };
        let row = shared.veil.cover_row(Row::new(armed.armed(), &ground.now))?;
        if row.address != *address {
            let text = "the rule returned another effect than it was given";
            return Err(TransactionError::Failed(text.into()));
        }
        let written = match (found.first(), row.version) {
            (None, 1) => insert(shared, wire, &row).await?,
            (Some(found), version) => {
                update(shared, wire, get(found, 0)?, &row, version - 1, None).await?
            }
            (None, _) => Vec::new(),
        };
        // Nothing was written: somebody was quicker, and has committed by now.
        if let Some(written) = written.first() {
            let (row, transaction) = (get(written, 0)?, get(written, 1)?);
            return Ok(Hold::Held(Held { row, transaction, armed, ground, tables }));
        }
    }
    Err(StoreError::Busy("other processes kept writing the same key".into()).into())
}

/// What the rules must know, as this transaction reads it. `None`: it reads another store.
async fn look(
    shared: &Shared,
    wire: &impl Wire,
) -> Result<Option<(Ground, String)>, TransactionError> {
    let asked_ms = shared.time.local_ms();
    let head = ask(shared, wire, meta::STATE, &[]).await?;
    let (meta, reading) = meta::read_head(first(&head)?)?;
    if shared.is_elsewhere(&reading) {
        let another = "the server is not the one that was looked at";
        return Err(StoreError::Unavailable(another.into()).into());
    }
    let (epoch, quarantine, tables) = (meta.epoch, meta.quarantine, reading.tables.clone());
    let is_same = shared.follow(meta, &reading, asked_ms);
    Ok(is_same.then(|| (Ground { epoch, quarantine, ..shared.ground() }, tables)))
}

/// Runs the user's function; a panic is an error like any other.
pub(super) async fn run(
    wire: &impl Wire,
    work: impl Future<Output = Result<Json, String>>,
) -> Result<Json, TransactionError> {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(receipt)) => Ok(receipt),
        Ok(Err(text)) if wire.is_closed() => Err(StoreError::Unavailable(text).into()),
        Ok(Err(text)) => Err(TransactionError::Failed(text)),
        Err(_) => Err(TransactionError::Failed("the function panicked".into())),
    }
}

/// Closes the attempt with its receipt, in the transaction that opened it.
pub(super) async fn finish(
    shared: &Shared,
    wire: &impl Wire,
    held: Held,
    receipt: Json,
) -> Result<(Json, Effect), TransactionError> {
    let Held { row, transaction: name, armed, ground, .. } = held;
    let done = armed.done(receipt.clone(), &ground.now);
    let closed = shared.veil.cover_row(Row::new(&done, &ground.now))?;
    let written = update(shared, wire, row, &closed, closed.version, Some(name.as_str())).await?;
    if written.is_empty() {
        let text = "the function ended the transaction: what it wrote before and after that is not \
             undone, and the effect is in doubt if it was committed";
        return Err(TransactionError::Failed(text.into()));
    }
    Ok((receipt, done))
}

async fn insert<W: Wire>(
    shared: &Shared,
    wire: &W,
    row: &Row,
) -> Result<Vec<W::Line>, TransactionError> {
    let (generation, version) = (i64::from(row.generation), signed(row.version));
    let (due, sweep_at) = (row.due.map(|due| due.ms), row.sweep_at.map(|at| at.0));
    let seal = row.seal(due).0.to_vec();
    let params: [Param<'_>; 15] = [
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
        (&row.held, Type::BOOL),
        (&row.sum, Type::INT8),
        (&row.record, Type::TEXT),
        (&seal, Type::BYTEA),
    ];
    ask(shared, wire, INSERT, &params).await
}

/// Writes a row over its version `from`, in the named transaction or in whichever this is.
async fn update<W: Wire>(
    shared: &Shared,
    wire: &W,
    place: i64,
    row: &Row,
    from: u64,
    name: Option<&str>,
) -> Result<Vec<W::Line>, TransactionError> {
    let (version, from) = (signed(row.version), signed(from));
    let (due, sweep_at) = (row.due.map(|due| due.ms), row.sweep_at.map(|at| at.0));
    let seal = row.seal(due).0.to_vec();
    let params: [Param<'_>; 12] = [
        (&place, Type::INT8),
        (&version, Type::INT8),
        (&row.state.as_str(), Type::TEXT),
        (&due, Type::INT8),
        (&sweep_at, Type::INT8),
        (&row.alarmed, Type::BOOL),
        (&row.held, Type::BOOL),
        (&row.sum, Type::INT8),
        (&row.record, Type::TEXT),
        (&from, Type::INT8),
        (&name, Type::TEXT),
        (&seal, Type::BYTEA),
    ];
    ask(shared, wire, UPDATE, &params).await
}

/// One statement, not prepared by name: the connection may be behind a pooler, or the user's.
pub(super) async fn ask<W: Wire>(
    shared: &Shared,
    wire: &W,
    text: &'static str,
    params: &[Param<'_>],
) -> Result<Vec<W::Line>, TransactionError> {
    wire.ask(&shared.text(text), params).await.map_err(failed)
}

pub(super) fn first<L: Line>(rows: &[L]) -> Result<&L, StoreError> {
    rows.first().ok_or_else(|| StoreError::Corrupt("a row is missing".into()))
}

/// An error of one of our own statements: nothing is committed.
pub(super) fn failed(error: impl Into<Fault>) -> TransactionError {
    match error.into() {
        // The user's function went on after a statement of its own had failed.
        Fault::Said(SqlState::IN_FAILED_SQL_TRANSACTION, _) => {
            let text = "a statement of the function failed, so nothing can be committed";
            TransactionError::Failed(text.into())
        }
        fault => TransactionError::Store(fault.into()),
    }
}
