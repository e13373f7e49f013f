//! Cards in the model.

use super::Rows;
use crate::Card;

impl Rows {
    pub(super) fn write_card(&mut self, card: &Card) -> bool {
        let key = card.key();
        let holds = match self.cards.get(&key) {
            Some(stored) => stored.version + 1 == card.version,
            None => card.version == 1,
        };
        if holds {
            self.cards.put(key, card.clone());
        }
        holds
    }

    pub(super) fn drop_card(&mut self, name: (&str, &str, &str), version: u64) -> bool {
        let key = key(name);
        let holds = self.cards.get(&key).is_some_and(|card| card.version == version);
        if holds {
            self.cards.remove(&key);
        }
        holds
    }

    /// The record alone would not tell: two versions may say the same.
    pub(super) fn has_card(&self, card: &Card) -> bool {
        self.cards.get(&card.key()) == Some(card)
    }

    pub(super) fn lacks_card(&self, name: (&str, &str, &str)) -> bool {
        self.cards.get(&key(name)).is_none()
    }
}

fn key((namespace, kind, name): (&str, &str, &str)) -> (String, String, String) {
    (namespace.to_owned(), kind.to_owned(), name.to_owned())
}
