//! Where the parts of a key come from: members of the input that are equal to them.

use serde_json::Value;

use super::statement::KeyPart;
use crate::json::Json;
use crate::key::Key;

/// Values of an input that are looked at, at most: beyond it a key is hardly made of one of them.
const VALUES_MAX: usize = 10_000;
/// Members that are named for one part, at most.
const POINTERS_MAX: usize = 8;

/// The parts of a key, each with the members of the input that it equals.
pub(super) fn key_parts(key: &Key, input: Option<&Json>) -> Vec<KeyPart> {
    let mut values = Vec::new();
    if let Some(input) = input.and_then(|input| input.read::<Value>().ok()) {
        collect(&input, &mut String::new(), &mut values);
    }
    let equals = |part: &str| {
        let equal = values.iter().filter(|(_, value)| value == part);
        equal.take(POINTERS_MAX).map(|(pointer, _)| pointer.clone()).collect()
    };
    key.parts().into_iter().map(|part| KeyPart { equals: equals(&part), part }).collect()
}

/// Texts, numbers and truth values, each with its JSON pointer.
fn collect(value: &Value, pointer: &mut String, found: &mut Vec<(String, String)>) {
    if found.len() >= VALUES_MAX {
        return;
    }
    let before = pointer.len();
    match value {
        Value::Null => {}
        Value::Bool(_) | Value::Number(_) => found.push((pointer.clone(), value.to_string())),
        Value::String(text) => found.push((pointer.clone(), text.clone())),
        Value::Array(items) => {
            for (index, item) in items.iter().enumerate() {
                pointer.push_str(&format!("/{index}"));
                collect(item, pointer, found);
                pointer.truncate(before);
            }
        }
        Value::Object(members) => {
            for (name, member) in members {
                pointer.push('/');
                pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
                collect(member, pointer, found);
                pointer.truncate(before);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(parts: &[&str], input: &str, want: &[&[&str]]) {
        let key = Key::from_parts(parts).unwrap();
        let parts = key_parts(&key, Some(&Json::from_text(input).unwrap()));
        let found: Vec<_> = parts.iter().map(|part| part.equals.clone()).collect();
        assert_eq!(found, want, "{input}");
    }

    #[test]
    fn a_part_names_the_members_that_it_equals() {
        check(&["42"], r#"{"id":42,"request":{"id":"42"}}"#, &[&["/id", "/request/id"]]);
        check(&["a", "b"], r#"["b",{"x/y~z":"a"}]"#, &[&["/1/x~1y~0z"], &["/0"]]);
        check(&["42"], "42", &[&[""]]);
        check(&["421"], r#"{"id":42,"n":1}"#, &[&[]]);
        check(&["9007199254740993"], r#"{"n":9007199254740993}"#, &[&["/n"]]);
    }

    #[test]
    fn without_an_input_nothing_is_known() {
        let parts = key_parts(&Key::from_text("42").unwrap(), None);
        assert_eq!(parts, [KeyPart { part: "42".into(), equals: Vec::new() }]);
    }
}
