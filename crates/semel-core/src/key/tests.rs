use super::*;

fn check(parts: &[&str], want: &str) {
    let key = Key::from_parts(parts).unwrap();
    assert_eq!(key.as_str(), want, "{parts:?}");
    assert_eq!(key.to_string(), want);
    assert_eq!(key.parts(), parts);
    assert_eq!(Key::parse(want).as_ref(), Ok(&key));
}

fn refuse(parts: &[&str], want: &str) {
    assert_eq!(Key::from_parts(parts).unwrap_err().to_string(), want, "{parts:?}");
}

fn refuse_parse(encoded: &str, want: &str) {
    assert_eq!(Key::parse(encoded).unwrap_err().to_string(), want, "{encoded:?}");
}

fn check_into(key: impl IntoKey, want: &str) {
    assert_eq!(key.into_key().unwrap().as_str(), want);
}

fn check_name(name: &str, action: &str, namespace: &str) {
    let word = |result: Result<String, NameInvalid>| match result {
        Ok(read) if read == name => "ok".to_owned(),
        Ok(read) => format!("changed to {read}"),
        Err(invalid) => invalid.to_string(),
    };
    assert_eq!(word(Action::new(name).map(|a| a.to_string())), action, "{name:?}");
    assert_eq!(word(Namespace::new(name).map(|n| n.to_string())), namespace, "{name:?}");
}

#[test]
fn only_comma_and_percent_are_escaped() {
    check(&["42"], "42");
    check(&["42", "v2"], "42,v2");
    check(&["a:b", "c"], "a:b,c");
    check(&["a", "b:c"], "a,b:c");
    check(&["a,b"], "a%2Cb");
    check(&["100%"], "100%25");
    check(&["%2C"], "%252C");
    check(&["%25", ","], "%2525,%2C");
    check(&["%,"], "%25%2C");
    check(&["%2", "C"], "%252,C");
    check(&["", "a", ""], ",a,");
    check(&[" ", "a"], " ,a");
    check(&["a/b?c=d&e#f\"'\\"], "a/b?c=d&e#f\"'\\");
    check(&["日本", "é", "e\u{301}", "😀"], "日本,é,e\u{301},😀");
}

#[test]
fn text_is_its_own_one_element_list() {
    for text in ["42", "a,b", "50%", " a "] {
        assert_eq!(Key::from_text(text), Key::from_parts([text]));
    }
    assert_ne!(Key::from_text("a,b"), Key::from_parts(["a", "b"]));
    assert_ne!(Key::from_text("a"), Key::from_text(" a "));
}

#[test]
fn empty_and_blank_keys_are_refused() {
    refuse(&[], "key is empty");
    refuse(&[""], "key is empty");
    refuse(&["", ""], "key is blank");
    refuse(&[" "], "key is blank");
    refuse(&[" ", "", "\u{a0}\u{3000}"], "key is blank");
    refuse_parse("", "key is empty");
    refuse_parse(", ,", "key is blank");
    check(&[","], "%2C");
}

#[test]
fn control_characters_are_refused() {
    for bad in ["a\tb", "a\nb", "a\r\nb", "\0", "a\u{7f}", "a\u{85}", "\n"] {
        refuse(&["x", bad], "key has a control character");
        refuse_parse(bad, "key has a control character");
    }
}

#[test]
fn length_is_counted_in_encoded_bytes_and_never_cut() {
    let long = format!("key is longer than {} bytes when encoded", limits::KEY_BYTES_MAX);
    check(&["a"; 128], &["a"; 128].join(","));
    check(&[&"a".repeat(255)], &"a".repeat(255));
    check(&[&",".repeat(85)], &"%2C".repeat(85));
    refuse(&[&"a".repeat(256)], &long);
    refuse(&["a"; 129], &long);
    refuse(&[&"é".repeat(128)], &long);
    refuse(&[&",".repeat(86)], &long);
    refuse_parse(&"a".repeat(256), &long);
    // An endless list ends too.
    assert_eq!(Key::from_parts(std::iter::repeat("")).unwrap_err().to_string(), long);
}

#[test]
fn parse_refuses_what_was_never_printed() {
    let why = "key has a `%` that is not part of %2C or %25";
    for bad in ["%", "a%", "%2", "%2c", "%41", "%%25", "%2D", "%25%", "a,%zz", "%é"] {
        refuse_parse(bad, why);
    }
    assert_eq!(Key::parse("a%2Cb,c").unwrap().parts(), ["a,b", "c"]);
}

#[test]
fn case_k9_case_and_unicode_forms_are_two_intents() {
    for (one, two) in
        [("Order-1", "order-1"), ("\u{e9}", "e\u{301}"), ("ß", "ss"), ("K", "\u{212a}")]
    {
        assert_ne!(Key::from_text(one), Key::from_text(two));
    }
}

#[test]
fn req_k11_event_id_digest_and_business_id_with_action_are_keys() {
    check_into("evt_1NG8Du2eZvKYlo2CUI79vXWy", "evt_1NG8Du2eZvKYlo2CUI79vXWy");
    check_into("0190163d-8694-739b-aea5-966c26f8ad91", "0190163d-8694-739b-aea5-966c26f8ad91");
    check_into(format!("{:064x}", 7), &format!("{:064x}", 7));
    check_into(["order-7", "refund"], "order-7,refund");
}

#[test]
fn texts_lists_and_keys_are_accepted() {
    let text = "a,b".to_owned();
    let key = Key::from_text("a,b").unwrap();
    check_into(&text, "a%2Cb");
    check_into(text.clone(), "a%2Cb");
    check_into(&key, "a%2Cb");
    check_into(key, "a%2Cb");
    check_into([text.clone()], "a%2Cb");
    check_into(["a", "b"].as_slice(), "a,b");
    check_into(vec![text, "c".to_owned()], "a%2Cb,c");
    assert_eq!(<[&str; 0]>::into_key([]).unwrap_err().to_string(), "key is empty");
}

#[test]
fn names_are_short_plain_and_never_changed() {
    let ascii = "namespace may only have ASCII letters, digits, `.`, `_` and `-`";
    check_name("crm-ticket", "ok", "ok");
    check_name("Crm.Ticket_2", "ok", "ok");
    check_name("crm:ticket", "ok", ascii);
    check_name("größe", "ok", ascii);
    check_name("a~draft2", "ok", ascii);
    check_name("", "action is empty", "namespace is empty");
    check_name("a b", "action has whitespace", "namespace has whitespace");
    check_name("a\u{a0}", "action has whitespace", "namespace has whitespace");
    check_name("a\n", "action has a control character", "namespace has a control character");
    check_name("a/b", "action has a `/`", "namespace has a `/`");
    let max = limits::NAME_BYTES_MAX;
    check_name(&"a".repeat(max), "ok", "ok");
    check_name(
        &"a".repeat(max + 1),
        &format!("action is longer than {max} bytes"),
        &format!("namespace is longer than {max} bytes"),
    );
    let reserved = "namespace ends in ~draft, which is reserved for draft twins";
    check_name("a~draft", "ok", reserved);
}

#[test]
fn draft_twin_is_reached_only_from_its_namespace() {
    let live = Namespace::default();
    assert_eq!((live.as_str(), live.is_draft()), ("default", false));
    let twin = live.draft();
    assert_eq!((twin.as_str(), twin.is_draft()), ("default~draft", true));
    assert_eq!(twin.draft(), twin);
    let longest = Namespace::new(&"a".repeat(limits::NAME_BYTES_MAX)).unwrap();
    for name in [live, twin, longest.draft(), longest] {
        assert_eq!(Namespace::stored(name.as_str()), Ok(name));
    }
    for bad in ["~draft", "a~draft~draft", "a b~draft", "a~other"] {
        assert!(Namespace::stored(bad).is_err(), "{bad}");
    }
}

#[test]
fn address_prints_action_and_key() {
    let address = |namespace: Namespace| Address {
        namespace,
        action: Action::new("crm-ticket").unwrap(),
        key: Key::from_parts(["a/b", "c"]).unwrap(),
    };
    let live = address(Namespace::default());
    assert_eq!(live.to_string(), "crm-ticket/a/b,c");
    assert_ne!(live, address(Namespace::default().draft()));
}
