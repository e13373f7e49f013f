//! Cards to write.

use semel_core::time::Wall;

use crate::{Card, Store, Write};

/// A new card in the namespace `default`, due at no time.
pub fn card(kind: &str, name: &str) -> Card {
    Card {
        namespace: "default".into(),
        kind: kind.into(),
        name: name.into(),
        version: 1,
        due: None,
        record: "{}".into(),
    }
}

/// The card at its next version.
pub fn next(card: &Card, record: &str, due: Option<i64>) -> Card {
    let due = due.map(Wall);
    Card { version: card.version + 1, due, record: record.into(), ..card.clone() }
}

/// Drops a card at its version.
pub fn drop_card(card: &Card) -> Write {
    let Card { namespace, kind, name, version, .. } = card.clone();
    Write::DropCard { namespace, kind, name, version }
}

/// A card in the namespace `default` as it is stored now.
pub(super) async fn named(store: &dyn Store, kind: &str, name: &str) -> Option<Card> {
    store.card("default", kind, name).await.expect("a card")
}
