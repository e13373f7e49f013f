//! Whether the keys here are those that a store was written with.
//!
//! A store keeps a check value for each key that ever opened it to write: a keyed hash of a fixed
//! text, which tells nothing of the key. Two files that give one id to two keys are told apart by
//! it before anything is written; otherwise each would read the other's rows as damaged.

use std::collections::BTreeMap;

use super::{Place, Veil, cipher, key_id, keys};
use crate::{Card, StoreError};

/// The namespace of check values: no name of a namespace may look like this.
pub(crate) const KEY_NAMESPACE: &str = "~keys";
pub(crate) const KEY_KIND: &str = "key";

/// Texts of one table that are tried for a key of which none has opened yet.
pub(crate) const TRIALS_MAX: i64 = 100_000;

/// A text that lies in a store, and where.
pub(crate) struct Sample {
    pub(crate) namespace: Option<String>,
    pub(crate) table: Table,
    pub(crate) text: String,
}

/// The tables that texts are taken from.
pub(crate) enum Table {
    Effects,
    Runs(i64),
    Journal(i64),
    Cards { kind: String, name: String },
}

impl Sample {
    fn place(&self) -> Place<'_> {
        match &self.table {
            Table::Effects => Place::Effect,
            Table::Runs(number) => Place::Run(*number),
            Table::Journal(run) => Place::Entry(*run),
            Table::Cards { kind, name } => Place::Card(kind, name),
        }
    }
}

/// The check values of a store, by the id of the key. One that is damaged is as good as none: the
/// key is then tried on texts.
#[derive(Default)]
pub(crate) struct Checks(BTreeMap<String, String>);

impl Checks {
    pub(crate) fn take(&mut self, card: Card, sum: i64) {
        if let Ok(card) = card.checked(sum) {
            self.0.insert(card.name, card.record);
        }
    }
}

impl Veil {
    /// Refuses a store that was written with other keys: a process without the key file, or with
    /// another one, must not write a row. The newest texts say which keys must be here. Returns
    /// the check values that the store does not have yet: each key is first tried on texts.
    pub(crate) fn check(
        &self,
        newest: &[Sample],
        checks: &Checks,
    ) -> Result<Vec<Card>, StoreError> {
        let named = || newest.iter().filter_map(|sample| key_id(&sample.text));
        let Some(ring) = self.ring() else {
            return named()
                .next()
                .map_or(Ok(Vec::new()), |id| Err(StoreError::KeyMissing(id.to_owned())));
        };
        let mut new = Vec::new();
        for (id, check) in ring.checks() {
            match checks.0.get(id) {
                Some(stored) if *stored == check => {}
                Some(_) => return Err(another(id)),
                None => new.push(check_card(id, check)),
            }
        }
        let is_here = |id: &str| !matches!(ring.to_read(id, ""), keys::Found::Missing);
        let is_checked = ring.checks().any(|(id, _)| checks.0.contains_key(id));
        let mut written = checks.0.keys().map(String::as_str).chain(named());
        if !is_checked
            && !named().any(is_here)
            && let Some(id) = written.next()
        {
            return Err(StoreError::KeyMismatch(format!(
                "the key file has none of the keys that this store was written with, such as `{id}`"
            )));
        }
        match named().find(|id| !is_here(id)) {
            Some(id) => Err(StoreError::KeyMissing(id.to_owned())),
            None => Ok(new),
        }
    }

    /// A trial of a key on texts of a store from before check values.
    pub(crate) fn trial<'a>(&'a self, id: &'a str) -> Trial<'a> {
        Trial { veil: self, id, tried: 0 }
    }
}

/// Whether a key opens a text that names it. One that is damaged proves nothing.
pub(crate) struct Trial<'a> {
    veil: &'a Veil,
    id: &'a str,
    tried: usize,
}

impl Trial<'_> {
    /// Whether the key opens this text.
    pub(crate) fn opens(&mut self, sample: &Sample) -> bool {
        if key_id(&sample.text) != Some(self.id) {
            return false;
        }
        self.tried += 1;
        let namespace = sample.namespace.as_deref();
        cipher::open(self.veil.ring(), namespace, sample.place(), &sample.text).is_ok()
    }

    /// Whether no text that was seen names the key.
    pub(crate) fn is_unnamed(&self) -> bool {
        self.tried == 0
    }

    /// What every text begins with that names the key.
    pub(crate) fn beginning(&self) -> String {
        cipher::beginning(self.id)
    }

    pub(crate) fn refused(&self) -> StoreError {
        another(self.id)
    }
}

fn another(id: &str) -> StoreError {
    StoreError::KeyMismatch(format!(
        "the key `{id}` of the key file is not the key `{id}` that this store was written with"
    ))
}

fn check_card(id: &str, check: String) -> Card {
    Card {
        namespace: KEY_NAMESPACE.to_owned(),
        kind: KEY_KIND.to_owned(),
        name: id.to_owned(),
        version: 1,
        due: None,
        record: check,
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use semel_core::code::Code;
    use semel_core::redact::Redactor;

    use super::super::Keyring;
    use super::*;

    fn veil(keys: &[(&str, u8)]) -> Veil {
        let line = |(id, byte): &(&str, u8)| format!("{id}: {}\n", STANDARD.encode([*byte; 32]));
        let ring = Keyring::parse(&keys.iter().map(line).collect::<String>()).expect("a ring");
        Veil::new(Some(ring), Redactor::default())
    }

    fn sealed(veil: &Veil, text: &str) -> Sample {
        let text = veil.seal("acme", Place::Effect, text.to_owned()).expect("sealed");
        Sample { namespace: Some("acme".into()), table: Table::Effects, text }
    }

    fn kept(cards: Vec<Card>) -> Checks {
        let mut checks = Checks::default();
        for card in cards {
            let sum = card.sum();
            checks.take(card, sum);
        }
        checks
    }

    fn code(checked: Result<Vec<Card>, StoreError>) -> Code {
        checked.expect_err("it is refused").code()
    }

    #[test]
    fn sec_33_another_key_is_refused_by_its_check_value_whether_or_not_it_has_the_same_id() {
        let right = veil(&[("a", 1)]);
        let cards = right.check(&[], &Checks::default()).expect("an empty store");
        assert_eq!(cards.len(), 1);
        let kept = kept(cards);
        assert_eq!(right.check(&[], &kept), Ok(Vec::new()));
        for other in [veil(&[("a", 2)]), veil(&[("b", 2)]), veil(&[("b", 2), ("a", 3)])] {
            assert_eq!(code(other.check(&[], &kept)), Code::EncryptionKeyMismatch);
        }
        let rotated = veil(&[("b", 2), ("a", 1)]).check(&[], &kept).expect("both");
        assert_eq!(rotated.iter().map(|card| &*card.name).collect::<Vec<_>>(), ["b"]);
        // Without a key file it is missing as soon as anything is encrypted.
        let newest = [sealed(&right, "{}")];
        assert_eq!(Veil::default().check(&[], &kept), Ok(Vec::new()));
        assert_eq!(code(Veil::default().check(&newest, &kept)), Code::EncryptionKeyMissing);
    }

    #[test]
    fn sec_33_a_damaged_check_value_locks_nobody_out() {
        let right = veil(&[("a", 1)]);
        let mut card = right.check(&[], &Checks::default()).expect("an empty store").remove(0);
        let sum = card.sum();
        card.record.push('x');
        let mut checks = Checks::default();
        checks.take(card, sum);
        assert_eq!(right.check(&[], &checks).map(|new| new.len()), Ok(1));
    }

    #[test]
    fn sec_33_a_store_from_before_check_values_is_refused_by_the_keys_that_its_texts_name() {
        let (right, none) = (veil(&[("a", 1)]), Checks::default());
        let newest = [sealed(&right, "{}")];
        assert_eq!(code(veil(&[("b", 1)]).check(&newest, &none)), Code::EncryptionKeyMismatch);
        let both = [sealed(&right, "{}"), sealed(&veil(&[("b", 2)]), "{}")];
        assert_eq!(code(right.check(&both, &none)), Code::EncryptionKeyMissing);
        assert_eq!(right.check(&newest, &none).map(|new| new.len()), Ok(1));
    }

    #[test]
    fn sec_33_a_key_is_proven_by_one_text_and_refuted_by_none_that_is_damaged() {
        let (right, wrong) = (veil(&[("a", 1)]), veil(&[("a", 2)]));
        let whole = sealed(&right, "{}");
        let damaged = Sample {
            text: whole.text.replacen("a acme ", "a acme AAAA", 1),
            ..sealed(&right, "{}")
        };
        let mut trial = right.trial("a");
        assert!(trial.is_unnamed() && !trial.opens(&damaged) && !trial.is_unnamed());
        assert!(trial.opens(&whole));
        assert!(!wrong.trial("a").opens(&whole) && !right.trial("b").opens(&whole));
        assert!(whole.text.starts_with(&trial.beginning()));
    }
}
