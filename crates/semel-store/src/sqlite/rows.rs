//! Effects as rows: the statements, all of them with bound parameters only.

use rusqlite::{CachedStatement, Connection, OptionalExtension, Row as SqlRow, params};
use semel_core::key::Address;
use semel_core::limits;
use semel_core::record::Effect;
use semel_core::time::{Moment, Steady, Wall};

use super::reader::ReadError;
use super::seals;
use super::walk::{Passed, Step, Walk, is_asked};
use crate::readable::readable;
use crate::upkeep::EffectColumns;
use crate::veil::Veil;
use crate::{Audit, DueCursor, DuePage, Page, Query, Row, StoreError, Unreadable, read_record};

/// A record as it lies in the file, not yet read.
pub(super) struct Stored {
    pub(super) namespace: String,
    pub(super) generation: u32,
    pub(super) version: u64,
    pub(super) record: String,
    pub(super) sum: i64,
}

impl Stored {
    pub(super) fn read(&self, veil: &Veil) -> Result<Effect, StoreError> {
        let effect = read_record(veil, &self.namespace, &self.record, self.sum)?;
        // A guard compares the columns; were they not those of the record, it would guard nothing.
        if effect.generation != self.generation || effect.version != self.version {
            return Err(StoreError::Corrupt("a row's columns differ from its record".into()));
        }
        Ok(effect)
    }
}

fn stored(row: &SqlRow<'_>) -> rusqlite::Result<Stored> {
    Ok(Stored {
        namespace: row.get("namespace")?,
        generation: row.get("generation")?,
        version: row.get("version")?,
        record: row.get("record")?,
        sum: row.get("sum")?,
    })
}

fn read(row: &SqlRow<'_>, veil: &Veil) -> Result<Effect, ReadError> {
    Ok(stored(row)?.read(veil)?)
}

const NEWEST: &str = "SELECT namespace, generation, version, record, sum FROM effects \
     WHERE namespace = ?1 AND action = ?2 AND key = ?3 ORDER BY generation DESC LIMIT 1";

const GENERATION: &str = "SELECT namespace, generation, version, record, sum FROM effects \
     WHERE namespace = ?1 AND action = ?2 AND key = ?3 AND generation = ?4";

const INSERT: &str = "INSERT INTO effects (namespace, action, key, generation, version, state, \
     workflow, created_at, due_at, sweep_at, alarmed, held, sum, record, seal) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15) \
     ON CONFLICT DO NOTHING";

const UPDATE: &str = "UPDATE effects SET version = ?5, state = ?6, due_at = ?7, sweep_at = ?8, \
     alarmed = ?9, held = ?10, sum = ?11, record = ?12, seal = ?13 WHERE namespace = ?1 \
     AND action = ?2 AND key = ?3 AND generation = ?4 AND version = ?5 - 1";

const REMOVE: &str = "DELETE FROM effects WHERE namespace = ?1 AND action = ?2 AND key = ?3";

pub(super) fn newest(
    connection: &Connection,
    address: &Address,
) -> Result<Option<Stored>, ReadError> {
    let mut statement = connection.prepare_cached(NEWEST)?;
    let Address { namespace, action, key } = address;
    let found = params![namespace.as_str(), action.as_str(), key.as_str()];
    Ok(statement.query_row(found, stored).optional()?)
}

pub(super) fn generation(
    connection: &Connection,
    address: &Address,
    generation: u32,
) -> Result<Option<Stored>, ReadError> {
    let mut statement = connection.prepare_cached(GENERATION)?;
    let Address { namespace, action, key } = address;
    let found = params![namespace.as_str(), action.as_str(), key.as_str(), generation];
    Ok(statement.query_row(found, stored).optional()?)
}

/// The two statements of the hot path, prepared once for a whole group of batches.
pub(super) struct Writes<'a> {
    insert: CachedStatement<'a>,
    update: CachedStatement<'a>,
}

impl<'a> Writes<'a> {
    pub(super) fn prepare(connection: &'a Connection) -> rusqlite::Result<Writes<'a>> {
        let insert = connection.prepare_cached(INSERT)?;
        Ok(Writes { insert, update: connection.prepare_cached(UPDATE)? })
    }

    /// Inserts unless the row exists; says whether it did.
    pub(super) fn insert(&mut self, row: &Row) -> rusqlite::Result<bool> {
        insert(&mut self.insert, row)
    }

    /// Updates if the row is at the version before; says whether it was.
    pub(super) fn update(&mut self, row: &Row) -> rusqlite::Result<bool> {
        update(&mut self.update, row)
    }
}

fn insert(statement: &mut CachedStatement<'_>, row: &Row) -> rusqlite::Result<bool> {
    let Address { namespace, action, key } = &row.address;
    let changed = statement.execute(params![
        namespace.as_str(),
        action.as_str(),
        key.as_str(),
        row.generation,
        row.version,
        row.state.as_str(),
        row.workflow,
        row.created.0,
        row.due.map(|due| due.ms),
        row.sweep_at.map(|at| at.0),
        row.alarmed,
        row.held,
        row.sum,
        row.record,
        row.seal(row.due.map(|due| due.ms)).0,
    ])?;
    Ok(changed == 1)
}

fn update(statement: &mut CachedStatement<'_>, row: &Row) -> rusqlite::Result<bool> {
    let Address { namespace, action, key } = &row.address;
    let changed = statement.execute(params![
        namespace.as_str(),
        action.as_str(),
        key.as_str(),
        row.generation,
        row.version,
        row.state.as_str(),
        row.due.map(|due| due.ms),
        row.sweep_at.map(|at| at.0),
        row.alarmed,
        row.held,
        row.sum,
        row.record,
        row.seal(row.due.map(|due| due.ms)).0,
    ])?;
    Ok(changed == 1)
}

/// Removes all generations of a key.
pub(super) fn remove(connection: &Connection, address: &Address) -> rusqlite::Result<()> {
    let Address { namespace, action, key } = address;
    let mut statement = connection.prepare_cached(REMOVE)?;
    statement.execute(params![namespace.as_str(), action.as_str(), key.as_str()]).map(|_| ())
}

pub(super) fn list(connection: &Connection, veil: &Veil, query: &Query) -> Result<Page, ReadError> {
    let walk = Walk::of(connection, query)?;
    let mut statement = connection.prepare_cached(&walk.text(query))?;
    let after = query.after.unwrap_or(i64::MAX);
    let mut rows = match (walk, &query.namespace, &query.action, &query.key) {
        (Walk::Named, Some(namespace), Some(action), Some(key)) => {
            statement.query(params![after, namespace.as_str(), action.as_str(), key.as_str()])?
        }
        _ => statement.query(params![after])?,
    };
    let mut page = Page::default();
    let mut passed = Passed::up_to(query.limit);
    while let Some(row) = rows.next()? {
        match passed.step(row.get(0)?, is_asked(row, query)?) {
            Step::Show => {
                let (namespace, action): (String, String) = (row.get(1)?, row.get("action")?);
                let key: String = row.get("key")?;
                let name = || format!("{action}/{key}");
                let read = read(row, veil).map_err(StoreError::from);
                match Unreadable::set_aside(read, &namespace, name)? {
                    Ok(effect) => page.effects.push(effect),
                    Err(unreadable) => page.unreadable.push(unreadable),
                }
            }
            Step::PassOver => {}
            Step::End(next) => {
                page.next = next;
                break;
            }
        }
    }
    Ok(page)
}

const DUE: &str = "SELECT row, due_at, namespace, generation, version, record, sum FROM effects \
     WHERE due_at IS NOT NULL AND (due_at, row) > (?1, ?2) ORDER BY due_at, row LIMIT ?3";

pub(super) fn due(
    connection: &Connection,
    veil: &Veil,
    now: Steady,
    after: Option<DueCursor>,
    limit: usize,
) -> Result<DuePage, ReadError> {
    let after = after.unwrap_or(DueCursor { due_ms: i64::MIN, row: i64::MIN });
    let mut statement = connection.prepare_cached(DUE)?;
    let limit_sql = i64::try_from(limit).unwrap_or(i64::MAX - 1) + 1;
    let mut rows = statement.query(params![after.due_ms, after.row, limit_sql])?;
    let mut page = DuePage { effects: Vec::new(), next_due: None, seen_to: None };
    let (mut seen, mut last) = (0, after);
    while let Some(row) = rows.next()? {
        let cursor = DueCursor { due_ms: row.get("due_at")?, row: row.get("row")? };
        if seen == limit || cursor.due_ms > now.ms {
            page.next_due = Some(Steady { ms: cursor.due_ms, ..now });
            page.seen_to = (cursor.due_ms <= now.ms).then_some(last);
            break;
        }
        (seen, last) = (seen + 1, cursor);
        page.effects.extend(work(row, veil)?.map(|effect| (cursor, effect)));
    }
    Ok(page)
}

/// An effect that somebody may have to see to, if it can be read.
fn work(row: &SqlRow<'_>, veil: &Veil) -> Result<Option<Effect>, ReadError> {
    let namespace: String = row.get("namespace").unwrap_or_default();
    Ok(readable("effect", &namespace, read(row, veil).map_err(StoreError::from))?)
}

const SWEEPABLE: &str = "SELECT namespace, generation, version, record, sum FROM effects \
     WHERE sweep_at IS NOT NULL AND sweep_at <= ?1 ORDER BY sweep_at, row LIMIT ?2";

pub(super) fn sweepable(
    connection: &Connection,
    veil: &Veil,
    now: Wall,
    limit: usize,
) -> Result<Vec<Effect>, ReadError> {
    let mut statement = connection.prepare_cached(SWEEPABLE)?;
    let most = limit.saturating_add(limits::UNREADABLE_ROWS_MAX);
    let mut rows = statement.query(params![now.0, i64::try_from(most).unwrap_or(i64::MAX)])?;
    let mut found = Vec::new();
    while found.len() < limit
        && let Some(row) = rows.next()?
    {
        found.extend(work(row, veil)?);
    }
    Ok(found)
}

/// All columns: a file that is only looked at may have fewer.
const AUDIT: &str = "SELECT * FROM effects WHERE row > ?1 ORDER BY row LIMIT ?2";

/// Reads rows in order and compares each with the record it carries.
pub(super) fn audit(
    connection: &Connection,
    veil: &Veil,
    now: &Moment,
    after: i64,
    limit: usize,
) -> Result<Audit, ReadError> {
    let mut statement = connection.prepare_cached(AUDIT)?;
    let mut rows = statement.query(params![after, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    let mut audit = Audit::default();
    let has_seals = seals::has_seals(connection)?;
    while let Some(row) = rows.next()? {
        let (columns, read) = (columns(row, has_seals), read(row, veil));
        let columns = columns.map_err(|error| StoreError::from(ReadError::from(error)));
        audit.take(row.get("row")?, columns, read.map_err(StoreError::from), now)?;
    }
    Ok(audit)
}

fn columns(row: &SqlRow<'_>, has_seals: bool) -> rusqlite::Result<EffectColumns> {
    Ok(EffectColumns {
        namespace: row.get("namespace")?,
        action: row.get("action")?,
        key: row.get("key")?,
        generation: row.get("generation")?,
        version: row.get("version")?,
        state: row.get("state")?,
        workflow: row.get("workflow")?,
        created_at: row.get("created_at")?,
        due_at: row.get("due_at")?,
        sweep_at: row.get("sweep_at")?,
        alarmed: seals::mark(row, "alarmed")?,
        held: held(row)?,
        sum: row.get("sum")?,
        seal: seals::found(row, has_seals)?,
    })
}

fn held(row: &SqlRow<'_>) -> rusqlite::Result<bool> {
    match seals::mark(row, "held") {
        Err(rusqlite::Error::InvalidColumnName(_)) => Ok(false),
        found => found,
    }
}

/// A column that came with the format of cards. A file of an older one, that is only looked at, has
/// no such column, and nothing that would be in it.
pub(super) fn get_since_cards<T>(row: &SqlRow<'_>, name: &str) -> rusqlite::Result<T>
where
    T: rusqlite::types::FromSql + Default,
{
    match row.get(name) {
        Err(rusqlite::Error::InvalidColumnName(_)) => Ok(T::default()),
        found => found,
    }
}

pub(super) fn quick_check(connection: &Connection) -> Result<Vec<String>, ReadError> {
    let mut statement = connection.prepare("PRAGMA quick_check(20)")?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    let lines: Vec<String> = lines.collect::<Result<_, _>>()?;
    Ok(lines.into_iter().filter(|line| line != "ok").collect())
}
