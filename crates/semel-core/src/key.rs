//! Names: the key of an intent, its action, its namespace, and the address that joins them.
//!
//! A key is built from business identifiers and is the same for every retry, so its encoding may
//! never be ambiguous and may never change: nothing is folded, trimmed or cut.

use std::error::Error;
use std::fmt;

use crate::limits;

/// The stable name of one intent within its action, in its encoded form.
///
/// Parts are joined by `,`; inside a part `,` is written `%2C` and `%` is written `%25`. Only those
/// two are escaped, so that operators can search for a key as they know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key(String);

/// Why a text or a list is not a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyInvalid {
    /// The broken rule as a sentence; it never repeats the key.
    pub why: &'static str,
}

/// The kind of effect, e.g. `crm-ticket`: the name space of its keys.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Action(String);

/// The tenant boundary. Draft runs use the namespace's own draft twin.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Namespace(String);

/// Why a text is not an action or a namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NameInvalid {
    /// What was named: `action` or `namespace`.
    pub what: &'static str,
    /// The broken rule, to be read after `what`.
    pub why: &'static str,
}

/// Names one effect over all its generations.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address {
    /// The tenant.
    pub namespace: Namespace,
    /// The kind of effect.
    pub action: Action,
    /// The intent within the action.
    pub key: Key,
}

/// What a caller may hand over as a key: a text, a list of texts, or a key.
pub trait IntoKey {
    /// Encodes and checks the key.
    fn into_key(self) -> Result<Key, KeyInvalid>;
}

/// No namespace that a person may choose contains `~`, so a twin belongs to exactly one of them.
const DRAFT_SUFFIX: &str = "~draft";

const SEPARATOR: char = ',';

impl Key {
    /// The key of a list. Empty parts are allowed beside others: a missing part is a fact too.
    pub fn from_parts<I, S>(parts: I) -> Result<Key, KeyInvalid>
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        let mut encoded = String::new();
        for (index, part) in parts.into_iter().enumerate() {
            if index > 0 {
                encoded.push(SEPARATOR);
            }
            let part = part.as_ref();
            // Encoding never shortens. Stopping here keeps an endless list from filling the memory.
            if encoded.len() + part.len() > limits::KEY_BYTES_MAX {
                return Err(TOO_LONG);
            }
            encode(part, &mut encoded);
        }
        Key::checked(encoded)
    }

    /// The key of one text: the same as that of the list that holds only this text.
    pub fn from_text(text: &str) -> Result<Key, KeyInvalid> {
        Key::from_parts([text])
    }

    /// Reads back what [`Key::as_str`] printed, and nothing else: were `%2c` read as `%2C`, one
    /// intent would have two names.
    pub fn parse(encoded: &str) -> Result<Key, KeyInvalid> {
        let mut escapes = encoded.split('%').skip(1);
        if !escapes.all(|rest| rest.starts_with("2C") || rest.starts_with("25")) {
            return Err(KeyInvalid { why: "key has a `%` that is not part of %2C or %25" });
        }
        Key::checked(encoded.to_owned())
    }

    /// The encoded form.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The parts as they were given.
    pub fn parts(&self) -> Vec<String> {
        self.0.split(SEPARATOR).map(decode).collect()
    }

    fn checked(encoded: String) -> Result<Key, KeyInvalid> {
        if encoded.is_empty() {
            return Err(KeyInvalid { why: "key is empty" });
        }
        if encoded.len() > limits::KEY_BYTES_MAX {
            return Err(TOO_LONG);
        }
        if encoded.contains(char::is_control) {
            return Err(KeyInvalid { why: "key has a control character" });
        }
        // A bare separator is never content: a comma inside a part is encoded.
        if encoded.chars().all(|c| c.is_whitespace() || c == SEPARATOR) {
            return Err(KeyInvalid { why: "key is blank" });
        }
        Ok(Key(encoded))
    }
}

impl Action {
    /// Checks the name of an action.
    pub fn new(name: &str) -> Result<Action, NameInvalid> {
        check_name("action", name)?;
        Ok(Action(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Namespace {
    /// Checks a name that a person chose. A draft twin cannot be chosen, only reached by
    /// [`Namespace::draft`].
    pub fn new(name: &str) -> Result<Namespace, NameInvalid> {
        let invalid = |why| NameInvalid { what: "namespace", why };
        if name.ends_with(DRAFT_SUFFIX) {
            return Err(invalid("ends in ~draft, which is reserved for draft twins"));
        }
        check_name("namespace", name)?;
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        if !name.chars().all(plain) {
            return Err(invalid("may only have ASCII letters, digits, `.`, `_` and `-`"));
        }
        Ok(Namespace(name.to_owned()))
    }

    /// Reads a name back from where Semel itself wrote it, draft twins included.
    pub fn stored(name: &str) -> Result<Namespace, NameInvalid> {
        match name.strip_suffix(DRAFT_SUFFIX) {
            Some(base) => Ok(Namespace::new(base)?.draft()),
            None => Namespace::new(name),
        }
    }

    /// The namespace that this one is the draft twin of; any other is its own.
    pub fn live(&self) -> Namespace {
        let name = self.0.strip_suffix(DRAFT_SUFFIX).unwrap_or(&self.0);
        Namespace(name.to_owned())
    }

    /// The draft twin. A twin is its own: drafts of drafts would be a third world.
    pub fn draft(&self) -> Namespace {
        if self.is_draft() { self.clone() } else { Namespace(format!("{self}{DRAFT_SUFFIX}")) }
    }

    /// Whether this is a draft twin.
    pub fn is_draft(&self) -> bool {
        self.0.ends_with(DRAFT_SUFFIX)
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for Namespace {
    fn default() -> Namespace {
        Namespace("default".to_owned())
    }
}

impl IntoKey for &str {
    fn into_key(self) -> Result<Key, KeyInvalid> {
        Key::from_text(self)
    }
}

impl IntoKey for String {
    fn into_key(self) -> Result<Key, KeyInvalid> {
        Key::from_text(&self)
    }
}

impl IntoKey for &String {
    fn into_key(self) -> Result<Key, KeyInvalid> {
        Key::from_text(self)
    }
}

impl<S: AsRef<str>, const N: usize> IntoKey for [S; N] {
    fn into_key(self) -> Result<Key, KeyInvalid> {
        Key::from_parts(self)
    }
}

impl<S: AsRef<str>> IntoKey for &[S] {
    fn into_key(self) -> Result<Key, KeyInvalid> {
        Key::from_parts(self)
    }
}

impl<S: AsRef<str>> IntoKey for Vec<S> {
    fn into_key(self) -> Result<Key, KeyInvalid> {
        Key::from_parts(self)
    }
}

impl IntoKey for Key {
    fn into_key(self) -> Result<Key, KeyInvalid> {
        Ok(self)
    }
}

impl IntoKey for &Key {
    fn into_key(self) -> Result<Key, KeyInvalid> {
        Ok(self.clone())
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for Namespace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// An action has no `/`, so the first one ends it even when the key has more.
impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.action, self.key)
    }
}

impl fmt::Display for KeyInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.why)
    }
}

impl fmt::Display for NameInvalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.what, self.why)
    }
}

impl Error for KeyInvalid {}
impl Error for NameInvalid {}

// A test holds the numbers in the messages to the limits.
const TOO_LONG: KeyInvalid = KeyInvalid { why: "key is longer than 255 bytes when encoded" };

fn check_name(what: &'static str, name: &str) -> Result<(), NameInvalid> {
    let why = if name.is_empty() {
        "is empty"
    } else if name.len() > limits::NAME_BYTES_MAX {
        "is longer than 100 bytes"
    } else if name.contains(char::is_control) {
        "has a control character"
    } else if name.contains(char::is_whitespace) {
        "has whitespace"
    } else if name.contains('/') {
        "has a `/`"
    } else {
        return Ok(());
    };
    Err(NameInvalid { what, why })
}

fn encode(part: &str, encoded: &mut String) {
    for c in part.chars() {
        match c {
            SEPARATOR => encoded.push_str("%2C"),
            '%' => encoded.push_str("%25"),
            plain => encoded.push(plain),
        }
    }
}

/// The comma first: `%25` decodes to the `%` that would otherwise begin a false `%2C`.
fn decode(part: &str) -> String {
    part.replace("%2C", ",").replace("%25", "%")
}

#[cfg(test)]
mod tests;
