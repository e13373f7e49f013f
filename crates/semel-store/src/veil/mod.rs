//! What stands between rows and their database: texts that hold payload are redacted and encrypted
//! on their way in, and decrypted on their way out. Columns to find rows by stay as they are.
//!
//! It is one edge for both databases: a batch is covered before it is committed, so whatever a
//! store compares, sums and seals is what lies in the database, and can be checked without a key.

mod check;
mod cipher;
mod keys;
mod secrets;

use std::borrow::Cow;
use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use semel_core::record;
use semel_core::redact::Redactor;
use semel_core::run;

pub(crate) use check::{Checks, KEY_KIND, KEY_NAMESPACE, Sample, TRIALS_MAX, Table, Trial};
pub(crate) use cipher::{Place, follows, key_id};
pub use keys::{KeyInfo, Keyring};
pub use secrets::read as read_secrets;

use crate::{Append, Batch, Card, Delivery, Row, RunRow, StoreError, Write, checksum};

/// How many runs are remembered by their namespace.
const RUNS_MAX: usize = 65_536;

/// The keys and the secrets that a store is opened with. By default there are none, and texts are
/// written as they are.
#[derive(Clone, Default)]
pub struct Veil {
    inner: Arc<Inner>,
}

/// Neither keys nor secrets are shown.
impl std::fmt::Debug for Veil {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Veil").field("encrypts", &self.ring().is_some()).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Inner {
    ring: Option<Keyring>,
    redactor: Redactor,
    /// Entries and deliveries know only the number of their run.
    runs: Mutex<HashMap<i64, Arc<str>>>,
}

impl Veil {
    /// Encrypts with these keys, and puts the names of these secrets in their place.
    pub fn new(ring: Option<Keyring>, redactor: Redactor) -> Veil {
        Veil { inner: Arc::new(Inner { ring, redactor, runs: Mutex::default() }) }
    }

    /// As a key file and declared secrets say. Empty texts say nothing.
    pub fn read(key_file: Option<&Path>, declared: Option<&str>) -> Result<Veil, StoreError> {
        let key_file = key_file.filter(|path| !path.as_os_str().is_empty());
        let ring = key_file.map(Keyring::read).transpose()?;
        let redactor = declared.map(read_secrets).transpose()?;
        Ok(Veil::new(ring, redactor.unwrap_or_default()))
    }

    /// As `SEMEL_KEY_FILE` (in full `SEMEL_ENCRYPTION_KEY_FILE`) and `SEMEL_SECRETS` say.
    pub fn from_environment() -> Result<Veil, StoreError> {
        let said = |name| std::env::var_os(name).filter(|text| !text.is_empty());
        let key_file = said("SEMEL_ENCRYPTION_KEY_FILE").or_else(|| said("SEMEL_KEY_FILE"));
        let declared = std::env::var("SEMEL_SECRETS").ok();
        Veil::read(key_file.as_ref().map(Path::new), declared.as_deref())
    }

    /// The same without keys: a server encrypts by itself.
    #[cfg(feature = "remote")]
    pub(crate) fn without_keys(&self) -> Veil {
        Veil::new(None, self.inner.redactor.clone())
    }

    /// Which secrets are looked for, for whoever writes elsewhere.
    pub fn redactor(&self) -> &Redactor {
        &self.inner.redactor
    }

    fn ring(&self) -> Option<&Keyring> {
        self.inner.ring.as_ref()
    }

    fn runs(&self) -> MutexGuard<'_, HashMap<i64, Arc<str>>> {
        self.inner.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers whose run it is.
    pub(crate) fn learn(&self, run: i64, namespace: &str) {
        if self.ring().is_none() {
            return;
        }
        let mut runs = self.runs();
        if runs.len() >= RUNS_MAX {
            runs.clear();
        }
        runs.insert(run, namespace.into());
    }

    /// Runs of a batch of which nobody knows whose they are: they must be looked up first.
    pub(crate) fn unknown_runs(&self, batch: &Batch) -> Vec<i64> {
        if self.ring().is_none() {
            return Vec::new();
        }
        for write in batch.writes.iter() {
            if let Write::StartRun(row) | Write::UpdateRun(row) = write {
                self.learn(row.number, &row.namespace);
            }
        }
        let runs = self.runs();
        let asked = batch.writes.iter().filter_map(|write| match write {
            Write::Append(Append { run, .. }) | Write::Deliver(Delivery { run, .. }) => Some(*run),
            _ => None,
        });
        asked.filter(|run| !runs.contains_key(run)).collect()
    }

    /// A batch as it is written: without secrets, and encrypted.
    pub(crate) fn cover(&self, batch: Batch) -> Result<Batch, StoreError> {
        if self.ring().is_none() && self.inner.redactor.is_empty() {
            return Ok(batch);
        }
        let writes = batch.writes.iter().map(|write| self.cover_write(write.clone()));
        Ok(Batch { writes: writes.collect::<Result<_, _>>()? })
    }

    fn cover_write(&self, write: Write) -> Result<Write, StoreError> {
        Ok(match write {
            Write::Insert(row) => Write::Insert(self.cover_row(row)?),
            Write::Update(row) => Write::Update(self.cover_row(row)?),
            Write::StartRun(row) => Write::StartRun(self.cover_run(row)?),
            Write::UpdateRun(row) => Write::UpdateRun(self.cover_run(row)?),
            Write::DropRun { namespace, id, number, version, row } => {
                let row = row.map(|row| self.cover_run(row)).transpose()?;
                Write::DropRun { namespace, id, number, version, row }
            }
            Write::Append(append) => Write::Append(self.cover_entry(append)?),
            Write::Deliver(delivery) => Write::Deliver(self.cover_delivery(delivery)?),
            Write::Blob { namespace, digest, text, run } => {
                self.refuse_exposed_json(&text, "a large value")?;
                let text = self.seal(&namespace, Place::Blob(&digest), text)?;
                Write::Blob { namespace, digest, text, run }
            }
            Write::Card(card) => Write::Card(self.cover_card(card)?),
            other @ (Write::InEpoch(_)
            | Write::Remove { .. }
            | Write::Holds { .. }
            | Write::Consume { .. }
            | Write::Touch { .. }
            | Write::DropCard { .. }) => other,
        })
    }

    /// An effect's row as it is written.
    pub(crate) fn cover_row(&self, mut row: Row) -> Result<Row, StoreError> {
        let address = &row.address;
        self.refuse_exposed(address.key.as_str(), "a key")?;
        self.refuse_exposed(address.action.as_str(), "the name of an action")?;
        let readable = |text: &str| record::decode(text).is_ok();
        let record = self.redact(row.record, readable)?;
        row.record = self.seal(address.namespace.as_str(), Place::Effect, record)?;
        row.sum = checksum(&row.record);
        Ok(row)
    }

    fn cover_run(&self, mut row: RunRow) -> Result<RunRow, StoreError> {
        self.refuse_exposed(&row.key, "the key of a run")?;
        let readable = |text: &str| run::decode(text, row.version).is_ok();
        let record = self.redact(row.record, readable)?;
        row.record = self.seal(&row.namespace, Place::Run(row.number), record)?;
        row.sum = checksum(&row.record);
        Ok(row)
    }

    fn cover_entry(&self, mut append: Append) -> Result<Append, StoreError> {
        // Its link is over its text: whoever made both must have redacted it before.
        self.refuse_exposed_json(&append.text, "an entry of a journal")?;
        let Some(namespace) = self.namespace_of(append.run) else { return Ok(append) };
        let sealed = self.seal(&namespace, Place::Entry(append.run), append.text)?;
        append.text = cipher::chained(&sealed, &append.after, &append.link);
        Ok(append)
    }

    fn cover_delivery(&self, mut delivery: Delivery) -> Result<Delivery, StoreError> {
        self.refuse_exposed(&delivery.identity, "the identity of a delivery")?;
        self.refuse_exposed(&delivery.name, "the name of a signal")?;
        delivery.payload = self.redact(delivery.payload, |_| true)?;
        if let Some(namespace) = self.namespace_of(delivery.run) {
            let place = Place::Delivery(delivery.run);
            delivery.payload = self.seal(&namespace, place, delivery.payload)?;
        }
        Ok(delivery)
    }

    fn cover_card(&self, mut card: Card) -> Result<Card, StoreError> {
        self.refuse_exposed(&card.name, "the name of a card")?;
        let record = self.redact(card.record, |_| true)?;
        card.record = self.seal(&card.namespace, Place::Card(&card.kind, &card.name), record)?;
        Ok(card)
    }

    /// Whose run it is, where that matters. One that is nowhere belongs to nobody.
    fn namespace_of(&self, run: i64) -> Option<Arc<str>> {
        self.ring()?;
        Some(self.runs().get(&run).cloned().unwrap_or_else(|| "-".into()))
    }

    fn seal(&self, namespace: &str, place: Place<'_>, text: String) -> Result<String, StoreError> {
        match self.ring() {
            Some(ring) => cipher::seal(ring, namespace, place, &text),
            None => Ok(text),
        }
    }

    /// A text without secrets, if it can still be read then.
    fn redact(&self, text: String, readable: impl Fn(&str) -> bool) -> Result<String, StoreError> {
        match self.inner.redactor.json(&text) {
            Cow::Borrowed(_) => Ok(text),
            Cow::Owned(redacted) if readable(&redacted) => Ok(redacted),
            Cow::Owned(_) => {
                let name = self.inner.redactor.exposed_json(&text).unwrap_or_default();
                let why = "its value is a word of Semel's own records";
                Err(StoreError::SecretInvalid(format!("the secret {name}: {why}")))
            }
        }
    }

    /// What cannot be changed must not hold a secret.
    fn refuse_exposed(&self, text: &str, what: &str) -> Result<(), StoreError> {
        refused(self.inner.redactor.exposed(text), what)
    }

    /// The same of a JSON text, whose strings are what counts.
    fn refuse_exposed_json(&self, text: &str, what: &str) -> Result<(), StoreError> {
        refused(self.inner.redactor.exposed_json(text), what)
    }

    /// A text as it was before it was covered. The namespace is that of its row, where it has one.
    pub(crate) fn reveal<'a>(
        &self,
        namespace: Option<&str>,
        place: Place<'_>,
        text: &'a str,
    ) -> Result<Cow<'a, str>, StoreError> {
        cipher::open(self.ring(), namespace, place, text)
    }

    /// The same for a text that is owned, which is mostly not covered.
    pub(crate) fn reveal_owned(
        &self,
        namespace: Option<&str>,
        place: Place<'_>,
        text: String,
    ) -> Result<String, StoreError> {
        if key_id(&text).is_none() {
            return Ok(text);
        }
        self.reveal(namespace, place, &text).map(Cow::into_owned)
    }
}

fn refused(secret: Option<&str>, what: &str) -> Result<(), StoreError> {
    secret.map_or(Ok(()), |name| {
        Err(StoreError::SecretExposed(format!(
            "{what} holds the value of the secret {name}; nothing was written"
        )))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use semel_core::journal::Link;

    fn ring(ids: &[&str]) -> Keyring {
        let key = |id: &&str| {
            let byte = id.bytes().last().unwrap_or_default();
            let bytes =
                base64::Engine::encode(&base64::engine::general_purpose::STANDARD, [byte; 32]);
            format!("{id}: {bytes}\n")
        };
        Keyring::parse(&ids.iter().map(key).collect::<String>()).expect("a ring")
    }

    fn veil(ids: &[&str]) -> Veil {
        Veil::new(Some(ring(ids)), Redactor::default())
    }

    #[test]
    fn sec_4_a_sealed_text_is_read_in_its_own_place_only() {
        let veil = veil(&["a"]);
        let sealed = veil.seal("acme", Place::Effect, "{\"n\":1}".into()).expect("sealed");
        assert!(!sealed.contains("{") && sealed.starts_with("~1 a acme "));
        let open = |namespace, place| veil.reveal(namespace, place, &sealed);
        assert_eq!(open(Some("acme"), Place::Effect).expect("its own place"), "{\"n\":1}");
        for (namespace, place) in [
            (Some("zeta"), Place::Effect),
            (Some("acme~draft"), Place::Effect),
            (Some("acme"), Place::Run(1)),
            (Some("acme"), Place::Blob("")),
            (Some("acme"), Place::Card("", "")),
        ] {
            let refused = open(namespace, place).expect_err("another place");
            assert!(matches!(refused, StoreError::Corrupt(_)), "{refused}");
        }
        // The label of the namespace is no key to it.
        let moved = sealed.replace(" acme ", " zeta ");
        assert!(veil.reveal(None, Place::Effect, &moved).is_err());
        let entry = veil.seal("acme", Place::Entry(7), "{}".into()).expect("sealed");
        assert_eq!(veil.reveal(None, Place::Entry(7), &entry).expect("its own run"), "{}");
        assert!(veil.reveal(None, Place::Entry(8), &entry).is_err(), "another tenant's run");
    }

    #[test]
    fn sec_33_keys_are_changed_without_rewriting_and_a_lost_one_is_named() {
        let old = veil(&["a"]).seal("acme", Place::Effect, "old".into()).expect("sealed");
        let both = veil(&["b", "a"]);
        let new = both.seal("acme", Place::Effect, "new".into()).expect("sealed");
        assert_eq!(key_id(&new), Some("b"), "the first one writes");
        let read = |veil: &Veil, text: &str| {
            veil.reveal(Some("acme"), Place::Effect, text).map(Cow::into_owned)
        };
        assert_eq!(read(&both, &old), Ok("old".to_owned()));
        assert_eq!(read(&both, &new), Ok("new".to_owned()));
        assert_eq!(read(&both, "{plain}"), Ok("{plain}".to_owned()));
        for veil in [veil(&["b"]), Veil::default()] {
            assert_eq!(read(&veil, &old), Err(StoreError::KeyMissing("a".into())));
        }
        let again = both.seal("acme", Place::Effect, "new".into()).expect("sealed");
        assert_eq!(again, new, "a batch that is repeated is recognised");
        assert_ne!(
            both.seal("zeta", Place::Effect, "new".into()).expect("sealed")[12..],
            new[12..]
        );
    }

    #[test]
    fn sec_33_every_flipped_sign_of_a_sealed_text_is_found() {
        let veil = veil(&["a"]);
        let sealed = veil.seal("acme", Place::Effect, "{\"receipt\":42}".into()).expect("sealed");
        for place in "~1 a acme ".len()..sealed.len() {
            for sign in ["A", "Z", "/"] {
                let mut flipped = sealed.clone();
                flipped.replace_range(place..=place, sign);
                let opened = veil.reveal(Some("acme"), Place::Effect, &flipped);
                assert!(flipped == sealed || opened.is_err(), "{place} {sign}");
            }
        }
    }

    #[test]
    fn sec_35_the_chain_of_sealed_entries_is_followed_without_the_key() {
        let veil = veil(&["a"]);
        veil.learn(7, "acme");
        let (first, link) = (Link([1; 32]), Link([2; 32]));
        let text = "{}".to_owned();
        let entry = Append { run: 7, seq: 0, after: first, link, text };
        let covered = veil.cover_entry(entry).expect("covered").text;
        assert_eq!(veil.reveal(None, Place::Entry(7), &covered).expect("opened"), "{}");
        assert_eq!(follows(&covered, &first, &link), Some(true));
        assert_eq!(follows(&covered, &link, &first), Some(false));
        assert_eq!(follows(&covered.replacen('A', "B", 1), &first, &link), Some(false));
        assert_eq!(follows("{}", &first, &link), None);
    }
}
