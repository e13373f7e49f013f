//! Redaction: wherever the value of a declared secret stands in a text, its name is put in its
//! place, before the text is written, shown or logged.
//!
//! A value is found by its meaning. The text is read as it is and with its escapes taken off
//! (`spell.rs`); whatever looks like base64 or hexadecimal is decoded and read likewise
//! (`block.rs`), a few times over. What is found is taken out where it stands in the text itself.

mod block;
mod spell;

use std::borrow::Cow;

use block::Block;
use spell::End;

use crate::limits;

/// Finds the values of secrets and puts their names in their place.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The longest first: one secret may be a part of another.
    secrets: Vec<Secret>,
    /// Which secrets begin with a byte.
    by_first: Vec<Vec<usize>>,
}

#[derive(Clone)]
struct Secret {
    value: Vec<u8>,
    name: String,
}

/// Where a secret stands in a text.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    from: usize,
    to: usize,
    secret: usize,
}

/// Why a secret cannot be looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SecretInvalid {
    pub name: String,
    pub why: &'static str,
}

/// How often base64 or hexadecimal may lie in one another.
const BLOCKS: u8 = 3;

/// How often a text is searched again after something was taken out of it.
const PASSES: u8 = 4;

/// The values are not shown.
impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Redactor").field("secrets", &self.secrets.len()).finish()
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
            redactor.secrets.push(Secret { value: value.into_bytes(), name: label(&name) });
        }
        redactor
            .secrets
            .sort_by(|a, b| b.value.len().cmp(&a.value.len()).then_with(|| a.value.cmp(&b.value)));
        redactor.secrets.dedup_by(|a, b| a.value == b.value);
        redactor.by_first = vec![Vec::new(); 256];
        for (number, secret) in redactor.secrets.iter().enumerate() {
            redactor.by_first[usize::from(secret.value[0])].push(number);
        }
        // What is put in the place of a secret must not hold one.
        let shown =
            redactor.secrets.iter().find(|secret| redactor.exposed(&mark(&secret.name)).is_some());
        match shown {
            Some(Secret { name, .. }) => {
                let why = "its name, which is shown in its place, holds a secret: rename it";
                Err(SecretInvalid { name: name.clone(), why })
            }
            None => Ok(redactor),
        }
    }

    /// Whether no secret was declared.
    pub fn is_empty(&self) -> bool {
        self.secrets.is_empty()
    }

    /// The name of a secret whose value stands in a text.
    pub fn exposed(&self, text: &str) -> Option<&str> {
        self.named(&self.in_text(text))
    }

    /// The name of a secret whose value stands in a string of a JSON text.
    pub fn exposed_json(&self, text: &str) -> Option<&str> {
        self.named(&self.in_json(text))
    }

    /// A text of any kind, such as a line of a log.
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.without(text, |text| self.in_text(text))
    }

    /// A JSON text, which stays one: only what stands inside its strings is changed.
    pub fn json<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.without(text, |text| self.in_json(text))
    }

    fn named(&self, found: &[Found]) -> Option<&str> {
        found.first().map(|found| self.secrets[found.secret].name.as_str())
    }

    fn without<'a>(&self, text: &'a str, find: impl Fn(&str) -> Vec<Found>) -> Cow<'a, str> {
        let mut text = Cow::Borrowed(text);
        for _ in 0..PASSES {
            let found = find(&text);
            if found.is_empty() {
                break;
            }
            text = Cow::Owned(self.replaced(&text, found));
        }
        text
    }

    /// Names in the place of values. Values that overlap get one name.
    fn replaced(&self, text: &str, mut found: Vec<Found>) -> String {
        // At one place the longest first, and of equally long ones the longest secret.
        found.sort_by_key(|found| (found.from, usize::MAX - found.to, found.secret));
        let mut redacted = String::with_capacity(text.len());
        let mut done = 0;
        for Found { from, to, secret } in found {
            let (from, to) = (text.floor_char_boundary(from), text.ceil_char_boundary(to));
            if from >= done {
                redacted.push_str(&text[done..from]);
                redacted.push_str(&mark(&self.secrets[secret].name));
            }
            done = done.max(to);
        }
        redacted.push_str(&text[done..]);
        redacted
    }

    fn in_text(&self, text: &str) -> Vec<Found> {
        self.find(text.as_bytes(), BLOCKS)
    }

    /// What stands in the strings of a JSON text.
    fn in_json(&self, text: &str) -> Vec<Found> {
        let mut all = Vec::new();
        if self.is_empty() {
            return all;
        }
        let bytes = text.as_bytes();
        let mut at = 0;
        while let Some(quote) = bytes[at..].iter().position(|byte| *byte == b'"') {
            let start = at + quote + 1;
            let mut end = start;
            let mut is_escaped = false;
            while let Some(byte) = bytes.get(end).filter(|byte| **byte != b'"') {
                is_escaped |= *byte == b'\\';
                end += if *byte == b'\\' { 2 } else { 1 };
            }
            let end = end.min(bytes.len());
            if is_escaped {
                let block = unescaped(&bytes[start..end]);
                for found in self.find(&block.bytes, BLOCKS) {
                    let (from, to) = block.source(found.from, found.to);
                    all.push(Found { from: start + from, to: start + to, ..found });
                }
            } else {
                let found = self.find(&bytes[start..end], BLOCKS);
                all.extend(found.into_iter().map(|found| Found {
                    from: start + found.from,
                    to: start + found.to,
                    ..found
                }));
            }
            at = (end + 1).min(bytes.len());
        }
        all
    }

    fn find(&self, bytes: &[u8], blocks: u8) -> Vec<Found> {
        let mut all = Vec::new();
        if self.is_empty() || bytes.len() < limits::SECRET_BYTES_MIN {
            return all;
        }
        all.extend((0..bytes.len()).filter_map(|at| self.found_at(bytes, at)));
        if blocks > 0 {
            block::each(bytes, limits::SECRET_BYTES_MIN, |block: Block| {
                for found in self.find(&block.bytes, blocks - 1) {
                    let (from, to) = block.source(found.from, found.to);
                    all.push(Found { from, to, ..found });
                }
            });
        }
        all
    }

    /// The longest secret that begins at a place; a whole one before one that is cut.
    fn found_at(&self, bytes: &[u8], at: usize) -> Option<Found> {
        let first = bytes[at];
        if spell::is_special(first) {
            let begins = |secret: &usize| spell::may_begin(bytes, at, &self.secrets[*secret].value);
            return self.spelled(bytes, at, (0..self.secrets.len()).filter(begins));
        }
        let plain = &self.by_first[usize::from(first)];
        // Forms write a space as `+`.
        let spaces = (first == b'+').then(|| &self.by_first[usize::from(b' ')]);
        self.spelled(bytes, at, plain.iter().chain(spaces.into_iter().flatten()).copied())
    }

    fn spelled(
        &self,
        bytes: &[u8],
        from: usize,
        secrets: impl Iterator<Item = usize>,
    ) -> Option<Found> {
        let mut cut = None;
        for secret in secrets {
            match spell::spelled(bytes, from, &self.secrets[secret].value) {
                Some(End::Whole(to)) => return Some(Found { from, to, secret }),
                Some(End::Cut(to)) => cut = cut.or(Some(Found { from, to, secret })),
                None => {}
            }
        }
        cut
    }
}

/// What a JSON string says.
fn unescaped(string: &[u8]) -> Block {
    let mut block = Block::default();
    let mut at = 0;
    while at < string.len() {
        let Some(read) = spell::read_json(string, at) else { break };
        let mut bytes = [0; 4];
        let bytes = match read.sign {
            spell::Sign::Byte(byte) | spell::Sign::Either(byte) => {
                bytes[0] = byte;
                &bytes[..1]
            }
            spell::Sign::Point(point) => point.encode_utf8(&mut bytes).as_bytes(),
        };
        bytes.iter().for_each(|byte| block.push(*byte, (at, read.next)));
        at = read.next;
    }
    block
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

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD_NO_PAD;

    use super::*;

    const VALUE: &str = "sk_live/4\"eé 9\\z";

    fn redactor() -> Redactor {
        Redactor::new([("STRIPE KEY".to_owned(), VALUE.to_owned())]).expect("it is long enough")
    }

    #[test]
    fn inv_i23_a_secret_is_found_in_every_form_that_texts_give_it() {
        let base64 = STANDARD_NO_PAD;
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
