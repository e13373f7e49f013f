//! The key file: lines `id: base64 of 32 bytes`. The first line writes, all of them read, so keys
//! are changed without rewriting a row. A line `id namespace: …` is for one namespace alone: when
//! its key is dropped (`id namespace: dropped`), what was written under it is gone for ever, and
//! everything else stays readable.

use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use semel_core::key::Namespace;
use sha2::Sha256;
use zeroize::Zeroizing;

use crate::StoreError;

/// The bytes of a key.
pub(super) type Bytes = Zeroizing<[u8; 32]>;

/// All keys of one file.
pub struct Keyring {
    keys: Vec<Key>,
}

struct Key {
    id: String,
    /// `None`: for all that have none of their own.
    namespace: Option<String>,
    /// `None`: dropped on purpose.
    bytes: Option<Bytes>,
}

/// What may be said of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    pub id: String,
    /// `None`: for all that have none of their own.
    pub namespace: Option<String>,
    pub is_dropped: bool,
}

/// What texts of one namespace are written with.
pub(super) struct Derived {
    pub(super) cipher: Bytes,
    pub(super) nonce: Bytes,
}

/// Whether a key is there.
pub(super) enum Found {
    Key(Derived),
    /// It was there, and was dropped on purpose.
    Dropped,
    Missing,
}

/// The most a key file may hold: a key for each of some thousand namespaces.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

impl Keyring {
    /// Reads a key file, which must be for its owner only.
    pub fn read(path: &Path) -> Result<Keyring, StoreError> {
        use std::os::unix::fs::PermissionsExt;
        let invalid = |why: String| {
            StoreError::KeyFileInvalid(format!("the key file {}: {why}", path.display()))
        };
        let found = std::fs::metadata(path).map_err(|error| invalid(error.to_string()))?;
        if found.permissions().mode() & 0o077 != 0 {
            let mode = found.permissions().mode() & 0o777;
            return Err(invalid(format!(
                "its mode is {mode:04o}, so others may read it: chmod 600"
            )));
        }
        if !found.is_file() || found.len() > FILE_BYTES_MAX {
            return Err(invalid("it is no file of keys".to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(|error| invalid(error.to_string()))?;
        Keyring::parse(&Zeroizing::new(text)).map_err(invalid)
    }

    /// Reads the lines of a key file; says which line is wrong, and never shows it.
    pub fn parse(text: &str) -> Result<Keyring, String> {
        let mut keys: Vec<Key> = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let key = key(line).map_err(|why| format!("line {}: {why}", number + 1))?;
            if keys.iter().any(|other| other.id == key.id) {
                return Err(format!("line {}: the id `{}` is there twice", number + 1, key.id));
            }
            keys.push(key);
        }
        let shared = |key: &Key| key.namespace.is_none() && key.bytes.is_some();
        if !keys.iter().any(shared) {
            return Err("it has no key for all namespaces, `id: base64 of 32 bytes`".to_owned());
        }
        Ok(Keyring { keys })
    }

    /// A line with a new key, for all namespaces or for one. Without an id it gets one that is
    /// derived from the key: two keys never share it.
    pub fn new_line(
        id: Option<&str>,
        namespace: Option<&str>,
    ) -> Result<Zeroizing<String>, StoreError> {
        let mut bytes = Zeroizing::new([0; 32]);
        let failed = |error| StoreError::Unavailable(format!("no random bytes: {error}"));
        getrandom::fill(bytes.as_mut()).map_err(failed)?;
        let derived = || format!("{}-{}", id_prefix(namespace), &tag(&bytes, b"semel id 1")[..12]);
        let id = id.map_or_else(derived, str::to_owned);
        let name = namespace.map_or_else(|| id.clone(), |namespace| format!("{id} {namespace}"));
        let line = Zeroizing::new(format!("{name}: {}", STANDARD.encode(bytes.as_ref())));
        key(&line).map_err(StoreError::KeyFileInvalid)?;
        Ok(line)
    }

    /// What keys there are, in their order.
    pub fn keys(&self) -> Vec<KeyInfo> {
        let info = |key: &Key| KeyInfo {
            id: key.id.clone(),
            namespace: key.namespace.clone(),
            is_dropped: key.bytes.is_none(),
        };
        self.keys.iter().map(info).collect()
    }

    /// The id of each key that is there, and what a store keeps to know it again.
    pub(super) fn checks(&self) -> impl Iterator<Item = (&str, String)> {
        let there = self.keys.iter().filter_map(|key| Some((key, key.bytes.as_ref()?)));
        there.map(|(key, bytes)| {
            (key.id.as_str(), format!("{{\"check\":\"{}\"}}", tag(bytes, b"semel check 1")))
        })
    }

    /// The key that writes in a namespace: the first of its own, else the first for all.
    pub(super) fn to_write(&self, namespace: &str) -> (&str, Derived) {
        let there = || self.keys.iter().filter(|key| key.bytes.is_some());
        let own = there().find(|key| key.namespace.as_deref() == Some(base(namespace)));
        let key = own.or_else(|| there().find(|key| key.namespace.is_none()));
        let key = key.expect("a key file without a key for all is refused");
        let bytes = key.bytes.as_ref().expect("only keys that are there");
        (&key.id, derive(bytes, namespace))
    }

    /// The key that a text was written with.
    pub(super) fn to_read(&self, id: &str, namespace: &str) -> Found {
        let key = self.keys.iter().find(|key| key.id == id);
        match key.map(|key| key.bytes.as_ref()) {
            Some(Some(bytes)) => Found::Key(derive(bytes, namespace)),
            Some(None) => Found::Dropped,
            None => Found::Missing,
        }
    }
}

/// A key of one namespace is that of its draft twin, too: both are one tenant's.
fn base(namespace: &str) -> &str {
    namespace.strip_suffix("~draft").unwrap_or(namespace)
}

fn key(line: &str) -> Result<Key, String> {
    let shape = || "it is not `id: base64 of 32 bytes` or `id namespace: …`".to_owned();
    let (name, value) = line.split_once(':').ok_or_else(shape)?;
    let mut names = name.split_whitespace();
    let id = names.next().ok_or_else(shape)?.to_owned();
    let namespace = names.next().map(str::to_owned);
    if names.next().is_some() {
        return Err(shape());
    }
    let plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '.' | '_' | '-');
    if id.len() > 64 || !id.chars().all(plain) {
        return Err("an id is 1 to 64 letters, digits, `.`, `_` or `-`".to_owned());
    }
    if let Some(name) = &namespace {
        Namespace::new(name).map_err(|error| error.to_string())?;
    }
    if value.trim() == "dropped" {
        return Ok(Key { id, namespace, bytes: None });
    }
    let decoded = STANDARD.decode(value.trim()).map(Zeroizing::new).map_err(|_| shape())?;
    let bytes: [u8; 32] = decoded.as_slice().try_into().map_err(|_| shape())?;
    Ok(Key { id, namespace, bytes: Some(Zeroizing::new(bytes)) })
}

/// What the id of a new key begins with, within the length of an id.
fn id_prefix(namespace: Option<&str>) -> &str {
    let name = namespace.unwrap_or("key");
    name.get(..name.len().min(48)).unwrap_or("key")
}

/// A keyed hash of a label, which tells nothing of the key.
fn tag(master: &Bytes, label: &[u8]) -> String {
    let mut mac = mac(master);
    mac.update(label);
    let tag = mac.finalize().into_bytes();
    tag.iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// A key for each namespace and each use: none is used for two things, and none tells another.
fn derive(master: &Bytes, namespace: &str) -> Derived {
    let one = |purpose: &[u8]| {
        let mut mac = mac(master);
        mac.update(purpose);
        mac.update(namespace.as_bytes());
        Zeroizing::new(mac.finalize().into_bytes().into())
    };
    Derived { cipher: one(b"semel cipher 1\0"), nonce: one(b"semel nonce 1\0") }
}

pub(super) fn mac(key: &Bytes) -> Hmac<Sha256> {
    Hmac::new_from_slice(key.as_ref()).expect("HMAC takes keys of any length")
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

    #[test]
    fn a_key_file_that_makes_no_sense_is_refused_by_its_line() {
        let twice = format!("a: {KEY}\na: {KEY}");
        let cases = [
            ("", "no key for all"),
            ("a: dropped", "no key for all"),
            (&*format!("a acme: {KEY}"), "no key for all"),
            ("a", "line 1: it is not"),
            ("# keys\n\na: AAEC", "line 3: it is not"),
            (&*format!("a b c: {KEY}"), "line 1: it is not"),
            (&*format!("ä: {KEY}"), "an id is"),
            (&*format!("a b~draft: {KEY}"), "line 1"),
            (&*twice, "line 2: the id `a` is there twice"),
        ];
        for (text, wanted) in cases {
            let refused = Keyring::parse(text).err().unwrap_or_default();
            assert!(refused.contains(wanted) && !refused.contains("AAEC"), "{text}: {refused}");
        }
    }

    #[test]
    fn a_namespace_writes_with_its_own_key_and_else_with_the_first() {
        let line = |name| Keyring::new_line(Some(name), None).expect("a line").to_string();
        let own = Keyring::new_line(Some("acme-1"), Some("acme")).expect("a line");
        let gone = "zeta-1 zeta: dropped";
        let text = format!("{}\n{}\n{}\n{gone}", line("new"), line("old"), *own);
        let ring = Keyring::parse(&text).expect("a ring");
        let ids = ["default", "acme", "acme~draft", "zeta"].map(|name| ring.to_write(name).0);
        assert_eq!(ids, ["new", "acme-1", "acme-1", "new"]);
        assert!(matches!(ring.to_read("old", "default"), Found::Key(_)));
        assert!(matches!(ring.to_read("zeta-1", "zeta"), Found::Dropped));
        assert!(matches!(ring.to_read("other", "zeta"), Found::Missing));
        let (_, one) = ring.to_write("default");
        let (_, other) = ring.to_write("other");
        assert!(one.cipher != other.cipher && one.cipher != one.nonce);
    }
}
