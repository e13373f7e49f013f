//! The settings as others read them: a JSON Schema for editors, a table for people.

use serde_json::{Map, Value, json};

use super::keys::{KEYS, Key, Kind};

/// The JSON Schema of the file.
pub(crate) fn json_schema() -> Value {
    let mut whole = Map::new();
    for key in KEYS {
        match key.name.split_once('.') {
            None => drop(whole.insert(key.name.to_owned(), of_key(key))),
            Some((group, name)) => {
                let group = whole.entry(group).or_insert_with(
                    || json!({ "type": "object", "additionalProperties": false, "properties": {} }),
                );
                group["properties"][name] = of_key(key);
            }
        }
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Semel: semel.toml",
        "type": "object",
        "additionalProperties": false,
        "properties": whole,
    })
}

fn of_key(key: &Key) -> Value {
    let text = json!({ "type": "string", "minLength": 1 });
    let mut schema = match key.kind {
        Kind::Text | Kind::Path => text,
        Kind::Url => json!({ "type": "string", "pattern": "^https?://\\S+$" }),
        Kind::OneOf(words) => json!({ "enum": words }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Count { least, most } => {
            json!({ "type": "integer", "minimum": least, "maximum": most })
        }
        Kind::Duration => json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$" }),
        Kind::Names => json!({ "type": "array", "items": text }),
        Kind::Pairs => json!({ "type": "object", "additionalProperties": text }),
        Kind::References => {
            let reference = json!({ "type": "string", "pattern": "^(env|file):.+$" });
            json!({ "type": "object", "additionalProperties": reference })
        }
        Kind::Tables => {
            json!({ "type": "object", "additionalProperties": { "type": "object" } })
        }
    };
    schema["description"] = json!(key.about);
    if let Some(default) = key.default {
        schema["default"] = key.read(default).expect("a test holds it");
    }
    schema
}

/// The table of docs/config.md.
#[cfg(test)]
pub(crate) fn markdown() -> String {
    let mut lines =
        vec!["| key | variable | default | what |".to_owned(), "|---|---|---|---|".to_owned()];
    lines.extend(KEYS.iter().map(|key| {
        let variable = key.variable().map_or("file only".into(), |name| match key.alias {
            Some(alias) => format!("`{name}`, else `{alias}`"),
            None => format!("`{name}`"),
        });
        let default = key.default.map_or("not set".into(), |default| format!("`{default}`"));
        format!("| `{}` | {variable} | {default} | {} |", key.name, key.about)
    }));
    lines.join("\n") + "\n"
}
