//! What a backup says of itself, as lines of text at its end.

use std::fmt::{self, Write as _};

use semel_core::time::Wall;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    pub kind: Kind,
    /// Which store it is of.
    pub store: String,
    /// The format of that store.
    pub format: i64,
    pub epoch: u64,
    pub created: Wall,
    /// How many rows each table has.
    pub rows: Vec<(String, u64)>,
    pub parts: Vec<Part>,
    /// Where the counters of a database stood.
    pub counters: Vec<(String, i64)>,
}

/// Which kind of database it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Sqlite,
    Postgres,
}

/// One stretch of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    pub name: String,
    pub bytes: u64,
    pub sha256: String,
    /// The columns of a table, in their order.
    pub columns: Vec<String>,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Sqlite => "SQLite",
            Kind::Postgres => "Postgres",
        })
    }
}

impl Manifest {
    pub(super) fn text(&self) -> String {
        let Manifest { kind, store, format, epoch, created, rows, parts, counters } = self;
        let mut text = format!(
            "kind {kind}\nstore {store}\nformat {format}\nepoch {epoch}\ncreated {}\n",
            created.0
        );
        for (table, count) in rows {
            let _ = writeln!(text, "rows {table} {count}");
        }
        for Part { name, bytes, sha256, columns } in parts {
            let _ = writeln!(text, "part {name} {bytes} {sha256} {}", columns.join(","));
        }
        for (name, value) in counters {
            let _ = writeln!(text, "counter {name} {value}");
        }
        text
    }

    /// Reads the lines back; `None` where they make no sense.
    pub(super) fn parse(text: &str) -> Option<Manifest> {
        let mut lines = text.lines();
        let mut said = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let kind = match said("kind")? {
            "SQLite" => Kind::Sqlite,
            "Postgres" => Kind::Postgres,
            _ => return None,
        };
        let store = said("store")?.to_owned();
        let format = said("format")?.parse().ok()?;
        let epoch = said("epoch")?.parse().ok()?;
        let created = Wall(said("created")?.parse().ok()?);
        let (rows, parts, counters) = (Vec::new(), Vec::new(), Vec::new());
        let mut manifest = Manifest { kind, store, format, epoch, created, rows, parts, counters };
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["rows", table, count] => {
                    manifest.rows.push((name(table)?, count.parse().ok()?));
                }
                ["part", part, bytes, sha256, columns] => manifest.parts.push(Part {
                    name: name(part)?,
                    bytes: bytes.parse().ok()?,
                    sha256: sha256.to_owned(),
                    columns: names(columns)?,
                }),
                ["counter", counter, value] => {
                    manifest.counters.push((name(counter)?, value.parse().ok()?));
                }
                _ => return None,
            }
        }
        Some(manifest)
    }
}

/// A name that may stand in a statement.
pub(super) fn name(text: &str) -> Option<String> {
    let plain = |sign: char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '_';
    (!text.is_empty() && text.len() <= 63 && text.chars().all(plain)).then(|| text.to_owned())
}

fn names(text: &str) -> Option<Vec<String>> {
    match text {
        "" => Some(Vec::new()),
        text => text.split(',').map(name).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_read_back_and_nothing_else_is() {
        let part = Part {
            name: "effects".into(),
            bytes: 7,
            sha256: "00ff".into(),
            columns: vec!["row".into(), "record".into()],
        };
        let manifest = Manifest {
            kind: Kind::Postgres,
            store: "0123".into(),
            format: 4,
            epoch: 2,
            created: Wall(1_790_000_000_000),
            rows: vec![("effects".into(), 3)],
            parts: vec![Part { columns: vec![], ..part.clone() }, part],
            counters: vec![("effect_rows".into(), 3)],
        };
        let text = manifest.text();
        assert_eq!(Manifest::parse(&text), Some(manifest));
        for other in [
            String::new(),
            text.replace("Postgres", "MySQL"),
            text.replace("effects 3", "effects; 3"),
            text.replace("row,record", "row,record)"),
            text.replace("counter effect_rows", "counter \"x\""),
            format!("{text}more\n"),
        ] {
            assert_eq!(Manifest::parse(&other), None, "{other}");
        }
    }
}
