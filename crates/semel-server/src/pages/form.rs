//! Forms as pages send them. Whatever changes something comes through here.

use std::collections::BTreeMap;

use axum::http::{HeaderName, HeaderValue, header};
use semel_core::code::Code;
use sha2::{Digest, Sha256};

use crate::auth::authority;
use crate::problem::Problem;
use crate::route::Call;

/// The hidden value that shows that our page was seen.
pub(super) const VALUE: &str = "form_value";

/// A form that was filled in on a page of ours.
pub(super) struct Form(BTreeMap<String, String>);

impl Form {
    /// Reads a form, if a page of ours sent it. `value` is what that page held.
    pub(super) fn of(call: &Call, value: &str) -> Result<Form, Problem> {
        let form = Form::unproven(call)?;
        let is_ours = equal(form.get(VALUE), value);
        let text = "the form is not from a page that was shown here: open the page again";
        is_ours.then_some(form).ok_or_else(|| Problem::new(Code::Forbidden, text))
    }

    fn unproven(call: &Call) -> Result<Form, Problem> {
        check_origin(call)?;
        check_kind(call)?;
        let text = std::str::from_utf8(&call.body).map_err(|_| unreadable())?;
        let mut fields = BTreeMap::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (decoded(name)?, decoded(value)?);
            if fields.insert(name, value).is_some() {
                return Err(Problem::new(Code::RequestInvalid, "a field is there twice"));
            }
        }
        Ok(Form(fields))
    }

    /// A field; empty where it is missing.
    pub(super) fn get(&self, name: &str) -> &str {
        self.0.get(name).map_or("", String::as_str)
    }
}

/// Whether two secrets are equal, without telling by the time it takes where they differ: their
/// digests are compared, of which nobody can choose the beginning.
fn equal(one: &str, other: &str) -> bool {
    !other.is_empty() && Sha256::digest(one.as_bytes()) == Sha256::digest(other.as_bytes())
}

/// Only a page of this very origin, port included: another program on this machine is another
/// site. A page that sends no referrer says `null`; then the browser itself says where it is from.
fn check_origin(call: &Call) -> Result<(), Problem> {
    let text = |name: HeaderName| call.headers.get(name).and_then(|value| value.to_str().ok());
    let site = text(HeaderName::from_static("sec-fetch-site"));
    let is_site = site.is_none_or(|site| matches!(site, "same-origin" | "none"));
    let is_origin = match text(header::ORIGIN) {
        None => !call.headers.contains_key(header::ORIGIN),
        Some("null") => site == Some("same-origin"),
        Some(origin) => {
            // A proxy before us may know us by another name than browsers do.
            let public = call.app.settings.public_url.as_deref().map(authority);
            let from = authority(origin);
            Some(from) == text(header::HOST) || Some(from) == public
        }
    };
    match is_site && is_origin {
        true => Ok(()),
        false => Err(Problem::new(Code::HostRefused, "the form comes from another site")),
    }
}

/// JSON or text would be a script's, or another site's; a page sends a form.
fn check_kind(call: &Call) -> Result<(), Problem> {
    let kind = call.headers.get(header::CONTENT_TYPE).map(HeaderValue::as_bytes);
    let kind = kind.and_then(|kind| kind.split(|byte| *byte == b';').next());
    match kind.is_some_and(|kind| {
        kind.trim_ascii().eq_ignore_ascii_case(b"application/x-www-form-urlencoded")
    }) {
        true => Ok(()),
        false => Err(Problem::new(Code::MediaUnsupported, "only a form is taken here")),
    }
}

fn unreadable() -> Problem {
    Problem::new(Code::RequestInvalid, "the form cannot be read")
}

fn decoded(text: &str) -> Result<String, Problem> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let mut digit = || rest.next().and_then(|digit| char::from(digit).to_digit(16));
                let (high, low) =
                    (digit().ok_or_else(unreadable)?, digit().ok_or_else(unreadable)?);
                u8::try_from(high * 16 + low).map_err(|_| unreadable())?
            }
            byte => byte,
        });
    }
    // Browsers send line breaks as two characters.
    let text = String::from_utf8(bytes).map_err(|_| unreadable())?;
    Ok(text.replace("\r\n", "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_decoded_and_what_cannot_be_is_refused() {
        for (text, want) in [
            ("a+b", Some("a b")),
            ("%C3%A4%26%3d", Some("ä&=")),
            ("1%0D%0A2", Some("1\n2")),
            ("%", None),
            ("%4", None),
            ("%zz", None),
            ("%ff", None),
        ] {
            assert_eq!(decoded(text).ok().as_deref(), want, "{text}");
        }
    }

    #[test]
    fn sec_15_no_value_is_never_a_right_value() {
        assert!(!equal("", ""));
        assert!(!equal("a", "b"));
        assert!(equal("a", "a"));
    }
}
