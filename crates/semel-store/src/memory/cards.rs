//! The cards of a store in memory.

use async_trait::async_trait;

use super::Memory;
use crate::{Card, CardPage, CardQuery, Cards, Store, StoreError};

#[async_trait]
impl Cards for Memory {
    async fn card(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Card>, StoreError> {
        let key = (namespace.to_owned(), kind.to_owned(), name.to_owned());
        Ok(self.rows().cards.get(&key).cloned())
    }

    async fn cards(&self, query: &CardQuery) -> Result<CardPage, StoreError> {
        let rows = self.rows();
        let found = rows.cards.rows().values().filter(|card| matches(query, card));
        let place = |card: &Card| (card.namespace.clone(), card.name.clone());
        let found = found.take(query.limit).map(|card| (place(card), Ok(card.clone())));
        CardPage::of(found, query.limit)
    }

    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError> {
        let now = self.ground().now.wall;
        let rows = self.rows();
        let is_due = |card: &&Card| card.kind == kind && card.due.is_some_and(|due| due <= now);
        let mut due: Vec<&Card> = rows.cards.rows().values().filter(is_due).collect();
        // Those of one moment stay in the order of their names.
        due.sort_by_key(|card| card.due);
        Ok(due.into_iter().take(limit).cloned().collect())
    }
}

fn matches(query: &CardQuery, card: &Card) -> bool {
    let place = (&card.namespace, &card.name);
    card.kind == query.kind
        && query.namespace.as_ref().is_none_or(|namespace| card.namespace == *namespace)
        && query.after.as_ref().is_none_or(|(namespace, name)| place > (namespace, name))
}
