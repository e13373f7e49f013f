//! One text, sealed for one place. `~1 KEY-ID NAMESPACE BASE64`, and for an entry of a journal
//! ` CHAIN` behind it; no text that Semel writes by itself begins with `~`.
//!
//! The nonce is a keyed hash of place and text, so the same text in the same place is the same
//! sealed text: a store recognises a batch that is repeated. It also tells that two versions of a
//! row say the same, and nothing else: another text, or the same one elsewhere, has another nonce,
//! and 192 bits do not meet by chance. A key pair is derived for each namespace.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use chacha20poly1305::aead::{Aead, KeyInit, Payload};
use chacha20poly1305::{Key, XChaCha20Poly1305, XNonce};
use hmac::Mac;
use semel_core::journal::Link;
use sha2::{Digest, Sha256};

use super::keys::{Derived, Found, Keyring, mac};
use crate::StoreError;

/// Where a text lies. It is read nowhere else: neither in another tenant's row nor in another
/// table.
#[derive(Clone, Copy)]
pub(crate) enum Place<'a> {
    Effect,
    Run(i64),
    Entry(i64),
    Delivery(i64),
    Blob(&'a str),
    Card(&'a str, &'a str),
}

const MARK: &str = "~1 ";

/// How long a nonce is.
const NONCE: usize = 24;

/// Whether a text is sealed, and with which key.
pub(crate) fn key_id(text: &str) -> Option<&str> {
    text.strip_prefix(MARK)?.split(' ').next()
}

/// What every text begins with that was sealed with this key.
pub(super) fn beginning(id: &str) -> String {
    format!("{MARK}{id} ")
}

/// Seals a text for a place in a namespace.
pub(super) fn seal(
    ring: &Keyring,
    namespace: &str,
    place: Place<'_>,
    text: &str,
) -> Result<String, StoreError> {
    let (id, Derived { cipher, nonce }) = ring.to_write(namespace);
    let bound = bound(namespace, place);
    let mut hash = mac(&nonce);
    hash.update(&(bound.len() as u64).to_be_bytes());
    hash.update(&bound);
    hash.update(text.as_bytes());
    let mut sealed = hash.finalize().into_bytes()[..NONCE].to_vec();
    let at = XNonce::try_from(sealed.as_slice()).expect("as long as a nonce");
    let payload = Payload { msg: text.as_bytes(), aad: &bound };
    let encrypted = XChaCha20Poly1305::new(&Key::from(*cipher)).encrypt(&at, payload);
    let failed = |_| StoreError::Unavailable("a text cannot be encrypted".into());
    sealed.extend(encrypted.map_err(failed)?);
    Ok(format!("{MARK}{id} {namespace} {}", STANDARD_NO_PAD.encode(sealed)))
}

/// Opens a text that was found in a place. The namespace is that of its row, where the row has
/// one; `None` takes the one that was sealed with, and the place tells the tenant.
pub(super) fn open<'a>(
    ring: Option<&Keyring>,
    namespace: Option<&str>,
    place: Place<'_>,
    text: &'a str,
) -> Result<Cow<'a, str>, StoreError> {
    let Some(rest) = text.strip_prefix(MARK) else { return Ok(Cow::Borrowed(text)) };
    let damaged = |what: &str| StoreError::Corrupt(format!("an encrypted text {what}"));
    let mut parts = rest.split(' ');
    let (Some(id), Some(sealed_in), Some(encoded)) = (parts.next(), parts.next(), parts.next())
    else {
        return Err(damaged("is cut"));
    };
    let namespace = namespace.unwrap_or(sealed_in);
    let Derived { cipher, .. } = match ring.map(|ring| ring.to_read(id, namespace)) {
        Some(Found::Key(key)) => key,
        Some(Found::Dropped) => return Err(StoreError::KeyDropped(id.to_owned())),
        Some(Found::Missing) | None => return Err(StoreError::KeyMissing(id.to_owned())),
    };
    let sealed = STANDARD_NO_PAD.decode(encoded).map_err(|_| damaged("is cut"))?;
    let (nonce, encrypted) = sealed.split_at_checked(NONCE).ok_or_else(|| damaged("is cut"))?;
    let nonce = XNonce::try_from(nonce).map_err(|_| damaged("is cut"))?;
    let payload = Payload { msg: encrypted, aad: &bound(namespace, place) };
    let opened = XChaCha20Poly1305::new(&Key::from(*cipher)).decrypt(&nonce, payload);
    let what = "was changed, belongs elsewhere, or was written with another key of this id";
    let opened = opened.map_err(|_| damaged(&format!("{what} (`{id}`)")))?;
    Ok(Cow::Owned(String::from_utf8(opened).map_err(|_| damaged("is no text"))?))
}

/// Ties a sealed entry to the one before it, so that the chain can be followed without the key.
pub(super) fn chained(sealed: &str, after: &Link, link: &Link) -> String {
    format!("{sealed} {}", chain(sealed, after, link))
}

/// Whether a sealed entry follows another one. `None`: it is not sealed.
pub(crate) fn follows(text: &str, after: &Link, link: &Link) -> Option<bool> {
    key_id(text)?;
    let (sealed, found) = text.rsplit_once(' ')?;
    Some(found == chain(sealed, after, link))
}

fn chain(sealed: &str, after: &Link, link: &Link) -> String {
    let mut hash = Sha256::new();
    hash.update(after.0);
    hash.update(link.0);
    hash.update(sealed);
    STANDARD_NO_PAD.encode(hash.finalize())
}

/// What a sealed text is bound to, without ambiguity.
fn bound(namespace: &str, place: Place<'_>) -> Vec<u8> {
    let (table, names): (_, [&str; 2]) = match place {
        Place::Effect => ("effect".to_owned(), ["", ""]),
        Place::Run(number) => (format!("run {number}"), ["", ""]),
        Place::Entry(run) => (format!("entry {run}"), ["", ""]),
        Place::Delivery(run) => (format!("delivery {run}"), ["", ""]),
        Place::Blob(digest) => ("blob".to_owned(), [digest, ""]),
        Place::Card(kind, name) => ("card".to_owned(), [kind, name]),
    };
    let mut bound = Vec::new();
    for part in [namespace, &table, names[0], names[1]] {
        bound.extend((part.len() as u64).to_be_bytes());
        bound.extend(part.as_bytes());
    }
    bound
}
