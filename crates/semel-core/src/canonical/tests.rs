use super::*;

fn check(json: &str, want: &str) {
    assert_eq!(canonical(json.as_bytes()).as_deref(), Some(want), "{json}");
    assert_eq!(canonical(want.as_bytes()).as_deref(), Some(want), "{want} is not a fixed point");
}

fn raw(json: &str) {
    assert_eq!(canonical(json.as_bytes()), None, "{json}");
}

fn check_members(json: &str, names: &[&str], want: Option<&str>) {
    assert_eq!(members(json.as_bytes(), names).as_deref(), want, "{json} {names:?}");
}

fn nested(depth: usize) -> String {
    format!("{}{}", "[".repeat(depth), "]".repeat(depth))
}

#[test]
fn space_goes_and_words_stay() {
    check(" \t\r\n[ true , false , null ]\n", "[true,false,null]");
    check("{ }", "{}");
    check("[\n]", "[]");
    check("\"\"", "\"\"");
}

#[test]
fn numbers_are_exact_decimals() {
    check("9007199254740992", "9007199254740992");
    check("9007199254740993", "9007199254740993");
    check("0.1", "0.1");
    check("0.1000000000000000055511151231257827", "0.1000000000000000055511151231257827");
    for one in ["1", "1.0", "1e0", "10e-1", "0.1e1", "1.000E+00", "0.001e3"] {
        check(one, "1");
    }
    for zero in ["0", "-0", "0.0", "-0.00e5", "0e-999"] {
        check(zero, "0");
    }
    check("-1.50", "-1.5");
    check("1e400", "1e+400");
    check("1000e397", "1e+400");
    check("-12.5e-400", "-1.25e-399");
}

/// The rows of RFC 8785, appendix B, that a decimal can show, and the edges between the layouts.
#[test]
fn numbers_are_laid_out_like_jcs() {
    check("123456789012345680000", "123456789012345680000");
    check("1e20", "100000000000000000000");
    check("1e21", "1e+21");
    check("999999999999999900000", "999999999999999900000");
    check("9.999999999999997e22", "9.999999999999997e+22");
    check("295147905179352830000", "295147905179352830000");
    check("1.7976931348623157e308", "1.7976931348623157e+308");
    check("5e-324", "5e-324");
    check("0.000001", "0.000001");
    check("0.0000001", "1e-7");
    check("0.00000123", "0.00000123");
    check("333333333.3333332", "333333333.3333332");
    check("-0.0000033333333333333333", "-0.0000033333333333333333");
    check("1234567890123456789012.5", "1.2345678901234567890125e+21");
    check("123456789012345678901.5", "123456789012345678901.5");
}

#[test]
fn exponents_are_kept_up_to_the_limits_of_i64() {
    check("1e9223372036854775807", "1e+9223372036854775807");
    check("1e-9223372036854775808", "1e-9223372036854775808");
    check("0.1e9223372036854775807", "1e+9223372036854775806");
    check("1e+00000000000000000000000000000000000002", "100");
    raw("1e9223372036854775808");
    raw("10e9223372036854775807");
    raw("0.1e-9223372036854775808");
    raw("0e99999999999999999999");
}

#[test]
fn strings_have_the_fewest_escapes() {
    check(r#""\u0041\/\"\\""#, r#""A/\"\\""#);
    check(r#""\u0008\u0009\u000a\u000c\u000d\b\t\n\f\r""#, r#""\b\t\n\f\r\b\t\n\f\r""#);
    check(r#""\u0000\u001F\u007f""#, "\"\\u0000\\u001f\u{7f}\"");
    check(r#""\u2028\u00e9""#, "\"\u{2028}\u{e9}\"");
    check(r#""\uD83D\uDE00""#, "\"😀\"");
    check(r#""\ud83d\ude00x\udbff\udfff""#, "\"😀x\u{10ffff}\"");
    check(r#""\\ud800""#, r#""\\ud800""#);
}

/// RFC 8785, section 3.2.3.
#[test]
fn case_f6_members_sort_by_utf16_code_units() {
    check(
        r#"{"\u20ac":1,"\r":2,"\ufb33":3,"1":4,"\ud83d\ude00":5,"\u0080":6,"\u00f6":7}"#,
        "{\"\\r\":2,\"1\":4,\"\u{80}\":6,\"\u{f6}\":7,\"\u{20ac}\":1,\"😀\":5,\"\u{fb33}\":3}",
    );
    check("{\"\u{fb33}\":1,\"😀\":2}", "{\"😀\":2,\"\u{fb33}\":1}");
    check(
        r#"{"b":{"d":1,"c":[{"z":1,"y":2}]},"a":0}"#,
        r#"{"a":0,"b":{"c":[{"y":2,"z":1}],"d":1}}"#,
    );
    check(r#"{"aa":1,"a":2,"":3,"B":4}"#, r#"{"":3,"B":4,"a":2,"aa":1}"#);
    check(r#"{"10":1,"9":2}"#, r#"{"10":1,"9":2}"#);
}

#[test]
fn values_without_a_single_reading_are_raw() {
    raw(r#"{"a":1,"a":1}"#);
    raw(r#"{"a":1,"b":2,"\u0061":3}"#);
    raw(r#"[{"x":{"a":1,"a":2}}]"#);
    for lone in [r"\ud800", r"\udc00", r"\ud800\ud800", r"\ud800x", r"\ude00\ud83d", r"\ud800\n"] {
        raw(&format!("\"{lone}\""));
        raw(&format!("{{\"{lone}\":1}}"));
    }
    // What is regular after it does not heal it.
    raw(r#"{"a":"\ud800","b":1}"#);
    raw(r#"{"\ud800":1,"b":1}"#);
    raw(r#"["\ud800",{"a":1}]"#);
    raw(r#"{"a":{"x":1,"x":1},"b":{"x":1}}"#);
    raw(r#""\ud800\ud83d\ude00""#);
    // A replaced surrogate would make these two one text.
    raw(r#"["\ud800","\ufffd"]"#);
}

/// After JSONTestSuite: what it says to refuse, and what it leaves open and we refuse.
#[test]
fn case_f17_what_is_not_json_is_raw() {
    let structure = r#"[ ] { } [1 [1,] [,1] [1,,2] [1:2] [1]] [1} {"a"} {"a":} {"a":1,} {,} {"a",1}
        {a:1} {1:1} {'a':1} {"a":1] {"a":1 {"a":1,1 {null:1}"#;
    let words = "tru True nul truex NaN Infinity -Infinity undefined 'a' // 1/**/ \u{feff}1";
    let numbers = "- +1 01 -01 00 .5 -.5 1. 1.e1 1e 1e+ 1E- 1e1.5 1e+-1 0x1 1_0 --1 １";
    let strings = r#"" "\ "\" "\x" "\U0041" "\u" "\u12" "\u12g4" "\u+123" "\é" "\u00é" "\ud800\u"
        "\ud800\u12" "\ud83d\ude0" "a"b "a""b" \"a\""#;
    for table in [structure, words, numbers, strings] {
        table.split_ascii_whitespace().for_each(raw);
    }
    for spaced in ["", " ", "[1 2]", "1 2", "- 1", "1 .5", "1 e5", "{\"a\" 1}", "tr ue"] {
        raw(spaced);
    }
    for control in ["\"a\nb\"", "\"\t\"", "\"\u{1f}\"", "\"\0\"", "\u{a0}1", "\u{c}1", "\0", "1\0"]
    {
        raw(control);
    }
    for bytes in
        [&b"\"\xff\""[..], b"\"\xed\xa0\x80\"", b"\"\xc0\xaf\"", b"\xff\xfe1\0", b"\"\xe0\""]
    {
        assert_eq!(canonical(bytes), None, "{bytes:?}");
    }
}

#[test]
fn case_f17_depth_is_bounded() {
    check(&nested(limits::JSON_DEPTH_MAX), &nested(limits::JSON_DEPTH_MAX));
    raw(&nested(limits::JSON_DEPTH_MAX + 1));
    raw(&nested(10_000));
    raw(&"[".repeat(1_000_000));
    raw(&"{\"a\":".repeat(1_000_000));
    // Depth is how deep, not how many.
    check(&format!("[{}]", ["[]"; 1_000].join(",")), &format!("[{}]", ["[]"; 1_000].join(",")));
    check(&format!("[{}]", ["{}"; 1_000].join(",")), &format!("[{}]", ["{}"; 1_000].join(",")));
}

#[test]
fn only_named_members_are_kept() {
    let json = r#"{"c":{"z":1,"a":2},"b":null,"a":1.0}"#;
    check_members(json, &["a"], Some(r#"{"a":1}"#));
    check_members(json, &["c", "a"], Some(r#"{"a":1,"c":{"a":2,"z":1}}"#));
    check_members(json, &["b"], Some(r#"{"b":null}"#));
    check_members(json, &["x", "b", "b"], Some(r#"{"b":null}"#));
    check_members(json, &["x"], Some("{}"));
    check_members(json, &["z"], Some("{}"));
    check_members(json, &[], Some("{}"));
    check_members(r#"{"\u0061":1}"#, &["a"], Some(r#"{"a":1}"#));
}

#[test]
fn everything_counts_when_there_are_no_members() {
    for json in ["[1,2]", "7", "null", "\"a\"", r#"[{"a":1,"b":2}]"#] {
        check_members(json, &["a"], Some(json));
    }
}

#[test]
fn oddities_count_only_inside_named_members() {
    check_members(r#"{"a":1,"text":"cut \ud83d"}"#, &["a"], Some(r#"{"a":1}"#));
    check_members(r#"{"a":1,"text":"cut \ud83d"}"#, &["a", "text"], None);
    check_members(r#"{"a":1,"t":{"x":1,"x":2}}"#, &["a"], Some(r#"{"a":1}"#));
    check_members(r#"{"t":1,"t":2,"a":1}"#, &["a"], Some(r#"{"a":1}"#));
    check_members(r#"{"t":1e99999999999999999999,"a":1}"#, &["a"], Some(r#"{"a":1}"#));
    check_members(r#"{"a":1,"a":1}"#, &["a"], None);
    check_members(r#"{"a":"\ud83d","t":1}"#, &["a"], None);
    check_members(r#"{"a":"\ud83d","b":1,"t":"\ud83d"}"#, &["a", "b"], None);
    check_members(r#"{"\ud83d":1}"#, &["\u{fffd}"], Some("{}"));
    // The whole must still be JSON that can be read.
    check_members(r#"{"a":1,"t":nope}"#, &["a"], None);
    check_members(&format!(r#"{{"a":1,"t":{}}}"#, nested(limits::JSON_DEPTH_MAX)), &["a"], None);
}
