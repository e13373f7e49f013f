//! A JSON value kept as the text it came in. Receipts are returned byte for byte, and numbers that
//! no float can hold survive, because nothing here parses and prints them again.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits;

/// Valid JSON text within the limit.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Json(Box<RawValue>);

/// The limit holds on every way in, also inside a larger document.
impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Json, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        check_size(raw.get().len()).map_err(serde::de::Error::custom)?;
        Ok(Json(raw))
    }
}

impl Json {
    /// Takes JSON text from outside as it is.
    pub fn from_text(text: impl Into<String>) -> Result<Json, JsonInvalid> {
        let text = text.into();
        check_depth(&text)?;
        Json::stored(text)
    }

    /// Takes JSON text that was stored. It may be of a time when deeper values were accepted.
    pub fn stored(text: impl Into<String>) -> Result<Json, JsonInvalid> {
        let text = text.into();
        check_size(text.len())?;
        RawValue::from_string(text).map(Json).map_err(|error| JsonInvalid(error.to_string()))
    }

    /// Writes a value that somebody hands in.
    pub fn given<T: Serialize + ?Sized>(value: &T) -> Result<Json, JsonInvalid> {
        let json = Json::of(value)?;
        check_depth(json.text())?;
        Ok(json)
    }

    /// Writes any serialisable value, such as one of ours around one that was handed in.
    pub fn of<T: Serialize + ?Sized>(value: &T) -> Result<Json, JsonInvalid> {
        let raw = serde_json::value::to_raw_value(value)
            .map_err(|error| JsonInvalid(error.to_string()))?;
        check_size(raw.get().len())?;
        Ok(Json(raw))
    }

    /// `null`.
    pub fn null() -> Json {
        Json(RawValue::NULL.to_owned())
    }

    /// The text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// An object with this member added, or put in the place of the one it has. What is no object
    /// becomes one of that member alone.
    pub fn with(&self, member: &str, value: &Json) -> Result<Json, JsonInvalid> {
        let mut members: BTreeMap<String, Box<RawValue>> = self.read().unwrap_or_default();
        members.insert(member.to_owned(), value.0.clone());
        Json::of(&members)
    }

    /// Reads the value as a type.
    pub fn read<'a, T: Deserialize<'a>>(&'a self) -> Result<T, JsonInvalid> {
        serde_json::from_str(self.text()).map_err(|error| JsonInvalid(error.to_string()))
    }
}

/// A value in a request, which is as deep as values may be. (Records are read without it.)
pub(crate) fn asked<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Json, D::Error> {
    let json = Json::deserialize(from)?;
    check_depth(json.text()).map_err(serde::de::Error::custom)?;
    Ok(json)
}

/// Arrays and objects within one another: readers of other languages descend by recursion.
fn check_depth(text: &str) -> Result<(), JsonInvalid> {
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = is_string,
            b'"' => is_string = !is_string,
            b'[' | b'{' if !is_string => depth += 1,
            b']' | b'}' if !is_string => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > limits::JSON_DEPTH_MAX {
            let most = limits::JSON_DEPTH_MAX;
            return Err(JsonInvalid(format!(
                "nested deeper than {most} levels, the most there is"
            )));
        }
    }
    Ok(())
}

fn check_size(bytes: usize) -> Result<(), JsonInvalid> {
    if bytes > limits::VALUE_BYTES_MAX {
        return Err(JsonInvalid(format!("{bytes} bytes, the most is {}", limits::VALUE_BYTES_MAX)));
    }
    Ok(())
}

impl PartialEq for Json {
    fn eq(&self, other: &Json) -> bool {
        self.text() == other.text()
    }
}

impl Eq for Json {}

/// Any JSON: nothing is said of it.
#[cfg(feature = "schema")]
impl schemars::JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        true.into()
    }
}

/// The text is not JSON, does not fit the type, or is too large.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonInvalid(pub String);

impl std::fmt::Display for JsonInvalid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "not a usable JSON value: {}", self.0)
    }
}

impl std::error::Error for JsonInvalid {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_is_added_and_the_others_keep_their_text() {
        let json = Json::from_text(r#"{"a":9007199254740993,"b":1.0}"#).unwrap();
        let with = json.with("c", &Json::from_text("[1.50]").unwrap()).unwrap();
        assert_eq!(with.text(), r#"{"a":9007199254740993,"b":1.0,"c":[1.50]}"#);
        let alone = Json::null().with("c", &json).unwrap();
        assert_eq!(alone.text(), r#"{"c":{"a":9007199254740993,"b":1.0}}"#);
    }

    #[test]
    fn text_survives_byte_for_byte() {
        let text = r#"{"b":1.0,  "a":9007199254740993}"#;
        assert_eq!(Json::from_text(text).map(|json| json.text().to_owned()), Ok(text.to_owned()));
        assert!(Json::from_text("{").is_err());
    }

    #[test]
    fn the_deepest_value_passes_and_one_level_more_does_not() {
        let nested =
            |levels: usize| format!("{}\"[[{{\\\"\"{}", "[".repeat(levels), "]".repeat(levels));
        let (most, more) = (nested(limits::JSON_DEPTH_MAX), nested(limits::JSON_DEPTH_MAX + 1));
        assert!(Json::from_text(&*most).is_ok());
        let refused = Json::from_text(&*more).expect_err("too deep").to_string();
        assert!(refused.contains("deeper than 64 levels"), "{refused}");
        assert!(Json::stored(&*more).is_ok(), "what is there is read");
        let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).expect("JSON");
        assert!(Json::given(&value(&most)).is_ok() && Json::given(&value(&more)).is_err());
        let asked = |text: &str| asked(&mut serde_json::Deserializer::from_str(text));
        assert!(asked(&most).is_ok() && asked(&more).is_err());
    }

    #[test]
    fn the_limit_itself_passes_and_one_more_byte_does_not() {
        let at = |n: usize| Json::from_text(format!("\"{}\"", "x".repeat(n - 2)));
        assert!(at(limits::VALUE_BYTES_MAX).is_ok());
        assert!(at(limits::VALUE_BYTES_MAX + 1).is_err());
    }
}
