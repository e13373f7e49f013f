//! Cards in a history: few names, so that many want the same one.

use semel_core::time::Wall;
use semel_store::conformance::{Subject, card, drop_card, next};
use semel_store::{Card, CardQuery, Write};

use super::chance::Chance;

const NAMESPACES: [&str; 2] = ["default", "elsewhere"];
const KINDS: [&str; 2] = ["gate", "schedule"];
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A write of some card, as it may follow what the model holds, or not.
pub(crate) async fn plan(model: &Subject, chance: &mut Chance, now: Wall) -> (&'static str, Write) {
    let namespace = (*chance.pick(&NAMESPACES)).to_owned();
    let (kind, name) = (*chance.pick(&KINDS), *chance.pick(&NAMES));
    let stored = model.card(&namespace, kind, name).await.expect("the model reads");
    // Few records, so that versions often say the same.
    let record = format!("{{\"slots\":{}}}", chance.up_to(3));
    let due = chance.one_in(2).then(|| now.0 + 1_000 * offset(chance));
    let first = Card { namespace, ..card(kind, name) };
    let Some(stored) = stored else {
        let version = if chance.one_in(6) { 2 } else { 1 };
        let kind = if version == 1 { "card: new" } else { "card: wrong" };
        return (kind, Write::Card(Card { record, due: due.map(Wall), version, ..first }));
    };
    let off = Card { version: stored.version + [0, 2][chance.up_to(2)], ..stored.clone() };
    match chance.up_to(10) {
        0 => ("card: drop", drop_card(&stored)),
        1 => ("card: wrong", drop_card(&Card { version: off.version + 1, ..off })),
        2 => ("card: wrong", Write::Card(Card { record, ..off })),
        3 => ("card: wrong", Write::Card(Card { record, ..first })),
        _ => ("card: change", Write::Card(next(&stored, &record, due))),
    }
}

/// Seconds around now.
fn offset(chance: &mut Chance) -> i64 {
    i64::try_from(chance.up_to(60)).expect("small") - 30
}

/// Everything about cards that can be read.
#[derive(Debug, PartialEq)]
pub(crate) struct Deck {
    each: Vec<Option<Card>>,
    pub(crate) listed: Vec<Vec<Card>>,
    pub(crate) due: Vec<Vec<Card>>,
}

pub(crate) async fn read(store: &Subject) -> Deck {
    let mut deck = Deck { each: Vec::new(), listed: Vec::new(), due: Vec::new() };
    for kind in KINDS {
        for limit in [2, 100] {
            deck.due.push(store.due_cards(kind, limit).await.expect("due cards"));
            for namespace in [None, Some("default".to_owned()), Some("elsewhere".to_owned())] {
                let after = None;
                let query = CardQuery { namespace, kind: kind.to_owned(), after, limit };
                deck.listed.extend(pages(store, query).await);
            }
        }
        for (namespace, name) in NAMESPACES.iter().flat_map(|one| NAMES.map(|name| (*one, name))) {
            deck.each.push(store.card(namespace, kind, name).await.expect("a card"));
        }
    }
    deck
}

async fn pages(store: &Subject, mut query: CardQuery) -> Vec<Vec<Card>> {
    let mut pages = Vec::new();
    loop {
        let page = store.cards(&query).await.expect("a page");
        query.after = page.next;
        pages.push(page.cards);
        if query.after.is_none() {
            return pages;
        }
    }
}
