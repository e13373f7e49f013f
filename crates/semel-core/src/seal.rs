//! Seals: one SHA-256 over all values of a row, kept beside them. Whoever changes a value, or puts
//! one row's value into another row, leaves a seal that no longer fits.
//!
//! A seal has no secret in it: it finds accidents and careless hands, and makes careful ones
//! rewrite it. What a row was at some time is proven by a head that was exported then
//! ([`crate::verify::head`]).

use std::fmt;

use sha2::{Digest, Sha256};

/// The seal of one row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seal(pub [u8; 32]);

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    Nothing,
    Text(&'a str),
    Number(i64),
    Mark(bool),
}

/// Seals the values of a row of a table. The text that is hashed can be written in SQL as well:
/// the table and each value as text behind its length in bytes, `-` for nothing, commas between.
pub fn seal(table: &str, values: &[Value<'_>]) -> Seal {
    let mut hash = Sha256::new();
    part(&mut hash, table);
    for value in values {
        hash.update(b",");
        match value {
            Value::Nothing => hash.update(b"-"),
            Value::Text(text) => part(&mut hash, text),
            Value::Number(number) => part(&mut hash, &number.to_string()),
            Value::Mark(mark) => part(&mut hash, if *mark { "1" } else { "0" }),
        }
    }
    Seal(hash.finalize().into())
}

fn part(hash: &mut Sha256, text: &str) {
    hash.update(text.len().to_string());
    hash.update(b":");
    hash.update(text);
}

/// The digest of a record as it lies in its row, by which a head names it.
pub fn digest(text: &str) -> String {
    Seal(Sha256::digest(text.as_bytes()).into()).to_string()
}

impl fmt::Display for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Seal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Seal({self})")
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(text: &'a str) -> Value<'a> {
        Value::Text(text)
    }
}

impl<'a> From<&'a String> for Value<'a> {
    fn from(text: &'a String) -> Value<'a> {
        Value::Text(text)
    }
}

impl From<i64> for Value<'_> {
    fn from(number: i64) -> Self {
        Value::Number(number)
    }
}

impl From<bool> for Value<'_> {
    fn from(mark: bool) -> Self {
        Value::Mark(mark)
    }
}

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Value<'a> {
        value.map_or(Value::Nothing, T::into)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn inv_i22_every_single_bit_of_a_row_is_under_its_seal() {
        let (name, number, text) = ("ann", 42_i64, r#"{"ticket":7,"note":"grüße"}"#);
        let of = |name: &str, number: i64, text: &str| {
            seal("effect", &[name.into(), number.into(), text.into()]).0
        };
        let mut seen = HashSet::from([of(name, number, text)]);
        for bit in 0..name.len() * 8 {
            let flipped = flip(name, bit);
            assert!(seen.insert(of(&flipped, number, text)), "bit {bit} of the name");
        }
        for bit in 0..64 {
            assert!(seen.insert(of(name, number ^ (1 << bit), text)), "bit {bit} of the number");
        }
        for bit in 0..text.len() * 8 {
            let flipped = flip(text, bit);
            assert!(seen.insert(of(name, number, &flipped)), "bit {bit} of the text");
        }
    }

    /// Bytes that are no text any more are read as what stands for them, as a store would not even.
    fn flip(text: &str, bit: usize) -> String {
        let mut bytes = text.as_bytes().to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        String::from_utf8(bytes).unwrap_or_else(|_| format!("{text}{bit}"))
    }

    #[test]
    fn inv_i22_no_two_rows_are_one_text() {
        let rows: [(&str, &[Value<'_>]); 9] = [
            ("t", &["ab".into(), "c".into()]),
            ("t", &["a".into(), "bc".into()]),
            ("t", &["abc".into()]),
            ("t", &["abc".into(), "".into()]),
            ("t", &["abc".into(), Value::Nothing]),
            ("u", &["abc".into()]),
            ("t", &["a,1:b".into(), "c".into()]),
            ("t", &["-".into()]),
            ("t", &[Value::Nothing]),
        ];
        let seals: HashSet<[u8; 32]> = rows.iter().map(|(table, row)| seal(table, row).0).collect();
        assert_eq!(seals.len(), rows.len());
    }

    #[test]
    fn the_text_that_is_hashed_is_the_one_that_sql_writes() {
        let row = ["ü".into(), Value::Nothing, Value::Number(-7), Value::Mark(true)];
        assert_eq!(seal("run", &row).to_string(), digest("3:run,2:ü,-,2:-7,1:1"));
    }
}
