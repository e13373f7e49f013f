//! Cards: small guarded records that runs share, such as a schedule or a gate. The store knows the
//! name of a card, its version and when it is due; what its record says belongs to the rules.

use async_trait::async_trait;
use semel_core::time::Wall;

use crate::veil::{Place, Veil};
use crate::{StoreError, Unreadable, checksum};

/// Where cards are kept.
#[async_trait]
pub trait Cards: Send + Sync + 'static {
    /// One card.
    async fn card(
        &self,
        namespace: &str,
        kind: &str,
        name: &str,
    ) -> Result<Option<Card>, StoreError>;

    /// Cards of a kind, in the order of namespace and name.
    async fn cards(&self, query: &CardQuery) -> Result<CardPage, StoreError>;

    /// Cards of a kind whose time has come by the wall clock of the store's ground, the earliest
    /// first.
    async fn due_cards(&self, kind: &str, limit: usize) -> Result<Vec<Card>, StoreError>;
}

/// One card, as it is written and read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    pub namespace: String,
    pub kind: String,
    pub name: String,
    /// One for a card that is new, and one more with each change.
    pub version: u64,
    pub due: Option<Wall>,
    /// As the rules wrote it.
    pub record: String,
}

/// Namespace, kind and name: what tells one card from all others, and orders them.
pub(crate) type CardKey = (String, String, String);

impl Card {
    pub(crate) fn key(&self) -> CardKey {
        (self.namespace.clone(), self.kind.clone(), self.name.clone())
    }

    /// A checksum of the whole card: its record does not repeat its name, version and time, as
    /// those of effects and runs do, and a guard on a changed version would guard nothing.
    pub(crate) fn sum(&self) -> i64 {
        let Card { namespace, kind, name, version, due, record } = self;
        let due = due.map_or_else(String::new, |due| due.0.to_string());
        // Lengths, so that no two cards are the same text.
        let (a, b, c) = (namespace.len(), kind.len(), name.len());
        checksum(&format!("{a} {b} {c} {version} {due}\n{namespace}{kind}{name}{record}"))
    }

    /// The card as it was before it was covered.
    pub(crate) fn revealed(mut self, veil: &Veil) -> Result<Card, StoreError> {
        let place = Place::Card(&self.kind, &self.name);
        self.record = veil.reveal_owned(Some(&self.namespace), place, self.record)?;
        Ok(self)
    }

    /// The card as it was found beside this checksum.
    pub(crate) fn checked(self, sum: i64) -> Result<Card, StoreError> {
        if self.sum() == sum {
            return Ok(self);
        }
        Err(StoreError::Corrupt("a card does not match its checksum".into()))
    }
}

/// A page of cards, and behind which place the next one begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CardPage {
    pub cards: Vec<Card>,
    /// Those of the page that cannot be read: one row never fails a listing.
    pub unreadable: Vec<Unreadable>,
    /// `None`: there are no more.
    pub next: Option<(String, String)>,
}

impl CardPage {
    /// A page of what was read from rows of this namespace and name.
    pub(crate) fn of(
        rows: impl IntoIterator<Item = ((String, String), Result<Card, StoreError>)>,
        limit: usize,
    ) -> Result<CardPage, StoreError> {
        let (mut page, mut count) = (CardPage::default(), 0);
        for ((namespace, name), read) in rows {
            match Unreadable::set_aside(read, &namespace, || name.clone())? {
                Ok(card) => page.cards.push(card),
                Err(unreadable) => page.unreadable.push(unreadable),
            }
            count += 1;
            page.next = (count == limit).then_some((namespace, name));
        }
        Ok(page)
    }
}

/// Which cards to list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardQuery {
    /// `None`: all of them.
    pub namespace: Option<String>,
    pub kind: String,
    /// Continue after this namespace and name.
    pub after: Option<(String, String)>,
    pub limit: usize,
}

/// The stretch of one kind's cards that a query asks for: each kind of stretch has a statement of
/// its own, so that its first card is found by an index.
pub(crate) enum Stretch<'a> {
    Everything,
    EverythingAfter(&'a str, &'a str),
    Namespace(&'a str),
    /// A namespace, and a name within it.
    NamespaceAfter(&'a str, &'a str),
    Nothing,
}

impl CardQuery {
    pub(crate) fn stretch(&self) -> Stretch<'_> {
        use std::cmp::Ordering::{Equal, Greater, Less};
        match (&self.namespace, &self.after) {
            (None, None) => Stretch::Everything,
            (None, Some((namespace, name))) => Stretch::EverythingAfter(namespace, name),
            (Some(within), None) => Stretch::Namespace(within),
            (Some(within), Some((namespace, name))) => match namespace.cmp(within) {
                Less => Stretch::Namespace(within),
                Equal => Stretch::NamespaceAfter(within, name),
                Greater => Stretch::Nothing,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_covers_every_part_of_a_card() {
        let card = Card {
            namespace: "n".into(),
            kind: "gate".into(),
            name: "mail".into(),
            version: 12,
            due: Some(Wall(3)),
            record: "{}".into(),
        };
        let others = [
            Card { namespace: "m".into(), ..card.clone() },
            Card { kind: "gat".into(), name: "email".into(), ..card.clone() },
            Card { version: 1, due: Some(Wall(23)), ..card.clone() },
            Card { due: None, ..card.clone() },
            Card { name: "mail{".into(), record: "}".into(), ..card.clone() },
        ];
        for other in others {
            assert!(other.checked(card.sum()).is_err());
        }
        assert_eq!(card.clone().checked(card.sum()), Ok(card));
    }
}
