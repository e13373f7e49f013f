//! Effects to write, made by the rules themselves.

use semel_core::contract::Declared;
use semel_core::effect::{self, Begin, Decision, Ground, Person, Report, Settle};
use semel_core::fingerprint::Rule;
use semel_core::json::Json;
use semel_core::key::{Action, Address, Key, Namespace};
use semel_core::record::{Contract, Effect};

use crate::{Batch, Row, Write};

/// A name in the namespace `default`.
pub fn address(action: &str, key: &str) -> Address {
    Address {
        namespace: Namespace::default(),
        action: Action::new(action).expect("a valid action"),
        key: Key::from_text(key).expect("a valid key"),
    }
}

/// The wish to perform an effect under a contract that resends.
pub fn begin(address: &Address, attempt_id: &str) -> Begin {
    Begin {
        address: address.clone(),
        input: Json::from_text(r#"{"amount": 1.50}"#).expect("JSON"),
        rule: Rule::All,
        declared: Declared { contract: Some(Contract::Harmless), ..Declared::default() },
        downstream_key: None,
        attempt_id: attempt_id.to_owned(),
        worker: "worker".to_owned(),
        session: None,
        can_look: false,
        workflow: Some("billing".to_owned()),
        run: None,
        approval: None,
        undoes: None,
        derived: None,
        shape: None,
    }
}

/// A first attempt, armed and not yet written.
pub fn armed(address: &Address, attempt_id: &str, ground: &Ground) -> Effect {
    match effect::begin(None, &begin(address, attempt_id), ground) {
        Ok(Decision::Arm(effect, _)) => *effect,
        other => panic!("a first begin arms: {other:?}"),
    }
}

/// The same effect with the receipt of its last attempt.
pub fn done(effect: &Effect, receipt: &str, ground: &Ground) -> Effect {
    let settle = Settle {
        fence: effect.last_fence(),
        report: Report::Receipt(Json::from_text(receipt).expect("JSON")),
        retry_after_ms: None,
    };
    let settled = effect::settle(effect, &settle, &ground.now).expect("an open attempt settles");
    settled.effect.expect("a first receipt changes the effect")
}

/// A settled effect with a person's wish to do it again, and its next generation.
pub fn superseded(effect: &Effect, ground: &Ground) -> (Effect, Effect) {
    let person =
        Person { actor: "ada".to_owned(), reason: "once more".to_owned(), version: effect.version };
    effect::supersede(effect, &person, &ground.now).expect("a settled effect is superseded")
}

/// Guarded by absence.
pub fn insert(effect: &Effect, ground: &Ground) -> Write {
    Write::Insert(Row::new(effect, &ground.now))
}

/// Guarded by the version before.
pub fn update(effect: &Effect, ground: &Ground) -> Write {
    Write::Update(Row::new(effect, &ground.now))
}

/// Several writes at once.
pub(super) fn batch<const N: usize>(writes: [Write; N]) -> Batch {
    Batch { writes: writes.into() }
}
