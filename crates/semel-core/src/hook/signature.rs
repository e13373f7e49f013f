//! Signatures as they are computed and compared. What depends on a secret takes the same time
//! whatever the other side sent.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ed25519_dalek::{Signature, VerifyingKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256, Sha512};
use subtle::{Choice, ConstantTimeEq};

use super::scheme::{Algorithm, Encoding};

/// The signature of these pieces, one after the other.
pub(super) fn sign(algorithm: Algorithm, secret: &[u8], pieces: &[&[u8]]) -> Vec<u8> {
    match algorithm {
        Algorithm::Sha256 => {
            let mut mac = Hmac::<Sha256>::new_from_slice(secret).expect("a key of any length");
            pieces.iter().for_each(|piece| mac.update(piece));
            mac.finalize().into_bytes().to_vec()
        }
        Algorithm::Sha512 => {
            let mut mac = Hmac::<Sha512>::new_from_slice(secret).expect("a key of any length");
            pieces.iter().for_each(|piece| mac.update(piece));
            mac.finalize().into_bytes().to_vec()
        }
    }
}

/// A signature as it is sent. Texts are compared, not what they decode to: of the many ways to
/// write the same bytes one is right, so that no bit of a header may change.
pub(super) fn write(encoding: Encoding, signature: &[u8]) -> String {
    match encoding {
        Encoding::Hex => hex(signature),
        Encoding::Base64 => STANDARD.encode(signature),
    }
}

/// Whether two texts are equal. How long they are is no secret.
pub(super) fn equal(one: &[u8], other: &[u8]) -> Choice {
    one.ct_eq(other)
}

/// Whether a token is the secret. Digests are compared, so that not even its length shows.
pub(super) fn equal_secret(secret: &[u8], given: &[u8]) -> Choice {
    Sha256::digest(secret).as_slice().ct_eq(Sha256::digest(given).as_slice())
}

/// Reads base64 as a secret is written: with or without its padding.
pub(super) fn decode(text: &str) -> Option<Vec<u8>> {
    STANDARD
        .decode(text)
        .ok()
        .or_else(|| base64::engine::general_purpose::STANDARD_NO_PAD.decode(text).ok())
}

/// Whether an ed25519 signature, in base64, is that of these bytes.
pub(super) fn is_signed_by(key: &[u8], signature: &str, content: &[u8]) -> bool {
    let Ok(key) = <[u8; 32]>::try_from(key) else { return false };
    let Ok(key) = VerifyingKey::from_bytes(&key) else { return false };
    let Some(signature) = STANDARD.decode(signature).ok() else { return false };
    let Ok(signature) = Signature::from_slice(&signature) else { return false };
    key.verify_strict(content, &signature).is_ok()
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
