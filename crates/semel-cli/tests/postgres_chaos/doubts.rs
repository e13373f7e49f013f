//! A person who looks at the destination and says what is true. Only effects that promise at most
//! once ever need one.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use semel::{Action, Code};
use semel_core::effect::{Person, Resolution, State};
use semel_core::json::Json;
use semel_core::record::{Contract, Effect};
use semel_store::Query;

use crate::common::{Ticket, lines};
use crate::load::{Shared, is_passing};
use crate::worker::{DEADLINE, SETTLE, reference};

/// How often the person said what.
#[derive(Clone, Debug, Default)]
pub(crate) struct Decided {
    pub(crate) done: usize,
    pub(crate) retry: usize,
    pub(crate) failed: usize,
}

impl fmt::Display for Decided {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} done, {} sent again, {} failed", self.done, self.retry, self.failed)
    }
}

/// Settles doubts for as long as the load lasts.
pub(crate) async fn settle_all(shared: Arc<Shared>) -> Decided {
    let mut decided = Decided::default();
    let mut seen = BTreeMap::new();
    while !shared.is_over.load(Ordering::SeqCst) {
        tokio::time::sleep(Duration::from_millis(250)).await;
        for effect in in_doubt(&shared).await {
            settle(&shared, &effect, &mut seen, &mut decided).await;
        }
    }
    decided
}

async fn in_doubt(shared: &Shared) -> Vec<Effect> {
    let mut query = Query::everywhere(1_000);
    query.state = Some(State::InDoubt);
    query.action = Some(Action::new("plain").expect("a name"));
    // Whoever cannot list now lists later.
    let listed = shared.semel.engine().list(&query).await;
    listed.map(|page| page.effects).unwrap_or_default()
}

/// Looks when the settle window is over, and not before: until then "not there" means nothing.
async fn settle(
    shared: &Shared,
    effect: &Effect,
    seen: &mut BTreeMap<(String, usize), Instant>,
    decided: &mut Decided,
) {
    let key = effect.address.key.as_str().to_owned();
    let since = seen.entry((key, effect.attempts.len())).or_insert_with(Instant::now);
    if since.elapsed() < DEADLINE + SETTLE + Duration::from_millis(500) {
        return;
    }
    let contract = effect.plan.as_ref().map(|plan| plan.terms.contract);
    assert_eq!(contract, Some(Contract::AtMostOnce), "nothing else needs a person");
    let number = number_of(effect);
    let tickets: Vec<Ticket> = lines(&shared.crm.join("tickets.jsonl"));
    let reference = reference("plain", number);
    let there = tickets.into_iter().find(|ticket| ticket.reference == reference);
    let resolution = match there {
        Some(ticket) => Resolution::Done(receipt(&ticket)),
        None if number.is_multiple_of(4) => Resolution::Failed,
        None => Resolution::Retry,
    };
    let person = Person {
        actor: "ada".to_owned(),
        reason: "looked at the CRM".to_owned(),
        version: effect.version,
    };
    match shared.semel.engine().resolve(&effect.address, &person, &resolution).await {
        Ok(_) => match resolution {
            Resolution::Done(_) => decided.done += 1,
            Resolution::Retry => decided.retry += 1,
            Resolution::Failed => decided.failed += 1,
        },
        // It moved on, or its window has not passed by the store's clock: the next look decides.
        Err(error) => {
            let moved =
                [Code::VersionChanged, Code::TooEarly, Code::AlreadySettled, Code::InProgress];
            let is_known = moved.contains(&error.code()) || is_passing(error.code());
            assert!(is_known, "{}: {error}", effect.address);
        }
    }
}

/// The number of the run that an effect belongs to.
pub(crate) fn number_of(effect: &Effect) -> u32 {
    let text = effect.address.key.as_str().trim_matches(|c: char| !c.is_ascii_digit());
    text.parse().unwrap_or_else(|_| panic!("the key is a number: {}", effect.address))
}

pub(crate) fn receipt(ticket: &Ticket) -> Json {
    let receipt =
        crate::worker::Ticket { id: ticket.id.clone(), reference: ticket.reference.clone() };
    Json::of(&receipt).expect("a receipt")
}
