use super::*;

fn wish(plan: &Plan, sent: &Sent) -> Result<(String, String), String> {
    let event = Event::read(&plan.scheme, sent.request()).map_err(|error| error.to_string())?;
    let key = plan.key(&event).map_err(|error| error.to_string())?;
    let input = plan.input(&event).map_err(|error| error.to_string())?;
    Ok((key.as_str().to_owned(), input.text().to_owned()))
}

fn bearer(rest: &str) -> Plan {
    plan(&format!(r#"{{"workflow":"w","secret":"env:S","scheme":"bearer",{rest}}}"#))
}

#[test]
fn each_scheme_names_its_deliveries_and_the_trigger_is_part_of_the_key() {
    let want = ["orders,msg_1", "orders,evt_1", "orders,72d3162e", "orders,Ev1", "r-1", "evt_1"];
    for ((plan, _, sent), want) in genuine().into_iter().zip(want) {
        assert_eq!(wish(&plan, &sent), Ok((want.to_owned(), BODY.to_owned())), "{:?}", plan.scheme);
    }
    let svix = Sent::new(&[("svix-id", "msg_9")], "{}");
    let standard = plan(r#"{"workflow":"w","secret":"env:S","scheme":"standard"}"#);
    assert_eq!(wish(&standard, &svix).map(|(key, _)| key), Ok("orders,msg_9".to_owned()));
}

#[test]
fn a_delivery_without_its_id_is_refused_and_never_gets_an_empty_key() {
    let check = |scheme: &str, sent: &Sent, want: &str| {
        let declared = format!(r#"{{"workflow":"w","secret":"env:S","scheme":"{scheme}"}}"#);
        let refused = wish(&plan(&declared), sent).expect_err("no id");
        assert_eq!(refused, want, "{scheme}");
    };
    check("stripe", &Sent::new(&[], r#"{"object":"event"}"#), "the body has no /id");
    check("stripe", &Sent::new(&[], r#"{"id":""}"#), "/id of the body is no text");
    check("stripe", &Sent::new(&[], r#"{"id":["x"]}"#), "/id of the body is no text");
    check("stripe", &Sent::new(&[], "id=1"), "the body is no JSON");
    check("slack", &Sent::new(&[], "{}"), "the body has no /event_id");
    check("github", &Sent::new(&[], "{}"), "the header x-github-delivery is missing");
    let twice = [("x-github-delivery", "a"), ("x-github-delivery", "b")];
    check("github", &Sent::new(&twice, "{}"), "the header x-github-delivery is there twice");
}

#[test]
fn a_key_is_made_of_headers_and_pointers() {
    let body = r#"{"type":"paid","data":{"object":{"id":42,"tags":["a","b"],"x":null,"f":1.5}}}"#;
    let sent = Sent::new(&[("x-request-id", "r,1"), ("idempotency-key", "\"order-7\"")], body);
    let check = |key: &str, want: Result<&str, &str>| {
        let found = wish(&bearer(&format!(r#""key":{key}"#)), &sent);
        let found = found.map(|(key, _)| key);
        assert_eq!(found.as_ref().map(|k| k.as_str()).map_err(|e| e.as_str()), want, "{key}");
    };
    check(r#""{body:/data/object/id}-{body:/type}""#, Ok("42-paid"));
    check(r#"["{body:/data/object/id}","{header:X-Request-Id}","v1"]"#, Ok("42,r%2C1,v1"));
    check(r#""{{{body:/data/object/tags/1}}}""#, Ok("{b}"));
    check(r#""{header:Idempotency-Key}""#, Ok("order-7"));
    check(r#""{header:x-none}""#, Err("the header x-none is missing"));
    check(r#""{body:/data/none}""#, Err("the body has no /data/none"));
    for (pointer, what) in [("x", "null"), ("f", "a fraction"), ("tags", "a list")] {
        let want =
            format!("the value at /data/object/{pointer} is neither a text nor a whole number");
        check(&format!(r#""{{body:/data/object/{pointer}}}""#), Err(&want));
        assert!(!what.is_empty());
    }
}

#[test]
fn case_k4_k6_an_idempotency_key_in_a_template_is_read_as_everywhere() {
    let plan = bearer(r#""key":"{header:idempotency-key}""#);
    let made = |key: &str| wish(&plan, &Sent::new(&[("idempotency-key", key)], "{}"));
    for wrong in ["a, b", "\"open", "\"bad\\escape\"", "größe", "\"\""] {
        assert!(made(wrong).is_err(), "{wrong}");
    }
    assert_eq!(made("\"a\\\"b\"").expect("a key").0.as_str(), "a\"b");
    let twice = [("idempotency-key", "a"), ("idempotency-key", "a")];
    assert!(wish(&plan, &Sent::new(&twice, "{}")).is_err());
}

#[test]
fn what_makes_no_key_is_refused_with_a_reason() {
    let plan = bearer(r#""key":"{body:/id}""#);
    let check = |id: &str, want: &str| {
        let sent = Sent::new(&[], &format!(r#"{{"id":{id}}}"#));
        assert_eq!(wish(&plan, &sent).expect_err("no key"), want, "{id}");
    };
    check("\"\"", "the text at /id is empty");
    check("\"   \"", "key is blank");
    check("\"a\\u0000b\"", "key has a control character");
    check("\"\\ud800\"", "the text at /id cannot be read");
    check(&format!("\"{}\"", "x".repeat(256)), "key is longer than 255 bytes when encoded");
}

#[test]
fn an_input_is_the_body_or_what_the_mapping_makes_of_it() {
    let plan = bearer(
        r#""key":"{body:/id}","input":{"order":"{body:/data}","who":"{header:x-user}",
           "note":"from {header:x-user}: {body:/id}","source":"shop","test":false,"more":[1.50]}"#,
    );
    let body = r#"{"id":7,"data":{"total":10.00,"n":9007199254740993}}"#;
    let sent = Sent::new(&[("x-user", "ann")], body);
    let want = concat!(
        r#"{"more":[1.50],"note":"from ann: 7","order":{"total":10.00,"n":9007199254740993},"#,
        r#""source":"shop","test":false,"who":"ann"}"#,
    );
    assert_eq!(wish(&plan, &sent), Ok(("7".to_owned(), want.to_owned())));
    let missing = Sent::new(&[("x-user", "ann")], r#"{"id":7}"#);
    assert_eq!(wish(&plan, &missing), Err("the body has no /data".to_owned()));
}

const EVENT: &str = r#"{"specversion":"1.0","id":"1","source":"/shop a","type":"paid",
    "time":"2026-01-02T03:04:05Z","seq":5,"datacontenttype":"application/json","data":{"n":1.0}}"#;

fn in_binary(source: &str, id: &str) -> Sent {
    let headers = [
        ("ce-specversion", "1.0"),
        ("ce-id", id),
        ("ce-source", source),
        ("ce-type", "paid"),
        ("ce-time", "2026-01-02T03:04:05Z"),
        ("ce-seq", "5"),
        ("content-type", "application/json; charset=utf-8"),
    ];
    Sent::new(&headers, r#"{"n":1.0}"#)
}

#[test]
fn case_w6_a_cloud_event_is_the_same_in_both_modes_and_told_apart_by_source_and_id() {
    let plan = plan(r#"{"workflow":"w","secret":"env:S","scheme":"cloudevents"}"#);
    let kind = [("content-type", "Application/CloudEvents+JSON; charset=utf-8")];
    let structured = Sent::new(&kind, EVENT);
    let one = wish(&plan, &structured).expect("an event");
    assert_eq!(one.0, "orders,/shop a,1");
    assert_eq!(wish(&plan, &in_binary("/shop%20a", "1")), Ok(one.clone()));
    let other = wish(&plan, &in_binary("/other", "1")).expect("an event");
    assert_ne!(other.0, one.0);
    // A comma cannot move from one part into the other.
    let ambiguous = [("a,b", "c"), ("a", "b,c")];
    let keys = ambiguous.map(|(source, id)| wish(&plan, &in_binary(source, id)).expect("both").0);
    assert_ne!(keys[0], keys[1]);
    let long = wish(&plan, &in_binary(&"s".repeat(3_000), "1")).expect("any length").0;
    assert!(long.starts_with("orders,sha256:") && long.len() < 100, "{long}");
}

#[test]
fn what_is_no_cloud_event_is_refused() {
    let plan = plan(r#"{"workflow":"w","secret":"env:S","scheme":"cloudevents"}"#);
    let check = |kind: &str, body: &str, want: &str| {
        let refused = wish(&plan, &Sent::new(&[("content-type", kind)], body)).expect_err("none");
        assert!(refused.contains(want), "{refused}");
    };
    let structured = "application/cloudevents+json";
    check("application/cloudevents-batch+json", "[]", "one event at a time");
    check(structured, "[]", "cannot be read");
    check(structured, &EVENT.replace("\"id\":\"1\",", ""), "no id");
    check(structured, &EVENT.replace("1.0\",", "0.3\","), "only specversion 1.0");
    check(structured, &EVENT.replace("\"seq\":5", "\"seq\":[5]"), "no plain value");
    check(structured, &EVENT.replace("\"seq\":5", "\"id\":\"2\""), "twice");
    check("application/json", "{}", "no id");
    let mut twice = in_binary("/shop", "1");
    twice.headers.push(("ce-id".into(), b"2".to_vec()));
    assert_eq!(wish(&plan, &twice), Err("the header ce-id is there twice".to_owned()));
}

#[test]
fn data_that_is_no_json_is_text_or_base64_in_both_modes() {
    let plan = plan(r#"{"workflow":"w","secret":"env:S","scheme":"cloudevents"}"#);
    let mut text = in_binary("/shop", "1");
    text.headers.retain(|(name, _)| name != "content-type");
    text.headers.push(("content-type".into(), b"text/plain".to_vec()));
    text.body = b"hello".to_vec();
    let input = wish(&plan, &text).expect("text").1;
    assert!(input.contains(r#""data":"hello","datacontenttype":"text/plain""#), "{input}");
    text.body = vec![0xff, 0x00];
    let input = wish(&plan, &text).expect("bytes").1;
    assert!(input.contains(r#""data_base64":"/wA=""#), "{input}");
}

#[test]
fn only_slack_is_answered_its_challenge() {
    let body = r#"{"type":"url_verification","challenge":"c-1"}"#;
    let sent = Sent::new(&[], body);
    for (scheme, want) in [("slack", Some("c-1".to_owned())), ("stripe", None)] {
        let declared = format!(r#"{{"workflow":"w","secret":"env:S","scheme":"{scheme}"}}"#);
        let plan = plan(&declared);
        let event = Event::read(&plan.scheme, sent.request()).expect("an event");
        assert_eq!(event.challenge(), want, "{scheme}");
    }
}
