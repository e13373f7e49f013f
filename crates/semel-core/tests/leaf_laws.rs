//! Laws of keys and canonical text over random values. The seed is fixed: a run that passes here
//! passes everywhere, and a failure shows itself again.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use semel_core::canonical::{canonical, members};
use semel_core::journal::{self, At, Entry, Event};
use semel_core::key::Key;
use semel_core::time::{Steady, Wall};
use semel_core::{audit, record, run, schedule};
use serde::de::IgnoredAny;
use serde_json::Value;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 1_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    }
}

/// Parts of few letters, so that lists often almost meet.
fn part() -> impl Strategy<Value = String> {
    prop_oneof![4 => "[,%2C5a ]{0,4}", 1 => "\\PC{0,8}"]
}

fn parts() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(part(), 0..4)
}

/// Any value whose numbers are integers, so that serde_json can be the judge of equality.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "(?s).{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-c\u{e9}\u{fb33}😀\"\n]{0,2}", inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

/// Writes `value` in a way that `choices` picks: member order, space, escapes, number layout.
fn write(value: &Value, choices: &mut Choices, out: &mut String) {
    choices.space(out);
    match value {
        Value::Null | Value::Bool(_) => out.push_str(&value.to_string()),
        Value::Number(number) => match choices.below(3) {
            0 => out.push_str(&number.to_string()),
            1 => out.push_str(&format!("{number}.00")),
            _ => out.push_str(&format!("{number}000E-3")),
        },
        Value::String(string) => write_string(string, choices, out),
        Value::Array(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                out.push_str(if index > 0 { "," } else { "" });
                write(item, choices, out);
            }
            out.push(']');
        }
        Value::Object(object) => {
            let mut rest: Vec<_> = object.iter().collect();
            out.push('{');
            while !rest.is_empty() {
                let (name, item) = rest.swap_remove(choices.below(rest.len()));
                write_string(name, choices, out);
                choices.space(out);
                out.push(':');
                write(item, choices, out);
                out.push_str(if rest.is_empty() { "" } else { "," });
            }
            out.push('}');
        }
    }
    choices.space(out);
}

fn write_string(string: &str, choices: &mut Choices, out: &mut String) {
    choices.space(out);
    out.push('"');
    for c in string.chars() {
        if choices.below(3) > 0 && c >= ' ' && c != '"' && c != '\\' {
            out.push(c);
        } else {
            for unit in c.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04X}"));
            }
        }
    }
    out.push('"');
}

/// A list of choices, read in a circle.
struct Choices {
    bytes: Vec<u8>,
    at: usize,
}

impl Choices {
    fn below(&mut self, bound: usize) -> usize {
        self.at += 1;
        usize::from(self.bytes[self.at % self.bytes.len()]) % bound
    }

    fn space(&mut self, out: &mut String) {
        out.push_str(["", "", " ", "\n", "\t\r"][self.below(5)]);
    }
}

fn written(value: &Value, bytes: Vec<u8>) -> String {
    let mut out = String::new();
    write(value, &mut Choices { bytes, at: 0 }, &mut out);
    out
}

/// Tokens of JSON, whole and broken, in any order.
const ALMOST_JSON: &str = concat!(
    r#"([\[\]{},:1-]|"a"|"b"|"\\u[dD][89cC]00"|"\\u00e|0|\.5|[eE][+-]?[1-9]"#,
    r#"|true|null| |"|\\|é){0,12}"#
);

fn choices() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 64)
}

/// An entry of a journal with one character another than it was written.
fn entry_with(place: usize, put: char) -> String {
    let at = At(Wall(1), Steady { boot: 1, ms: 2 });
    let event = Event::Resumed { actor: "ada".into(), reason: "fixed".into() };
    let text = journal::encode(&Entry { format: journal::FORMAT, at, event });
    let with = |(index, letter)| if index == place % text.len() { put } else { letter };
    text.chars().enumerate().map(with).collect()
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn sec_37_stored_text_is_read_as_data_or_refused(
        text in ALMOST_JSON, place in 0_usize..200, put in any::<char>()
    ) {
        for text in [text, entry_with(place, put)] {
            if let Ok(entry) = journal::decode(&text) {
                prop_assert_eq!(journal::decode(&journal::encode(&entry)), Ok(entry));
            }
            prop_assert!(record::decode(&text).is_err());
            prop_assert!(run::decode(&text, 1).is_err());
            prop_assert!(schedule::decode(&text).is_err());
            prop_assert!(audit::read(&text).is_err());
        }
    }

    #[test]
    fn key_reads_back_as_its_parts(parts in parts()) {
        if let Ok(key) = Key::from_parts(&parts) {
            prop_assert_eq!(key.parts(), parts);
            prop_assert_eq!(Key::parse(key.as_str()), Ok(key));
        }
    }

    #[test]
    fn different_lists_are_different_keys(one in parts(), two in parts()) {
        if let (Ok(a), Ok(b)) = (Key::from_parts(&one), Key::from_parts(&two)) {
            prop_assert_eq!(a == b, one == two);
        }
    }

    #[test]
    fn what_parses_is_what_would_be_printed(encoded in "[,%25Cc4a ]{0,6}") {
        if let Ok(key) = Key::parse(&encoded) {
            prop_assert_eq!(key.as_str(), encoded);
            prop_assert_eq!(Key::from_parts(key.parts()), Ok(key));
        }
    }

    #[test]
    fn canonical_text_depends_on_the_value_alone(
        value in value(), one in choices(), two in choices()
    ) {
        let text = canonical(written(&value, one).as_bytes()).unwrap();
        prop_assert_eq!(&canonical(written(&value, two).as_bytes()).unwrap(), &text);
        prop_assert_eq!(&canonical(text.as_bytes()).unwrap(), &text);
        prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), value);
    }

    #[test]
    fn different_values_have_different_texts(one in value(), two in value()) {
        let text = |value: &Value| canonical(value.to_string().as_bytes()).unwrap();
        prop_assert_eq!(text(&one) == text(&two), one == two);
    }

    #[test]
    fn members_is_canonical_of_the_smaller_object(
        object in prop::collection::btree_map("[a-d]", value(), 0..4),
        names in prop::collection::vec("[a-d]", 0..3),
        bytes in choices(),
    ) {
        let kept: BTreeMap<_, _> = object.iter().filter(|(name, _)| names.contains(name)).collect();
        let want = canonical(&serde_json::to_vec(&kept).unwrap());
        let whole = written(&Value::Object(object.clone().into_iter().collect()), bytes);
        prop_assert_eq!(members(whole.as_bytes(), &names), want);
    }

    /// The exact value of `m * 10^e` decides, however many zeros it is written with.
    #[test]
    fn decimals_are_equal_as_text_when_equal_as_numbers(
        m in -2000_i128..2000, e in -12_i32..12, n in -2000_i128..2000, f in -12_i32..12,
    ) {
        let text = |m: i128, e: i32| canonical(format!("{m}e{e}").as_bytes()).unwrap();
        let exact = |m: i128, e: i32| m * 10_i128.pow(u32::try_from(e + 12).unwrap());
        prop_assert_eq!(text(m, e) == text(n, f), exact(m, e) == exact(n, f));
        prop_assert_eq!(text(m, e), text(m * 1000, e - 3));
        let double = |text: &str| text.parse::<f64>().unwrap();
        prop_assert_eq!(double(&text(m, e)), double(&format!("{m}e{e}")));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        let _ = canonical(&bytes);
        let _ = members(&bytes, &["a"]);
    }

    /// Text that is almost JSON: whatever is accepted is JSON to serde_json as well, and what
    /// serde_json takes is refused only for a reason of ours.
    #[test]
    fn almost_json_never_panics_and_is_judged_right(
        text in ALMOST_JSON
    ) {
        let read = canonical(text.as_bytes());
        let valid = serde_json::from_str::<IgnoredAny>(&text).is_ok();
        if read.is_some() {
            prop_assert!(valid, "{} was accepted", text);
        } else if valid {
            let odd = text.contains("\\u") || serde_json::from_str::<Value>(&text).is_err()
                || ["\"a\"", "\"b\""].iter().any(|name| text.matches(name).count() > 1);
            prop_assert!(odd, "{} was refused", text);
        }
        if let Some(read) = read {
            prop_assert_eq!(canonical(read.as_bytes()), Some(read));
        }
    }
}
