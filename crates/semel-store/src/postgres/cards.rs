//! Cards as rows, reading: the statements, all of them with bound parameters only.

use async_trait::async_trait;
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::Type;

use super::connect::Door;
use super::load::{self, get};
use super::rows::{read, sql_limit, widening};
use super::wire::Param;
use super::{Postgres, Shared};
use crate::cards::{CardKey, Stretch};
use crate::readable::readable;
use crate::{Card, CardAudit, CardPage, CardQuery, Cards, Store, StoreError};

const CARD: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM semel.cards \
     WHERE namespace = $1 AND kind = $2 AND name = $3";

const ALL: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM semel.cards \
     WHERE kind = $1 ORDER BY kind, namespace, name LIMIT $2";

const ALL_AFTER: &str = "SELECT namespace, kind, name, version, due_at, record, sum \
     FROM semel.cards WHERE kind = $1 AND (namespace, name) > ($3, $4) \
     ORDER BY kind, namespace, name LIMIT $2";

const OF_NAMESPACE: &str = "SELECT namespace, kind, name, version, due_at, record, sum \
     FROM semel.cards WHERE kind = $1 AND namespace = $3 ORDER BY namespace, kind, name LIMIT $2";

const OF_NAMESPACE_AFTER: &str = "SELECT namespace, kind, name, version, due_at, record, sum \
     FROM semel.cards WHERE kind = $1 AND namespace = $3 AND name > $4 \
     ORDER BY namespace, kind, name LIMIT $2";

const DUE: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM semel.cards \
     WHERE kind = $1 AND due_at IS NOT NULL AND due_at <= $2 \
     ORDER BY kind, due_at, namespace, name LIMIT $3";

#[async_trait]
impl Cards for Postgres {
    async fn card(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Card>, StoreError> {
        let params: [Param<'_>; 3] =
            [(&namespace, Type::TEXT), (&kind, Type::TEXT), (&name, Type::TEXT)];
        let found = read(&self.door, CARD, &params).await?;
        found.first().map(|row| card(self.shared(), row)).transpose()
    }

    async fn cards(&self, query: &CardQuery) -> Result<CardPage, StoreError> {
        let limit = sql_limit(query.limit);
        let (text, place) = match query.stretch() {
            Stretch::Everything => (ALL, Vec::new()),
            Stretch::EverythingAfter(namespace, name) => (ALL_AFTER, vec![namespace, name]),
            Stretch::Namespace(namespace) => (OF_NAMESPACE, vec![namespace]),
            Stretch::NamespaceAfter(namespace, name) => (OF_NAMESPACE_AFTER, vec![namespace, name]),
            Stretch::Nothing => return Ok(CardPage::default()),
        };
        let mut params: Vec<Param<'_>> = vec![(&query.kind, Type::TEXT), (&limit, Type::INT8)];
        params.extend(place.iter().map(|part| -> Param<'_> { (part, Type::TEXT) }));
        let found = read(&self.door, text, &params).await?;
        let places = found.iter().map(|row| Ok((get(row, 0)?, get(row, 2)?)));
        let places: Vec<_> = places.collect::<Result<_, StoreError>>()?;
        let cards = found.iter().map(|row| card(self.shared(), row));
        CardPage::of(places.into_iter().zip(cards), query.limit)
    }

    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError> {
        self.tell_time().await?;
        let now = self.ground().now.wall.0;
        let mut cards = Vec::new();
        for asked in widening(limit) {
            let sql_limit = sql_limit(asked);
            let params: [Param<'_>; 3] =
                [(&kind, Type::TEXT), (&now, Type::INT8), (&sql_limit, Type::INT8)];
            let found = read(&self.door, DUE, &params).await?;
            cards.clear();
            for row in &found {
                cards.extend(readable("card", get(row, 0)?, card(self.shared(), row))?);
            }
            if cards.len() >= limit || found.len() < asked {
                break;
            }
        }
        cards.truncate(limit);
        Ok(cards)
    }
}

fn card(shared: &Shared, row: &SqlRow) -> Result<Card, StoreError> {
    load::card(row)?.checked(get(row, 6)?)?.revealed(&shared.veil)
}

const AUDIT: &str = "SELECT namespace, kind, name, version, due_at, record, sum FROM semel.cards \
     ORDER BY namespace, kind, name LIMIT $1";

const AUDIT_AFTER: &str = "SELECT namespace, kind, name, version, due_at, record, sum \
     FROM semel.cards WHERE (namespace, kind, name) > ($2, $3, $4) \
     ORDER BY namespace, kind, name LIMIT $1";

/// Reads cards in order and compares each with its checksum.
pub(super) async fn audit(
    door: &Door,
    after: Option<&CardKey>,
    limit: usize,
) -> Result<CardAudit, StoreError> {
    let limit = sql_limit(limit);
    let mut params: Vec<Param<'_>> = vec![(&limit, Type::INT8)];
    let text = match after {
        None => AUDIT,
        Some((namespace, kind, name)) => {
            params.extend([namespace, kind, name].map(|part| -> Param<'_> { (part, Type::TEXT) }));
            AUDIT_AFTER
        }
    };
    let mut audit = CardAudit::default();
    for row in &read(door, text, &params).await? {
        let key = (get(row, 0)?, get(row, 1)?, get(row, 2)?);
        audit.take(key, card(&door.shared, row))?;
    }
    Ok(audit)
}
