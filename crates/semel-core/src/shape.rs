//! Whether a value fits the shape of a result: the part of JSON Schema that type checkers of values
//! write for annotations. A word that is not known here refuses nothing.

use serde_json::{Map, Value};

use crate::json::Json;
use crate::limits;

/// A shape is looked into so deep: one that refers to itself ends.
const DEPTH_MAX: u32 = 64;

/// The shape of a result as it is stored with its effect; `None` when it says nothing or is too
/// large to be kept.
pub fn kept(shape: Option<&Json>) -> Option<Json> {
    let shape = shape.filter(|shape| shape.text().len() <= limits::SHAPE_BYTES_MAX)?;
    let Ok(Value::Object(members)) = serde_json::from_str(shape.text()) else { return None };
    let says_something = members.keys().any(|word| word != "title" && word != "description");
    says_something.then(|| shape.clone())
}

/// A shape that its author gives: one that could not be kept is refused, since nothing would be
/// checked by it.
pub fn checked(shape: Json) -> Result<Json, String> {
    let most = limits::SHAPE_BYTES_MAX;
    if shape.text().starts_with('{') && shape.text().len() <= most {
        return Ok(shape);
    }
    Err(format!("a receipt's shape is a JSON Schema: an object of up to {most} bytes"))
}

/// Why a value does not fit a shape: where, and what is missing or wrong, without the value itself.
pub fn misfit(shape: &Json, value: &Json) -> Option<String> {
    let shape: Value = serde_json::from_str(shape.text()).ok()?;
    let value: Value = serde_json::from_str(value.text()).ok()?;
    Look { root: &shape }.misfit(&shape, &value, "it", DEPTH_MAX)
}

struct Look<'a> {
    root: &'a Value,
}

impl Look<'_> {
    fn misfit(&self, shape: &Value, value: &Value, at: &str, depth: u32) -> Option<String> {
        let Value::Object(words) = shape else {
            return (*shape == Value::Bool(false)).then(|| format!("{at} is not allowed"));
        };
        let depth = depth.checked_sub(1)?;
        let named = words.get("$ref").and_then(Value::as_str).and_then(|path| self.find(path));
        if let Some(wrong) = named.and_then(|named| self.misfit(named, value, at, depth)) {
            return Some(wrong);
        }
        if let Some(wanted) = words.get("type").filter(|wanted| !is_of(wanted, value)) {
            return Some(format!("{at} is {}, not {}", kind(value), said(wanted)));
        }
        if words.get("const").is_some_and(|only| only != value) {
            return Some(format!("{at} is another value than the only one that fits"));
        }
        let listed = words.get("enum").and_then(Value::as_array);
        if listed.is_some_and(|all| !all.contains(value)) {
            return Some(format!("{at} is none of the values that fit"));
        }
        self.choices(words, value, at, depth).or_else(|| match value {
            Value::Object(members) => self.members(words, members, at, depth),
            Value::Array(items) => self.items(words, items, at, depth),
            _ => None,
        })
    }

    /// `anyOf` and `oneOf` ask for one that fits, `allOf` for all.
    fn choices(
        &self,
        words: &Map<String, Value>,
        value: &Value,
        at: &str,
        depth: u32,
    ) -> Option<String> {
        for word in ["anyOf", "oneOf"] {
            let Some(choices) = words.get(word).and_then(Value::as_array) else { continue };
            let mut wrong = choices.iter().map(|one| self.misfit(one, value, at, depth));
            if !choices.is_empty() && wrong.all(|one| one.is_some()) {
                return Some(format!("{at} fits none of the choices"));
            }
        }
        let all = words.get("allOf").and_then(Value::as_array)?;
        all.iter().find_map(|one| self.misfit(one, value, at, depth))
    }

    fn members(
        &self,
        words: &Map<String, Value>,
        members: &Map<String, Value>,
        at: &str,
        depth: u32,
    ) -> Option<String> {
        let required = words.get("required").and_then(Value::as_array).into_iter().flatten();
        let missing = required.filter_map(Value::as_str).find(|name| !members.contains_key(*name));
        if let Some(name) = missing {
            return Some(format!("{at} has no `{name}`"));
        }
        let known = words.get("properties").and_then(Value::as_object);
        let others = words.get("additionalProperties");
        members.iter().find_map(|(name, member)| {
            let shape = known.and_then(|known| known.get(name)).or(others)?;
            self.misfit(shape, member, &format!("{at}.{name}"), depth)
        })
    }

    fn items(
        &self,
        words: &Map<String, Value>,
        items: &[Value],
        at: &str,
        depth: u32,
    ) -> Option<String> {
        let least = words.get("minItems").and_then(Value::as_u64).unwrap_or(0);
        if (items.len() as u64) < least {
            return Some(format!("{at} has fewer than {least} items"));
        }
        let first = words.get("prefixItems").and_then(Value::as_array);
        let each = words.get("items");
        items.iter().enumerate().find_map(|(place, item)| {
            let own = first.and_then(|first| first.get(place));
            self.misfit(own.or(each)?, item, &format!("{at}[{place}]"), depth)
        })
    }

    /// What a reference within the shape names.
    fn find(&self, path: &str) -> Option<&Value> {
        self.root.pointer(path.strip_prefix('#')?)
    }
}

fn is_of(wanted: &Value, value: &Value) -> bool {
    match wanted {
        Value::String(name) => is_kind(name, value),
        Value::Array(names) => names.iter().any(|name| is_of(name, value)),
        _ => true,
    }
}

fn is_kind(name: &str, value: &Value) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        "number" => value.is_number(),
        "integer" => value.as_f64().is_some_and(|number| number.fract() == 0.0),
        _ => true,
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn said(wanted: &Value) -> String {
    match wanted {
        Value::String(name) => name.clone(),
        _ => wanted.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(shape: &str, value: &str, want: Option<&str>) {
        let json = |text: &str| Json::from_text(text).unwrap();
        assert_eq!(misfit(&json(shape), &json(value)).as_deref(), want, "{shape} {value}");
    }

    #[test]
    fn a_value_fits_its_shape_or_says_where_it_does_not() {
        let mail = r#"{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}"#;
        check(mail, r#"{"id":"m-7","more":1}"#, None);
        check(mail, "null", Some("it is null, not object"));
        check(mail, "{}", Some("it has no `id`"));
        check(mail, r#"{"id":7}"#, Some("it.id is a number, not string"));
        let maybe = r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#;
        check(maybe, "null", None);
        check(maybe, "7", Some("it fits none of the choices"));
        check(r#"{"type":"null"}"#, "null", None);
        check(r#"{"type":"integer"}"#, "7.5", Some("it is a number, not integer"));
        check(r#"{"type":["integer","null"]}"#, "7", None);
        check(r#"{"enum":["a","b"]}"#, r#""c""#, Some("it is none of the values that fit"));
        check(
            r#"{"const":"a"}"#,
            r#""c""#,
            Some("it is another value than the only one that fits"),
        );
        let all = r#"{"type":"array","items":{"type":"integer"}}"#;
        check(all, r#"[1,"2"]"#, Some("it[1] is a string, not integer"));
        let pair = r#"{"type":"array","minItems":2,"prefixItems":[{"type":"string"}]}"#;
        check(pair, r#"["a"]"#, Some("it has fewer than 2 items"));
        check(pair, "[1,2]", Some("it[0] is a number, not string"));
        check(
            r#"{"type":"object","additionalProperties":false}"#,
            r#"{"a":1}"#,
            Some("it.a is not allowed"),
        );
    }

    #[test]
    fn references_are_followed_and_one_to_itself_ends() {
        let tree = r##"{"$defs":{"T":{"type":"object","properties":{"next":{"$ref":"#/$defs/T"}}}},
            "$ref":"#/$defs/T"}"##;
        check(tree, r#"{"next":{"next":{}}}"#, None);
        check(tree, r#"{"next":{"next":1}}"#, Some("it.next.next is a number, not object"));
        check(r##"{"$ref":"#"}"##, "1", None);
    }

    #[test]
    fn what_is_not_known_refuses_nothing() {
        check(r#"{"format":"date-time","pattern":"^x","new-word":1}"#, "7", None);
        check(r##"{"$ref":"https://example.org/other"}"##, "7", None);
        check("true", "7", None);
    }

    #[test]
    fn a_shape_that_says_nothing_or_too_much_is_not_kept() {
        let json = |text: &str| Json::from_text(text).unwrap();
        assert_eq!(kept(Some(&json("{}"))), None);
        assert_eq!(kept(Some(&json(r#"{"title":"T"}"#))), None);
        let large = format!(r#"{{"const":"{}"}}"#, "x".repeat(limits::SHAPE_BYTES_MAX));
        assert_eq!(kept(Some(&json(&large))), None);
        assert!(kept(Some(&json(r#"{"type":"null"}"#))).is_some());
    }
}
