//! The cards of a store over HTTP, as every store keeps them.

use async_trait::async_trait;

use super::Remote;
use super::protocol::{CardShape, Read};
use crate::{Card, CardQuery, Cards, StoreError};

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

    async fn cards(&self, query: &CardQuery) -> Result<Vec<Card>, StoreError> {
        let found: Vec<CardShape<'static>> = self.read(Read::Cards(query.into())).await?;
        Ok(found.into_iter().map(Card::from).collect())
    }

    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError> {
        let read = Read::DueCards { kind: kind.into(), limit };
        let found: Vec<CardShape<'static>> = self.read(read).await?;
        Ok(found.into_iter().map(Card::from).collect())
    }
}
