//! Cards as rows: the statements, all of them with bound parameters only.

use async_trait::async_trait;
use rusqlite::{Connection, Row as SqlRow, ToSql, params};
use semel_core::limits;
use semel_core::time::Wall;

use super::Sqlite;
use super::reader::ReadError;
use super::run_rows::sql_limit;
use crate::cards::{CardKey, Stretch};
use crate::readable::readable;
use crate::veil::Veil;
use crate::{Card, CardAudit, CardPage, CardQuery, Cards, StoreError};

/// The format that brought cards, the queues of runs and the mark of held effects.
pub(super) const CARDS_FORMAT: i64 = 4;

#[async_trait]
impl Cards for Sqlite {
    async fn card(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Card>, StoreError> {
        let key = (namespace.to_owned(), kind.to_owned(), name.to_owned());
        let veil = self.shared.veil.clone();
        self.read_since(CARDS_FORMAT, move |connection| card(connection, &veil, &key)).await
    }

    async fn cards(&self, query: &CardQuery) -> Result<CardPage, StoreError> {
        let (query, veil) = (query.clone(), self.shared.veil.clone());
        self.list_since(CARDS_FORMAT, move |connection| list(connection, &veil, &query)).await
    }

    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError> {
        let (now, kind, veil) = (self.shared.now().wall, kind.to_owned(), self.shared.veil.clone());
        let read = move |connection: &Connection| due(connection, &veil, &kind, now, limit);
        self.read_since(CARDS_FORMAT, read).await
    }
}

const INSERT: &str = "INSERT INTO cards (namespace, kind, name, version, due_at, sum, record) \
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7) ON CONFLICT DO NOTHING";

const UPDATE: &str = "UPDATE cards SET version = ?4, due_at = ?5, sum = ?6, record = ?7 \
     WHERE namespace = ?1 AND kind = ?2 AND name = ?3 AND version = ?4 - 1";

const REMOVE: &str =
    "DELETE FROM cards WHERE namespace = ?1 AND kind = ?2 AND name = ?3 AND version = ?4";

/// Writes a card if its guard holds; says whether it did.
pub(super) fn write(connection: &Connection, card: &Card) -> rusqlite::Result<bool> {
    let Card { namespace, kind, name, version, due, record } = card;
    let text = if *version == 1 { INSERT } else { UPDATE };
    let due = due.map(|due| due.0);
    let mut statement = connection.prepare_cached(text)?;
    let changed =
        statement.execute(params![namespace, kind, name, version, due, card.sum(), record])?;
    Ok(changed == 1)
}

/// Removes a card if it is at this version; says whether it was.
pub(super) fn remove(
    connection: &Connection,
    (namespace, kind, name): (&str, &str, &str),
    version: u64,
) -> rusqlite::Result<bool> {
    let mut statement = connection.prepare_cached(REMOVE)?;
    Ok(statement.execute(params![namespace, kind, name, version])? == 1)
}

/// Whether this very card is there. Its checksum is over all of it, but short.
pub(super) fn has(connection: &Connection, card: &Card) -> rusqlite::Result<bool> {
    let text = "SELECT 1 FROM cards WHERE namespace = ?1 AND kind = ?2 AND name = ?3 \
         AND version = ?4 AND sum = ?5 AND record = ?6";
    let Card { namespace, kind, name, version, due: _, record } = card;
    let mut statement = connection.prepare_cached(text)?;
    statement.exists(params![namespace, kind, name, version, card.sum(), record])
}

pub(super) fn is_there(
    connection: &Connection,
    (namespace, kind, name): (&str, &str, &str),
) -> rusqlite::Result<bool> {
    let text = "SELECT 1 FROM cards WHERE namespace = ?1 AND kind = ?2 AND name = ?3";
    connection.prepare_cached(text)?.exists([namespace, kind, name])
}

const CARD: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM cards \
     WHERE namespace = ?1 AND kind = ?2 AND name = ?3";

fn card(
    connection: &Connection,
    veil: &Veil,
    (namespace, kind, name): &CardKey,
) -> Result<Option<Card>, ReadError> {
    let mut statement = connection.prepare_cached(CARD)?;
    let mut rows = statement.query([namespace, kind, name])?;
    rows.next()?.map(|row| read(row, veil)).transpose()
}

const ALL: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM cards \
     INDEXED BY cards_kind WHERE kind = ?1 ORDER BY namespace, name LIMIT ?2";

const ALL_AFTER: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM cards \
     INDEXED BY cards_kind WHERE kind = ?1 AND (namespace, name) > (?3, ?4) \
     ORDER BY namespace, name LIMIT ?2";

const OF_NAMESPACE: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM cards \
     WHERE kind = ?1 AND namespace = ?3 ORDER BY name LIMIT ?2";

const OF_NAMESPACE_AFTER: &str = "SELECT namespace, kind, name, version, due_at, record, sum \
     FROM cards WHERE kind = ?1 AND namespace = ?3 AND name > ?4 ORDER BY name LIMIT ?2";

fn list(connection: &Connection, veil: &Veil, query: &CardQuery) -> Result<CardPage, ReadError> {
    let (text, place) = match query.stretch() {
        Stretch::Everything => (ALL, vec![]),
        Stretch::EverythingAfter(namespace, name) => (ALL_AFTER, vec![namespace, name]),
        Stretch::Namespace(namespace) => (OF_NAMESPACE, vec![namespace]),
        Stretch::NamespaceAfter(namespace, name) => (OF_NAMESPACE_AFTER, vec![namespace, name]),
        Stretch::Nothing => return Ok(CardPage::default()),
    };
    let limit = sql_limit(query.limit);
    let mut asked: Vec<&dyn ToSql> = vec![&query.kind, &limit];
    asked.extend(place.iter().map(|part| -> &dyn ToSql { part }));
    let mut statement = connection.prepare_cached(text)?;
    let mut rows = statement.query(&*asked)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let place = (row.get("namespace")?, row.get("name")?);
        found.push((place, read(row, veil).map_err(StoreError::from)));
    }
    Ok(CardPage::of(found, query.limit)?)
}

const DUE: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM cards \
     INDEXED BY cards_due WHERE kind = ?1 AND due_at IS NOT NULL AND due_at <= ?2 \
     ORDER BY due_at, namespace, name LIMIT ?3";

fn due(
    connection: &Connection,
    veil: &Veil,
    kind: &str,
    now: Wall,
    limit: usize,
) -> Result<Vec<Card>, ReadError> {
    let mut statement = connection.prepare_cached(DUE)?;
    let most = sql_limit(limit.saturating_add(limits::UNREADABLE_ROWS_MAX));
    let mut rows = statement.query(params![kind, now.0, most])?;
    let mut cards = Vec::new();
    while cards.len() < limit
        && let Some(row) = rows.next()?
    {
        let namespace: String = row.get("namespace").unwrap_or_default();
        cards.extend(readable("card", &namespace, read(row, veil).map_err(StoreError::from))?);
    }
    Ok(cards)
}

fn read(row: &SqlRow<'_>, veil: &Veil) -> Result<Card, ReadError> {
    let card = Card {
        namespace: row.get("namespace")?,
        kind: row.get("kind")?,
        name: row.get("name")?,
        version: row.get("version")?,
        due: row.get::<_, Option<i64>>("due_at")?.map(Wall),
        record: row.get("record")?,
    };
    Ok(card.checked(row.get("sum")?)?.revealed(veil)?)
}

const AUDIT: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM cards \
     ORDER BY namespace, kind, name LIMIT ?1";

const AUDIT_AFTER: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM cards \
     WHERE (namespace, kind, name) > (?2, ?3, ?4) ORDER BY namespace, kind, name LIMIT ?1";

/// Reads cards in order and compares each with its checksum.
pub(super) fn audit(
    connection: &Connection,
    veil: &Veil,
    after: Option<&CardKey>,
    limit: usize,
) -> Result<CardAudit, ReadError> {
    let limit = sql_limit(limit);
    let (text, asked): (_, Vec<&dyn ToSql>) = match after {
        None => (AUDIT, vec![&limit]),
        Some((namespace, kind, name)) => (AUDIT_AFTER, vec![&limit, namespace, kind, name]),
    };
    let mut statement = connection.prepare_cached(text)?;
    let mut rows = statement.query(&*asked)?;
    let mut audit = CardAudit::default();
    while let Some(row) = rows.next()? {
        let key = (row.get("namespace")?, row.get("kind")?, row.get("name")?);
        audit.take(key, read(row, veil).map_err(StoreError::from))?;
    }
    Ok(audit)
}
