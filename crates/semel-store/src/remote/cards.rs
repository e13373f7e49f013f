//! The cards of a store over HTTP, as every store keeps them.

use async_trait::async_trait;
use semel_core::limits;

use super::Remote;
use super::protocol::{CardShape, Read};
use crate::{Card, CardPage, CardQuery, Cards, StoreError};

#[async_trait]
impl Cards for Remote {
    async fn card(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Card>, StoreError> {
        let read = Read::Card { namespace: namespace.into(), kind: kind.into(), name: name.into() };
        Ok(self.read::<Option<CardShape<'static>>>(read).await?.map(Card::from))
    }

    async fn cards(&self, query: &CardQuery) -> Result<CardPage, StoreError> {
        let (found, unreadable): (Vec<CardShape<'static>>, _) =
            self.read_page(Read::Cards(query.into())).await?;
        let cards: Vec<Card> = found.into_iter().map(Card::from).collect();
        // The server answers with fewer rows than were asked for, if these are too many.
        let is_full = cards.len() + unreadable.len() >= query.limit.min(limits::WORKER_ROWS_MAX);
        let places = cards.iter().map(|card| (&card.namespace, &card.name));
        let last = places.chain(unreadable.iter().map(|row| (&row.namespace, &row.name))).max();
        let next = last.filter(|_| is_full).map(|(space, name)| (space.clone(), name.clone()));
        Ok(CardPage { cards, unreadable, next })
    }

    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError> {
        let read = Read::DueCards { kind: kind.into(), limit };
        let found: Vec<CardShape<'static>> = self.read(read).await?;
        Ok(found.into_iter().map(Card::from).collect())
    }
}
