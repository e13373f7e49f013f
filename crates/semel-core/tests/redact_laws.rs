//! Laws of redaction over random secrets and random compositions of encoders: a declared secret is
//! found by its meaning in whatever form it comes, and nothing else is changed. The seed is fixed.

use std::borrow::Cow;
use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE, URL_SAFE_NO_PAD};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use semel_core::redact::Redactor;

fn config() -> ProptestConfig {
    ProptestConfig {
        cases: 2_000,
        failure_persistence: None,
        rng_seed: RngSeed::Fixed(7),
        ..ProptestConfig::default()
    }
}

/// One way in which programs write a text into another.
#[derive(Clone, Copy, Debug)]
enum Form {
    Plain,
    /// `urllib.parse.quote` leaves `/` alone, others what they like.
    Quote {
        safe: &'static str,
        is_upper: bool,
    },
    QuotePlus,
    QuoteAll,
    Base64,
    Base64Url,
    Base64Bare,
    /// Lines of so many signs.
    Mime(usize, &'static str),
    /// A header `Basic`.
    Basic,
    /// JSON of credentials, as base64.
    Credentials,
    Hex,
    HexUpper,
    HtmlNamed,
    HtmlDecimal,
    HtmlHex,
    Repr,
    ReprAscii,
    ReprBytes,
    Json,
    JsonSlash,
    JsonAscii,
    JsonAll,
    QuotedPrintable,
}

const FORMS: [Form; 27] = [
    Form::Plain,
    Form::Quote { safe: "/", is_upper: true },
    Form::Quote { safe: "", is_upper: true },
    Form::Quote { safe: "", is_upper: false },
    Form::Quote { safe: "/+:;=@", is_upper: true },
    Form::Quote { safe: "\\\"' &", is_upper: false },
    Form::QuotePlus,
    Form::QuoteAll,
    Form::Base64,
    Form::Base64Url,
    Form::Base64Bare,
    Form::Mime(76, "\r\n"),
    Form::Mime(64, "\n"),
    Form::Basic,
    Form::Credentials,
    Form::Hex,
    Form::HexUpper,
    Form::HtmlNamed,
    Form::HtmlDecimal,
    Form::HtmlHex,
    Form::Repr,
    Form::ReprAscii,
    Form::ReprBytes,
    Form::Json,
    Form::JsonSlash,
    Form::JsonAscii,
    Form::JsonAll,
];

fn quote(text: &str, safe: &str, is_upper: bool) -> String {
    let mut quoted = String::new();
    for byte in text.bytes() {
        let sign = char::from(byte);
        match byte.is_ascii_alphanumeric() || "-._~".contains(sign) || safe.contains(sign) {
            true => quoted.push(sign),
            false if is_upper => write!(quoted, "%{byte:02X}").expect("text"),
            false => write!(quoted, "%{byte:02x}").expect("text"),
        }
    }
    quoted
}

fn lines(text: &str, width: usize, end: &str) -> String {
    let lines: Vec<&str> =
        text.as_bytes().chunks(width).map(|line| std::str::from_utf8(line).expect("it")).collect();
    lines.join(end)
}

fn signs(text: &str, form: impl Fn(char) -> String) -> String {
    text.chars().map(form).collect()
}

fn html(text: &str, other: impl Fn(char) -> String) -> String {
    signs(text, |sign| match sign {
        '&' => "&amp;".into(),
        '<' => "&lt;".into(),
        '>' => "&gt;".into(),
        '"' => "&quot;".into(),
        '\'' | '/' | '+' | '=' | '\\' | '\n' | ' ' => other(sign),
        sign if sign.is_ascii() => sign.to_string(),
        sign => other(sign),
    })
}

/// As Python shows a text.
fn repr(text: &str, other: impl Fn(char) -> String) -> String {
    let has = |sign| text.contains(sign);
    let quote = if has('\'') && !has('"') { '"' } else { '\'' };
    let inside = signs(text, |sign| match sign {
        '\n' => "\\n".into(),
        '\t' => "\\t".into(),
        '\\' => "\\\\".into(),
        sign if sign == quote => format!("\\{sign}"),
        sign if sign.is_ascii_control() => format!("\\x{:02x}", u32::from(sign)),
        sign if sign.is_ascii() => sign.to_string(),
        sign => other(sign),
    });
    format!("{quote}{inside}{quote}")
}

fn json(text: &str) -> String {
    serde_json::to_string(text).expect("JSON")
}

fn units(sign: char) -> String {
    sign.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect()
}

impl Form {
    fn of(self, text: &str) -> String {
        let point = |sign: char| match u32::from(sign) {
            small @ 0..=0xff => format!("\\x{small:02x}"),
            middle @ 0..=0xffff => format!("\\u{middle:04x}"),
            large => format!("\\U{large:08x}"),
        };
        match self {
            Form::Plain => text.to_owned(),
            Form::Quote { safe, is_upper } => quote(text, safe, is_upper),
            Form::QuotePlus => quote(text, " ", true).replace(' ', "+"),
            Form::QuoteAll => text.bytes().map(|byte| format!("%{byte:02x}")).collect(),
            Form::Base64 => STANDARD.encode(text),
            Form::Base64Url => URL_SAFE.encode(text),
            Form::Base64Bare => URL_SAFE_NO_PAD.encode(text),
            Form::Mime(width, end) => lines(&STANDARD.encode(text), width, end),
            Form::Basic => format!("Basic {}", STANDARD.encode(format!("me:{text}"))),
            Form::Credentials => {
                let all = serde_json::json!({ "type": "key", "private_key": text, "n": 1 });
                STANDARD.encode(all.to_string())
            }
            Form::Hex => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
            Form::HexUpper => text.bytes().map(|byte| format!("{byte:02X}")).collect(),
            Form::HtmlNamed => html(text, |sign| match sign {
                '\'' => "&apos;".into(),
                '/' => "&sol;".into(),
                sign => sign.to_string(),
            }),
            Form::HtmlDecimal => html(text, |sign| format!("&#{};", u32::from(sign))),
            Form::HtmlHex => html(text, |sign| format!("&#x{:X};", u32::from(sign))),
            Form::Repr => repr(text, |sign| sign.to_string()),
            Form::ReprAscii => repr(text, point),
            Form::ReprBytes => repr(text, |sign| {
                sign.to_string().bytes().map(|byte| format!("\\x{byte:02x}")).collect()
            }),
            Form::Json => json(text),
            Form::JsonSlash => json(text).replace('/', "\\/"),
            Form::JsonAscii => signs(&json(text), |sign| match sign.is_ascii() {
                true => sign.to_string(),
                false => units(sign),
            }),
            Form::JsonAll => signs(text, units),
            Form::QuotedPrintable => lines(
                &signs(text, |sign| match sign {
                    '=' => "=3D".into(),
                    sign if sign.is_ascii() => sign.to_string(),
                    sign => sign.to_string().bytes().map(|byte| format!("={byte:02X}")).collect(),
                }),
                usize::MAX,
                "",
            ),
        }
    }
}

fn form() -> impl Strategy<Value = Form> {
    prop::sample::select(&FORMS[..])
}

/// Secrets with all the signs that somebody escapes, and a tail to know them by.
fn secret() -> impl Strategy<Value = String> {
    let part = "[a-zA-Z0-9/+=\"'\\\\ %&<>:;é€\u{1F600}nxu4\n-]{4,30}";
    (part, "[a-z]{3}[A-Z]{3}[0-9]{3}").prop_map(|(part, tail)| format!("{part}{tail}"))
}

/// What may stand around a secret.
fn around() -> impl Strategy<Value = &'static str> {
    const ALL: [&str; 12] =
        ["", "key=", "50%", "C:\\", "a&", "{\"a\":", "word ", "\n", "ab", "x/", "?q=", "é"];
    prop::sample::select(&ALL[..])
}

type Layer = (Form, &'static str, &'static str);

fn written(secret: &str, layers: &[Layer]) -> String {
    layers.iter().fold(secret.to_owned(), |text, (form, before, after)| {
        form.of(&format!("{before}{text}{after}"))
    })
}

fn redactor(secret: &str) -> Redactor {
    Redactor::new([("CANARY".to_owned(), secret.to_owned())]).expect("a secret")
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn inv_i23_a_secret_survives_in_no_composition_of_forms(
        secret in secret(),
        layers in prop::collection::vec((form(), around(), around()), 1..4),
    ) {
        let found = redactor(&secret);
        let text = written(&secret, &layers);
        let redacted = found.text(&text);
        prop_assert!(redacted.contains("[redacted:CANARY]"), "{text}\n{redacted}");
        prop_assert!(!redacted.contains(&secret) && found.exposed(&redacted).is_none());
        let json = serde_json::json!({ "a": [text, 1], text.clone(): "b" }).to_string();
        let redacted = found.json(&json);
        prop_assert_eq!(redacted.matches("[redacted:CANARY]").count(), 2, "{}", redacted);
        prop_assert!(found.exposed_json(&redacted).is_none());
        prop_assert!(serde_json::from_str::<serde_json::Value>(&redacted).is_ok(), "{}", redacted);
        prop_assert_eq!(found.json(&redacted), redacted.as_ref(), "done once, it is done");
    }

    #[test]
    fn inv_i23_what_holds_no_secret_stays_as_it_is(
        secret in secret(),
        other in secret(),
        layers in prop::collection::vec((form(), around(), around()), 0..4),
    ) {
        prop_assume!(other != secret);
        let found = redactor(&secret);
        let text = written(&other, &layers);
        prop_assert!(matches!(found.text(&text), Cow::Borrowed(_)), "{text}");
        let json = serde_json::json!({ "a": [text] }).to_string();
        prop_assert!(matches!(found.json(&json), Cow::Borrowed(_)), "{json}");
    }
}

#[test]
fn inv_i23_each_form_takes_out_no_more_than_the_secret() {
    let secret = "sk/live+4\"e'é 9\\z=&<%41>\n";
    let found = redactor(secret);
    for form in FORMS.into_iter().chain([Form::QuotedPrintable]) {
        let text = format!("before {} after", form.of(secret));
        let redacted = found.text(&text).into_owned();
        assert!(redacted.starts_with("before ") && redacted.ends_with(" after"), "{redacted}");
        assert!(redacted.contains("[redacted:CANARY]"), "{form:?}: {text}: {redacted}");
        let rest = redacted.replace("[redacted:CANARY]", "");
        let whole = matches!(form, Form::Basic | Form::Credentials);
        assert!(whole || rest.len() <= "before  after".len() + 2, "{form:?}: {rest}");
    }
}

#[test]
fn inv_i23_what_the_end_of_a_text_cuts_of_a_secret_is_found_too() {
    let found = redactor("sk_live_51HxQ29fJq8");
    assert_eq!(found.text("no: sk_live_51HxQ29"), "no: [redacted:CANARY]");
    let kept = "keys begin with sk_live_";
    assert_eq!(found.text(kept), kept, "its beginning alone tells nothing");
}

#[test]
fn a_name_that_holds_a_secret_is_refused() {
    let named = Redactor::new([("my-password-1".to_owned(), "password-1".to_owned())]);
    assert!(named.is_err_and(|why| why.why.contains("rename")));
}
