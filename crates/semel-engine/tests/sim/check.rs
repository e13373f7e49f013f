//! What must hold, judged by the rows and by what really happened at the destination, and by
//! nothing that the engine says of itself.

use std::collections::BTreeMap;

use semel_core::effect::State;
use semel_core::json::Json;
use semel_core::key::Address;
use semel_core::record::{AlarmKind, Contract, Decision, Effect, Verdict};
use semel_core::verify;
use semel_store::memory::Memory;
use semel_store::{Query, Store};

use super::destination::Destination;

/// Every receipt that a caller was given, by key.
pub(crate) type Acknowledged = BTreeMap<Address, Vec<Json>>;

/// Every row, whatever the processes do.
pub(crate) async fn rows(store: &Memory) -> Vec<Effect> {
    store.list(&Query::everywhere(10_000)).await.expect("memory").effects
}

pub(crate) async fn check(store: &Memory, destination: &Destination, told: &Acknowledged) {
    let rows = rows(store).await;
    for effect in &rows {
        let found = verify::check(effect, &store.ground().now);
        assert!(found.is_empty(), "{found:?} in {effect:#?}");
        check_world(store, destination, effect);
    }
    for (address, receipts) in told {
        let stored: Vec<_> = rows.iter().filter(|row| row.address == *address).collect();
        for receipt in receipts {
            let kept = stored.iter().any(|row| row.receipt() == Some(receipt));
            assert!(kept, "an acknowledged receipt of {address} is lost: {}", receipt.text());
        }
    }
}

/// The row against the world.
fn check_world(store: &Memory, destination: &Destination, effect: &Effect) {
    let Some(plan) = &effect.plan else { return };
    let applied = destination.applied(&plan.downstream_key);
    let state = effect.state(&store.ground().now);
    let told = format!("{applied:?} happened, but {effect:#?}");
    match state {
        State::Done => {
            let receipt = effect.receipt().expect("done has a receipt");
            assert!(applied.contains(receipt), "done with another receipt: {told}");
        }
        State::Failed | State::Void => {
            assert!(applied.is_empty() || effect.is_disputed(), "{state}: {told}");
        }
        State::Planned | State::Pending | State::InDoubt | State::Expired => {}
    }
    let is_grant = |decision: &&Decision| decision.verdict == Verdict::Retry;
    let grants = effect.decisions.iter().filter(is_grant).count();
    let most = match plan.terms.contract {
        Contract::NativeKey { .. } | Contract::Probe { .. } | Contract::Conditional => 1,
        // People here wait for the settle window and look, so a grant never costs a second one.
        Contract::AtMostOnce => 1,
        Contract::Harmless => usize::MAX,
        Contract::Transaction => unreachable!("not in this world"),
    };
    assert!(applied.len() <= most, "more than once ({grants} granted): {told}");
    let twice = effect.alarms.iter().any(|alarm| alarm.kind == AlarmKind::AppliedTwice);
    assert!(!twice || most > 1, "an alarm, and nothing to be alarmed of: {told}");
}
