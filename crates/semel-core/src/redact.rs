//! Redaction: wherever the value of a declared secret stands in a text, its name is put in its
//! place, before the text is written, shown or logged.
//!
//! A value is looked for as it is and as it looks once escaped for JSON or a URL, in hexadecimal
//! and inside base64 at any of its three alignments: a header `Basic …` holds it so.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::general_purpose::{GeneralPurpose, NO_PAD};

use crate::limits;

/// Finds the values of secrets and puts their names in their place.
#[derive(Clone, Default)]
pub struct Redactor {
    /// What may stand in any text, the longest first: one secret may be a part of another.
    plain: Vec<Pattern>,
    /// The same, as it stands between the quotes of a JSON string.
    quoted: Vec<Pattern>,
}

#[derive(Clone)]
struct Pattern {
    needle: String,
    name: String,
}

/// Why a secret cannot be looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretInvalid {
    pub name: String,
    pub why: &'static str,
}

/// The values are not shown.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("patterns", &self.plain.len()).finish()
    }
}

impl Redactor {
    /// Looks for these secrets: the name and the value of each.
    pub fn new(
        secrets: impl IntoIterator<Item = (String, String)>,
    ) -> Result<Redactor, SecretInvalid> {
        let mut redactor = Redactor::default();
        for (name, value) in secrets {
            if let Some(why) = unusable(&value) {
                return Err(SecretInvalid { name, why });
            }
            redactor.add(&label(&name), &value);
        }
        redactor.plain = tidied(redactor.plain);
        redactor.quoted = tidied(redactor.quoted);
        Ok(redactor)
    }

    fn add(&mut self, name: &str, value: &str) {
        let pattern = |needle: String| Pattern { needle, name: name.to_owned() };
        for form in forms(value) {
            self.quoted.extend(escapes(&form).map(pattern));
            self.plain.extend(escapes(&form).map(pattern));
            self.plain.push(pattern(form));
        }
    }

    /// Whether no secret was declared.
    pub fn is_empty(&self) -> bool {
        self.plain.is_empty()
    }

    /// The name of a secret whose value stands in a text.
    pub fn exposed(&self, text: &str) -> Option<&str> {
        let found = self.plain.iter().find(|pattern| text.contains(&pattern.needle));
        found.map(|pattern| pattern.name.as_str())
    }

    /// A text of any kind, such as a line of a log.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for Pattern { needle, name } in &self.plain {
            if text.contains(needle) {
                text = Cow::Owned(text.replace(needle, &mark(name)));
            }
        }
        text
    }

    /// A JSON text, which stays one: only what stands inside its strings is changed.
    pub fn json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        if !self.quoted.iter().any(|pattern| text.contains(&pattern.needle)) {
            return Cow::Borrowed(text);
        }
        let mut redacted = String::with_capacity(text.len());
        let (mut rest, mut in_string) = (text, false);
        while let Some(first) = rest.chars().next() {
            let found = self.quoted.iter().find(|pattern| rest.starts_with(&pattern.needle));
            if let Some(Pattern { needle, name }) = found.filter(|_| in_string) {
                redacted.push_str(&mark(name));
                rest = &rest[needle.len()..];
                continue;
            }
            in_string ^= first == '"';
            // A backslash and what it escapes are one: no value begins between them.
            let length = match (first, rest.chars().nth(1)) {
                ('\\', Some(second)) if in_string => 1 + second.len_utf8(),
                _ => first.len_utf8(),
            };
            let (unit, behind) = rest.split_at(length);
            redacted.push_str(unit);
            rest = behind;
        }
        Cow::Owned(redacted)
    }
}

fn mark(name: &str) -> String {
    format!("[redacted:{name}]")
}

/// Why a value cannot be looked for: it would be found where it is not.
fn unusable(value: &str) -> Option<&'static str> {
    let is_number =
        |sign: char| sign.is_ascii_digit() || matches!(sign, '.' | 'e' | 'E' | '+' | '-');
    if value.len() < limits::SECRET_BYTES_MIN {
        return Some("it is shorter than 8 bytes, and would be found in words and numbers");
    }
    value.chars().all(is_number).then_some("it is a number, and would be found in times and counts")
}

/// A name that needs no escaping anywhere.
fn label(name: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || matches!(sign, '.' | '_' | '-');
    name.chars().map(|sign| if plain(sign) { sign } else { '_' }).collect()
}

/// How a value looks in texts.
fn forms(value: &str) -> Vec<String> {
    let bytes = value.as_bytes();
    let mut forms = vec![value.to_owned()];
    for hex in [|byte: u8| format!("{byte:02X}"), |byte: u8| format!("{byte:02x}")] {
        let escaped = |byte: &u8| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                char::from(*byte).to_string()
            }
            other => format!("%{}", hex(*other)),
        };
        let url: String = bytes.iter().map(escaped).collect();
        forms.push(url.replace("%20", "+"));
        forms.push(url);
        forms.push(bytes.iter().map(|byte| hex(*byte)).collect());
    }
    for alphabet in [STANDARD, URL_SAFE] {
        let engine = GeneralPurpose::new(&alphabet, NO_PAD);
        forms.extend((0..3).map(|before| inside_base64(&engine, before, bytes)));
    }
    forms
}

/// The signs of base64 that depend on the value alone when so many bytes stand before it.
fn inside_base64(engine: &GeneralPurpose, before: usize, bytes: &[u8]) -> String {
    let mut all = vec![0; before];
    all.extend_from_slice(bytes);
    let text = engine.encode(&all);
    let first = (before * 8).div_ceil(6);
    let last = all.len() * 8 / 6;
    text[first..last].to_owned()
}

/// How a form is escaped between the quotes of a JSON string, by different writers; and how that
/// looks as JSON that is itself kept in a string, and once more.
fn escapes(form: &str) -> impl Iterator<Item = String> {
    let units = form.encode_utf16();
    let ascii: String = units
        .map(|unit| match char::from_u32(unit.into()) {
            Some(sign) if sign.is_ascii() => escaped(&sign.to_string()),
            Some(_) | None => format!("\\u{unit:04x}"),
        })
        .collect();
    let once = escaped(form);
    let all = [once.replace('/', "\\/"), ascii.replace('/', "\\/"), ascii, once];
    all.into_iter().flat_map(|once| {
        let twice = escaped(&once);
        [escaped(&twice), twice, once]
    })
}

fn escaped(text: &str) -> String {
    let quoted = serde_json::to_string(text).unwrap_or_default();
    let inside = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
    inside.unwrap_or_default().to_owned()
}

/// Each once, the longest first.
fn tidied(mut patterns: Vec<Pattern>) -> Vec<Pattern> {
    patterns
        .sort_by(|a, b| b.needle.len().cmp(&a.needle.len()).then_with(|| a.needle.cmp(&b.needle)));
    patterns.dedup_by(|a, b| a.needle == b.needle);
    patterns
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "sk_live/4\"eé 9\\z";

    fn redactor() -> Redactor {
        Redactor::new([("STRIPE KEY".to_owned(), VALUE.to_owned())]).expect("it is long enough")
    }

    #[test]
    fn inv_i23_a_secret_is_found_in_every_form_that_texts_give_it() {
        let base64 = GeneralPurpose::new(&STANDARD, NO_PAD);
        let url = "sk_live%2F4%22e%C3%A9%209%5Cz";
        let forms = [
            VALUE.to_owned(),
            url.to_owned(),
            url.to_lowercase(),
            url.replace("%20", "+"),
            base64.encode(VALUE),
            base64.encode(format!("u:{VALUE}")),
            base64.encode(format!("me:{VALUE}!")),
            serde_json::to_string(VALUE).expect("JSON"),
            r"sk_live\/4\u0022e\u00e9 9\\z".replace(r"\u0022", "\\\""),
        ];
        for form in forms {
            let found = redactor();
            let redacted = found.text(&form);
            assert!(redacted.contains("[redacted:STRIPE_KEY]"), "{form}: {redacted}");
            assert!(found.exposed(&form).is_some() && found.exposed(&redacted).is_none());
            let json = serde_json::json!({ "a": form, "n": [1, { "b": format!("x{form}y") }] });
            for json in [json.to_string(), serde_json::json!(json.to_string()).to_string()] {
                let redacted = found.json(&json);
                assert!(redacted.contains("[redacted:STRIPE_KEY]"), "{json}: {redacted}");
                assert!(found.exposed(&redacted).is_none(), "{redacted}");
                serde_json::from_str::<serde_json::Value>(&redacted).expect("it is still JSON");
            }
        }
    }

    #[test]
    fn what_only_looks_like_a_secret_is_left_alone() {
        let found = Redactor::new([("N".to_owned(), "nxyz12345".to_owned())]).expect("a secret");
        // A line break, and then another word: no part of an escape begins a value.
        let text = r#"{"a":"\nxyz12345","b":12345678}"#;
        assert_eq!(found.json(text), text);
        let across = Redactor::new([("N".to_owned(), "x\",\"b\":\"y".to_owned())]).expect("one");
        let text = r#"{"a":"x","b":"y"}"#;
        assert_eq!(across.json(text), text, "never over the end of a string");
    }

    #[test]
    fn a_value_that_would_be_found_everywhere_is_refused() {
        for value in ["", "short", "1763312345678", "-1.5e1000"] {
            let refused = Redactor::new([("A".to_owned(), value.to_owned())]);
            assert!(refused.is_err_and(|why| why.name == "A"), "{value}");
        }
        assert!(Redactor::new([("A".to_owned(), "12345678a".to_owned())]).is_ok());
    }

    #[test]
    fn of_two_secrets_the_longer_one_is_named() {
        let secrets = [("A", "abcdefgh"), ("B", "abcdefghij")];
        let secrets = secrets.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let found = Redactor::new(secrets).expect("secrets");
        assert_eq!(found.json(r#""abcdefghij abcdefgh""#), r#""[redacted:B] [redacted:A]""#);
    }
}
