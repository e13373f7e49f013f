use super::*;

fn json(text: &str) -> Json {
    Json::from_text(text).expect("JSON")
}

fn keyed(template: &str, mode: Mode) -> Policy {
    let key = Some(KeyPolicy { template: template.into(), mode });
    Policy { limit: None, key }
}

#[test]
fn req_c6_a_flow_is_limited_by_itself_and_by_the_thing_it_touches() {
    let policy = Policy { limit: Some(3), ..keyed("{customer.id}", Mode::Queue) };
    let passes = policy.passes("bill", &json(r#"{"customer":{"id":7}}"#)).expect("valid");
    let names: Vec<_> = passes.iter().map(|pass| (pass.gate.as_str(), pass.limit)).collect();
    assert_eq!(names, [("bill/7", 1), ("bill", 3)], "its key first");
}

#[test]
fn two_keys_are_never_one_by_their_separator() {
    let policy = keyed("{a}/{b}", Mode::Queue);
    let gate = |text: &str| policy.passes("w", &json(text)).expect("valid").remove(0).gate;
    assert_ne!(gate(r#"{"a":"x/y","b":"z"}"#), gate(r#"{"a":"x","b":"y/z"}"#));
    assert_ne!(gate(r#"{"a":"{b}","b":"z"}"#), gate(r#"{"a":"z","b":"{b}"}"#));
}

#[test]
fn an_input_that_is_one_value_can_be_the_key() {
    let policy = keyed("{.}", Mode::Queue);
    let gate = |text: &str| policy.passes("w", &json(text)).map(|mut passes| passes.remove(0).gate);
    assert_eq!(gate(r#""c-1""#), Ok("w/c-1".into()));
    assert_eq!(gate("7"), Ok("w/7".into()));
    assert!(gate(r#"{"a":1}"#).is_err(), "of several members none is the key");
}

#[test]
fn what_names_nothing_is_refused() {
    for (template, input) in [
        ("{a}", r#"{"b":1}"#),
        ("{a}", r#"{"a":null}"#),
        ("{a}", r#"{"a":" "}"#),
        ("{a", r#"{"a":1}"#),
        ("a}", r#"{"a":1}"#),
        ("plain", r#"{"a":1}"#),
        ("{a.b}", r#"{"a":1}"#),
    ] {
        assert!(keyed(template, Mode::Reject).passes("w", &json(input)).is_err(), "{template}");
    }
    let none = Policy { limit: Some(0), key: None };
    assert!(none.check().is_err());
}

#[test]
fn a_gate_lets_so_many_in_and_knows_its_own() {
    let mut gate = Gate::default();
    for run in ["a", "b"] {
        let Admission::Enter(next) = enter(&gate, run, 2) else { panic!("there is room") };
        gate = next;
    }
    assert_eq!(enter(&gate, "a", 2), Admission::Inside);
    assert_eq!(enter(&gate, "c", 2), Admission::Full(vec!["a".into(), "b".into()]));
    gate = exit(&gate, "a").expect("it was inside");
    assert_eq!(exit(&gate, "a"), None);
    assert!(matches!(enter(&gate, "c", 2), Admission::Enter(_)));
}
