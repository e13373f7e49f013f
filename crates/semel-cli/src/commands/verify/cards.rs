//! Cards: whether each is as it was written, and whether gates and entities hold only runs that are
//! under way.

use std::collections::HashMap;

use indicatif::ProgressBar;
use semel_core::audit;
use semel_core::code::Code;
use semel_core::entity::{self, Entity};
use semel_core::gate::{self, Gate};
use semel_core::limits;
use semel_core::run::Run;
use semel_core::verify::{Violation, check_entity, check_gate};
use semel_store::{Card, Upkeep};
use serde::de::DeserializeOwned;

use super::Verified;
use super::chains::is_entry;
use super::runs::LOOKS;
use crate::exit::Failed;

pub(super) async fn check_all(
    store: &dyn Upkeep,
    verified: &mut Verified,
    progress: &ProgressBar,
) -> Result<(), Failed> {
    let mut after = None;
    loop {
        let page = store.audit_cards(after, limits::PAGE_ROWS_MAX).await?;
        for problem in page.problems {
            verified.find("I9", None, problem);
        }
        verified.dropped += page.dropped.len() as u64;
        for (namespace, _) in page.dropped.iter().filter(|(_, kind)| kind == audit::CARD) {
            verified.deeds.lose(namespace);
        }
        for card in page.cards {
            progress.inc(1);
            if is_entry(&card) {
                let broken = verified.deeds.take(&card);
                let broken =
                    broken.map(|what| format!("the audit chain of {}: {what}", card.namespace));
                broken.into_iter().for_each(|what| verified.find("I22", None, what));
                continue;
            }
            verified.cards += 1;
            let name = format!("{} {} in {}", card.kind, card.name, card.namespace);
            for violation in unless_corrupt(look(store, card).await)? {
                verified.find(violation.invariant, None, format!("{name}: {}", violation.what));
            }
        }
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    verified.deeds.beginnings().into_iter().for_each(|what| verified.find("I22", None, what));
    Ok(())
}

/// A row that cannot be read is what was looked for, not the end of the look.
pub(super) fn unless_corrupt(
    looked: Result<Vec<Violation>, Failed>,
) -> Result<Vec<Violation>, Failed> {
    match looked {
        Err(failed) if failed.code == Some(Code::StoreCorrupt) => {
            Ok(vec![Violation { invariant: "I9", what: failed.message }])
        }
        looked => looked,
    }
}

/// Reads a card of a kind. One whose record says something else is told by `check_all`.
pub(super) async fn read<T: DeserializeOwned>(
    store: &dyn Upkeep,
    namespace: &str,
    kind: &str,
    name: &str,
) -> Result<Option<T>, Failed> {
    let card = store.card(namespace, kind, name).await?;
    Ok(card.and_then(|card| serde_json::from_str(&card.record).ok()))
}

/// Card and runs are read one after the other while workers go on: what does not fit counts only
/// when the card is still the same afterwards.
async fn look(store: &dyn Upkeep, mut card: Card) -> Result<Vec<Violation>, Failed> {
    for _ in 0..LOOKS {
        let found = check_once(store, &card).await?;
        if found.is_empty() {
            return Ok(found);
        }
        match store.card(&card.namespace, &card.kind, &card.name).await? {
            Some(again) if again.version == card.version => return Ok(found),
            Some(again) => card = again,
            None => return Ok(Vec::new()),
        }
    }
    Ok(Vec::new())
}

async fn check_once(store: &dyn Upkeep, card: &Card) -> Result<Vec<Violation>, Failed> {
    match card.kind.as_str() {
        gate::CARD => {
            let Ok(gate) = serde_json::from_str::<Gate>(&card.record) else {
                return Ok(unreadable());
            };
            let runs = find(store, card, gate.inside.iter()).await?;
            Ok(check_gate(&gate, |id| runs.get(id)))
        }
        entity::CARD => {
            let Ok(entity) = serde_json::from_str::<Entity>(&card.record) else {
                return Ok(unreadable());
            };
            let holder = entity.holder.iter().map(|holder| &holder.place.run);
            let ids = holder.chain(entity.queue.iter().map(|place| &place.run));
            let runs = find(store, card, ids).await?;
            Ok(check_entity(&entity, |id| runs.get(id)))
        }
        // What the others mean is the affair of whoever wrote them.
        _ => Ok(Vec::new()),
    }
}

fn unreadable() -> Vec<Violation> {
    vec![Violation { invariant: "I9", what: "its record cannot be read".to_owned() }]
}

/// The runs that a card names: a gate and a queue are bounded.
async fn find<'a>(
    store: &dyn Upkeep,
    card: &Card,
    ids: impl Iterator<Item = &'a String>,
) -> Result<HashMap<String, Run>, Failed> {
    let mut found = HashMap::new();
    for id in ids {
        if let Some(run) = store.run(&card.namespace, id).await? {
            found.insert(id.clone(), run);
        }
    }
    Ok(found)
}
