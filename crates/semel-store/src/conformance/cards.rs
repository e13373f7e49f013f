//! Cards: who may change them, what they are written together with, and how they are found.

use semel_core::time::Wall;
use tokio::task::JoinSet;

use super::Subject;
use super::making::{address, armed, done, insert, update};
use super::making_cards::{card, drop_card, named, next};
use super::making_runs::{
    HOUR_MS, appends, change, new_run, refused, running, start, stored, taken, write, write_all,
};
use crate::{Batch, Card, CardPage, CardQuery, CommitError, Store, Write};

/// Nothing there is no failure.
pub async fn a_store_without_cards_answers_everything(store: Subject) {
    assert_eq!(store.card("default", "gate", "mail").await, Ok(None));
    assert_eq!(store.cards(&all("gate", 10)).await, Ok(CardPage::default()));
    assert_eq!(store.due_cards("gate", 10).await, Ok(vec![]));
}

/// A card is made once, and comes back byte for byte.
pub async fn a_card_is_made_once(store: Subject) {
    let first = card("gate", "mail");
    write(&*store, Write::Card(first.clone())).await;
    assert_eq!(found(&*store, &first).await, Some(first.clone()));
    for rival in [
        Card { record: "another".into(), ..first.clone() },
        Card { due: Some(Wall(1)), ..first.clone() },
    ] {
        refused(&*store, vec![Write::Card(rival)]).await;
        assert_eq!(found(&*store, &first).await, Some(first.clone()));
    }
    let record = "{\"quote\": \"'\\\\\", \"blank\":  \"\u{a0}\u{1F600}\"}\n";
    let odd = Card {
        namespace: "n".into(),
        record: record.into(),
        due: Some(Wall(-1)),
        ..card("g'\"%", "a/b,c d")
    };
    write(&*store, Write::Card(odd.clone())).await;
    assert_eq!(found(&*store, &odd).await, Some(odd));
}

/// Namespace, kind and name tell one card from all others.
pub async fn cards_are_never_mixed_up(store: Subject) {
    let names =
        [("a", "b", "c"), ("a", "c", "b"), ("b", "a", "c"), ("ab", "", "c"), ("a", "b", "")];
    for (namespace, kind, name) in names {
        let one = Card { namespace: namespace.into(), ..card(kind, name) };
        write(&*store, Write::Card(one.clone())).await;
        assert_eq!(found(&*store, &one).await, Some(one));
    }
    for (namespace, kind, name) in names {
        let there = store.card(namespace, kind, name).await.expect("a card").expect("it was made");
        assert_eq!((&*there.namespace, &*there.kind, &*there.name), (namespace, kind, name));
    }
    let first = Card { namespace: "a".into(), ..card("b", "c") };
    write(&*store, drop_card(&first)).await;
    assert_eq!(found(&*store, &first).await, None);
    assert_eq!(store.cards(&all("b", 10)).await.expect("cards").cards.len(), 1);
}

/// A card is changed on the version before, and on no other.
pub async fn a_card_changes_on_the_version_before(store: Subject) {
    let first = card("gate", "mail");
    let second = next(&first, "second", None);
    refused(&*store, vec![Write::Card(second.clone())]).await;
    write(&*store, Write::Card(first.clone())).await;
    for version in [0, 1, 3] {
        refused(&*store, vec![Write::Card(Card { version, ..second.clone() })]).await;
        assert_eq!(found(&*store, &first).await, Some(first.clone()));
    }
    write(&*store, Write::Card(second.clone())).await;
    assert_eq!(found(&*store, &first).await, Some(second.clone()));
    // A rival that saw the same version.
    refused(&*store, vec![Write::Card(next(&first, "rival", None))]).await;
    // Many changes in one batch, each on the one before.
    let third = next(&second, "third", Some(7));
    let fourth = next(&third, "third", None);
    write_all(&*store, vec![Write::Card(third), Write::Card(fourth.clone())]).await;
    assert_eq!(found(&*store, &first).await, Some(fourth));
}

/// A card is dropped at its version alone, and its name is free again.
pub async fn a_card_is_dropped_at_its_version(store: Subject) {
    let first = card("gate", "mail");
    write(&*store, Write::Card(first.clone())).await;
    let second = next(&first, "second", Some(1));
    write(&*store, Write::Card(second.clone())).await;
    for version in [1, 3] {
        refused(&*store, vec![drop_card(&Card { version, ..second.clone() })]).await;
        assert_eq!(found(&*store, &first).await, Some(second.clone()));
    }
    write(&*store, drop_card(&second)).await;
    assert_eq!(found(&*store, &first).await, None);
    assert_eq!(store.due_cards("gate", 10).await, Ok(vec![]));
    // Who lost the answer asks again.
    write(&*store, drop_card(&second)).await;
    refused(&*store, vec![Write::Card(next(&second, "third", None))]).await;
    write(&*store, Write::Card(first.clone())).await;
    assert_eq!(found(&*store, &first).await, Some(first.clone()));
    // Dropped and made anew at once.
    let anew = Card { record: "anew".into(), ..first.clone() };
    write_all(&*store, vec![drop_card(&first), Write::Card(anew.clone())]).await;
    assert_eq!(found(&*store, &first).await, Some(anew));
}

/// A batch that was committed is done when it is repeated, until somebody else moved on.
pub async fn a_repeated_batch_with_cards_is_done_once(store: Subject) {
    let ground = store.ground();
    let first = card("gate", "mail");
    let gone = card("gate", "gone");
    write(&*store, Write::Card(gone.clone())).await;
    let run = new_run("k", 1, &ground);
    let batch = vec![start(&run, &ground), Write::Card(first.clone()), drop_card(&gone)];
    write_all(&*store, batch.clone()).await;
    write_all(&*store, batch.clone()).await;
    assert_eq!(found(&*store, &first).await, Some(first.clone()));
    assert_eq!(found(&*store, &gone).await, None);
    // The same words at a later version are another write.
    let again = Card { version: 2, ..first.clone() };
    write(&*store, Write::Card(again.clone())).await;
    refused(&*store, batch).await;
    let late = Card { due: Some(Wall(9)), ..again.clone() };
    refused(&*store, vec![Write::Card(late)]).await;
    assert_eq!(found(&*store, &first).await, Some(again));
}

/// Cards, runs and effects of one batch are all written or none is, whichever guard fails.
pub async fn cards_are_written_together_with_rows_or_not_at_all(store: Subject) {
    let ground = store.ground();
    let held = running(&*store, "k", 1, &[]).await;
    let there = card("gate", "there");
    write(&*store, Write::Card(there.clone())).await;
    let new = Write::Card(card("gate", "new"));
    let good = Write::Card(next(&there, "moved on", None));
    let wrong = Write::Card(Card { version: 5, ..there.clone() });
    let other = new_run("other", 2, &ground);
    let entry = Write::Append(appends(&held, &["a"]).remove(0));
    let parked = super::parked(&held, None, &ground);
    let failing = [
        vec![new.clone(), wrong.clone()],
        vec![good.clone(), new.clone(), Write::Card(there.clone())],
        vec![start(&other, &ground), entry.clone(), wrong.clone()],
        vec![entry.clone(), change(&parked, &ground), new.clone(), wrong.clone()],
        vec![new.clone(), drop_card(&there), change(&taken(&other, &ground), &ground)],
        vec![good.clone(), start(&held, &ground)],
        vec![wrong.clone(), new.clone()],
    ];
    for writes in failing {
        refused(&*store, writes).await;
        assert_eq!(found(&*store, &there).await, Some(there.clone()));
        assert_eq!(store.card("default", "gate", "new").await, Ok(None));
        assert_eq!(stored(&*store, &other).await, None);
        assert_eq!(stored(&*store, &held).await, Some(held.clone()));
        assert_eq!(store.last_entry(1).await, Ok(None));
    }
    // An effect's row comes back with the refusal, a card is loaded anew.
    let effect = armed(&address("a", "k"), "1", &ground);
    let writes = vec![insert(&effect, &ground), good.clone(), wrong.clone()];
    let answer = store.commit(Batch { writes: writes.into() }).await;
    assert_eq!(answer, Err(CommitError::Stale(vec![None])));
    write_all(&*store, vec![insert(&effect, &ground), good.clone()]).await;
    let settled = update(&done(&effect, "1", &ground), &ground);
    let answer = store.commit(Batch { writes: vec![settled, good].into() }).await;
    assert_eq!(answer, Err(CommitError::Stale(vec![Some(effect)])), "the card has moved on");
    write_all(&*store, vec![new, entry, change(&parked, &ground)]).await;
}

/// Cards of a kind come in the order of namespace and name, in pages without gap or repeat.
pub async fn cards_are_listed_in_order_in_pages(store: Subject) {
    // Written out of order. Bytes order names, not an alphabet.
    let names =
        [("b", "Z"), ("a", "z"), ("a", "Z"), ("b", "a"), ("a", "é"), ("a", "a/b"), ("B", "x")];
    for (namespace, name) in names {
        for kind in ["gate", "gates", "gat"] {
            let one = Card { namespace: namespace.into(), ..card(kind, name) };
            write(&*store, Write::Card(one)).await;
        }
    }
    let mut wanted = names.map(|(namespace, name)| (namespace.to_owned(), name.to_owned()));
    wanted.sort();
    for limit in [1, 2, 3, 100] {
        assert_eq!(pages(&*store, all("gate", limit)).await, wanted, "{limit}");
        for namespace in ["a", "b", "B", "none"] {
            let query = CardQuery { namespace: Some(namespace.into()), ..all("gate", limit) };
            let within = wanted.iter().filter(|(one, _)| one == namespace);
            let within: Vec<_> = within.cloned().collect();
            assert_eq!(pages(&*store, query).await, within, "{namespace} by {limit}");
        }
    }
    // A place where no card is, and one outside the namespace that is asked for.
    for (after, namespace, count) in [
        (("a", "b"), None, 5 - 1),
        (("a", "\u{10ffff}"), None, 2),
        (("A", "z"), Some("a"), 4),
        (("a", "Z"), Some("a"), 3),
        (("b", ""), Some("a"), 0),
        (("b", ""), Some("b"), 2),
    ] {
        let after_place = Some((after.0.to_owned(), after.1.to_owned()));
        let namespace = namespace.map(str::to_owned);
        let query = CardQuery { namespace, after: after_place, ..all("gate", 100) };
        let found = store.cards(&query).await.expect("cards").cards;
        assert_eq!(found.len(), count, "after {after:?}: {found:?}");
    }
    assert_eq!(store.cards(&all("gate", 0)).await, Ok(CardPage::default()));
}

/// What is due longest comes first, of one kind, and what is not due does not come.
pub async fn due_cards_come_earliest_first(store: Subject) {
    let now = store.ground().now.wall;
    let at = |hours: i64| Some(Wall(now.0 + hours * HOUR_MS as i64));
    for (name, due) in [("b", at(-2)), ("c", at(-3)), ("later", at(2)), ("a", at(-2)), ("no", None)]
    {
        write(&*store, Write::Card(Card { due, ..card("rate", name) })).await;
    }
    write(&*store, Write::Card(Card { due: at(-9), ..card("callback", "other") })).await;
    let first = Card { namespace: "a".into(), due: at(-2), ..card("rate", "z") };
    write(&*store, Write::Card(first)).await;
    let due = async |limit| {
        let due = store.due_cards("rate", limit).await.expect("due cards");
        due.into_iter().map(|card| card.name).collect::<Vec<_>>()
    };
    assert_eq!(due(10).await, ["c", "z", "a", "b"]);
    assert_eq!(due(2).await, ["c", "z"]);
    assert_eq!(due(0).await, [""; 0]);
    // A change moves it to its new time.
    let last = Card { due: at(-3), ..card("rate", "c") };
    write(&*store, Write::Card(next(&last, "moved", at(1).map(|at| at.0)))).await;
    let asleep = card("rate", "no");
    write(&*store, Write::Card(next(&asleep, "woken", Some(i64::MIN)))).await;
    assert_eq!(due(10).await, ["no", "z", "a", "b"]);
}

/// One of many who change a card from the same version wins, and so for one who makes it.
pub async fn one_of_many_writers_of_a_card_wins(store: Subject) {
    let mut before: Option<Card> = None;
    for round in 0..8 {
        let rival = |caller: usize| {
            let base = before.clone().unwrap_or(Card { version: 0, ..card("gate", "mail") });
            next(&base, &format!("round {round}, caller {caller}"), None)
        };
        let mut calls = JoinSet::new();
        for caller in 0..64 {
            let (store, rival) = (store.clone(), rival(caller));
            calls.spawn(async move { (caller, store.commit(Write::Card(rival).into()).await) });
        }
        let answers = calls.join_all().await;
        let winners = answers.iter().filter(|(_, answer)| answer.is_ok());
        let winners: Vec<_> = winners.map(|(caller, _)| *caller).collect();
        assert_eq!(winners.len(), 1, "{winners:?} all won");
        let stale =
            answers.iter().filter(|(_, answer)| *answer == Err(CommitError::Stale(Vec::new())));
        assert_eq!(stale.count(), 63);
        let after = named(&*store, "gate", "mail").await;
        assert_eq!(after, Some(rival(winners[0])));
        before = after;
    }
}

fn all(kind: &str, limit: usize) -> CardQuery {
    CardQuery { namespace: None, kind: kind.to_owned(), after: None, limit }
}

async fn found(store: &dyn Store, card: &Card) -> Option<Card> {
    store.card(&card.namespace, &card.kind, &card.name).await.expect("a card")
}

/// The names on all pages of a query.
async fn pages(store: &dyn Store, mut query: CardQuery) -> Vec<(String, String)> {
    let mut names = Vec::new();
    loop {
        let page = store.cards(&query).await.expect("a page");
        assert!(page.cards.len() <= query.limit && page.unreadable.is_empty());
        let is_full = page.cards.len() == query.limit;
        names.extend(page.cards.into_iter().map(|card| (card.namespace, card.name)));
        assert_eq!(page.next, names.last().cloned().filter(|_| is_full), "it goes on behind it");
        query.after = page.next;
        if query.after.is_none() {
            return names;
        }
    }
}
