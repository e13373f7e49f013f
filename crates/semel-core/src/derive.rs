//! What follows from an address alone: the effect's id and the key that its provider gets.
//!
//! Both are pure functions of names and generation, so every attempt, run, process and host agrees
//! on them. They are frozen: `tests/golden_keys.rs` holds the vectors.

use std::fmt::Write;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::key::{Action, Address, Key, Namespace};

/// The id of one generation of an effect, which is also its default downstream key.
///
/// UUIDv8 over the first 16 bytes of SHA-256 over: `semel effect`, the byte 1 (version), then
/// namespace, action and encoded key, each after its length as a big-endian `u64`, then the
/// generation as a big-endian `u32`.
pub fn effect_id(address: &Address, generation: u32) -> Uuid {
    let names = [address.namespace.as_str(), address.action.as_str(), address.key.as_str()];
    uuid_over(b"semel effect", &names, generation)
}

/// The name under which one generation of an effect is shown and asked for: its id again, and all
/// that is needed to find the row, so that no index of ids is kept.
pub fn effect_ref(address: &Address, generation: u32) -> String {
    let tag = effect_id(address, generation);
    let mut bytes = tag.as_bytes()[..REF_TAG_BYTES].to_vec();
    bytes.extend(generation.to_be_bytes());
    bytes.extend(address.action.as_str().as_bytes());
    bytes.push(0);
    bytes.extend(address.key.as_str().as_bytes());
    URL_SAFE_NO_PAD.encode(bytes)
}

/// Reads a name of [`effect_ref`] in a namespace. One of another namespace is as unknown as one
/// that was never given.
pub fn read_ref(namespace: &Namespace, text: &str) -> Option<(Address, u32)> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let (tag, rest) = bytes.split_at_checked(REF_TAG_BYTES)?;
    let (generation, names) = rest.split_at_checked(4)?;
    let generation = u32::from_be_bytes(generation.try_into().ok()?);
    let (action, key) = std::str::from_utf8(names).ok()?.split_once('\0')?;
    let (action, key) = (Action::new(action).ok()?, Key::parse(key).ok()?);
    let address = Address { namespace: namespace.clone(), action, key };
    let ours = effect_id(&address, generation);
    (ours.as_bytes()[..REF_TAG_BYTES] == *tag).then_some((address, generation))
}

/// How much of the id stands in a name: enough that none is guessed right by chance.
const REF_TAG_BYTES: usize = 8;

/// The id of a run: the same event is the same run, on every host.
///
/// Made like [`effect_id`], over `semel run`, namespace, workflow and encoded key, with the number
/// zero at the end.
pub fn run_id(namespace: &Namespace, workflow: &str, key: &Key) -> Uuid {
    uuid_over(b"semel run", &[namespace.as_str(), workflow, key.as_str()], 0)
}

/// A number that the code of a run may use as chance: it is the same in every replay.
///
/// Made like [`effect_id`], over `semel chance` and the run's id, with how many were drawn before.
pub fn chance(run_id: &str, drawn_before: u32) -> Uuid {
    uuid_over(b"semel chance", &[run_id], drawn_before)
}

fn uuid_over(purpose: &[u8], names: &[&str], number: u32) -> Uuid {
    let mut hash = Sha256::new();
    hash.update(purpose);
    hash.update([1]);
    for name in names {
        hash.update((name.len() as u64).to_be_bytes());
        hash.update(name);
    }
    hash.update(number.to_be_bytes());
    let digest: [u8; 32] = hash.finalize().into();
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    Uuid::new_v8(first)
}

/// The key to pass on to the provider. A declared one is kept as its team already sends it, but a
/// new generation and the draft twin are other intents, so they must not meet the first one's key.
pub fn downstream_key(address: &Address, generation: u32, declared: Option<&str>) -> String {
    let Some(declared) = declared else {
        return effect_id(address, generation).to_string();
    };
    let mut key = declared.to_owned();
    if generation > 0 {
        write!(key, ":g{generation}").expect("writing to a String does not fail");
    }
    if address.namespace.is_draft() {
        key.push_str(":draft");
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::{Action, Key, Namespace};

    fn address(namespace: &Namespace, action: &str, parts: &[&str]) -> Address {
        Address {
            namespace: namespace.clone(),
            action: Action::new(action).unwrap(),
            key: Key::from_parts(parts).unwrap(),
        }
    }

    fn check(namespace: &Namespace, generation: u32, declared: &str, want: &str) {
        let address = address(namespace, "crm-ticket", &["42"]);
        assert_eq!(downstream_key(&address, generation, Some(declared)), want);
    }

    #[test]
    fn declared_key_says_generation_then_draft() {
        let live = Namespace::default();
        check(&live, 0, "crm-ticket:42", "crm-ticket:42");
        check(&live, 1, "crm-ticket:42", "crm-ticket:42:g1");
        check(&live, 12, "crm-ticket:42", "crm-ticket:42:g12");
        check(&live.draft(), 0, "crm-ticket:42", "crm-ticket:42:draft");
        check(&live.draft(), 7, "crm-ticket:42", "crm-ticket:42:g7:draft");
    }

    #[test]
    fn default_key_is_the_effect_id_in_36_characters() {
        let address = address(&Namespace::default(), "crm-ticket", &["42"]);
        for generation in [0, 1, u32::MAX] {
            let id = effect_id(&address, generation);
            assert_eq!((id.get_version_num(), id.get_variant()), (8, uuid::Variant::RFC4122));
            let key = downstream_key(&address, generation, None);
            assert_eq!((key.len(), key.as_str()), (36, id.hyphenated().to_string().as_str()));
        }
    }

    /// Every two rows are different effects, though their names are made of the same letters.
    #[test]
    fn nothing_that_differs_shares_an_id() {
        let live = Namespace::default();
        let other = Namespace::new("defaul").unwrap();
        let rows = [
            effect_id(&address(&live, "ab", &["c"]), 0),
            effect_id(&address(&live, "ab", &["c"]), 1),
            effect_id(&address(&live, "ab", &["c"]), 1 << 8),
            effect_id(&address(&live, "ab", &["c"]), 1 << 24),
            effect_id(&address(&live.draft(), "ab", &["c"]), 0),
            effect_id(&address(&live, "a", &["bc"]), 0),
            effect_id(&address(&live, "a", &["b", "c"]), 0),
            effect_id(&address(&live, "a", &["b,c"]), 0),
            effect_id(&address(&other, "tab", &["c"]), 0),
            effect_id(&address(&live, "ab", &["C"]), 0),
        ];
        for (index, id) in rows.iter().enumerate() {
            assert!(!rows[..index].contains(id), "row {index} repeats an id");
        }
    }

    #[test]
    fn req_k12_ticket_and_mail_of_one_request_do_not_collide() {
        let live = Namespace::default();
        let ticket = address(&live, "crm-ticket", &["request-42"]);
        let mail = address(&live, "confirmation-mail", &["request-42"]);
        assert_eq!(ticket.key, mail.key);
        assert_ne!(ticket, mail);
        assert_ne!(downstream_key(&ticket, 0, None), downstream_key(&mail, 0, None));
        assert_eq!(ticket.to_string(), "crm-ticket/request-42");
    }

    #[test]
    fn req_k6_two_orders_of_one_customer_are_two_effects() {
        let live = Namespace::default();
        let first = address(&live, "charge", &["customer-7", "order-1"]);
        let second = address(&live, "charge", &["customer-7", "order-2"]);
        assert_ne!(effect_id(&first, 0), effect_id(&second, 0));
    }
}
