//! Signing proofs. The private key is a file of its own and never in the store: whoever can rewrite
//! the store cannot sign what it says then.

use std::fs::{self, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use ed25519_dalek::{Signature as Signed, Signer, SigningKey, VerifyingKey};
use semel_core::proof::{Document, Signature};
use serde_json::json;

use crate::exit::Failed;
use crate::print::Printer;

pub(super) const ALGORITHM: &str = "ed25519";
/// What the two files begin with, so that nobody takes one for the other.
const PRIVATE: &str = "semel-proof-private-key";
const PUBLIC: &str = "semel-proof-public-key";

pub(super) fn keygen(file: &Path, printer: &Printer) -> Result<(), Failed> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|error| Failed::internal(format!("no random numbers: {error}")))?;
    let key = SigningKey::from_bytes(&seed);
    let public = hex(key.verifying_key().as_bytes());
    let beside = beside(file);
    create(file, 0o600, &format!("{PRIVATE} {}\n", hex(&seed)))?;
    if let Err(failed) = create(&beside, 0o644, &format!("{PUBLIC} {public}\n")) {
        // Half a pair helps nobody, and would be in the way of the next try.
        let _ = fs::remove_file(file);
        return Err(failed);
    }
    if printer.wants_json() {
        let shown = json!({ "private": file, "public": beside, "public_key": public });
        return printer.json(&shown);
    }
    printer.line(&format!("private  {}", file.display()));
    printer.line(&format!("public   {}", beside.display()));
    printer.line(&format!("key      {public}"));
    printer.talk("keep the private key away from the store, and hand out the public one");
    Ok(())
}

fn beside(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".pub");
    name.into()
}

/// Never over a file that is there: a key that is lost cannot be made again.
fn create(file: &Path, mode: u32, text: &str) -> Result<(), Failed> {
    let opened = OpenOptions::new().write(true).create_new(true).mode(mode).open(file);
    let written = opened.and_then(|mut opened| {
        // The mask of the process may have taken more away, never less.
        opened.set_permissions(Permissions::from_mode(mode))?;
        opened.write_all(text.as_bytes())?;
        opened.sync_all()
    });
    written.map_err(|error| {
        let failed = Failed::new(format!("{} cannot be made: {error}", file.display()));
        failed.hint("keygen overwrites nothing; name another file")
    })
}

pub(super) fn read_private(file: &Path) -> Result<SigningKey, Failed> {
    let seed = read(file, PRIVATE)?;
    let mode = fs::metadata(file).map(|about| about.permissions().mode()).unwrap_or(0o777);
    if mode & 0o077 != 0 {
        let text = format!("others may read the private key {}", file.display());
        return Err(Failed::new(text).hint(format!("chmod 600 {}", file.display())));
    }
    Ok(SigningKey::from_bytes(&seed))
}

pub(super) fn read_public(file: &Path) -> Result<VerifyingKey, Failed> {
    let bytes = read(file, PUBLIC)?;
    VerifyingKey::from_bytes(&bytes).map_err(|_| unusable(file, "it is no point on the curve"))
}

fn read(file: &Path, kind: &str) -> Result<[u8; 32], Failed> {
    let text = fs::read_to_string(file).map_err(|error| unusable(file, &error.to_string()))?;
    let hex = text.trim_end().strip_prefix(kind).and_then(|rest| rest.strip_prefix(' '));
    let key = hex.and_then(unhex::<32>);
    key.ok_or_else(|| unusable(file, &format!("it does not say `{kind}` and a key")))
}

fn unusable(file: &Path, why: &str) -> Failed {
    let text = format!("the key {} cannot be used: {why}", file.display());
    Failed::new(text).hint("`semel proof keygen FILE` makes a pair: FILE signs, FILE.pub verifies")
}

pub(super) fn sign(key: &SigningKey, document: &Document) -> Signature {
    let signed = key.sign(document.signed_text().as_bytes());
    Signature {
        algorithm: ALGORITHM.to_owned(),
        public_key: hex(key.verifying_key().as_bytes()),
        signature: hex(&signed.to_bytes()),
    }
}

/// Whether the signature is one of the key that it names. Returns that key.
pub(super) fn check(document: &Document, signature: &Signature) -> Result<VerifyingKey, String> {
    if signature.algorithm != ALGORITHM {
        return Err(format!("only {ALGORITHM} is known"));
    }
    let key = unhex::<32>(&signature.public_key).ok_or("the public key is not 64 hex digits")?;
    let key = VerifyingKey::from_bytes(&key).map_err(|_| "the public key is none")?;
    let signed = unhex::<64>(&signature.signature).ok_or("it is not 128 hex digits")?;
    let signed = Signed::from_bytes(&signed);
    key.verify_strict(document.signed_text().as_bytes(), &signed)
        .map_err(|_| "it does not fit the proof".to_owned())?;
    Ok(key)
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Only what [`hex`] writes: two spellings of one key would be two keys to whoever compares texts.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let is_hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
    if text.len() != 2 * N || !text.bytes().all(is_hex) {
        return None;
    }
    let mut bytes = [0; N];
    for (place, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * place..2 * place + 2], 16).ok()?;
    }
    Some(bytes)
}
