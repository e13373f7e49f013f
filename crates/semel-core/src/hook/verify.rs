//! Is a delivery genuine? Judged over the raw bytes, before anything in them is read.

use subtle::Choice;

use super::request::Request;
use super::scheme::{Algorithm, Encoding, Hmac, Scheme};
use super::signature::{decode, equal, equal_secret, is_signed_by, sign, write};
use crate::limits;
use crate::time::Wall;

/// A secret that was looked up. It is never printed.
#[derive(Clone)]
pub struct Secret {
    pub bytes: Vec<u8>,
    /// From then on it is none any more.
    pub until: Option<Wall>,
}

/// Why a delivery is not believed. The sender hears none of this; whoever looks at the trigger's
/// deliveries does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// A header that the scheme needs is not there.
    Missing,
    /// A header is there twice.
    Repeated,
    Malformed,
    TooOld,
    TooNew,
    Wrong,
    /// No secret could be read, or none is in force any more.
    NoSecret,
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("until", &self.until).finish_non_exhaustive()
    }
}

impl Refused {
    /// All of them.
    pub const ALL: [Refused; 7] = [
        Refused::Missing,
        Refused::Repeated,
        Refused::Malformed,
        Refused::TooOld,
        Refused::TooNew,
        Refused::Wrong,
        Refused::NoSecret,
    ];

    /// The stable name.
    pub fn as_str(self) -> &'static str {
        match self {
            Refused::Missing => "signature_missing",
            Refused::Repeated => "header_repeated",
            Refused::Malformed => "signature_malformed",
            Refused::TooOld => "too_old",
            Refused::TooNew => "too_new",
            Refused::Wrong => "signature_wrong",
            Refused::NoSecret => "secret_missing",
        }
    }
}

/// Says whether a delivery was signed with one of the secrets, as the scheme wants it, within the
/// window of time around now.
pub fn verify(
    scheme: &Scheme,
    secrets: &[Secret],
    request: &Request<'_>,
    now: Wall,
) -> Result<(), Refused> {
    let in_force = |secret: &&Secret| secret.until.is_none_or(|until| now < until);
    let secrets: Vec<&[u8]> =
        secrets.iter().filter(in_force).map(|secret| secret.bytes.as_slice()).collect();
    if secrets.iter().all(|secret| secret.is_empty()) {
        return Err(Refused::NoSecret);
    }
    match scheme {
        Scheme::Standard => standard(&secrets, request, now),
        Scheme::Stripe => stripe(&secrets, request, now),
        Scheme::GitHub => github(&secrets, request),
        Scheme::Slack => slack(&secrets, request, now),
        Scheme::Hmac(hmac) => described(hmac, &secrets, request, now),
        Scheme::Bearer { header } => bearer(header, &secrets, request),
        Scheme::CloudEvents(inner) => match inner.as_ref() {
            Scheme::Hmac(hmac) => described(hmac, &secrets, request, now),
            Scheme::Bearer { header } => bearer(header, &secrets, request),
            // No plan is made with another one.
            _ => Err(Refused::NoSecret),
        },
    }
}

/// The names of the three headers: ours to look for in this order, complete or not at all.
pub(super) fn standard_headers(request: &Request<'_>) -> [&'static str; 3] {
    let has_any = |names: &[&str]| request.headers.iter().any(|(name, _)| names.contains(&&**name));
    let plain = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let svix = ["svix-id", "svix-timestamp", "svix-signature"];
    if !has_any(&plain) && has_any(&svix) { svix } else { plain }
}

fn standard(secrets: &[&[u8]], request: &Request<'_>, now: Wall) -> Result<(), Refused> {
    let [id, timestamp, signature] = standard_headers(request);
    let (id, timestamp) = (request.needed(id)?, request.needed(timestamp)?);
    let given = request.needed(signature)?;
    // A full stop divides what is signed: with one inside, two deliveries could have one signature.
    if id.contains('.') {
        return Err(Refused::Malformed);
    }
    within_window(timestamp, now)?;
    let pieces = [id.as_bytes(), b".", timestamp.as_bytes(), b".", request.body];
    let entries: Vec<(&str, &str)> =
        entries(given.split(' '))?.filter_map(|entry| entry.split_once(',')).collect();
    let mut is_good = Choice::from(0);
    for secret in secrets.iter().filter_map(|secret| StandardSecret::read(secret)) {
        match secret {
            StandardSecret::Shared(secret) => {
                let signature = sign(Algorithm::Sha256, &secret, &pieces);
                let want = write(Encoding::Base64, &signature);
                for (_, text) in entries.iter().filter(|(version, _)| *version == "v1") {
                    is_good |= equal(want.as_bytes(), text.as_bytes());
                }
            }
            StandardSecret::Public(key) => {
                let content = pieces.concat();
                for (_, text) in entries.iter().filter(|(version, _)| *version == "v1a") {
                    is_good |= Choice::from(u8::from(is_signed_by(&key, text, &content)));
                }
            }
        }
    }
    judged(is_good)
}

/// What a secret is for is said by the secret, which is ours, and not by the delivery.
enum StandardSecret {
    Shared(Vec<u8>),
    Public(Vec<u8>),
}

impl StandardSecret {
    fn read(secret: &[u8]) -> Option<StandardSecret> {
        let text = str::from_utf8(secret).ok()?;
        if let Some(key) = text.strip_prefix("whpk_") {
            return decode(key).map(StandardSecret::Public);
        }
        let shared = decode(text.strip_prefix("whsec_").unwrap_or(text))?;
        // A signature under an empty secret is anybody's.
        (!shared.is_empty()).then_some(StandardSecret::Shared(shared))
    }
}

fn stripe(secrets: &[&[u8]], request: &Request<'_>, now: Wall) -> Result<(), Refused> {
    let given = request.needed("stripe-signature")?;
    let mut timestamp = None;
    let mut signatures = Vec::new();
    for entry in entries(given.split(','))? {
        match entry.split_once('=') {
            Some(("t", text)) if timestamp.is_none() => timestamp = Some(text),
            Some(("t", _)) => return Err(Refused::Malformed),
            Some(("v1", text)) => signatures.push(text),
            Some(_) | None => {}
        }
    }
    let timestamp = timestamp.ok_or(Refused::Malformed)?;
    within_window(timestamp, now)?;
    let pieces = [timestamp.as_bytes(), b".", request.body];
    any_hex(secrets, &pieces, &signatures)
}

fn github(secrets: &[&[u8]], request: &Request<'_>) -> Result<(), Refused> {
    let given = request.needed("x-hub-signature-256")?;
    let given = given.strip_prefix("sha256=").ok_or(Refused::Malformed)?;
    any_hex(secrets, &[request.body], &[given])
}

fn slack(secrets: &[&[u8]], request: &Request<'_>, now: Wall) -> Result<(), Refused> {
    let timestamp = request.needed("x-slack-request-timestamp")?;
    let given = request.needed("x-slack-signature")?;
    let given = given.strip_prefix("v0=").ok_or(Refused::Malformed)?;
    within_window(timestamp, now)?;
    any_hex(secrets, &[b"v0:", timestamp.as_bytes(), b":", request.body], &[given])
}

fn described(
    hmac: &Hmac,
    secrets: &[&[u8]],
    request: &Request<'_>,
    now: Wall,
) -> Result<(), Refused> {
    let given = request.needed(&hmac.header)?;
    let given = given.strip_prefix(hmac.prefix.as_str()).ok_or(Refused::Malformed)?;
    let timestamp = match &hmac.timestamp_header {
        Some(header) => {
            let timestamp = request.needed(header)?;
            within_window(timestamp, now)?;
            timestamp
        }
        None => "",
    };
    let pieces = hmac.signed.pieces(request, timestamp)?;
    let mut is_good = Choice::from(0);
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        let want = write(hmac.encoding, &sign(hmac.algorithm, secret, &pieces));
        is_good |= equal(want.as_bytes(), given.as_bytes());
    }
    judged(is_good)
}

fn bearer(header: &str, secrets: &[&[u8]], request: &Request<'_>) -> Result<(), Refused> {
    let given = request.needed(header)?;
    let given = match (header, given.split_once(' ')) {
        ("authorization", Some((scheme, token))) if scheme.eq_ignore_ascii_case("bearer") => token,
        ("authorization", _) => return Err(Refused::Malformed),
        _ => given,
    };
    let mut is_good = Choice::from(0);
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        is_good |= equal_secret(secret, given.as_bytes());
    }
    judged(is_good)
}

fn any_hex(secrets: &[&[u8]], pieces: &[&[u8]], given: &[&str]) -> Result<(), Refused> {
    let mut is_good = Choice::from(0);
    for secret in secrets.iter().filter(|secret| !secret.is_empty()) {
        let want = write(Encoding::Hex, &sign(Algorithm::Sha256, secret, pieces));
        for text in given {
            is_good |= equal(want.as_bytes(), text.as_bytes());
        }
    }
    judged(is_good)
}

/// The entries of a list of signatures. A rotation has a few of them; more is work that somebody
/// without a secret gives us.
fn entries<'a>(
    list: impl Iterator<Item = &'a str> + Clone,
) -> Result<impl Iterator<Item = &'a str>, Refused> {
    if list.clone().count() > limits::HOOK_SIGNATURES_MAX {
        return Err(Refused::Malformed);
    }
    Ok(list)
}

/// Whether a time in seconds is near enough to now, on both sides.
fn within_window(text: &str, now: Wall) -> Result<(), Refused> {
    let is_plain = !text.is_empty() && text.len() <= 12 && text.bytes().all(|b| b.is_ascii_digit());
    let seconds: i64 = is_plain.then(|| text.parse().ok()).flatten().ok_or(Refused::Malformed)?;
    let age_ms = now.0.saturating_sub(seconds.saturating_mul(1_000));
    if age_ms > limits::HOOK_AGE_MS_MAX {
        return Err(Refused::TooOld);
    }
    if age_ms < -limits::HOOK_AGE_MS_MAX {
        return Err(Refused::TooNew);
    }
    Ok(())
}

fn judged(is_good: Choice) -> Result<(), Refused> {
    if bool::from(is_good) { Ok(()) } else { Err(Refused::Wrong) }
}
