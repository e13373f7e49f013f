//! The cards that the model has changed. They are written in the order of their names, as they were
//! locked: two processes that insert the same ones then wait for each other in one direction only.

use super::flush::{Flush, int8, maybe_int8, text};
use super::load::signed;
use crate::Card;
use crate::cards::CardKey;
use crate::model::Rows;

const INSERT: &str = "INSERT INTO semel.cards \
     (namespace, kind, name, version, due_at, sum, record) SELECT * FROM unnest($1::text[], \
     $2::text[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::text[])";

const UPDATE: &str = "UPDATE semel.cards AS c SET version = w.version, due_at = w.due_at, \
     sum = w.sum, record = w.record FROM unnest($1::text[], $2::text[], $3::text[], \
     $4::bigint[], $5::bigint[], $6::bigint[], $7::text[]) \
     AS w(namespace, kind, name, version, due_at, sum, record) \
     WHERE c.namespace = w.namespace AND c.kind = w.kind AND c.name = w.name";

const DELETE: &str = "DELETE FROM semel.cards AS c \
     USING unnest($1::text[], $2::text[], $3::text[]) AS w(namespace, kind, name) \
     WHERE c.namespace = w.namespace AND c.kind = w.kind AND c.name = w.name";

impl<'a> Flush<'a> {
    pub(super) fn cards(&mut self, rows: &'a Rows) {
        let (mut new, mut changed, mut gone) = (Vec::new(), Vec::new(), Vec::new());
        for (key, had_been, now) in rows.cards.changes() {
            match (had_been, now) {
                (false, Some(card)) => new.push(card),
                (true, Some(card)) => changed.push(card),
                (true, None) => gone.push(key),
                (false, None) => {}
            }
        }
        self.delete_cards(&gone);
        self.write_cards(UPDATE, &changed);
        self.write_cards(INSERT, &new);
    }

    fn write_cards(&mut self, statement: &'static str, cards: &[&'a Card]) {
        if cards.is_empty() {
            return;
        }
        let cards = || cards.iter().copied();
        self.add(
            statement,
            [
                text(cards().map(|card| card.namespace.as_str())),
                text(cards().map(|card| card.kind.as_str())),
                text(cards().map(|card| card.name.as_str())),
                int8(cards().map(|card| signed(card.version))),
                maybe_int8(cards().map(|card| card.due.map(|due| due.0))),
                int8(cards().map(Card::sum)),
                text(cards().map(|card| card.record.as_str())),
            ],
        );
    }

    fn delete_cards(&mut self, gone: &[&'a CardKey]) {
        if gone.is_empty() {
            return;
        }
        self.add(
            DELETE,
            [
                text(gone.iter().map(|(namespace, _, _)| namespace.as_str())),
                text(gone.iter().map(|(_, kind, _)| kind.as_str())),
                text(gone.iter().map(|(_, _, name)| name.as_str())),
            ],
        );
    }
}
