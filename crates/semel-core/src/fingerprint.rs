//! The fingerprint of a request: tells a repeat from another wish under the same key.

use sha2::{Digest, Sha256};

use crate::canonical;

/// The version of the canonical form that new fingerprints use. A change of form is a new number
/// beside the old one: rows outlive the code that wrote them.
pub const FORM: u8 = 1;

/// Which inputs count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rule {
    /// All of them.
    All,
    /// These top-level members, sorted and each once. Declared where a model's wording is among the
    /// inputs, since another wording of the same intent must get the first receipt.
    Members(Vec<String>),
}

/// The digest of an input, with all that is needed to judge a later input by the same measure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    /// The version of the canonical form.
    pub form: u8,
    /// Which inputs counted.
    pub rule: Rule,
    /// SHA-256, see [`Fingerprint::of`].
    pub digest: [u8; 32],
}

impl Rule {
    /// The rule under which the named top-level members count.
    pub fn members<I, S>(names: I) -> Rule
    where
        I: IntoIterator<Item = S>,
        S: Into<String>,
    {
        let mut names: Vec<String> = names.into_iter().map(Into::into).collect();
        names.sort_unstable();
        names.dedup();
        Rule::Members(names)
    }
}

impl Fingerprint {
    /// The fingerprint of `input` in the current form.
    ///
    /// SHA-256 over four fields, each after its length as a big-endian `u64`: the domain
    /// `semel fingerprint`, the form, `c` (canonical) or `r` (raw), and the canonical text or the
    /// raw bytes.
    pub fn of(input: &[u8], rule: &Rule) -> Fingerprint {
        Fingerprint { form: FORM, rule: rule.clone(), digest: digest_1(input, rule) }
    }

    /// Whether `input` is the one this was taken of, judged by the stored form and rule.
    ///
    /// A form unknown here (a newer release wrote the row) matches nothing. A refused retry can be
    /// sent again; one that is wrongly accepted hides a changed wish behind an old receipt.
    pub fn matches(&self, input: &[u8]) -> bool {
        match self.form {
            1 => self.digest == digest_1(input, &self.rule),
            _ => false,
        }
    }
}

/// Whether two texts say the same, however they are written.
pub fn says_the_same(one: &str, other: &str) -> bool {
    let digest = |text: &str| digest_1(text.as_bytes(), &Rule::All);
    one == other || digest(one) == digest(other)
}

/// The digest of form 1, frozen by golden vectors.
fn digest_1(input: &[u8], rule: &Rule) -> [u8; 32] {
    let canonical = match rule {
        Rule::All => canonical::canonical(input),
        Rule::Members(names) => canonical::members(input, names),
    };
    // The tag keeps raw bytes from passing for the canonical text that they happen to spell.
    let (tag, bytes) = match &canonical {
        Some(text) => (b"c", text.as_bytes()),
        None => (b"r", input),
    };
    let mut hash = Sha256::new();
    for field in [b"semel fingerprint".as_slice(), &[1], tag, bytes] {
        hash.update((field.len() as u64).to_be_bytes());
        hash.update(field);
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::Key;

    const SAME: bool = true;
    const CHANGED: bool = false;

    /// Takes the fingerprint of `first`, then judges `second` by it.
    fn check(rule: &Rule, first: &str, second: &str, want: bool) {
        let stored = Fingerprint::of(first.as_bytes(), rule);
        assert!(stored.matches(first.as_bytes()), "{first} does not match itself");
        assert_eq!(stored.matches(second.as_bytes()), want, "{first} then {second}");
        assert_eq!(Fingerprint::of(second.as_bytes(), rule) == stored, want, "{first}, {second}");
        if *rule == Rule::All {
            assert_eq!(says_the_same(first, second), want, "{first}, {second}");
        }
    }

    fn payload_key(payload: &str, rule: &Rule) -> Key {
        let digest = Fingerprint::of(payload.as_bytes(), rule).digest;
        let hex: Vec<String> = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Key::from_text(&hex.concat()).unwrap()
    }

    #[test]
    fn case_f1_member_order_and_space_do_not_count() {
        check(&Rule::All, r#"{"a":1,"b":2}"#, r#"{ "b":2, "a":1 }"#, SAME);
        check(&Rule::All, r#"{"a":1,"b":2}"#, r#"{"a":1,"b":3}"#, CHANGED);
        check(&Rule::All, r#"{"a":1,"b":2}"#, r#"{"a":2,"b":1}"#, CHANGED);
    }

    #[test]
    fn case_f3_numbers_are_values_and_strings_are_text() {
        check(&Rule::All, "1.0", "1", SAME);
        check(&Rule::All, "1.0", "1e0", SAME);
        check(&Rule::All, r#""10.00""#, r#""10.0""#, CHANGED);
        check(&Rule::All, "1", r#""1""#, CHANGED);
        check(&Rule::All, "9007199254740993", "9007199254740992", CHANGED);
    }

    #[test]
    fn case_f4_array_order_counts() {
        check(&Rule::All, "[1,2]", "[2,1]", CHANGED);
        check(&Rule::All, "[1,2]", "[ 1 , 2 ]", SAME);
    }

    #[test]
    fn case_f5_unicode_is_not_normalised() {
        check(&Rule::All, "\"\u{e9}\"", "\"e\u{301}\"", CHANGED);
        check(&Rule::All, "\"\u{e9}\"", r#""\u00E9""#, SAME);
    }

    #[test]
    fn case_f8_absent_is_not_null() {
        let named = Rule::members(["a", "b"]);
        for rule in [&Rule::All, &named] {
            check(rule, r#"{"a":1}"#, r#"{"a":1,"b":null}"#, CHANGED);
        }
        check(&Rule::members(["a"]), r#"{"a":1}"#, r#"{"a":1,"b":null}"#, SAME);
    }

    #[test]
    fn case_f15_only_named_members_count_and_the_rule_is_stored() {
        let rule = Rule::members(["id", "amount"]);
        let first = r#"{"id":7,"amount":"9.99","text":"Dear Ann"}"#;
        check(&rule, first, r#"{"text":"Hello Ann","amount":"9.99","id":7}"#, SAME);
        check(&rule, first, r#"{"id":7,"amount":"9.99"}"#, SAME);
        check(&rule, first, r#"{"id":7,"amount":"9.90","text":"Dear Ann"}"#, CHANGED);
        check(&Rule::All, first, r#"{"id":7,"amount":"9.99","text":"Hello Ann"}"#, CHANGED);
        // The row's own rule judges, whatever the code declares today.
        let stored = Fingerprint::of(first.as_bytes(), &rule);
        assert_eq!(stored.rule, Rule::Members(vec!["amount".to_owned(), "id".to_owned()]));
        assert!(!stored.matches(b"[7]"));
    }

    #[test]
    fn rule_is_a_set_of_names() {
        assert_eq!(Rule::members(["b", "a", "b"]), Rule::members(["a", "b"]));
        assert_ne!(Rule::members(["a"]), Rule::members(["a", "b"]));
        assert_ne!(Rule::members(Vec::<String>::new()), Rule::All);
    }

    #[test]
    fn case_f16_stored_form_judges_and_an_unknown_one_refuses() {
        let input = br#"{"a":1}"#;
        let stored = Fingerprint::of(input, &Rule::All);
        assert_eq!((stored.form, stored.matches(input)), (1, true));
        for form in [0, 2, 255] {
            let newer = Fingerprint { form, ..stored.clone() };
            assert!(!newer.matches(input), "form {form} was guessed at");
        }
    }

    #[test]
    fn case_f17_what_cannot_be_canonical_is_compared_raw() {
        let deep = format!("{}1{}", "[".repeat(10_000), "]".repeat(10_000));
        check(&Rule::All, &deep, &deep.replace('1', " 1"), CHANGED);
        check(&Rule::All, "1e400", "10e399", SAME);
        check(&Rule::All, "1e400", "1e401", CHANGED);
        check(&Rule::All, r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, CHANGED);
        check(&Rule::All, r#"{"a":1,"a":2}"#, r#"{"a":1, "a":2}"#, CHANGED);
        check(&Rule::All, r#""\ud800""#, r#""\ud801""#, CHANGED);
        check(&Rule::All, "not json", "not json ", CHANGED);
        check(&Rule::members(["a"]), r#"{"a":1,"a":2}"#, r#"{"a":1,"a":2,"b":3}"#, CHANGED);
    }

    #[test]
    fn digest_is_frozen() {
        let hex = |input: &[u8], rule: &Rule| {
            payload_key(str::from_utf8(input).unwrap(), rule).as_str().to_owned()
        };
        // Made by a second implementation (Python's hashlib). Stored rows rely on them: they may
        // never change.
        assert_eq!(
            hex(br#"{"b":[1.0,"\u00e9"],"a":null}"#, &Rule::All),
            "1a7447652ba451d73efe065822fe38b16dc8fe60a121de1a5b1b7b3024ca8b18"
        );
        assert_eq!(
            hex(br#"{"id":42,"text":"x"}"#, &Rule::members(["id"])),
            "e64be6ecc7ff496644674e9c33ba52085a1e6e52b84369983eef29e04681e0a9"
        );
        assert_eq!(
            hex(b"not json", &Rule::All),
            "8e191c0a6a6e2da6bf7ef5c3286a1f4648cf4a6354c9f4ee8e75ffacc76e5e30"
        );
        assert_eq!(
            hex(b"", &Rule::All),
            "393ef9dacc8c4f81395be095f7363ebcec0680a4832b38bc5f353ef7fba01f31"
        );
    }

    #[test]
    fn req_k2_attempt_worker_and_process_do_not_change_a_payload_key() {
        let rule = Rule::members(["order"]);
        let key = |attempt: u32, worker: &str, process: u32| {
            let payload = format!(
                r#"{{"order":7,"attempt":{attempt},"worker":"{worker}","process":{process}}}"#
            );
            payload_key(&payload, &rule)
        };
        let first = key(1, "a", 100);
        assert_eq!(key(2, "a", 100), first);
        assert_eq!(key(1, "b", 100), first);
        assert_eq!(key(1, "a", 200), first);
        assert_ne!(
            payload_key(r#"{"order":8,"attempt":1,"worker":"a","process":100}"#, &rule),
            first
        );
    }

    #[test]
    fn req_k7_space_and_member_order_do_not_change_a_payload_key() {
        let first = payload_key(r#"{"order":7,"lines":[{"sku":"a","n":2}]}"#, &Rule::All);
        let spaced = "{\n  \"lines\": [ { \"n\": 2.0, \"sku\": \"a\" } ],\r\n\t\"order\": 7 }";
        assert_eq!(payload_key(spaced, &Rule::All), first);
        let more = r#"{"order":7,"lines":[{"sku":"a","n":3}]}"#;
        assert_ne!(payload_key(more, &Rule::All), first);
    }
}
