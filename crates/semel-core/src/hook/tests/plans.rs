use super::*;
use crate::code::Code;

#[track_caller]
fn check_refused(declared: &str, code: Code, want: &str) {
    let refused = parse(declared).and_then(|content| check("orders", &content).map(|_| ()));
    let refused = refused.expect_err(declared);
    assert_eq!(refused.code(), code, "{refused}");
    assert!(refused.to_string().contains(want), "{refused}");
}

fn of(rest: &str) -> String {
    format!(r#"{{"workflow":"w","secret":"env:S",{rest}}}"#)
}

#[test]
fn what_cannot_work_is_refused_when_the_trigger_is_put() {
    let invalid = |rest: &str, want: &str| check_refused(&of(rest), Code::TriggerInvalid, want);
    invalid(r#""scheme":"md5""#, "unknown variant `md5`");
    invalid(r#""scheme":"stripe","speed":1"#, "unknown field `speed`");
    invalid(r#""scheme":"stripe","header":"x""#, "belongs to hmac and bearer");
    invalid(r#""scheme":"github","algorithm":"sha1""#, "belong to hmac");
    invalid(r#""scheme":"stripe","auth":"hmac""#, "belongs to the scheme cloudevents");
    invalid(r#""scheme":"cloudevents","auth":"slack""#, "bearer or hmac");
    invalid(r#""scheme":"cloudevents","auth":"cloudevents""#, "bearer or hmac");
    invalid(r#""scheme":"hmac","key":"{body:/id}""#, "needs the `header`");
    invalid(r#""scheme":"hmac","header":"x","algorithm":"sha1""#, "sha256 or sha512");
    invalid(r#""scheme":"hmac","header":"x","encoding":"HEX""#, "hex or base64");
    invalid(r#""scheme":"hmac","header":"x y""#, "no name of a header");
    invalid(r#""scheme":"hmac","header":"x","timestamp_header":"t","signed":"{body}""#, "not in");
    invalid(r#""scheme":"hmac","header":"x","signed":"{timestamp}{body}""#, "timestamp_header");
    invalid(r#""scheme":"hmac","header":"x","signed":"{body}{body}""#, "once");
    invalid(r#""scheme":"hmac","header":"x","signed":"{header:y}""#, "once");
    invalid(r#""scheme":"hmac","header":"x","signed":"{env:S}{body}""#, "nothing that is signed");
    invalid(r#""scheme":"hmac","header":"x""#, "say what the `key` is");
    invalid(r#""scheme":"bearer""#, "say what the `key` is");
    invalid(r#""scheme":"stripe","key":"orders""#, "would be one run");
    invalid(r#""scheme":"stripe","key":7"#, "a text or a list of texts");
    invalid(r#""scheme":"stripe","key":"{body:id}""#, "does not begin with /");
    invalid(r#""scheme":"stripe","key":"{body:/id""#, "without its pair");
    invalid(r#""scheme":"stripe","key":"{python:1+1}""#, "is no place");
    invalid(r#""scheme":"stripe","input":{"a":"{b}"}"#, "is no place");
    invalid(r#""scheme":"stripe","old_secret":{"from":"env:O","until":"soon"}"#, "`until`");
    invalid(r#""scheme":"stripe","redelivers_for":"3 days""#, "redelivers_for");
    invalid(r#""scheme":"stripe","namespace":"a/b""#, "namespace");
}

#[test]
fn req_t3_a_sender_that_redelivers_for_longer_than_keys_answer_is_refused() {
    let redelivers = |ms: &str, window: &str| {
        of(&format!(r#""scheme":"stripe","redelivers_for":"{ms}","replay_window":"{window}""#))
    };
    check_refused(&redelivers("31d", "30d"), Code::RetryBeyondRetention, "again for 31d");
    plan(&redelivers("30d", "30d"));
    check_refused(
        &of(r#""scheme":"stripe","redelivers_for":"31d""#),
        Code::RetryBeyondRetention,
        "only for 30d",
    );
}

#[test]
fn a_secret_is_named_and_never_repeated_in_a_message() {
    for secret in ["whsec_abcdef", "env:", "file:", "vault:x", ""] {
        let declared = format!(r#"{{"workflow":"w","scheme":"stripe","secret":"{secret}"}}"#);
        check_refused(&declared, Code::TriggerInvalid, "never written down");
        let content = parse(&declared).expect("a shape");
        let text = check("orders", &content).expect_err("no source").to_string();
        assert!(secret.is_empty() || !text.contains("abcdef"), "{text}");
    }
    let declared = of(
        r#""scheme":"stripe","old_secret":{"from":"file:old","until":"2026-01-01T00:00:00+01:00"}"#,
    );
    let want = [
        (Source::Environment("S".into()), None),
        (Source::File("old".into()), Some(Wall(1_767_222_000_000))),
    ];
    assert_eq!(plan(&declared).secrets, want);
    assert_eq!(format!("{:?}", secret("s3cret")), "Secret { until: None, .. }");
}

#[test]
fn a_name_is_part_of_an_address() {
    let content = parse(&of(r#""scheme":"stripe""#)).expect("a content");
    for name in ["", "a/b", "a b", "ü", "a?b", &"x".repeat(101)] {
        assert!(check(name, &content).is_err(), "{name}");
    }
    assert!(check("stripe-eu_1.0", &content).is_ok());
}

#[test]
fn a_trigger_that_says_the_same_is_not_changed_and_reads_back_as_it_was_written() {
    let content = parse(&of(
        r#""scheme":"github","namespace":"shop","key":["{body:/id}"],"input":{"a":1.50}"#,
    ))
    .expect("a content");
    let first = put(None, &content, Wall(5)).expect("new");
    assert_eq!(first.content.namespace, None, "the card is in it");
    assert_eq!(put(Some(&first), &content, Wall(9)), None);
    assert_eq!(decode(&encode(&first)), Ok(first.clone()));
    let other = Content { workflow: "v".into(), ..content };
    let changed = put(Some(&first), &other, Wall(9)).expect("changed");
    assert_eq!((changed.created, changed.changed), (Wall(5), Wall(9)));
}
