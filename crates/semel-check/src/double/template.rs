//! Answers with places: `"{id}"`, `"{body.subject}"`. A text that is one place and nothing else
//! becomes the value itself, with its type; inside a longer text it becomes words.

use serde_json::Value;

/// What a place may begin with.
const HEADS: [&str; 9] = ["id", "n", "key", "text", "body", "path", "query", "found", "count"];

/// Fills all places; `look` says what stands at one.
pub(super) fn fill(template: &Value, look: &dyn Fn(&str) -> Value) -> Value {
    match template {
        Value::String(text) => fill_text(text, look),
        Value::Array(items) => items.iter().map(|item| fill(item, look)).collect(),
        Value::Object(members) => {
            members.iter().map(|(name, value)| (name.clone(), fill(value, look))).collect()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => template.clone(),
    }
}

fn fill_text(text: &str, look: &dyn Fn(&str) -> Value) -> Value {
    let pieces = pieces(text);
    if let [Piece::Place(name)] = pieces.as_slice() {
        return look(name);
    }
    let words = pieces.iter().map(|piece| match piece {
        Piece::Words(words) => (*words).to_owned(),
        Piece::Place(name) => words(&look(name)),
    });
    Value::String(words.collect())
}

/// Refuses places that nobody can fill.
pub(super) fn check(template: &Value) -> Result<(), String> {
    match template {
        Value::String(text) => pieces(text).iter().try_for_each(|piece| match piece {
            Piece::Place(name) if !HEADS.contains(&head(name)) => {
                Err(format!("`{{{name}}}` is no place; there are {}", HEADS.join(", ")))
            }
            Piece::Place(_) | Piece::Words(_) => Ok(()),
        }),
        Value::Array(items) => items.iter().try_for_each(check),
        Value::Object(members) => members.values().try_for_each(check),
        Value::Null | Value::Bool(_) | Value::Number(_) => Ok(()),
    }
}

/// A value as words: a text without its quotes, nothing for null.
pub(super) fn words(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The member behind `a.b` inside a value; null where there is none.
pub(super) fn member<'a>(value: &'a Value, path: &str) -> &'a Value {
    path.split('.').filter(|part| !part.is_empty()).fold(value, |value, part| {
        let item = part.parse::<usize>().ok().and_then(|index| value.get(index));
        value.get(part).or(item).unwrap_or(&Value::Null)
    })
}

/// `body` and `subject` of `body.subject`.
pub(super) fn split(name: &str) -> (&str, &str) {
    name.split_once('.').unwrap_or((name, ""))
}

fn head(name: &str) -> &str {
    split(name).0
}

enum Piece<'a> {
    Words(&'a str),
    Place(&'a str),
}

/// Cuts a text at its places. Braces around anything but a name are just braces.
fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    let mut from = 0;
    while let Some(open) = rest[from..].find('{').map(|at| from + at) {
        let inner = rest[open + 1..].split_once('}').map(|(inner, _)| inner);
        match inner.filter(|inner| is_name(inner)) {
            Some(inner) => {
                if open > 0 {
                    pieces.push(Piece::Words(&rest[..open]));
                }
                pieces.push(Piece::Place(inner));
                rest = &rest[open + inner.len() + 2..];
                from = 0;
            }
            None => from = open + 1,
        }
    }
    if !rest.is_empty() {
        pieces.push(Piece::Words(rest));
    }
    pieces
}

fn is_name(text: &str) -> bool {
    let is_sign = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '[' | ']');
    !text.is_empty() && text.chars().all(is_sign)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_lone_place_keeps_its_type_and_others_become_words() {
        let look = |name: &str| match split(name) {
            ("id", _) => json!("t-1"),
            ("body", path) => member(&json!({ "amount": 5, "to": ["a"] }), path).clone(),
            (other, _) => panic!("`{other}` was asked for"),
        };
        let check = |template: Value, want: Value| assert_eq!(fill(&template, &look), want);
        check(json!("{body.amount}"), json!(5));
        check(json!("{body.amount} for {id}!"), json!("5 for t-1!"));
        check(json!("{body.to.0}"), json!("a"));
        check(json!("{body.none}"), json!(null));
        check(json!("none: {body.none}"), json!("none: "));
        check(json!({ "a": [1, "{id}"] }), json!({ "a": [1, "t-1"] }));
        check(json!("{ no place } {\"a\": 1} {"), json!("{ no place } {\"a\": 1} {"));
    }

    #[test]
    fn places_that_nobody_fills_are_refused() {
        assert_eq!(check(&json!({ "a": ["{id}", "{query.q} {{"] })), Ok(()));
        assert!(check(&json!({ "a": ["{idd}"] })).unwrap_err().contains("{idd}"));
    }
}
