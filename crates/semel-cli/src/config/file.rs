//! A file with settings: read whole, checked key by key, refused with the line at fault.

use std::io::Read;
use std::path::Path;

use serde_json::Value;
use toml::de::{DeTable, DeValue};

use super::keys::{self, KEYS, Key, Kind};
use super::{Invalid, Origin, Setting};

/// More than any file with settings has; a larger one is a mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Reads a file. `None`: there is no such file.
pub(super) fn text(path: &Path) -> Result<Option<String>, Invalid> {
    let unreadable =
        |error: &dyn std::fmt::Display| Invalid(format!("{}: {error}", path.display()));
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unreadable(&error)),
    };
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(|error| unreadable(&error))?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(unreadable(&"larger than 1 MiB"));
    }
    Ok(Some(text))
}

/// The settings in a text.
pub(super) fn read(
    path: &Path,
    text: &str,
    origin: impl Fn(usize) -> Origin,
) -> Result<Vec<Setting>, Invalid> {
    let at = |line: usize, why: &str| Invalid(format!("{}:{line}: {why}", path.display()));
    let no_toml = |error: &toml::de::Error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        at(line, error.message())
    };
    let table = DeTable::parse(text).map_err(|error| no_toml(&error))?;
    let values: Value = toml::from_str(text).map_err(|error| no_toml(&error))?;
    let mut found = Vec::new();
    collect(table.get_ref(), &values, "", &mut |name, offset, value| {
        let line = line_of(text, offset);
        let key = keys::find(name).ok_or_else(|| at(line, &unknown(name)))?;
        key.check(value).map_err(|why| at(line, &format!("`{name}` {why}")))?;
        found.push(Setting { key, value: value.clone(), origin: origin(line) });
        Ok(())
    })?;
    Ok(found)
}

/// Names every value with the tables before it. A table that is a value itself is not entered.
fn collect(
    table: &DeTable<'_>,
    values: &Value,
    before: &str,
    found: &mut dyn FnMut(&str, usize, &Value) -> Result<(), Invalid>,
) -> Result<(), Invalid> {
    for (name, value) in table {
        let path = format!("{before}{}", name.get_ref());
        let known = &values[name.get_ref().as_ref()];
        match value.get_ref() {
            DeValue::Table(inner) if is_group(&path) => {
                collect(inner, known, &format!("{path}."), found)?;
            }
            DeValue::Table(_)
            | DeValue::Array(_)
            | DeValue::String(_)
            | DeValue::Integer(_)
            | DeValue::Float(_)
            | DeValue::Boolean(_)
            | DeValue::Datetime(_) => found(&path, name.span().start, known)?,
        }
    }
    Ok(())
}

/// Whether settings begin with this name and a dot.
fn is_group(name: &str) -> bool {
    let begins = |key: &Key| key.name.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
    KEYS.iter().any(begins)
}

/// What to say of a name that is none.
pub(super) fn unknown(name: &str) -> String {
    let groups = KEYS.iter().filter_map(|key| key.name.split_once('.').map(|(group, _)| group));
    let known = KEYS.iter().map(|key| key.name).chain(groups);
    let inside = KEYS.iter().find(|key| {
        !matches!(key.kind, Kind::Tables) && name.starts_with(&format!("{}.", key.name))
    });
    match (keys::nearest(name, known), inside) {
        (Some(near), _) => format!("`{name}` is no setting; did you mean `{near}`?"),
        (None, Some(key)) => format!("`{name}` is no setting; `{}` is one value", key.name),
        (None, None) => {
            format!("`{name}` is no setting; `semel config show` lists all there are")
        }
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    text.get(..offset).map_or(1, |before| before.matches('\n').count() + 1)
}
